//! Variants that break a promise: the checker has to find out, after no more and no fewer steps than these.

use crate::checks::{broken_by, is_possible, shortest_counterexample};
use crate::holds::CLOCKS;
use crate::properties::{NO_REVIVAL, REAL_TIME, UNIQUE};
use crate::variant::Variant;
use crate::world::{Action, Clocks, Loss, Network, Undo, World};

#[test]
fn a_token_that_only_equals_the_counter_is_given_out_twice() {
    let world = world_of(Variant::EqualIsEnough, 1, 2);
    shortest_counterexample("equal is enough", &world, UNIQUE, 9);
    shortest_counterexample("equal is enough", &world, REAL_TIME, 9);
}

#[test]
fn counts_of_single_nodes_are_neither_unique_nor_in_order() {
    let world = world_of(Variant::CountPerNode, 2, 1);
    shortest_counterexample("count per node", &world, UNIQUE, 10);
    shortest_counterexample("count per node", &world, REAL_TIME, 13);
}

#[test]
fn a_token_that_is_not_written_back_is_given_out_twice() {
    let world = world_of(Variant::NoWriteBack, 1, 1);
    shortest_counterexample("no write-back", &world, UNIQUE, 9);
    shortest_counterexample("no write-back", &world, REAL_TIME, 9);
}

#[test]
fn an_extension_that_does_not_look_at_the_counter_revives_a_lock() {
    let world = world_of(Variant::BlindExtension, 1, 2);
    shortest_counterexample("blind extension", &world, NO_REVIVAL, 13);
}

#[test]
fn a_node_that_forgets_its_counters_gives_out_a_token_twice() {
    let mut world = world_of(Variant::NoFloor, 1, 2);
    world.loss = Loss::Everything(1);
    shortest_counterexample("no floor", &world, UNIQUE, 9);
    shortest_counterexample("no floor", &world, REAL_TIME, 9);
    shortest_counterexample("no floor", &world, NO_REVIVAL, 12);
}

#[test]
fn a_clock_that_steps_back_while_counters_are_lost_undoes_the_floor() {
    let mut world = world_of(Variant::ClockSteppedBack, 1, 2);
    world.loss = Loss::Everything(1);
    shortest_counterexample("clock stepped back", &world, UNIQUE, 10);
}

#[test]
fn a_quarantine_that_is_shorter_than_clocks_differ_lets_a_token_be_given_out_twice() {
    let mut world = world_of(Variant::Fenced, 1, 2);
    world.loss = Loss::Everything(1);
    world.clocks = Some(Clocks {
        skew: CLOCKS.quarantine + 1,
        ..CLOCKS
    });
    shortest_counterexample("short quarantine", &world, UNIQUE, 12);
}

/// The counter is an old one again, and so is the key: the node acknowledges what it took away from the holder since.
#[test]
#[ignore = "it takes a minute"]
fn an_extension_that_ignores_the_floor_revives_a_lock_on_a_node_that_went_back() {
    let mut world = world_of(Variant::RecreationWithoutFloor, 1, 2);
    world.loss = Loss::TheLatest(1);
    shortest_counterexample("extension without floor", &world, NO_REVIVAL, 14);
}

/// A release that arrives behind the loss makes a counter of its own small token. Were the floor there only for want
/// of a counter, it would be gone.
#[test]
fn a_floor_that_a_late_release_takes_away_lets_a_token_be_given_out_twice() {
    let mut world = world_of(Variant::FloorOfMissingCounters, 2, 3);
    world.loss = Loss::Everything(1);
    // The first client has attempts 0 and 1, the second 2 and 3. A search takes more memory than there is.
    let way = [
        Action::Begin(0, 1),
        Action::GiveUp(0),
        Action::Begin(2, 3),
        Action::AcquireArrives(2, 0),
        Action::AcquireArrives(2, 1),
        Action::Return(2),
        Action::LoseData(0),
        Action::Reopen(0),
        Action::ReleaseArrives(0, 0),
        Action::Begin(1, 3),
        Action::AcquireArrives(1, 0),
        Action::AcquireArrives(1, 2),
        Action::Return(1),
    ];
    assert_eq!(broken_by(&world, &way), [UNIQUE, REAL_TIME]);
    world.rules = Variant::Fenced;
    // The last step can't be taken: one of the two nodes knows better.
    assert!(!is_possible(&world, &way));
}

/// An undo deletes the key that a snapshot or a replica still has, so the next
/// client is granted that node before the key has ended there. Then the node goes back, and has the key again: the first
/// client's own key, which is a vote, next to its own key on the node that the second client never reached.
#[test]
#[ignore = "it takes a minute"]
fn a_key_that_an_undo_deleted_comes_back_and_is_extended() {
    let mut world = World::new(2, 1, 3);
    world.rules = Variant::UndoneIsExtended;
    world.undo = Undo::AtAnyNode;
    world.loss = Loss::TheLatest(1);
    shortest_counterexample("undo and a roll-back", &world, NO_REVIVAL, 17);
}

/// Two clients over a network that repeats nothing, so that no counterexample needs that.
fn world_of(rules: Variant, attempts: usize, largest_proposal: u8) -> World {
    let mut world = World::new(2, attempts, largest_proposal);
    world.rules = rules;
    world.network = Network::Once;
    world
}
