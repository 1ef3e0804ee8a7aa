//! What each node may have of a lock before and after a heal: each line of the table in `state/holding.rs`.

use std::sync::Arc;
use std::time::Duration;

use super::state::LeaseState;
use super::state::holding::Holding;
use crate::claim::Claim;
use crate::clock::{FakeClock, at};
use crate::error::{Error, NodeError, Vote};
use crate::node::Leftover::{self, None, Possible, Undone};
use crate::node::Receipt;
use crate::node::key_report::{KeyReport, KeyReports};

/// A lock that has left `second` on its second node, and on its third node an undo that is never answered.
fn lease(second: Leftover) -> Arc<LeaseState> {
    let nodes = [Possible, second, Undone(Receipt::of_another_guard())];
    let lease = LeaseState::on(&FakeClock::new(), Claim::of_key("job"), nodes, at(10_000));
    Arc::new(lease)
}

fn votes(second: Vote) -> KeyReports {
    let votes = [Vote::Granted, second, Vote::NotAsked];
    votes.map(KeyReport::unasked).into_iter().collect()
}

fn undone() -> Leftover {
    Undone(Receipt::answered(at(1_000)))
}

#[test]
fn a_heal_leaves_what_it_has_sent_and_nothing_where_it_has_sent_nothing() {
    for before in [None, Possible, undone()] {
        let kept = before.clone();
        for (sent, after) in [(None, kept), (Possible, Possible), (undone(), undone())] {
            let lease = lease(before.clone());
            let healer = lease.take_healer().expect("nobody else heals");
            assert!(lease.take_healer().is_none());
            assert!(healer.begin(&[1]), "it is held");
            assert_eq!(*lease.counted(), [0]);
            let case = format!("{before:?}, {sent:?}");
            assert!(!healer.end([(1, sent)].into_iter()));
            assert!(lease.take_healer().is_some());
            let counts = matches!(after, Possible);
            let counted: &[usize] = if counts { &[0, 1] } else { &[0] };
            assert_eq!(*lease.counted(), *counted, "{case}");
            let expected = [Possible, after, undone()].map(|left| Holding::from(&left));
            assert_eq!(*lease.end().nodes, expected, "{case}");
        }
    }
}

#[test]
fn a_node_is_healed_if_it_has_no_key_and_no_undo_is_under_way() {
    for (before, vote, is_healed) in [
        (None, Vote::NotAsked, true),
        (Possible, Vote::Missing, true),
        (Possible, Vote::NotAsked, false),
        (undone(), Vote::NotAsked, true),
        // Another extension has asked it before the undo.
        (undone(), Vote::Missing, false),
        (Undone(Receipt::of_another_guard()), Vote::NotAsked, false),
    ] {
        let case = format!("{before:?}, {vote}");
        let healer = lease(before).take_healer().unwrap();
        let wanted: &[usize] = if is_healed { &[1] } else { &[] };
        assert_eq!(*healer.wanted(&votes(vote)), *wanted, "{case}");
    }
}

#[test]
fn the_last_undo_decides_whether_a_node_is_healed() {
    let lease = lease(undone());
    let pending = Undone(Receipt::of_another_guard());
    for (sent, is_healed) in [(pending, false), (undone(), true)] {
        let healer = lease.take_healer().unwrap();
        assert!(healer.begin(&[1]));
        assert!(!healer.end([(1, sent)].into_iter()));
        let wanted = lease.take_healer().unwrap().wanted(&votes(Vote::NotAsked));
        assert_eq!(wanted.contains(&1), is_healed);
    }
}

/// Two extensions run at the same time. The first has found the key on the second node. The second one finds none there, its heal
/// is undone, and a later heal sets the key again. In between, another client may have had the node.
#[test]
fn an_extension_from_before_an_undo_counts_no_key_that_was_set_after_it() {
    for (started, counts) in [(999, false), (1_000, false), (1_001, true)] {
        let lease = lease(Possible);
        for sent in [undone(), Possible] {
            let healer = lease.take_healer().unwrap();
            assert!(healer.begin(&[1]));
            assert!(!healer.end([(1, sent)].into_iter()));
        }
        let mut nodes = votes(Vote::Granted);
        let round = at(started)..at(2_000);
        let extended = lease.extended(round, Duration::from_secs(20), Option::None, &mut nodes);
        if counts {
            extended.unwrap();
        } else {
            assert_unavailable(extended);
        }
    }
}

/// The second node was left out of the extension, another one heals it meanwhile, and the third node lacks the key.
#[test]
fn a_node_that_is_healed_meanwhile_is_no_node_without_the_key() {
    for has_ended in [true, false] {
        let lease = lease(None);
        let healer = lease.take_healer().unwrap();
        assert!(healer.begin(&[1]));
        let healer = if has_ended {
            assert!(!healer.end([(1, Possible)].into_iter()));
            Option::None
        } else {
            Some(healer)
        };
        let mut nodes = votes(Vote::NotAsked);
        let validity = Duration::from_secs(20);
        let extended = lease.extended(at(1)..at(2), validity, Option::None, &mut nodes);
        assert_unavailable(extended);
        drop(healer);
        lease.check().unwrap();
    }
}

#[track_caller]
fn assert_unavailable(extended: Result<(), Error>) {
    let Err(Error::Unavailable { nodes, .. }) = extended else {
        panic!("{extended:?}");
    };
    let vote = &nodes[1].vote;
    assert!(
        matches!(vote, Vote::Failed(NodeError::TimedOut { .. })),
        "{vote}"
    );
}
