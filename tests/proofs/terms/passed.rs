//! A lock that is passed: its release and the attempt of the next client go to each node in one command.
//!
//! To the nodes that is a release, and an attempt of another client behind it. So each order of events here is one in a world in
//! which the holder gives back and the contender asks, and these worlds are small. What is new is what can go wrong.

use super::{EXCLUSION, End, MAJORITY, Patience, Protocol, Restarts, Rule, Start, World};
use crate::checks::{check_any, shortest_of};
use crate::subject::Subject;

/// A holder with this number of terms, one that gets the lock from it, and a contender.
fn world(protocol: Protocol, rule: Rule, terms: [u8; 3]) -> World {
    World {
        protocols: [protocol; 3],
        rule,
        restarts: Restarts::Late,
        subjects: [Subject::Lock; 3],
        patience: Patience::GivesUp,
        start: Start::Held,
        end: End::Passes,
        terms,
    }
}

#[test]
fn a_holder_that_extends_heals_and_passes_its_lock_on_to_the_next() {
    let world = world(Protocol::Classic, Rule::AsItIs, [2, 1, 0]);
    check_any("passes", &world);
}

#[test]
fn a_holder_that_passes_its_lock_on_beside_a_contender() {
    for protocol in [Protocol::Classic, Protocol::Fenced] {
        let world = World {
            patience: Patience::Waits,
            ..world(protocol, Rule::AsItIs, [1, 1, 1])
        };
        check_any(&format!("passes beside a contender, {protocol:?}"), &world);
    }
}

#[test]
#[ignore = "it takes half a minute"]
fn a_fenced_holder_that_extends_and_passes_its_lock_on_and_nodes_that_forget() {
    let world = World {
        restarts: Restarts::AtAnyTime,
        ..world(Protocol::Fenced, Rule::AsItIs, [2, 1, 0])
    };
    check_any("fenced: passes, losses", &world);
}

#[test]
fn a_pass_that_does_not_compare_takes_the_lock_of_another() {
    let world = world(Protocol::Classic, Rule::PassesBlindly, [1, 1, 1]);
    shortest_of("passes blindly", &world, MAJORITY, 9);
}

#[test]
fn a_guard_that_does_not_end_before_its_pass_is_one_of_two() {
    let world = world(Protocol::Classic, Rule::PassesTooEarly, [1, 1, 0]);
    shortest_of("passes too early", &world, EXCLUSION, 5);
}
