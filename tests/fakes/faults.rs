//! Faults of fake nodes, as unit tests of users play them. No test here waits for real time.

use std::time::Duration;

use redlatch::fake::FakeNode;
use redlatch::{Error, LockManager, NodeError, Vote};

use crate::managers::over_fakes;

const TTL: Duration = Duration::from_secs(10);
const NODE_TIMEOUT: Duration = Duration::from_millis(50);

/// Takes a lock and gives it back.
#[track_caller]
fn votes(manager: &LockManager, resource: &str) -> Vec<Vote> {
    let guard = manager.try_lock(resource, TTL).unwrap();
    guard
        .votes()
        .into_iter()
        .map(|report| report.vote)
        .collect()
}

fn is_silent(vote: &Vote) -> bool {
    matches!(vote, Vote::Failed(NodeError::TimedOut { .. }))
}

#[track_caller]
fn assert_no_key(nodes: &[FakeNode]) {
    assert!(nodes.iter().all(|node| node.token_of("report").is_none()));
}

#[test]
fn a_node_is_back_within_300_ms_of_its_recovery() {
    let (clock, nodes, manager) = over_fakes(5);
    nodes[1].hang();
    assert!(is_silent(&votes(&manager, "report")[1]));
    assert_eq!(clock.elapsed(), NODE_TIMEOUT);
    // It costs one time-out, and is left out from then on.
    clock.advance(Duration::from_secs(5));
    let before = clock.elapsed();
    let vote = &votes(&manager, "report")[1];
    let is_left_out = matches!(vote, Vote::Failed(NodeError::BreakerOpen { .. }));
    assert!(is_left_out, "{vote}");
    assert_eq!(clock.elapsed(), before);
    nodes[1].recover();
    clock.advance(Duration::from_millis(300));
    assert!(matches!(votes(&manager, "report")[1], Vote::Granted));
}

#[test]
fn nodes_that_failed_lately_are_asked_when_a_majority_needs_them() {
    let (clock, nodes, manager) = over_fakes(5);
    nodes[..2].iter().for_each(FakeNode::refuse);
    votes(&manager, "report");
    // Both are back, unknown to the manager, and one of the others has gone.
    nodes[..2].iter().for_each(FakeNode::recover);
    nodes[2].refuse();
    let votes = votes(&manager, "report");
    assert!(matches!(votes[2], Vote::Failed(_)), "{votes:?}");
    assert!(matches!(votes[0], Vote::Granted), "{votes:?}");
    assert_eq!(clock.elapsed(), Duration::ZERO);
}

#[test]
fn release_does_not_heed_the_breaker() {
    let (_, nodes, manager) = over_fakes(5);
    let guard = manager.try_lock("report", TTL).unwrap();
    // Another acquire opens the breaker of a node that has our key.
    nodes[0].lose_replies();
    assert!(is_silent(&votes(&manager, "other")[0]));
    nodes[0].recover();
    guard.unlock().unwrap();
    assert_no_key(&nodes);
}

#[test]
fn what_arrived_first_is_executed_first_whatever_fault_comes_next() {
    for next in [
        |node: &FakeNode| node.delay(NODE_TIMEOUT / 50),
        FakeNode::lose_replies,
    ] {
        let (_, nodes, manager) = over_fakes(5);
        nodes.iter().for_each(FakeNode::hang);
        assert!(manager.try_lock("report", TTL).is_err());
        nodes.iter().for_each(next);
        nodes.iter().for_each(FakeNode::recover);
        assert_no_key(&nodes);
    }
}

#[test]
fn a_restart_ends_every_fault_and_persisted_keys_stay() {
    let delay = |node: &FakeNode| node.delay(TTL);
    for fault in [
        FakeNode::refuse,
        FakeNode::hang,
        FakeNode::lose_replies,
        delay,
    ] {
        let restart: fn(&FakeNode) = FakeNode::restart;
        for (restart, keeps) in [(restart, false), (FakeNode::restart_persisted, true)] {
            let (_, nodes, manager) = over_fakes(3);
            for node in &nodes {
                node.hold("held", "another", TTL);
                fault(node);
                restart(node);
            }
            let votes = votes(&manager, "report");
            let is_granted = |vote: &Vote| matches!(vote, Vote::Granted);
            assert!(votes.iter().all(is_granted), "{votes:?}");
            let has_kept = |node: &FakeNode| node.ttl_of("held").is_some() == keeps;
            assert!(nodes.iter().all(has_kept));
        }
    }
}

#[test]
fn years_pass_at_once_also_with_nodes_that_are_down() {
    let (clock, nodes, manager) = over_fakes(5);
    nodes[0].hang();
    nodes[1].refuse();
    votes(&manager, "report");
    clock.advance(Duration::from_hours(24 * 365));
    clock.advance(Duration::MAX);
    let guard = manager.try_lock_for("report", TTL, TTL).unwrap();
    let other = manager.try_lock_for("report", TTL, TTL / 10);
    assert!(matches!(other, Err(Error::Held { .. })), "{other:?}");
    guard.check().unwrap();
    // A test that fails may show a node.
    assert!(format!("{:?}", nodes[0]).contains(nodes[0].name()));
}
