//! Faults of fake nodes, as unit tests of users play them. No test here waits for real time.

use std::collections::BTreeSet;
use std::time::Duration;

use redlatch::fake::FakeNode;
use redlatch::{Error, LockManager, NodeError, Vote};

use crate::fakes::keeping::schedule::{TTL, cluster, count, ms};

const NODE_TIMEOUT: Duration = Duration::from_millis(50);

fn votes(manager: &LockManager, resource: &str) -> Vec<Vote> {
    let guard = manager.try_lock(resource, TTL).unwrap();
    guard
        .votes()
        .iter()
        .map(|report| report.vote.clone())
        .collect()
}

#[test]
fn a_node_is_back_within_300_ms_of_its_recovery() {
    let (clock, nodes, manager) = cluster();
    nodes[1].hang();
    assert_silent(&votes(&manager, "report")[1]);
    assert_eq!(clock.elapsed(), NODE_TIMEOUT);
    // It costs one time-out, and is left out from then on.
    clock.advance(Duration::from_secs(5));
    let before = clock.elapsed();
    let vote = &votes(&manager, "report")[1];
    let is_left_out = matches!(vote, Vote::Failed(NodeError::BreakerOpen { .. }));
    assert!(is_left_out, "{vote}");
    assert_eq!(clock.elapsed(), before);
    nodes[1].recover();
    clock.advance(ms(300));
    assert!(matches!(votes(&manager, "report")[1], Vote::Granted));
}

#[track_caller]
fn assert_silent(vote: &Vote) {
    assert!(matches!(vote, Vote::Failed(NodeError::TimedOut)), "{vote}");
}

#[test]
fn an_acquire_that_was_too_slow_is_tried_again_until_the_time_is_over() {
    let (clock, nodes, manager) = cluster();
    for node in &nodes {
        node.delay(ms(40));
    }
    let error = manager
        .try_lock_for("report", ms(150), Duration::from_secs(2))
        .unwrap_err();
    assert!(matches!(error, Error::TooSlow { .. }), "{error}");
    assert!(clock.elapsed() >= Duration::from_secs(2));
    assert_eq!(count(&nodes, "report"), 0);
}

#[test]
fn nodes_that_failed_lately_are_asked_when_a_majority_needs_them() {
    let (clock, nodes, manager) = cluster();
    nodes[0].refuse();
    nodes[1].refuse();
    drop(manager.try_lock("report", TTL).unwrap());
    // Both are back, unknown to the manager, and one of the others has gone.
    nodes[0].recover();
    nodes[1].recover();
    nodes[2].refuse();
    let votes = votes(&manager, "report");
    assert!(matches!(votes[2], Vote::Failed(_)), "{votes:?}");
    assert!(matches!(votes[0], Vote::Granted), "{votes:?}");
    assert_eq!(clock.elapsed(), Duration::ZERO);
}

#[test]
fn release_does_not_heed_the_breaker() {
    let (_, nodes, manager) = cluster();
    let guard = manager.try_lock("report", TTL).unwrap();
    // Another acquire opens the breaker of a node that has our key.
    nodes[0].lose_replies();
    assert_silent(&votes(&manager, "other")[0]);
    nodes[0].recover();
    guard.unlock().unwrap();
    assert_eq!(count(&nodes, "report"), 0);
}

#[test]
fn what_arrived_first_is_executed_first_whatever_fault_comes_next() {
    let next: [fn(&FakeNode); 2] = [|node| node.delay(ms(1)), FakeNode::lose_replies];
    for next in next {
        let (_, nodes, manager) = cluster();
        for node in &nodes {
            node.hang();
        }
        assert!(manager.try_lock("report", TTL).is_err());
        for node in &nodes {
            next(node);
            node.recover();
        }
        assert_eq!(count(&nodes, "report"), 0);
    }
}

#[test]
fn a_restart_ends_every_fault_and_persisted_keys_stay() {
    let faults = [
        FakeNode::refuse,
        FakeNode::hang,
        FakeNode::lose_replies,
        |node: &FakeNode| node.delay(TTL),
    ];
    for fault in faults {
        for (is_persisted, keys) in [(false, 0), (true, 3)] {
            let (_, nodes, manager) = cluster();
            for node in &nodes {
                node.hold("held", "someone else", TTL);
            }
            for node in &nodes[..3] {
                fault(node);
                if is_persisted {
                    node.restart_persisted();
                } else {
                    node.restart();
                }
            }
            let votes = votes(&manager, "report");
            let all_granted = votes.iter().all(|vote| matches!(vote, Vote::Granted));
            assert!(all_granted, "{votes:?}");
            let restarted = nodes[..3].iter();
            assert_eq!(
                restarted.filter_map(|node| node.ttl_of("held")).count(),
                keys
            );
        }
    }
}

#[test]
fn each_vote_has_the_name_of_its_node_and_no_two_nodes_have_the_same() {
    let (_, nodes, manager) = cluster();
    let guard = manager.try_lock("report", TTL).unwrap();
    let votes = guard.votes();
    let told: Vec<&str> = votes.iter().map(|report| &*report.node).collect();
    let names: Vec<&str> = nodes.iter().map(FakeNode::name).collect();
    assert_eq!(told, names);
    assert!(names.iter().all(|name| name.starts_with("fake-")));
    let different: BTreeSet<&str> = names.iter().copied().collect();
    assert_eq!(different.len(), nodes.len());
    // Also where a test that failed shows a node.
    assert!(
        nodes
            .iter()
            .all(|node| format!("{node:?}").contains(node.name()))
    );
}
