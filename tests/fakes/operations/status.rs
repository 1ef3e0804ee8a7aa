//! `LockManager::status`: what it tells about a lock. It changes nothing.

use std::time::Duration;

use redlatch::fake::{FakeClock, FakeNode};
use redlatch::{Error, LockManager, LockStatus, NodeError, NodeReport, Vote};

use crate::managers::invalid_field;

pub(crate) const TTL: Duration = Duration::from_secs(10);
const NODE_TIMEOUT: Duration = Duration::from_millis(50);

pub(crate) fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn cluster(n: usize) -> (FakeClock, Vec<FakeNode>, LockManager) {
    let clock = FakeClock::new();
    let nodes = FakeNode::cluster_on(n, &clock);
    let manager = LockManager::builder().fakes(&nodes).build().unwrap();
    (clock, nodes, manager)
}

/// Who holds it and for how long, to the 100 ns that the drift is rounded up by.
#[track_caller]
pub(crate) fn holder(status: &LockStatus) -> (&str, Duration) {
    let LockStatus::Held {
        token, remaining, ..
    } = status
    else {
        panic!("{status}");
    };
    (token, *remaining)
}

#[track_caller]
pub(crate) fn assert_free(status: &LockStatus) {
    assert!(matches!(status, LockStatus::Free { .. }), "{status}");
}

#[track_caller]
pub(crate) fn assert_blocked(status: &LockStatus) {
    assert!(matches!(status, LockStatus::Blocked { .. }), "{status}");
}

#[track_caller]
pub(crate) fn assert_unknown(status: &LockStatus) {
    assert!(matches!(status, LockStatus::Unknown { .. }), "{status}");
}

fn is_silent(node: &NodeReport) -> bool {
    matches!(node.vote, Vote::Failed(NodeError::TimedOut))
}

pub(crate) fn is_held(node: &NodeReport) -> bool {
    matches!(node.vote, Vote::Held { .. })
}

/// The keys with what they have left.
fn keys(nodes: &[FakeNode], resource: &str) -> Vec<(Option<String>, Option<Duration>)> {
    let key = |node: &FakeNode| (node.token_of(resource), node.ttl_of(resource));
    nodes.iter().map(key).collect()
}

#[test]
fn a_lock_is_free_then_held_by_its_guard_for_what_the_guard_says_then_free_again() {
    let (clock, _, manager) = cluster(5);
    assert_free(&manager.status("report").unwrap());
    let guard = manager.lock("report", TTL).unwrap();
    let status = manager.status("report").unwrap();
    assert_eq!(holder(&status), (guard.token(), guard.remaining()));
    assert!(status.nodes().iter().all(is_held));

    // What is left has less of a drift than the whole had.
    clock.advance(Duration::from_secs(5));
    let status = manager.status("report").unwrap();
    assert_eq!(holder(&status).1 + Duration::from_nanos(100), ms(4_948));
    assert!(holder(&status).1 > guard.remaining());

    guard.unlock().unwrap();
    assert_free(&manager.status("report").unwrap());
}

#[test]
fn another_managers_lock_and_another_programs_lock_are_seen_alike() {
    let (_, nodes, manager) = cluster(3);
    let other = LockManager::builder().fakes(&nodes).build().unwrap();
    let guard = other.lock("report", TTL).unwrap();
    assert_eq!(holder(&manager.status("report").unwrap()).0, guard.token());
    for node in &nodes {
        node.hold("job", "{\"host\":\"a\"}", TTL);
    }
    assert_eq!(
        holder(&manager.status("job").unwrap()).0,
        "{\"host\":\"a\"}"
    );
}

#[test]
fn split_votes_and_a_minority_that_blocks_are_nobodys_and_not_to_be_had() {
    let (clock, nodes, manager) = cluster(4);
    for (node, token) in nodes.iter().zip(["a", "a", "b", "b"]) {
        node.hold("split", token, TTL);
    }
    for node in &nodes[..2] {
        node.hold("half", "a", TTL);
    }
    for resource in ["split", "half"] {
        assert_blocked(&manager.status(resource).unwrap());
        let refused = manager.try_lock(resource, TTL);
        assert!(matches!(refused, Err(Error::Held { .. })), "{refused:?}");
    }
    clock.advance(TTL);
    for resource in ["split", "half"] {
        assert_free(&manager.status(resource).unwrap());
    }
}

#[test]
fn a_lock_whose_lease_is_over_is_held_for_nothing_until_its_keys_are_gone() {
    let (clock, _, manager) = cluster(3);
    let guard = manager.lock("report", TTL).unwrap();
    clock.advance(ms(9_999));
    guard.check().unwrap_err();
    let status = manager.status("report").unwrap();
    assert_eq!(holder(&status), (guard.token(), Duration::ZERO));
    assert!(matches!(
        manager.try_lock("report", TTL),
        Err(Error::Held { .. })
    ));
    clock.advance(ms(1));
    assert_free(&manager.status("report").unwrap());
}

#[test]
fn a_minority_that_is_down_hides_nothing_and_a_majority_leaves_it_unknown() {
    let (_, nodes, manager) = cluster(5);
    let guard = manager.lock("report", TTL).unwrap();
    for node in &nodes[..2] {
        node.refuse();
    }
    assert_eq!(holder(&manager.status("report").unwrap()).0, guard.token());
    assert_free(&manager.status("other").unwrap());

    nodes[2].refuse();
    for resource in ["report", "other"] {
        let status = manager.status(resource).unwrap();
        assert_unknown(&status);
        // Asked once more, because the others are no majority.
        for node in &status.nodes()[..3] {
            let refused = matches!(node.vote, Vote::Failed(NodeError::Connect { .. }));
            assert!(refused, "{node}");
        }
        assert!(status.to_string().contains(nodes[0].name()), "{status}");
    }
}

#[test]
fn a_hung_node_costs_one_node_timeout_and_is_then_left_out_unless_it_is_needed() {
    let (clock, nodes, manager) = cluster(5);
    let guard = manager.lock("report", TTL).unwrap();
    nodes[1].hang();
    let status = manager.status("report").unwrap();
    assert!(is_silent(&status.nodes()[1]), "{status}");
    assert_eq!(clock.elapsed(), NODE_TIMEOUT);
    let status = manager.status("report").unwrap();
    let node = status.nodes()[1].to_string();
    assert!(node.contains("left out, it failed a moment ago: no answer"));
    assert_eq!(holder(&status).0, guard.token());
    assert_eq!(clock.elapsed(), NODE_TIMEOUT);

    // Two, two and one that may decide.
    for (node, token) in [(0, "a"), (2, "a"), (3, "b")] {
        nodes[node].hold("close", token, TTL);
    }
    let status = manager.status("close").unwrap();
    assert!(is_silent(&status.nodes()[1]), "{status}");
    assert_unknown(&status);
    assert_eq!(clock.elapsed(), NODE_TIMEOUT * 2);
}

#[test]
fn all_nodes_are_asked_before_any_reply_is_read() {
    let (clock, nodes, manager) = cluster(5);
    for node in &nodes {
        node.delay(ms(30));
    }
    assert_free(&manager.status("report").unwrap());
    assert_eq!(clock.elapsed(), ms(30));
}

#[test]
fn bad_names_are_refused_as_for_a_lock_and_the_prefix_counts() {
    let (_, nodes, manager) = cluster(3);
    for name in [String::new(), "x".repeat(64 * 1024 + 1)] {
        let refused = manager.status(&name);
        assert_eq!(invalid_field(&refused.unwrap_err()), "resource");
    }
    assert_free(&manager.status("line\r\nSET x y\r\n").unwrap());
    let builder = LockManager::builder().fakes(&nodes).key_prefix("app:");
    let prefixed = builder.build().unwrap();
    let guard = prefixed.lock("report", TTL).unwrap();
    assert_eq!(holder(&prefixed.status("report").unwrap()).0, guard.token());
    assert_eq!(
        holder(&manager.status("app:report").unwrap()).0,
        guard.token()
    );
    assert_free(&manager.status("report").unwrap());
}

#[test]
fn to_look_changes_no_key_no_time_and_no_answer_to_others() {
    let (clock, nodes, manager) = cluster(5);
    let guard = manager.lock("report", TTL).unwrap();
    nodes[4].hold("report", "someone else", TTL);
    let before = keys(&nodes, "report");
    for _ in 0..100 {
        holder(&manager.status("report").unwrap());
        assert_free(&manager.status("other").unwrap());
    }
    assert_eq!(keys(&nodes, "report"), before);
    assert_eq!(keys(&nodes, "other"), vec![(None, None); 5]);
    assert_eq!(clock.elapsed(), Duration::ZERO);
    guard.extend(TTL * 2).unwrap();
    guard.unlock().unwrap();
}

/// Of two slots, one is on the nodes that did not fail, and the other one, in either place, is not.
#[test]
fn a_node_that_was_left_out_is_asked_where_any_of_the_locks_needs_it() {
    for (decided, undecided) in [(0, 1), (1, 0)] {
        let (_, nodes, manager) = cluster(3);
        for (slot, places) in [(decided, [1, 2]), (undecided, [0, 1])] {
            for place in places {
                let key = format!("jobs:redlatch:slot:{slot}");
                nodes[place].hold(&key, &format!("of-slot-{slot}"), TTL);
            }
        }
        nodes[0].refuse();
        drop(manager.try_lock("another", TTL).unwrap());
        nodes[0].recover();
        let status = manager.semaphore_status("jobs", 2).unwrap();
        for slot in &status {
            assert!(matches!(slot, LockStatus::Held { .. }), "{status:?}");
        }
    }
}
