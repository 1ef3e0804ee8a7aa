//! Fenced locks on several resources, in worlds without clocks: one token for all of them.

use crate::checks::{check, check_within, shortest_counterexample};
use crate::properties::{NO_REVIVAL, REAL_TIME, UNIQUE};
use crate::subject::Subject;
use crate::subject::Subject::{Both, Lock, Other};
use crate::variant::Variant;
use crate::world::{Loss, Network, World};

/// Clients with an attempt each.
fn world(subjects: &[Subject], largest_proposal: u8) -> World {
    World::new(subjects.len(), 1, largest_proposal).of(subjects)
}

#[test]
fn a_client_that_wants_both_and_one_that_wants_one() {
    check("both, one", &world(&[Both, Lock], 3));
}

#[test]
fn a_client_that_wants_both_and_one_and_nodes_that_lose_everything() {
    let mut world = world(&[Both, Lock], 2);
    world.loss = Loss::Everything(1);
    check("both, one, a wipe", &world);
}

#[test]
fn a_client_that_wants_both_and_one_for_each_up_to_a_number_of_steps() {
    let world = world(&[Both, Lock, Other], 2);
    check_within("both, one, the other, first 12 steps", &world, 12);
}

#[test]
#[ignore = "it takes minutes"]
fn two_clients_that_want_both_and_a_node_that_goes_back_to_an_earlier_state() {
    let mut world = world(&[Both, Both], 2);
    world.loss = Loss::TheLatest(1);
    check("both, both, a roll-back", &world);
}

#[test]
fn a_vote_for_both_where_one_is_taken_does_not_end_the_lock_on_that() {
    let mut world = world(&[Both, Lock], 2);
    (world.rules, world.network) = (Variant::SetOnHalf, Network::Once);
    shortest_counterexample("a half is granted", &world, NO_REVIVAL, 11);
}

#[test]
fn a_token_that_is_larger_than_one_counter_only_is_given_out_twice() {
    let mut world = world(&[Both, Lock], 2);
    (world.rules, world.network) = (Variant::AboveOneCounter, Network::Once);
    shortest_counterexample("above one counter", &world, UNIQUE, 9);
    shortest_counterexample("above one counter", &world, REAL_TIME, 9);
}
