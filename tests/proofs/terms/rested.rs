//! A lock that rests until a minimum is over.

use super::{End, MAJORITY, Patience, Protocol, RESTS, Restarts, Rule, Start, World};
use crate::checks::{check_any, shortest_of};
use crate::subject::Subject;
use crate::subject::Subject::{Both, Lock, Read};

/// A holder with this number of terms, and contenders.
fn world(protocol: Protocol, rule: Rule, subjects: [Subject; 3], terms: [u8; 3]) -> World {
    World {
        protocols: [protocol; 3],
        rule,
        restarts: Restarts::Late,
        subjects,
        patience: Patience::GivesUp,
        start: Start::Held,
        end: End::Rests,
        terms,
    }
}

#[test]
fn a_holder_that_extends_heals_and_lets_its_lock_rest() {
    for protocol in [Protocol::Classic, Protocol::Fenced] {
        let world = world(protocol, Rule::AsItIs, [Lock; 3], [2, 1, 0]);
        check_any(&format!("rests, {protocol:?}"), &world);
    }
}

#[test]
fn a_lock_that_rests_beside_a_writer_and_a_reader() {
    let world = world(
        Protocol::Classic,
        Rule::AsItIs,
        [Lock, Lock, Read],
        [1, 1, 1],
    );
    check_any("rests beside a writer and a reader", &world);
}

#[test]
#[ignore = "it takes half a minute"]
fn a_lock_on_two_resources_that_rests() {
    let world = world(
        Protocol::Classic,
        Rule::AsItIs,
        [Both, Lock, Lock],
        [2, 1, 0],
    );
    check_any("both rest", &world);
}

#[test]
fn a_key_that_rests_for_less_than_the_minimum_lets_another_in() {
    let world = world(Protocol::Classic, Rule::RestsTooShort, [Lock; 3], [1, 1, 0]);
    shortest_of("rests too short", &world, RESTS, 9);
}

#[test]
fn a_rest_that_one_node_has_lets_another_in() {
    let world = world(Protocol::Classic, Rule::RestsOnOne, [Lock; 3], [1, 1, 0]);
    shortest_of("rests on one", &world, RESTS, 9);
}

#[test]
fn a_rest_that_does_not_compare_takes_the_lock_of_another() {
    let world = world(Protocol::Classic, Rule::RestsBlindly, [Lock; 3], [1, 1, 0]);
    shortest_of("rests blindly", &world, MAJORITY, 9);
}
