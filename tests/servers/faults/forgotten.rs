//! Connections that something on the way has forgotten: what is sent on them arrives nowhere, and nobody says so. A NAT or a load
//! balancer does that after some minutes without a byte.

use std::thread;
use std::time::Duration;

use redlatch::{Builder, LockGuard, LockManager, Severity, Vote};
use redlatch_testing::{Proxy, Server, eventually, pause};

/// Longer than any test.
const TTL: Duration = Duration::from_hours(1);
const BOUND: Duration = Duration::from_mins(1);
/// A connection that was idle for so long and is silent then is not trusted.
const IDLE: Duration = Duration::from_millis(1_100);
/// Each silent connection costs a call this much.
const NODE_TIMEOUT: Duration = Duration::from_millis(500);

/// Three servers, each behind a proxy.
struct Scene {
    servers: Vec<Server>,
    proxies: Vec<Proxy>,
}

impl Scene {
    fn new() -> Self {
        let servers = Server::cluster(3);
        let proxies = servers.iter().map(|server| Proxy::start(server.port()));
        let proxies = proxies.collect();
        Self { servers, proxies }
    }

    fn builder(&self) -> Builder {
        let urls = self.proxies.iter().map(Proxy::url);
        LockManager::builder()
            .nodes(urls)
            .node_timeout(NODE_TIMEOUT)
            .max_ttl(TTL)
    }

    fn manager(&self) -> LockManager {
        self.builder().build().unwrap()
    }

    fn forget(&self) {
        self.proxies.iter().for_each(Proxy::forget);
    }

    /// How many keys are on all servers together.
    fn keys(&self) -> i64 {
        self.servers.iter().map(Server::keys).sum()
    }

    #[track_caller]
    fn is_empty_soon(&self) {
        let is_empty = || self.keys() == 0;
        assert!(eventually(BOUND, is_empty), "{} keys are left", self.keys());
    }
}

#[test]
fn a_lock_whose_connections_were_forgotten_is_released() {
    let scene = Scene::new();
    let manager = scene.manager();
    let guard = manager.try_lock("job", TTL).unwrap();
    scene.forget();
    guard.unlock().unwrap();
    assert_eq!(scene.keys(), 0);

    let guard = manager.try_lock("job", TTL).unwrap();
    scene.forget();
    drop(guard);
    assert_eq!(scene.keys(), 0);
    let stats = manager.stats();
    assert_eq!((stats.released, stats.lost), (2, 0), "{stats}");
}

#[test]
fn many_locks_whose_connections_were_forgotten_are_released_together() {
    let scene = Scene::new();
    let manager = scene.manager();
    let lock = |number| manager.try_lock(&format!("job {number}"), TTL).unwrap();
    let guards: Vec<LockGuard> = (0..64).map(lock).collect();
    scene.forget();
    thread::scope(|scope| {
        for guard in guards {
            scope.spawn(|| drop(guard));
        }
    });
    scene.is_empty_soon();
}

#[test]
fn an_extension_and_the_look_of_an_operator_find_new_connections() {
    let scene = Scene::new();
    let manager = scene.manager();
    let guard = manager.try_lock("job", TTL / 2).unwrap();
    scene.forget();
    pause(IDLE);
    guard.extend(TTL).unwrap();
    scene.forget();
    pause(IDLE);
    let status = manager.status("job").unwrap();
    assert!(
        status
            .nodes()
            .iter()
            .all(|node| matches!(node.vote, Vote::Held { .. })),
        "{status}"
    );
    scene.forget();
    pause(IDLE);
    let health = manager.health().unwrap();
    assert!(health.severity < Severity::Critical, "{health}");
    guard.unlock().unwrap();
}

#[test]
fn a_lock_that_passes_to_a_thread_that_waits_is_released_where_its_connection_was_forgotten() {
    let scene = Scene::new();
    let manager = scene.manager();
    let guard = manager.try_lock("job", TTL).unwrap();
    thread::scope(|scope| {
        let next = scope.spawn(|| manager.lock("job", TTL).unwrap());
        assert!(eventually(BOUND, || manager.stats().queued == 1));
        scene.forget();
        drop(guard);
        let next = next.join().unwrap();
        next.check().unwrap();
        next.unlock().unwrap();
    });
    scene.is_empty_soon();
}
