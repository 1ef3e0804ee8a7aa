//! The fake nodes, as unit tests of users see them. No test here waits for real time.

use std::time::Duration;

use redlatch::fake::{FakeClock, FakeNode};
use redlatch::{Error, LockManager, LossCause, NodeError, Vote};

const TTL: Duration = Duration::from_secs(10);
const NODE_TIMEOUT: Duration = Duration::from_millis(50);

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Five nodes on a clock, and a manager over them.
fn cluster() -> (FakeClock, Vec<FakeNode>, LockManager) {
    let clock = FakeClock::new();
    let nodes = FakeNode::cluster_on(5, &clock);
    let manager = LockManager::builder().fakes(&nodes).build().unwrap();
    (clock, nodes, manager)
}

fn votes(manager: &LockManager, resource: &str) -> Vec<Vote> {
    let guard = manager.try_lock(resource, TTL).unwrap();
    guard
        .votes()
        .iter()
        .map(|report| report.vote.clone())
        .collect()
}

#[track_caller]
fn assert_no_keys(nodes: &[FakeNode], resource: &str) {
    for node in nodes {
        assert_eq!(node.token_of(resource), None, "{node:?}");
    }
}

#[test]
fn the_token_and_the_ttl_are_on_every_node() {
    let (_, nodes, manager) = cluster();
    let guard = manager.try_lock("report", TTL).unwrap();
    for node in &nodes {
        assert_eq!(node.token_of("report").as_deref(), Some(guard.token()));
        assert_eq!(node.ttl_of("report"), Some(TTL));
    }
    // Exactly the ttl less 1 % and 2 ms, because no time has passed, and 100 ns for rounding.
    assert_eq!(guard.remaining() + Duration::from_nanos(100), ms(9_898));
    guard.unlock().unwrap();
    assert_no_keys(&nodes, "report");
}

#[test]
fn the_lease_runs_out_without_sleeping() {
    let (clock, nodes, manager) = cluster();
    let guard = manager.try_lock("report", TTL).unwrap();
    clock.advance(ms(9_897));
    guard.check().unwrap();
    clock.advance(ms(1));
    assert!(matches!(
        guard.check(),
        Err(Error::Lost {
            cause: LossCause::Expired { .. },
            ..
        })
    ));
    // The nodes still have it for the drift that the guard does not claim.
    assert!(matches!(
        manager.try_lock("report", TTL),
        Err(Error::Held { .. })
    ));
    clock.advance(ms(102));
    assert_no_keys(&nodes, "report");
    manager.try_lock("report", TTL).unwrap().unlock().unwrap();
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
fn a_foreign_holder_is_respected_until_it_expires() {
    let (clock, nodes, manager) = cluster();
    for node in &nodes[..3] {
        node.hold("report", "someone", ms(700));
    }
    let Err(Error::Held { nodes: reports, .. }) = manager.try_lock("report", TTL) else {
        panic!("a second holder");
    };
    assert!(matches!(reports[0].vote, Vote::Held { remaining: Some(left), .. } if left == ms(700)));
    // The wait is on the same clock, so it takes no time here.
    let guard = manager.lock("report", TTL).unwrap();
    assert!(clock.elapsed() >= ms(700) && clock.elapsed() <= ms(700 + 250));
    assert_eq!(nodes[0].token_of("report").as_deref(), Some(guard.token()));
}

#[test]
fn those_who_wait_look_a_retry_delay_apart_and_ask_when_the_key_has_expired() {
    let clock = FakeClock::new();
    let nodes = FakeNode::cluster_on(3, &clock);
    let builder = LockManager::builder().fakes(&nodes);
    let manager = builder.retry_delay(ms(100), ms(100)).build().unwrap();
    for node in &nodes {
        node.hold("report", "another", ms(950));
    }
    let _guard = manager.lock("report", TTL).unwrap();
    // Not at 1,000, a delay after the last look, but when the key has to be gone, and 2 ms later.
    assert_eq!(clock.elapsed(), ms(952));
}

#[test]
fn a_key_that_is_left_over_on_the_first_node_is_in_the_way_for_eight_looks() {
    let clock = FakeClock::new();
    let nodes = FakeNode::cluster_on(3, &clock);
    let builder = LockManager::builder().fakes(&nodes);
    let manager = builder.retry_delay(ms(100), ms(100)).build().unwrap();
    nodes[0].hold("report", "nobody", ms(60_000));
    for node in &nodes[1..] {
        node.hold("report", "another", ms(10));
    }
    let guard = manager.lock("report", TTL).unwrap();
    assert_eq!(clock.elapsed(), ms(800));
    assert!(matches!(guard.votes()[0].vote, Vote::Held { .. }));
}

#[test]
fn waiting_ends_at_the_acquire_timeout() {
    let clock = FakeClock::new();
    let nodes = FakeNode::cluster_on(3, &clock);
    let manager = LockManager::builder()
        .fakes(&nodes)
        .acquire_timeout(Duration::from_secs(3))
        .build()
        .unwrap();
    let _guard = manager.lock("report", TTL).unwrap();
    assert!(matches!(
        manager.lock("report", TTL),
        Err(Error::Held { .. })
    ));
    assert_eq!(clock.elapsed(), Duration::from_secs(3));
    let wait = ms(500);
    assert!(matches!(
        manager.try_lock_for("report", TTL, wait),
        Err(Error::Held { .. })
    ));
    assert_eq!(clock.elapsed(), ms(3_500));
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
fn years_pass_at_once_also_with_nodes_that_are_down() {
    let (clock, nodes, manager) = cluster();
    nodes[0].hang();
    nodes[1].refuse();
    drop(manager.try_lock("report", TTL).unwrap());
    for _ in 0..3 {
        clock.advance(Duration::from_hours(24 * 365));
    }
    clock.advance(Duration::MAX);
    let wait = Duration::from_secs(1);
    let guard = manager.try_lock_for("report", TTL, wait).unwrap();
    assert!(matches!(
        manager.try_lock_for("report", TTL, wait),
        Err(Error::Held { .. })
    ));
    guard.check().unwrap();
}

#[test]
fn real_time_nodes_need_no_clock() {
    let nodes = FakeNode::cluster(3);
    let manager = LockManager::builder().fakes(&nodes).build().unwrap();
    let guard = manager.lock("report", TTL).unwrap();
    let waiter = std::thread::spawn({
        let manager = manager.clone();
        move || {
            manager
                .lock("report", TTL)
                .map(|guard| guard.token().to_owned())
        }
    });
    let token = guard.token().to_owned();
    guard.unlock().unwrap();
    assert_ne!(waiter.join().unwrap().unwrap(), token);
}
