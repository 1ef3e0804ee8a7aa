//! Who has what, in which order, and with which tokens.

use super::{CLIENT, Made, one};
use crate::{Nanos, On, Origin, Rule, Says, Span, What};

/// One has it in 10..20, and another from `at` on.
fn two(first: On, at: Nanos, second: On) -> Made {
    let mut made = Made::default();
    made.takes(1, first, (9, 10), 20, 0);
    made.takes(2, second, (9, at), 40, 0);
    made
}

#[test]
fn two_do_not_have_a_place_at_the_same_time() {
    two(On::alone(1), 19, On::alone(1)).breaks(&[Rule::Exclusion]);
    two(On::alone(1), 20, On::alone(1)).breaks(&[]);
    two(On::alone(1), 19, On::alone(2)).breaks(&[]);
}

#[test]
fn readers_overlap_and_nobody_overlaps_with_them() {
    two(On::read(1), 19, On::read(1)).breaks(&[]);
    two(On::read(1), 19, On::alone(1)).breaks(&[Rule::Exclusion]);
    two(On::read(1), 20, On::alone(1)).breaks(&[]);
    two(On::alone(1), 19, On::read(1)).breaks(&[Rule::Exclusion]);
}

#[test]
fn several_places_are_had_all_at_once() {
    two(On::all([1, 2]), 19, On::alone(2)).breaks(&[Rule::Exclusion]);
    two(On::all([1, 2]), 19, On::all([2, 3])).breaks(&[Rule::Exclusion]);
    two(On::all([1, 2]), 19, On::read(1)).breaks(&[Rule::Exclusion]);
    two(On::all([1, 2]), 19, On::all([3, 4])).breaks(&[]);
    two(On::all([1, 2]), 20, On::all([2, 3])).breaks(&[]);
}

#[test]
fn no_more_permits_are_held_than_there_are() {
    for (there_are, rules) in [(2, &[][..]), (1, &[Rule::Permits][..])] {
        let mut made = two(On::permit(1), 19, On::permit(1));
        made.assumed.permits.insert(1, there_are);
        made.breaks(rules);
    }
}

#[test]
fn a_release_ends_what_a_guard_has() {
    for (released, rules) in [(14, &[][..]), (16, &[Rule::Exclusion][..])] {
        let mut made = Made::default();
        let first = made.takes(1, On::alone(1), (9, 10), 20, 0);
        made.takes(2, On::alone(1), (9, 15), 40, 0);
        made.gives_back(first, released, Says::Nothing);
        made.breaks(rules);
    }
}

#[test]
fn no_fencing_token_is_there_twice_and_they_grow() {
    for (fencing, rules) in [
        (8, &[][..]),
        (7, &[Rule::Twice][..]),
        (6, &[Rule::Order][..]),
    ] {
        // Asked for when the other had it, so that only the order in which they had it tells.
        for asked in [5, 15] {
            let mut made = Made::default();
            made.takes(1, On::alone(1), (9, 10), 20, 7);
            made.takes(2, On::alone(1), (asked, 30), 40, fencing);
            made.breaks(rules);
        }
    }
}

#[test]
fn a_guard_that_is_over_when_it_is_returned_may_have_a_smaller_fencing_token() {
    // It was asked for before the other one was returned.
    for (end, rules) in [(40, &[Rule::Order][..]), (30, &[])] {
        let mut made = Made::default();
        made.takes(1, On::alone(1), (9, 10), 20, 7);
        made.takes(2, On::alone(1), (5, 30), end, 6);
        made.breaks(rules);
    }
}

#[test]
fn no_token_is_given_to_two() {
    let (mut made, first) = one();
    made.gives_back(first, 15, Says::Okay);
    let call = made.history.asks(15, CLIENT, On::alone(1), None);
    made.notes(
        18,
        What::Gets {
            call,
            token: "t1".into(),
            fencing: None,
            slot: None,
            end: Some(Span::exactly(20)),
            origin: Origin::Nodes,
        },
    );
    made.breaks(&[Rule::Twice]);
}

#[test]
fn a_slot_is_had_once() {
    for (slot, rules) in [(1, &[][..]), (0, &[Rule::Exclusion][..])] {
        let mut made = Made::default();
        made.assumed.permits.insert(1, 2);
        for (slot, at) in [(0, 10), (slot, 11)] {
            let call = made.history.asks(at - 1, CLIENT, On::permit(1), None);
            let gets = What::Gets {
                call,
                token: format!("t{at}").into(),
                fencing: None,
                slot: Some(slot),
                end: Some(Span::exactly(20)),
                origin: Origin::Nodes,
            };
            made.notes(at, gets);
        }
        made.breaks(rules);
    }
}

#[test]
fn a_reader_has_no_fencing_token() {
    for (fencing, rules) in [(0, &[][..]), (5, &[Rule::Order][..])] {
        let mut made = Made::default();
        made.takes(1, On::read(1), (9, 10), 20, fencing);
        made.breaks(rules);
    }
}

#[test]
fn nobody_has_a_lock_that_rests() {
    for (place, at, rules) in [
        (1, 24, &[Rule::Rest][..]),
        (1, 25, &[][..]),
        (2, 24, &[][..]),
    ] {
        let (mut made, hold) = one();
        made.gives_back(hold, 15, Says::Okay);
        made.notes(16, What::Rests { hold, until: 25 });
        made.takes(2, On::alone(place), (18, at), 40, 0);
        made.breaks(rules);
        made.assumed.nodes_forget = true;
        made.breaks(&[]);
    }
    // Whoever was over when it was returned has had nothing; that it was returned is another matter.
    let (mut made, hold) = one();
    made.gives_back(hold, 15, Says::Okay);
    made.notes(16, What::Rests { hold, until: 25 });
    made.assumed.is_exact = true;
    made.takes(2, On::alone(1), (18, 24), 24, 0);
    made.breaks(&[Rule::Validity]);
}
