//! Faults of fake nodes, as unit tests of users play them. No test here waits for real time.

use std::collections::BTreeSet;
use std::time::Duration;

use redlatch::fake::FakeNode;
use redlatch::{Error, LockManager, LossCause, NodeError, Vote};

use crate::fakes::clock::{TTL, assert_no_keys, cluster, ms};

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
fn a_refusing_minority_costs_nothing_and_a_majority_is_unavailable() {
    let (clock, nodes, manager) = cluster();
    for node in &nodes[..2] {
        node.refuse();
    }
    let votes = votes(&manager, "report");
    for vote in &votes[..2] {
        assert!(
            matches!(vote, Vote::Failed(NodeError::Connect { .. })),
            "{vote}"
        );
    }
    assert_eq!(clock.elapsed(), Duration::ZERO);

    nodes[2].refuse();
    let error = manager.try_lock("report", TTL).unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    for node in &nodes[..3] {
        assert!(error.to_string().contains(node.name()), "{error}");
    }
    // The message has it already.
    assert!(std::error::Error::source(&error).is_none());
    assert_no_keys(&nodes, "report");
}

#[track_caller]
fn assert_silent(vote: &Vote) {
    assert!(matches!(vote, Vote::Failed(NodeError::TimedOut)), "{vote}");
}

#[track_caller]
fn assert_left_out(vote: &Vote) {
    let is_left_out = matches!(vote, Vote::Failed(NodeError::BreakerOpen { .. }));
    assert!(is_left_out, "{vote}");
}

#[test]
fn a_hanging_node_costs_one_node_timeout_and_is_then_left_out() {
    let (clock, nodes, manager) = cluster();
    nodes[1].hang();
    assert_silent(&votes(&manager, "report")[1]);
    assert_eq!(clock.elapsed(), NODE_TIMEOUT);
    assert_left_out(&votes(&manager, "report")[1]);
    assert_eq!(clock.elapsed(), NODE_TIMEOUT);
}

#[test]
fn a_node_is_back_within_300_ms_of_its_recovery() {
    let (clock, nodes, manager) = cluster();
    nodes[1].hang();
    assert_silent(&votes(&manager, "report")[1]);
    clock.advance(Duration::from_secs(5));
    assert_left_out(&votes(&manager, "report")[1]);
    nodes[1].recover();
    clock.advance(ms(300));
    assert!(matches!(votes(&manager, "report")[1], Vote::Granted));
}

#[test]
fn what_a_hung_node_was_sent_leaves_no_key_when_it_goes_on() {
    let (_, nodes, manager) = cluster();
    nodes[0].hang();
    nodes[1].hang();
    for round in 0..20 {
        let resource = format!("report-{round}");
        drop(manager.try_lock(&resource, TTL).unwrap());
    }
    nodes[0].recover();
    nodes[1].recover();
    for round in 0..20 {
        assert_no_keys(&nodes, &format!("report-{round}"));
    }
}

#[test]
fn a_lost_reply_is_no_vote_and_leaves_no_key() {
    let (_, nodes, manager) = cluster();
    nodes[0].lose_replies();
    let guard = manager.try_lock("report", TTL).unwrap();
    assert_silent(&guard.votes()[0].vote);
    // The undo went behind the command.
    assert_eq!(nodes[0].token_of("report"), None);

    for node in &nodes[1..3] {
        node.lose_replies();
    }
    assert!(matches!(
        manager.try_lock("other", TTL),
        Err(Error::Unavailable { .. })
    ));
    assert_no_keys(&nodes, "other");
}

#[test]
fn a_late_reply_is_never_counted_for_a_later_command() {
    let (clock, nodes, manager) = cluster();
    for node in &nodes {
        node.delay(NODE_TIMEOUT + ms(1));
    }
    assert!(matches!(
        manager.try_lock("first", TTL),
        Err(Error::Unavailable { .. })
    ));
    for node in &nodes {
        node.recover();
        node.hold("second", "someone", TTL);
    }
    clock.advance(ms(1_000));
    // The late OKs of the first acquire are there by now, and must not be read as votes for the second.
    let error = manager.try_lock("second", TTL).unwrap_err();
    assert!(matches!(error, Error::Held { .. }), "{error}");
}

#[test]
fn an_acquire_that_is_too_slow_fails_although_every_node_said_yes() {
    let (_, nodes, manager) = cluster();
    for node in &nodes {
        node.delay(ms(40));
    }
    let error = manager.try_lock("report", ms(150)).unwrap_err();
    let Error::TooSlow {
        elapsed,
        nodes: reports,
        ..
    } = &error
    else {
        panic!("{error}");
    };
    assert_eq!(*elapsed, ms(200));
    assert!(
        reports
            .iter()
            .all(|report| matches!(report.vote, Vote::Granted))
    );
    assert_no_keys(&nodes, "report");
    // The time that the votes took is not in the validity.
    let guard = manager.try_lock("report", Duration::from_secs(1)).unwrap();
    assert!(guard.remaining() <= ms(1_000 - 200 - 12));
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
    assert_no_keys(&nodes, "report");
}

#[test]
fn every_attempt_has_a_fresh_token() {
    let (_, nodes, manager) = cluster();
    // Each attempt leaves its undo in the backlog of two hung nodes. With one token for all attempts, an undo of an
    // early attempt would delete the key of a later one.
    for node in &nodes[..3] {
        node.hang();
    }
    assert!(manager.try_lock_for("report", TTL, ms(500)).is_err());
    for node in &nodes[..3] {
        node.recover();
    }
    assert_no_keys(&nodes, "report");
    let first = manager.try_lock("report", TTL).unwrap();
    let token = first.token().to_owned();
    first.unlock().unwrap();
    let second = manager.try_lock("report", TTL).unwrap();
    assert_ne!(token, second.token());
}

#[test]
fn a_restart_without_memory_is_found_by_the_extension() {
    let (_, nodes, manager) = cluster();
    let guard = manager.try_lock("report", TTL).unwrap();
    nodes[..2].iter().for_each(FakeNode::restart);
    guard.extend(TTL).unwrap();
    assert_eq!(nodes[0].token_of("report").as_deref(), Some(guard.token()));
    nodes[..3].iter().for_each(FakeNode::restart);
    assert!(matches!(
        guard.extend(TTL),
        Err(Error::Lost {
            cause: LossCause::Vanished { .. },
            ..
        })
    ));
}

#[test]
fn a_restart_with_memory_loses_no_vote_and_no_lock() {
    let (_, nodes, manager) = cluster();
    let guard = manager.try_lock("report", TTL).unwrap();
    for node in &nodes {
        node.restart_persisted();
    }
    guard.extend(TTL).unwrap();
    assert!(
        votes(&manager, "other")
            .iter()
            .all(|vote| matches!(vote, Vote::Granted))
    );
    guard.unlock().unwrap();
    assert_no_keys(&nodes, "report");
}

#[test]
fn a_clock_that_jumps_ahead_expires_the_keys_of_its_node_only() {
    let (_, nodes, manager) = cluster();
    let _guard = manager.try_lock("report", TTL).unwrap();
    nodes[0].advance(TTL);
    assert_eq!(nodes[0].token_of("report"), None);
    assert_eq!(nodes[1].ttl_of("report"), Some(TTL));
    // What the classic protocol does not promise: with a majority of such clocks there are two holders.
    nodes[1].advance(TTL);
    nodes[2].advance(TTL);
    let other = LockManager::builder().fakes(&nodes).build().unwrap();
    assert!(other.try_lock("report", TTL).is_ok());
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
    assert_no_keys(&nodes, "report");
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
        assert_no_keys(&nodes, "report");
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
    let told: Vec<&str> = guard.votes().iter().map(|report| &*report.node).collect();
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
