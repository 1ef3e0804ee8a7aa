//! The protocol as it is: no state breaks a promise, and what it is for does happen.

use crate::checks::{check, check_against_a_plain_search, check_within};
use crate::world::{Answers, Clocks, Loss, Undo, World};

/// How many steps from the beginning the bounded check of three clients with two attempts each looks.
const STEPS_VARIABLE: &str = "REDLATCH_MODEL_STEPS";

#[test]
fn two_clients_with_an_attempt_each_whose_extensions_are_all_followed() {
    let mut world = World::new(2, 1, 4);
    world.answers = Answers::All;
    check("2 clients, proposals to 4, all answers", &world);
}

#[test]
fn two_clients_with_two_attempts_each() {
    check(
        "2 clients, 2 attempts each, proposals to 2",
        &World::new(2, 2, 2),
    );
}

#[test]
fn two_clients_that_give_up_on_nodes() {
    let mut world = World::new(2, 1, 4);
    world.undo = Undo::AtAnyNode;
    check("2 clients, proposals to 4, undos", &world);
}

#[test]
fn two_clients_and_nodes_that_lose_everything_twice() {
    let mut world = World::new(2, 1, 3);
    world.loss = Loss::Everything(2);
    check("2 clients, proposals to 3, two wipes", &world);
}

#[test]
fn two_clients_and_a_node_that_goes_back_to_an_earlier_state() {
    let mut world = World::new(2, 1, 3);
    world.loss = Loss::TheLatest(1);
    check("2 clients, proposals to 3, a roll-back", &world);
}

#[test]
fn two_clients_that_give_up_on_nodes_one_of_which_goes_back() {
    let mut world = World::new(2, 1, 2);
    world.undo = Undo::AtAnyNode;
    world.loss = Loss::TheLatest(1);
    check("2 clients, proposals to 2, undos, a roll-back", &world);
}

/// A quarantine that is as long as clocks may differ.
pub(crate) const CLOCKS: Clocks = Clocks {
    skew: 1,
    quarantine: 1,
    until: 3,
};

#[test]
fn two_clients_whose_clocks_differ_and_a_node_that_is_replaced_by_an_empty_one() {
    let mut world = World::new(2, 1, 3);
    world.loss = Loss::Everything(1);
    world.clocks = Some(CLOCKS);
    check("2 clients, proposals to 3, clocks, a wipe", &world);
}

#[test]
fn three_clients_with_an_attempt_each() {
    check("3 clients, proposals to 5", &World::new(3, 1, 5));
}

#[test]
fn the_checker_sees_the_states_that_a_plain_search_sees() {
    let mut world = World::new(2, 1, 3);
    check_against_a_plain_search(&world);
    world.loss = Loss::TheLatest(1);
    check_against_a_plain_search(&world);
}

#[test]
#[ignore = "it takes minutes"]
fn two_clients_with_two_attempts_each_and_more_tokens() {
    check(
        "2 clients, 2 attempts each, proposals to 3",
        &World::new(2, 2, 3),
    );
}

#[test]
#[ignore = "it takes minutes"]
fn two_clients_with_two_attempts_each_and_a_node_that_loses_everything() {
    let mut world = World::new(2, 2, 2);
    world.loss = Loss::Everything(1);
    check("2 clients, 2 attempts each, proposals to 2, a wipe", &world);
}

#[test]
#[ignore = "it takes minutes"]
fn two_clients_and_nodes_that_go_back_twice() {
    let mut world = World::new(2, 1, 3);
    world.loss = Loss::TheLatest(2);
    check("2 clients, proposals to 3, two roll-backs", &world);
}

#[test]
#[ignore = "it takes minutes"]
fn two_clients_that_give_up_on_nodes_one_of_which_goes_back_and_more_tokens() {
    let mut world = World::new(2, 1, 3);
    world.undo = Undo::AtAnyNode;
    world.loss = Loss::TheLatest(1);
    check("2 clients, proposals to 3, undos, a roll-back", &world);
}

#[test]
#[ignore = "it takes minutes"]
fn three_clients_that_give_up_on_nodes() {
    let mut world = World::new(3, 1, 2);
    world.undo = Undo::AtAnyNode;
    check("3 clients, proposals to 2, undos", &world);
}

#[test]
#[ignore = "it takes minutes"]
fn three_clients_and_a_node_that_loses_everything() {
    let mut world = World::new(3, 1, 3);
    world.loss = Loss::Everything(1);
    check("3 clients, proposals to 3, a wipe", &world);
}

#[test]
#[ignore = "it takes minutes"]
fn three_clients_and_a_node_that_goes_back_to_an_earlier_state() {
    let mut world = World::new(3, 1, 2);
    world.loss = Loss::TheLatest(1);
    check("3 clients, proposals to 2, a roll-back", &world);
}

#[test]
#[ignore = "it takes minutes, and gigabytes"]
fn three_clients_with_two_attempts_each_up_to_a_number_of_steps() {
    let steps = std::env::var(STEPS_VARIABLE);
    let steps = steps.map_or(12, |steps| steps.parse().expect("a number of steps"));
    let name = format!("3 clients, 2 attempts each, proposals to 3, first {steps} steps");
    check_within(&name, &World::new(3, 2, 3), steps);
}
