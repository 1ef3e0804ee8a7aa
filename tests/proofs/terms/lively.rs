//! A free lock can be had: from every state that can be reached, however much went wrong before, a client that waits can get it,
//! although nothing more is heard of any other client.

use super::state::{HOLDER, Phase, State};
use super::{Action, End, Patience, Protocol, Restarts, Rule, Start, World};
use crate::checks::{check_that_it_can_be_had, shortest_to_a_dead_end};
use crate::liveness::Goal;
use crate::subject::Subject::{self, Lock, Read};

/// The client that waits.
const WAITS: usize = 1;

/// A holder and one who waits, in a world with troubles.
fn world(protocol: Protocol, subjects: [Subject; 3], end: End) -> World {
    World {
        protocols: [protocol; 3],
        rule: Rule::AsItIs,
        restarts: match protocol {
            Protocol::Classic => Restarts::Late,
            Protocol::Fenced => Restarts::AtAnyTime,
        },
        subjects,
        patience: Patience::GivesUp,
        start: Start::Held,
        end,
        terms: [2, 1, 0],
    }
}

/// Time goes on, messages arrive, and the one who waits asks all nodes.
fn is_no_trouble(action: &Action) -> bool {
    match action {
        Action::Begin(client, left_out) => *client == WAITS && left_out.is_none(),
        Action::Return(client) => *client == WAITS,
        Action::EndTerm(_)
        | Action::EndRest(_)
        | Action::SetArrives(..)
        | Action::ExtensionArrives(..)
        | Action::UndoArrives(..)
        | Action::ReleaseArrives(..)
        | Action::RestArrives(..)
        | Action::Expire(..)
        | Action::ExpireRest(..) => true,
        Action::Fail(_)
        | Action::Extend(_)
        | Action::Heal(..)
        | Action::Read(..)
        | Action::GiveUp(..)
        | Action::Confirm(_)
        | Action::Abandon(_)
        | Action::GiveBack(_)
        | Action::PassOn(_)
        | Action::EndOrphan(..)
        | Action::Pass(..)
        | Action::Rest(_)
        | Action::Restart(_) => false,
    }
}

const GOAL: Goal<World> = Goal {
    waits: |state: &State| state.holders[WAITS].phase == Phase::Idle,
    has: |state: &State| state.is_valid(WAITS),
    is_no_trouble,
};

#[test]
fn a_lock_whose_holder_died_can_be_had() {
    assert_ne!(HOLDER, WAITS);
    let world = World {
        patience: Patience::Waits,
        ..world(Protocol::Classic, [Read, Lock, Lock], End::GivesBack)
    };
    check_that_it_can_be_had("lively: after a reader", &world, &GOAL);
}

#[test]
#[ignore = "it takes half a minute"]
fn a_lock_whose_holder_gave_up_on_nodes_and_died_can_be_had() {
    let world = world(Protocol::Classic, [Lock; 3], End::GivesBack);
    check_that_it_can_be_had("lively: after troubles", &world, &GOAL);
}

#[test]
fn a_lock_that_was_passed_or_rested_can_be_had() {
    let rests = World {
        terms: [1, 1, 0],
        ..world(Protocol::Classic, [Lock; 3], End::Rests)
    };
    check_that_it_can_be_had("lively: after a rest", &rests, &GOAL);
}

#[test]
fn a_fenced_lock_can_be_had_after_nodes_have_forgotten() {
    let world = World {
        terms: [1, 1, 0],
        ..world(Protocol::Fenced, [Lock; 3], End::GivesBack)
    };
    check_that_it_can_be_had("fenced: lively", &world, &GOAL);
}

#[test]
fn an_extension_without_an_end_takes_the_lock_for_ever() {
    let world = World {
        rule: Rule::ExtendsForEver,
        ..world(Protocol::Classic, [Lock; 3], End::GivesBack)
    };
    shortest_to_a_dead_end("extends for ever", &world, &GOAL, 3);
}

#[test]
fn a_rest_that_never_ends_takes_the_lock_for_ever() {
    let world = World {
        rule: Rule::RestsForEver,
        terms: [1, 1, 0],
        ..world(Protocol::Classic, [Lock; 3], End::Rests)
    };
    shortest_to_a_dead_end("rests for ever", &world, &GOAL, 3);
}

#[test]
fn nodes_that_never_open_take_the_lock_for_ever() {
    let world = World {
        rule: Rule::NeverOpens,
        terms: [1, 1, 0],
        ..world(Protocol::Fenced, [Lock; 3], End::GivesBack)
    };
    shortest_to_a_dead_end("never opens", &world, &GOAL, 2);
}
