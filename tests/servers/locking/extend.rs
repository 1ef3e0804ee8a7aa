//! Extending a lock.

use std::time::Duration;

use redlatch::fake::{FakeClock, FakeNode};
use redlatch::{Error, LockGuard, LockManager, LossCause};
use redlatch_testing::{Server, eventually};

use crate::managers::{invalid_field, patient};

const TTL: Duration = Duration::from_secs(10);

fn manager(servers: &[Server]) -> LockManager {
    patient(servers.iter().map(Server::url))
}

fn expired(cause: &LossCause) -> bool {
    matches!(cause, LossCause::Expired { .. })
}

fn taken(cause: &LossCause) -> bool {
    matches!(cause, LossCause::Taken { .. })
}

fn vanished(cause: &LossCause) -> bool {
    matches!(cause, LossCause::Vanished { .. })
}

#[track_caller]
fn assert_lost(result: Result<(), Error>, expected: fn(&LossCause) -> bool) {
    match result {
        Err(Error::Lost { cause, .. }) => assert!(expected(&cause), "{cause}"),
        other => panic!("{other:?}"),
    }
}

/// What a guard says once it is known to be lost.
#[track_caller]
fn assert_is_over(guard: &LockGuard, cause: fn(&LossCause) -> bool) {
    assert_eq!(guard.remaining(), Duration::ZERO);
    assert_lost(guard.check(), cause);
    assert_lost(guard.extend(TTL), cause);
}

#[test]
fn an_extension_resets_the_ttl_on_every_node_and_the_validity() {
    let servers = Server::cluster(5);
    let guard = manager(&servers).lock("report", TTL).unwrap();
    guard.extend(Duration::from_mins(1)).unwrap();
    for server in &servers {
        assert!((59_000..=60_000).contains(&server.pttl("report")));
    }
    assert!(guard.remaining() > Duration::from_secs(55));
    // 1 % and 2 ms are never promised.
    assert!(guard.remaining() < Duration::from_millis(59_398));
    guard.unlock().unwrap();
}

#[test]
fn an_extension_never_shortens() {
    let servers = Server::cluster(5);
    let guard = manager(&servers)
        .lock("report", Duration::from_mins(1))
        .unwrap();
    guard.extend(Duration::from_secs(1)).unwrap();
    for server in &servers {
        assert!(server.pttl("report") > 55_000);
    }
    assert!(guard.remaining() > Duration::from_secs(55));
}

#[test]
fn an_extension_after_expiry_is_lost_and_leaves_the_successor_alone() {
    let servers = Server::cluster(3);
    let manager = manager(&servers);
    let first = manager.lock("report", Duration::from_millis(80)).unwrap();
    let second = manager.lock("report", TTL).unwrap();
    assert_lost(first.extend(TTL), expired);
    assert_is_over(&first, expired);
    assert_lost(first.unlock(), expired);
    // A majority granted it; on the others the first lock may have expired a moment later, or they were slow to answer.
    let values: Vec<_> = servers.iter().filter_map(|s| s.get("report")).collect();
    assert!(values.len() >= 2, "{values:?}");
    assert!(values.iter().all(|value| value == second.token()));
    for server in &servers {
        assert!(server.pttl("report") <= 10_000);
    }
    second.unlock().unwrap();
}

#[test]
fn an_extension_of_a_lock_that_was_taken_is_lost_and_leaves_the_taker_alone() {
    let servers = Server::cluster(5);
    let guard = manager(&servers).lock("report", TTL).unwrap();
    for server in &servers[..3] {
        server.hold("report", "taker", 5_000);
    }
    assert_lost(guard.extend(Duration::from_mins(1)), taken);
    assert_is_over(&guard, taken);
    assert_lost(guard.unlock(), taken);
    for server in &servers[..3] {
        assert_eq!(server.get("report").as_deref(), Some("taker"));
        assert!(server.pttl("report") <= 5_000);
    }
    for server in &servers[3..] {
        assert_eq!(server.keys(), 0);
    }
}

#[test]
fn an_extension_of_a_lock_that_a_majority_forgot_is_lost_and_recreates_nothing() {
    let servers = Server::cluster(5);
    let guard = manager(&servers).lock("report", TTL).unwrap();
    for server in &servers[..3] {
        server.command(&["FLUSHALL"]);
    }
    assert_lost(guard.extend(TTL), vanished);
    assert_is_over(&guard, vanished);
    for server in &servers[..3] {
        assert_eq!(server.keys(), 0);
    }
    assert_lost(guard.unlock(), vanished);
}

#[test]
fn an_extension_with_a_minority_gone_succeeds() {
    let mut servers = Server::cluster(5);
    let guard = manager(&servers).lock("report", TTL).unwrap();
    servers[0].kill();
    servers[1].command(&["FLUSHALL"]);
    guard.extend(Duration::from_mins(1)).unwrap();
    assert!(guard.remaining() > Duration::from_secs(50));
    // It is set again there.
    assert!(servers[1].pttl("report") > 50_000);
    guard.unlock().unwrap();
    assert_eq!(servers[1].keys(), 0);
}

#[test]
fn a_failed_extension_deletes_nothing_and_the_lock_stays_ours_as_long_as_it_was() {
    let servers = Server::cluster(5);
    let builder = LockManager::builder().nodes(servers.iter().map(Server::url));
    let builder = builder.node_timeout(Duration::from_secs(2));
    let manager = builder.build().unwrap();
    let guard = manager.lock("report", Duration::from_mins(2)).unwrap();
    for server in &servers[..3] {
        server.stop();
    }
    let before = guard.remaining();
    let error = guard.extend(Duration::from_mins(5)).unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    guard.check().unwrap();
    assert!(guard.remaining() < before);
    for server in &servers[3..] {
        assert_eq!(server.get("report").as_deref(), Some(guard.token()));
    }
    for server in &servers[..3] {
        server.resume();
        assert_eq!(server.get("report").as_deref(), Some(guard.token()));
    }
    assert!(eventually(Duration::from_secs(30), || guard
        .extend(TTL)
        .is_ok()));
    guard.unlock().unwrap();
}

#[test]
fn an_extension_that_outlasts_the_lease_is_lost_whatever_the_nodes_say() {
    let clock = FakeClock::new();
    let nodes = FakeNode::cluster_on(3, &clock);
    let manager = LockManager::builder().fakes(&nodes).build().unwrap();
    let guard = manager
        .try_lock("report", Duration::from_millis(200))
        .unwrap();
    clock.advance(Duration::from_millis(180));
    // The nodes execute the extension in time, and say so after the lease has run out.
    for node in &nodes {
        node.delay(Duration::from_millis(40));
    }
    assert_lost(guard.extend(TTL), expired);
    assert_is_over(&guard, expired);
}

#[test]
fn an_extension_whose_own_validity_is_used_up_is_too_slow_and_changes_nothing() {
    let clock = FakeClock::new();
    let nodes = FakeNode::cluster_on(3, &clock);
    let manager = LockManager::builder().fakes(&nodes).build().unwrap();
    let guard = manager.try_lock("report", TTL).unwrap();
    for node in &nodes {
        node.delay(Duration::from_millis(40));
    }
    let before = guard.remaining();
    let error = guard.extend(Duration::from_millis(30)).unwrap_err();
    assert!(matches!(error, Error::TooSlow { .. }), "{error}");
    assert_eq!(
        guard.remaining(),
        before.saturating_sub(Duration::from_millis(40))
    );
}

#[test]
fn an_invalid_ttl_is_refused_and_asks_nobody() {
    let nodes = FakeNode::cluster(3);
    let manager = LockManager::builder().fakes(&nodes).build().unwrap();
    let guard = manager.try_lock("report", TTL).unwrap();
    for ttl in [
        Duration::ZERO,
        Duration::from_millis(2),
        Duration::from_hours(2),
        Duration::MAX,
    ] {
        assert_eq!(invalid_field(&guard.extend(ttl).unwrap_err()), "ttl");
    }
    assert!(nodes[0].ttl_of("report").unwrap() <= TTL);
    guard.check().unwrap();
}
