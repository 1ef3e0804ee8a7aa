//! Locks on several resources at once, beside locks on one of them.

use super::{
    EXCLUSION, End, NOTHING_LEFT, Patience, Protocol, Restarts, Rule, Start, WHOLE, World,
};
use crate::checks::{check_any, shortest_of};
use crate::subject::Subject;
use crate::subject::Subject::{Both, Lock, Other};

/// Three clients that wait for every node.
fn world(protocol: Protocol, subjects: [Subject; 3], terms: [u8; 3]) -> World {
    World {
        protocols: [protocol; 3],
        rule: Rule::AsItIs,
        restarts: Restarts::Late,
        subjects,
        patience: Patience::Waits,
        start: Start::Free,
        end: End::GivesBack,
        terms,
    }
}

#[test]
fn a_client_that_wants_both_and_one_for_each() {
    let world = world(Protocol::Classic, [Both, Lock, Other], [1; 3]);
    check_any("both, one, the other", &world);
}

#[test]
fn two_clients_that_want_both_and_one_for_one_of_them() {
    let world = world(Protocol::Classic, [Both, Both, Lock], [1; 3]);
    check_any("both, both, one", &world);
}

#[test]
fn a_holder_of_both_that_extends_and_heals() {
    let beside_another = World {
        start: Start::Held,
        ..world(Protocol::Classic, [Both, Lock, Lock], [2, 1, 0])
    };
    check_any("both heal beside one", &beside_another);
    let alone = World {
        patience: Patience::GivesUp,
        ..world(Protocol::Classic, [Both; 3], [3, 0, 0])
    };
    check_any("both heal twice, and give up on nodes", &alone);
}

#[test]
fn a_fenced_holder_of_both_that_extends_and_nodes_that_forget() {
    let world = World {
        restarts: Restarts::AtAnyTime,
        ..world(Protocol::Fenced, [Both, Lock, Other], [2, 1, 0])
    };
    check_any("fenced: both, one, losses", &world);
}

#[test]
#[ignore = "it takes half a minute"]
fn a_holder_of_both_that_gives_up_on_nodes_extends_and_heals_beside_another() {
    let world = World {
        patience: Patience::GivesUp,
        ..world(Protocol::Classic, [Both, Lock, Lock], [2, 1, 0])
    };
    check_any("both heal beside one, and give up on nodes", &world);
}

#[test]
#[ignore = "it takes half a minute"]
fn a_fenced_client_that_wants_both_and_one_for_each_and_nodes_that_forget() {
    let world = World {
        restarts: Restarts::AtAnyTime,
        ..world(Protocol::Fenced, [Both, Lock, Other], [1; 3])
    };
    check_any("fenced: both, one, the other, losses", &world);
}

#[test]
fn a_vote_for_both_where_one_is_taken_breaks_exclusion() {
    let world = World {
        rule: Rule::SetOnHalf,
        ..world(Protocol::Classic, [Both, Lock, Lock], [1, 1, 0])
    };
    shortest_of("a half is granted", &world, WHOLE, 4);
    shortest_of("a half is granted", &world, EXCLUSION, 10);
}

#[test]
fn a_failed_attempt_for_both_that_releases_one_key_leaves_the_other() {
    let world = World {
        rule: Rule::LeavesOneKey,
        ..world(Protocol::Classic, [Both, Both, Lock], [1, 1, 0])
    };
    shortest_of("a half is left", &world, WHOLE, 7);
    shortest_of("a half is left", &world, NOTHING_LEFT, 7);
}
