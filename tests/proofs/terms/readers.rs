//! Readers and writers of one resource: any number of valid readers, or one valid writer.

use super::{
    EXCLUSION, End, MAJORITY, NO_REVIVAL, Patience, Protocol, Restarts, Rule, Start, World,
};
use crate::checks::{check_any, shortest_of};
use crate::subject::Subject;
use crate::subject::Subject::{Lock, Read};

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

/// A holder that extends its lock, which it has on two nodes; a reader, and whoever else makes one writer of three.
fn held(protocol: Protocol, holder: Subject) -> World {
    let other = if holder.is_reader() { Lock } else { Read };
    World {
        start: Start::Held,
        ..world(protocol, [holder, other, Read], [2, 1, 1])
    }
}

#[test]
fn a_writer_and_two_readers() {
    let world = world(Protocol::Classic, [Lock, Read, Read], [1; 3]);
    check_any("a writer and two readers", &world);
}

#[test]
fn a_reader_that_extends_and_heals_beside_a_writer_and_a_reader() {
    let world = held(Protocol::Classic, Read);
    check_any("a reader heals", &world);
}

#[test]
fn a_fenced_writer_and_two_readers_and_nodes_that_forget() {
    let world = World {
        restarts: Restarts::AtAnyTime,
        ..world(Protocol::Fenced, [Lock, Read, Read], [1; 3])
    };
    check_any("fenced: a writer and two readers, losses", &world);
}

/// A fenced writer that gives up on nodes and extends, and a reader.
fn a_fenced_writer_extends(rule: Rule) {
    let world = World {
        rule,
        restarts: Restarts::AtAnyTime,
        patience: Patience::GivesUp,
        ..world(Protocol::Fenced, [Lock, Read, Read], [2, 1, 0])
    };
    check_any(
        &format!("fenced: a writer extends, losses, {rule:?}"),
        &world,
    );
}

#[test]
fn a_fenced_writer_that_extends_and_a_reader_and_nodes_that_forget() {
    a_fenced_writer_extends(Rule::AsItIs);
}

/// Whether readers raise the counter makes no difference to validity: until the old end, the majority on which the lock
/// rests lets no reader in. What it makes a difference to is in `crate::fails`.
#[test]
#[ignore = "it takes half a minute"]
fn a_fenced_writer_that_extends_and_readers_that_raise_no_counter() {
    a_fenced_writer_extends(Rule::ReadersDontCount);
}

#[test]
#[ignore = "it takes half a minute"]
fn a_writer_that_extends_and_heals_beside_two_readers() {
    check_any("a writer heals", &held(Protocol::Classic, Lock));
}

#[test]
#[ignore = "it takes half a minute"]
fn a_fenced_holder_that_extends_and_nodes_that_forget() {
    for holder in [Lock, Read] {
        let world = World {
            restarts: Restarts::AtAnyTime,
            ..held(Protocol::Fenced, holder)
        };
        check_any(&format!("fenced: {holder:?} extends, losses"), &world);
    }
}

#[test]
fn a_reader_that_is_granted_beside_a_writer_breaks_exclusion() {
    let world = World {
        rule: Rule::ReadsPastWriters,
        ..world(Protocol::Classic, [Read, Lock, Read], [1, 1, 0])
    };
    shortest_of("reads past writers", &world, EXCLUSION, 10);
}

#[test]
fn a_reader_that_is_healed_beside_a_writer_breaks_exclusion() {
    let world = World {
        rule: Rule::HealsTaken,
        ..held(Protocol::Classic, Read)
    };
    shortest_of("a reader heals taken", &world, EXCLUSION, 12);
}

#[test]
fn a_reader_that_counts_votes_after_its_old_end_is_revived() {
    let world = World {
        rule: Rule::CountsAfterTheEnd,
        ..held(Protocol::Classic, Read)
    };
    shortest_of("a reader counts after the end", &world, NO_REVIVAL, 14);
}

#[test]
fn a_reader_that_heals_where_it_sent_an_undo_may_lose_its_majority() {
    let world = World {
        rule: Rule::HealsUndone,
        patience: Patience::GivesUp,
        ..held(Protocol::Classic, Read)
    };
    shortest_of("a reader heals undone", &world, MAJORITY, 10);
}

#[test]
fn a_reader_that_is_granted_by_a_node_in_quarantine_breaks_exclusion() {
    let world = World {
        rule: Rule::ReadsInQuarantine,
        restarts: Restarts::AtAnyTime,
        ..world(Protocol::Fenced, [Lock, Read, Read], [1, 1, 0])
    };
    shortest_of("reads in quarantine", &world, EXCLUSION, 11);
}
