//! Clients of both protocols on the same key. Those of the classic one heed no counter and no marker, so nothing is promised of
//! tokens beside them, and nodes must remember. What is promised of valid locks holds.

use super::Protocol::{Classic, Fenced};
use super::{End, NO_REVIVAL, Patience, Protocol, Restarts, Rule, Start, World};
use crate::checks::{check_any, shortest_of};
use crate::subject::Subject;
use crate::subject::Subject::{Lock, Read};

fn world(protocols: [Protocol; 3], subjects: [Subject; 3], terms: [u8; 3]) -> World {
    World {
        protocols,
        rule: Rule::AsItIs,
        restarts: Restarts::Late,
        subjects,
        patience: Patience::Waits,
        start: Start::Held,
        end: End::GivesBack,
        terms,
    }
}

#[test]
fn a_fenced_holder_that_extends_beside_a_classic_client() {
    let world = world([Fenced, Classic, Classic], [Lock; 3], [2, 1, 0]);
    check_any("mixed: a fenced holder", &world);
}

#[test]
fn a_classic_holder_that_heals_beside_a_fenced_client() {
    let world = world([Classic, Fenced, Fenced], [Lock; 3], [2, 1, 0]);
    check_any("mixed: a classic holder", &world);
}

#[test]
#[ignore = "it takes half a minute"]
fn a_classic_holder_that_heals_beside_a_fenced_writer_and_a_fenced_reader() {
    let world = world([Classic, Fenced, Fenced], [Lock, Lock, Read], [2, 1, 1]);
    check_any(
        "mixed: a classic holder, a fenced writer and reader",
        &world,
    );
}

/// Among fenced clients alone, counters refuse what comes too late. A classic client does not raise the counter. So the node sets the key of the fenced one again, and only the clock tells
/// that this came too late.
#[test]
fn a_fenced_holder_that_counts_votes_after_its_old_end_is_revived_after_a_classic_one() {
    let world = |contender| World {
        rule: Rule::CountsAfterTheEnd,
        ..world([Fenced, contender, contender], [Lock; 3], [2, 1, 0])
    };
    check_any("fenced: counts after the end", &world(Fenced));
    shortest_of(
        "mixed: counts after the end",
        &world(Classic),
        NO_REVIVAL,
        13,
    );
}
