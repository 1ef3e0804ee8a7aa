//! Connections that something on the way has forgotten: what is sent on them arrives nowhere, and nobody says so. A NAT or a load
//! balancer does that after some minutes without a byte.

use std::thread;
use std::time::Duration;

use redlatch::{Error, LockGuard, LockManager, Severity, Vote};
use redlatch_testing::{Proxy, Server, eventually, pause};

use crate::servers::faults::nodes::{BOUND, assert_nothing_left};
use crate::servers::faults::replies::side_by_side_all;

/// Longer than any test.
const TTL: Duration = Duration::from_hours(1);
/// A connection that was idle for so long and is silent then is not trusted.
const IDLE: Duration = Duration::from_millis(1_100);

/// Three servers, each behind a proxy.
fn behind_proxies() -> (Vec<Server>, Vec<Proxy>, LockManager) {
    let servers = Server::cluster(3);
    let proxies: Vec<_> = servers
        .iter()
        .map(|server| Proxy::start(server.port()))
        .collect();
    let builder = LockManager::builder().nodes(proxies.iter().map(Proxy::url));
    // Each silent connection costs a call this much.
    let builder = builder.node_timeout(Duration::from_secs(2)).max_ttl(TTL);
    (servers, proxies, builder.build().unwrap())
}

/// A client with connections of its own.
fn behind(servers: &[Server]) -> LockManager {
    let builder = LockManager::builder().nodes(servers.iter().map(Server::url));
    builder.max_ttl(TTL).build().unwrap()
}

#[test]
fn a_lock_whose_connections_were_forgotten_is_released() {
    let (servers, proxies, manager) = behind_proxies();
    for end in [|guard: LockGuard| guard.unlock().unwrap(), drop] {
        let guard = manager.try_lock("job", TTL).unwrap();
        proxies.iter().for_each(Proxy::forget);
        end(guard);
        assert!(servers.iter().all(|server| server.keys() == 0));
    }
    let stats = manager.stats();
    assert_eq!((stats.released, stats.lost), (2, 0), "{stats}");

    // Many at once, and one that passes to another thread.
    let lock = |number| manager.try_lock(&format!("job {number}"), TTL).unwrap();
    let guards: Vec<LockGuard> = (0..64).map(lock).collect();
    proxies.iter().for_each(Proxy::forget);
    side_by_side_all(guards, drop);
    assert_nothing_left(&servers);

    let guard = manager.try_lock("job", TTL).unwrap();
    thread::scope(|scope| {
        let next = scope.spawn(|| manager.lock("job", TTL).unwrap());
        assert!(eventually(BOUND, || manager.stats().queued == 1));
        proxies.iter().for_each(Proxy::forget);
        drop(guard);
        let next = next.join().unwrap();
        next.check().unwrap();
        next.unlock().unwrap();
    });
    assert_nothing_left(&servers);
}

#[test]
fn an_extension_and_the_look_of_an_operator_find_new_connections() {
    let (_servers, proxies, manager) = behind_proxies();
    let guard = manager.try_lock("job", TTL / 2).unwrap();
    let forget = || {
        proxies.iter().for_each(Proxy::forget);
        pause(IDLE);
    };
    forget();
    guard.extend(TTL).unwrap();
    forget();
    let status = manager.status("job").unwrap();
    let is_held = |vote: &Vote| matches!(vote, Vote::Held { .. });
    let mut nodes = status.nodes().iter();
    assert!(nodes.all(|node| is_held(&node.vote)), "{status}");
    forget();
    let health = manager.health().unwrap();
    assert!(health.severity < Severity::Critical, "{health}");
    guard.unlock().unwrap();
}

#[test]
fn an_acquire_goes_again_on_new_connections_with_a_new_token_and_leaves_no_key() {
    let (servers, proxies, manager) = behind_proxies();
    let forget = || {
        proxies.iter().for_each(Proxy::forget);
        pause(IDLE);
    };
    let warm = manager.try_lock("job", TTL).unwrap();
    let first = warm.token().to_owned();
    warm.unlock().unwrap();
    let readers = manager.rw_lock("book").ttl(TTL);
    let permits = manager.semaphore("seats", 2).ttl(TTL);
    // The looks at a semaphore have found out before its first attempt.
    for (kind, attempts) in [("lock", 2), ("read", 2), ("permit", 1)] {
        forget();
        let before = manager.stats().attempts;
        let guard = match kind {
            "lock" => manager.try_lock("job", TTL),
            "read" => readers.try_read(),
            _ => permits.try_lock(),
        };
        let guard = guard.unwrap();
        assert_eq!(manager.stats().attempts, before + attempts, "{kind}");
        assert_ne!(guard.token(), first);
        guard.unlock().unwrap();
        assert_nothing_left(&servers);
    }
    // A holder elsewhere, whom a majority of votes would not overrule.
    let holder = behind(&servers);
    let theirs = holder.try_lock("job", TTL).unwrap();
    forget();
    let error = manager.try_lock("job", TTL).unwrap_err();
    assert!(matches!(error, Error::Held { .. }), "{error}");
    theirs.unlock().unwrap();
    assert_nothing_left(&servers);
}

#[test]
fn an_acquire_at_servers_that_stand_still_goes_again_once() {
    let (servers, _proxies, manager) = behind_proxies();
    manager.try_lock("job", TTL).unwrap().unlock().unwrap();
    pause(IDLE);
    servers.iter().for_each(Server::stop);
    let error = manager.try_lock("job", TTL).unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    assert_eq!(manager.stats().attempts, 3);
    // All undos of both attempts arrive.
    servers.iter().for_each(Server::resume);
    assert_nothing_left(&servers);
}
