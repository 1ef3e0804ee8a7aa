//! What each node may have of a lock before and after a heal: each line of the table in `state/holding.rs`.

use std::sync::Arc;
use std::time::Duration;

use super::state::LeaseState;
use super::state::holding::{Holding, Holdings};
use crate::claim::Claim;
use crate::clock::{FakeClock, at};
use crate::cluster::Places;
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
    votes.map(KeyReport::of).into_iter().collect()
}

fn undone() -> Leftover {
    Undone(Receipt::answered(at(1_000)))
}

/// Begins to set the key on the second node.
#[track_caller]
fn begin(lease: &LeaseState) {
    assert!(lease.nodes(Holdings::take_healer), "nobody else heals");
    assert!(!lease.nodes(Holdings::take_healer));
    let begun = lease.nodes_if_held(|nodes| nodes.begin_heal(&[1]));
    assert_eq!(begun, Some(true), "it is held");
}

#[track_caller]
fn end(lease: &LeaseState, sent: Leftover) {
    let sent = [(1, sent)].into_iter();
    let ended = lease.nodes_if_held(|nodes| nodes.end_heal(sent));
    assert!(ended.is_some(), "it is held");
    lease.nodes(Holdings::return_healer);
}

fn counted(lease: &LeaseState) -> Places {
    lease.nodes(|nodes| nodes.counted())
}

fn to_heal(lease: &LeaseState, second: Vote) -> Places {
    lease.nodes(|nodes| nodes.to_heal(&votes(second)))
}

#[test]
fn a_heal_leaves_what_it_has_sent_and_nothing_where_it_has_sent_nothing() {
    for before in [None, Possible, undone()] {
        let kept = before.clone();
        for (sent, after) in [(None, kept), (Possible, Possible), (undone(), undone())] {
            let lease = lease(before.clone());
            begin(&lease);
            assert_eq!(*counted(&lease), [0]);
            let case = format!("{before:?}, {sent:?}");
            end(&lease, sent);
            assert!(lease.nodes(Holdings::take_healer));
            let counts = matches!(after, Possible);
            let expected: &[usize] = if counts { &[0, 1] } else { &[0] };
            assert_eq!(*counted(&lease), *expected, "{case}");
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
        let expected: &[usize] = if is_healed { &[1] } else { &[] };
        assert_eq!(*to_heal(&lease(before), vote), *expected, "{case}");
    }
}

#[test]
fn the_last_undo_decides_whether_a_node_is_healed() {
    let lease = lease(undone());
    let pending = Undone(Receipt::of_another_guard());
    for (sent, is_healed) in [(pending, false), (undone(), true)] {
        begin(&lease);
        end(&lease, sent);
        let healed = to_heal(&lease, Vote::NotAsked);
        assert_eq!(healed.contains(&1), is_healed);
    }
}

/// Two extensions run at the same time. The first has found the key on the second node. The second one finds none there, its heal
/// is undone, and a later heal sets the key again. In between, another client may have had the node.
#[test]
fn an_extension_from_before_an_undo_counts_no_key_that_was_set_after_it() {
    for (started, counts) in [(999, false), (1_000, false), (1_001, true)] {
        let lease = lease(Possible);
        for sent in [undone(), Possible] {
            begin(&lease);
            end(&lease, sent);
        }
        let mut nodes = votes(Vote::Granted);
        let round = at(started)..at(2_000);
        let extended = lease.apply(round, Duration::from_secs(20), Option::None, &mut nodes);
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
        begin(&lease);
        if has_ended {
            end(&lease, Possible);
        }
        let mut nodes = votes(Vote::NotAsked);
        let validity = Duration::from_secs(20);
        let extended = lease.apply(at(1)..at(2), validity, Option::None, &mut nodes);
        assert_unavailable(extended);
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
