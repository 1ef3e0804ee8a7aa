//! What a lease says of its lock, and what the guard has that adopts it.

use super::{CLIENT, Made};
use crate::{Leased, Nanos, On, Origin, Rule, Says, Span, Way, What};

/// A guard that adopts: the token and the fencing token of the lease, and those of the guard.
type Adopted<'a> = ((&'a str, u64), (&'a str, u64));

/// One has r1 with `t1` and the fencing token 5 in 10..20, and makes a lease of it at 15.
fn leased() -> Made {
    let mut made = Made::default();
    let hold = made.takes(1, On::alone(1), (9, 10), 20, 5);
    let (way, says) = (Way::HandOn, Says::Nothing);
    made.notes(15, What::Releases { hold, way });
    made.notes(15, What::Released { hold, says });
    made
}

fn adopts(made: &mut Made, on: On, (asked, at): (Nanos, Nanos), (lease, guard): Adopted) {
    let call = made.history.new_call();
    let fenced = |fencing: u64| (fencing > 0).then_some(fencing);
    let adopts = Leased {
        token: lease.0.into(),
        fencing: fenced(lease.1),
    };
    let asks = What::Asks {
        call,
        who: CLIENT,
        on,
        ttl: None,
        adopts: Some(adopts),
    };
    let gets = What::Gets {
        call,
        token: guard.0.into(),
        fencing: fenced(guard.1),
        slot: None,
        end: Some(Span::exactly(20)),
        origin: Origin::Adopted,
    };
    made.notes(asked, asks);
    made.notes(at, gets);
}

#[test]
fn a_guard_has_the_tokens_of_the_lease_that_it_adopts_and_that_has_those_of_the_lock() {
    let wrong = &[Rule::Adoption][..];
    for (on, adopted, rules) in [
        (1, (("t1", 5), ("t1", 5)), &[][..]),
        (1, (("t1", 7), ("t1", 7)), wrong),
        (1, (("t1", 5), ("t1", 7)), wrong),
        (1, (("t1", 4), ("t1", 4)), &[Rule::Adoption, Rule::Order]),
        (1, (("t1", 0), ("t1", 0)), wrong),
        (1, (("t1", 5), ("t1", 0)), wrong),
        (1, (("t1", 5), ("t2", 5)), &[Rule::Adoption, Rule::Twice]),
        (1, (("t2", 7), ("t2", 7)), wrong),
        (2, (("t1", 5), ("t1", 5)), wrong),
    ] {
        let mut made = leased();
        adopts(&mut made, On::alone(on), (16, 17), adopted);
        made.breaks(rules);
    }
}

#[test]
fn what_is_asked_for_behind_an_adoption_has_a_larger_fencing_token() {
    for (fencing, rules) in [(4, &[Rule::Order][..]), (5, &[Rule::Twice]), (6, &[])] {
        let mut made = leased();
        adopts(&mut made, On::alone(1), (16, 17), (("t1", 5), ("t1", 5)));
        made.takes(2, On::alone(1), (18, 30), 40, fencing);
        made.breaks(rules);
    }
}

#[test]
fn an_adoption_behind_another_lock_has_no_smaller_fencing_token() {
    for (asked, rules) in [(22, &[Rule::Order][..]), (16, &[])] {
        let mut made = leased();
        made.takes(2, On::alone(1), (18, 21), 40, 8);
        // It is over when it is returned, so that it revives nothing.
        adopts(&mut made, On::alone(1), (asked, 23), (("t1", 5), ("t1", 5)));
        made.breaks(rules);
    }
}
