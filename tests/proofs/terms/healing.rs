//! The rule holds in small worlds, and without any part of it a promise is broken.

use super::{
    EXCLUSION, End, MAJORITY, NO_REVIVAL, NOTHING_LEFT, Patience, Protocol, Restarts, Rule, Start,
    World,
};
use crate::checks::{check_any, shortest_of};
use crate::subject::Subject;

/// A holder with this number of terms, and a contender that asks once.
fn world(rule: Rule, restarts: Restarts, terms: u8) -> World {
    World {
        protocols: [Protocol::Classic; 3],
        rule,
        restarts,
        subjects: [Subject::Lock; 3],
        patience: Patience::GivesUp,
        start: Start::Free,
        end: End::GivesBack,
        terms: [terms, 1, 0],
    }
}

/// A holder alone, with one extension more.
fn alone(rule: Rule, restarts: Restarts) -> World {
    World {
        terms: [3, 0, 0],
        ..world(rule, restarts, 3)
    }
}

#[test]
fn a_holder_that_extends_twice_and_heals() {
    let world = alone(Rule::AsItIs, Restarts::WhenHealed);
    check_any("healing twice, quick restarts", &world);
}

/// All that can happen without such servers can happen here.
#[test]
fn servers_that_come_back_empty_at_once_when_every_node_has_the_key() {
    let world = world(Rule::AsItIs, Restarts::WhenHealed, 2);
    check_any("healing, quick restarts", &world);
}

#[test]
fn servers_that_come_back_empty_at_any_time_break_exclusion() {
    let world = world(Rule::AsItIs, Restarts::AtAnyTime, 1);
    shortest_of("quick restarts", &world, EXCLUSION, 12);
}

#[test]
fn a_heal_where_an_undo_was_sent_may_be_deleted_by_it() {
    let world = world(Rule::HealsUndone, Restarts::Late, 2);
    shortest_of("heals undone", &world, MAJORITY, 19);
}

#[test]
fn a_vote_after_the_old_end_comes_too_late() {
    let world = world(Rule::CountsAfterTheEnd, Restarts::Late, 2);
    shortest_of("counts after the end", &world, NO_REVIVAL, 21);
}

#[test]
fn a_heal_that_replaces_another_clients_key_breaks_its_lock() {
    let world = world(Rule::HealsTaken, Restarts::Late, 2);
    shortest_of("heals taken", &world, MAJORITY, 16);
}

#[test]
fn a_heal_without_an_undo_behind_it_leaves_a_key() {
    let world = world(Rule::NoUndo, Restarts::Late, 2);
    shortest_of("no undo", &world, NOTHING_LEFT, 11);
}

#[test]
fn a_heal_that_is_under_way_when_the_lock_is_given_back_leaves_a_key() {
    let world = world(Rule::KeeperForgets, Restarts::Late, 2);
    shortest_of("the keeper forgets", &world, NOTHING_LEFT, 10);
}

#[test]
fn a_node_that_is_passed_on_while_it_is_healed_may_lose_the_key() {
    let world = alone(Rule::PassesOn, Restarts::Late);
    shortest_of("passes on", &world, MAJORITY, 16);
}
