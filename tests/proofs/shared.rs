//! Fenced writers and readers, in worlds without clocks: what tokens and counters promise.

use crate::checks::{check, check_within, shortest_counterexample};
use crate::properties::NO_REVIVAL;
use crate::subject::Subject;
use crate::subject::Subject::{Lock, Read};
use crate::variant::Variant;
use crate::world::{Loss, Network, Undo, World};

/// Clients with an attempt each.
fn world(subjects: &[Subject], largest_proposal: u8) -> World {
    let mut world = World::new(subjects.len(), 1, largest_proposal).of(subjects);
    world.rules = Variant::ExtendsByVotes;
    world
}

#[test]
fn a_writer_and_a_reader_and_a_node_that_goes_back_to_an_earlier_state() {
    let mut world = world(&[Lock, Read], 1);
    world.loss = Loss::TheLatest(1);
    check("a writer, a reader, a roll-back", &world);
}

/// Here a reader is not revived either.
#[test]
fn a_writer_and_a_reader_whose_messages_arrive_once() {
    let mut world = world(&[Lock, Read], 1);
    world.network = Network::Once;
    check("a writer, a reader, once", &world);
}

#[test]
fn two_writers_and_a_reader_up_to_a_number_of_steps() {
    let world = world(&[Lock, Lock, Read], 2);
    check_within("2 writers, a reader, first 14 steps", &world, 14);
}

#[test]
#[ignore = "it takes minutes"]
fn a_writer_and_two_readers() {
    check("a writer, 2 readers", &world(&[Lock, Read, Read], 1));
}

#[test]
#[ignore = "it takes minutes"]
fn two_writers_and_a_reader() {
    check("2 writers, a reader", &world(&[Lock, Lock, Read], 2));
}

#[test]
#[ignore = "it takes minutes"]
fn a_writer_and_a_reader_that_give_up_on_nodes_one_of_which_goes_back() {
    let mut world = world(&[Lock, Read], 1);
    world.undo = Undo::AtAnyNode;
    world.loss = Loss::TheLatest(1);
    check("a writer, a reader, undos, a roll-back", &world);
}

/// The counter is still the writer's token, so its key is made again where the reader was.
#[test]
fn a_reader_that_does_not_raise_the_counter_lets_a_writer_revive_its_lock() {
    let mut world = world(&[Lock, Read], 1);
    (world.rules, world.network) = (Variant::ReadersDontCount, Network::Once);
    shortest_counterexample("readers don't count", &world, NO_REVIVAL, 13);
}

/// A reader has no token, so it can't raise a counter above one that the node has not seen yet.
#[test]
fn a_writer_that_extends_where_its_acquire_arrived_behind_a_reader_revives_its_lock() {
    let mut world = world(&[Lock, Read], 1);
    (world.rules, world.network) = (Variant::Fenced, Network::Once);
    shortest_counterexample("a late acquire", &world, NO_REVIVAL, 14);
}

#[test]
fn a_reader_that_is_let_in_beside_a_writer_does_not_end_its_lock() {
    let mut world = world(&[Lock, Read], 1);
    (world.rules, world.network) = (Variant::ReadsPastWriters, Network::Once);
    shortest_counterexample("reads past writers", &world, NO_REVIVAL, 11);
}
