//! Who has what, in which order, and with which tokens.

use super::{Made, given, one};
use crate::{Nanos, On, Rule, Says, What};

const NONE: &[Rule] = &[];

/// One has it in 10..20, and another from `at` on.
fn two(first: On, at: Nanos, second: On) -> Made {
    let mut made = Made::default();
    made.takes(1, first, (9, 10), 20, 0);
    made.takes(2, second, (9, at), 40, 0);
    made
}

#[test]
fn two_do_not_have_a_place_at_the_same_time_but_for_readers() {
    let (one, read) = (On::alone(1), On::read(1));
    for (first, second, may_overlap) in [
        (one.clone(), one.clone(), false),
        (one.clone(), On::alone(2), true),
        (read.clone(), read.clone(), true),
        (read.clone(), one.clone(), false),
        (one, read.clone(), false),
        (On::all([1, 2]), On::alone(2), false),
        (On::all([1, 2]), On::all([2, 3]), false),
        (On::all([1, 2]), read, false),
        (On::all([1, 2]), On::all([3, 4]), true),
    ] {
        let rules = if may_overlap {
            NONE
        } else {
            &[Rule::Exclusion]
        };
        two(first.clone(), 19, second.clone()).breaks(rules);
        two(first, 20, second).breaks(NONE);
    }
}

#[test]
fn no_more_permits_are_held_than_there_are_and_a_slot_is_had_once() {
    for (there_are, rules) in [(2, NONE), (1, &[Rule::Permits])] {
        let mut made = two(On::permit(1), 19, On::permit(1));
        made.assumed.permits.insert(1, there_are);
        made.breaks(rules);
    }
    for (second, rules) in [(1, NONE), (0, &[Rule::Exclusion])] {
        let mut made = Made::default();
        made.assumed.permits.insert(1, 2);
        for (number, at) in [(0, 10), (second, 11)] {
            let call = made.asks(1, On::permit(1), at - 1);
            let mut gets = given(&format!("t{at}"), 20, 0);
            if let What::Gets(given) = &mut gets {
                given.slot = Some(number);
            }
            made.notes(at, call, gets);
        }
        made.breaks(rules);
    }
}

#[test]
fn a_release_or_the_death_of_its_client_ends_what_a_guard_has() {
    for (released, rules) in [(14, NONE), (16, &[Rule::Exclusion])] {
        let mut made = Made::default();
        let first = made.takes(1, On::alone(1), (9, 10), 20, 0);
        made.takes(2, On::alone(1), (9, 15), 40, 0);
        made.gives_back(first, released, Says::Nothing);
        made.breaks(rules);
    }
    for (client, rules) in [(1, NONE), (2, &[Rule::Exclusion])] {
        let (mut made, _) = one();
        made.dies(client, 12);
        made.takes(3, On::alone(1), (12, 13), 40, 0);
        made.breaks(rules);
    }
}

#[test]
fn no_fencing_token_is_there_twice_and_they_grow() {
    for (fencing, rules) in [(8, NONE), (7, &[Rule::Twice]), (6, &[Rule::Order])] {
        // Asked for when the other had it, so that only the order in which they had it tells.
        for asked in [5, 15] {
            let mut made = Made::default();
            made.takes(1, On::alone(1), (9, 10), 20, 7);
            made.takes(2, On::alone(1), (asked, 30), 40, fencing);
            made.breaks(rules);
        }
    }
    // A guard that is over when it is returned, and was asked for before the other one was returned.
    for (end, rules) in [(40, &[Rule::Order][..]), (30, NONE)] {
        let mut made = Made::default();
        made.takes(1, On::alone(1), (9, 10), 20, 7);
        made.takes(2, On::alone(1), (5, 30), end, 6);
        made.breaks(rules);
    }
    for (fencing, rules) in [(0, NONE), (5, &[Rule::Order])] {
        let mut made = Made::default();
        made.takes(1, On::read(1), (9, 10), 20, fencing);
        made.breaks(rules);
    }
}

#[test]
fn no_token_is_given_to_two() {
    let (mut made, first) = one();
    made.gives_back(first, 15, Says::Okay);
    let call = made.asks(1, On::alone(1), 15);
    made.notes(18, call, given("t1", 20, 0));
    made.breaks(&[Rule::Twice]);
}

#[test]
fn nobody_has_a_lock_that_rests() {
    for (place, at, rules) in [(1, 24, &[Rule::Rest][..]), (1, 25, NONE), (2, 24, NONE)] {
        let (mut made, hold) = one();
        made.gives_back(hold, 15, Says::Okay);
        made.notes(16, hold, What::Rests(25));
        made.takes(2, On::alone(place), (18, at), 40, 0);
        made.breaks(rules);
    }
    // Whoever was over when it was returned has had nothing; that it was returned is another matter.
    let (mut made, hold) = one();
    made.gives_back(hold, 15, Says::Okay);
    made.notes(16, hold, What::Rests(25));
    made.assumed.is_exact = true;
    made.takes(2, On::alone(1), (18, 24), 24, 0);
    made.breaks(&[Rule::Validity]);
}

/// One has r1 with `t1` and the fencing token 5 in 10..20, and makes a lease of it at 15.
fn leased() -> Made {
    let mut made = Made::default();
    let hold = made.takes(1, On::alone(1), (9, 10), 20, 5);
    made.gives_back(hold, 14, Says::Nothing);
    made
}

#[test]
fn a_guard_has_the_tokens_of_the_lease_that_it_adopts_and_that_has_those_of_the_lock() {
    let wrong = &[Rule::Adoption][..];
    for (on, lease, guard, rules) in [
        (1, ("t1", 5), ("t1", 5), NONE),
        (1, ("t1", 7), ("t1", 7), wrong),
        (1, ("t1", 5), ("t1", 7), wrong),
        (1, ("t1", 4), ("t1", 4), &[Rule::Adoption, Rule::Order]),
        (1, ("t1", 0), ("t1", 0), wrong),
        (1, ("t1", 5), ("t1", 0), wrong),
        (1, ("t1", 5), ("t2", 5), &[Rule::Adoption, Rule::Twice]),
        (1, ("t2", 7), ("t2", 7), wrong),
        (2, ("t1", 5), ("t1", 5), wrong),
    ] {
        let mut made = leased();
        made.adopts(On::alone(on), (16, 17), lease, guard);
        made.breaks(rules);
    }
}

#[test]
fn the_fencing_token_of_an_adopted_lock_is_in_order() {
    let own = ("t1", 5);
    for (fencing, rules) in [(4, &[Rule::Order][..]), (5, &[Rule::Twice]), (6, NONE)] {
        let mut made = leased();
        made.adopts(On::alone(1), (16, 17), own, own);
        made.takes(2, On::alone(1), (18, 30), 40, fencing);
        made.breaks(rules);
    }
    for (asked, rules) in [(22, &[Rule::Order][..]), (16, NONE)] {
        let mut made = leased();
        made.takes(2, On::alone(1), (18, 21), 40, 8);
        // It is over when it is returned, so that it revives nothing.
        made.adopts(On::alone(1), (asked, 23), own, own);
        made.breaks(rules);
    }
}
