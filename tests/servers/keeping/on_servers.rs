//! Keep-alive on real servers and in real time: killed and stopped servers, races with the unlock, thousands of locks.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use redlatch::fake::FakeNode;
use redlatch::{KeepAlive, LockGuard, LockManager, LossCause, Protocol, Vote};
use redlatch_testing::{Server, Stalls, eventually, now, pause, within};

use crate::managers::patient;

const BOUND: Duration = Duration::from_secs(100);

pub(crate) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A lock that is kept has a ttl of three of these at least.
const NODE_TIMEOUT: Duration = Duration::from_secs(1);

fn manager(servers: &[Server]) -> LockManager {
    let builder = LockManager::builder().nodes(servers.iter().map(Server::url));
    builder.node_timeout(NODE_TIMEOUT).build().unwrap()
}

#[track_caller]
pub(crate) fn kept(manager: &LockManager, name: &str, ttl: Duration) -> LockGuard {
    let request = manager.request(name).ttl(ttl);
    request.keep_alive(KeepAlive::unbounded()).lock().unwrap()
}

#[test]
fn when_every_server_stops_all_are_told_before_the_validity_ends() {
    let servers = Server::cluster(5);
    let manager = manager(&servers);
    let stalls = Stalls::watch();
    let guard = kept(&manager, "job", NODE_TIMEOUT * 4);
    let (tell, told) = mpsc::channel();
    let watch = guard.watch();
    guard.on_lost(move |cause| tell.send((cause, watch.remaining(), now())).unwrap());
    let watch = guard.watch();
    let waiter = thread::spawn(move || watch.wait_lost(BOUND).map(|cause| (cause, now())));
    for server in &servers {
        server.stop();
    }
    let mut end = now() + guard.remaining();
    while guard.check().is_ok() {
        // The end as it is known shortly before it comes: a renewal may have been under way when they stopped.
        end = end.max(now() + guard.remaining());
        pause(ms(1));
    }
    let (cause, remaining, at) = told.recv_timeout(BOUND).unwrap();
    assert!(matches!(cause, LossCause::Unreachable { .. }), "{cause}");
    assert_eq!(cause.nodes().len(), 5);
    assert_eq!(remaining, Duration::ZERO);
    let (cause, waited_until) = waiter.join().unwrap().unwrap();
    assert!(matches!(cause, LossCause::Unreachable { .. }), "{cause}");
    // A generous bound: the machine is shared. The exact moment is seen over virtual time.
    let latest = end + Duration::from_secs(1) + stalls.longest();
    for told_at in [at, waited_until] {
        assert!(told_at < latest, "{:?} late", told_at - end);
    }
    for server in &servers {
        server.resume();
    }
    drop(guard);
    assert!(servers.iter().all(|server| server.get("job").is_none()));
}

#[test]
fn a_renewal_that_a_server_executes_after_the_unlock_leaves_no_key() {
    for protocol in [Protocol::Classic, Protocol::Fenced] {
        let servers = Server::cluster(3);
        let builder = LockManager::builder().nodes(servers.iter().map(Server::url));
        let builder = builder.node_timeout(NODE_TIMEOUT).protocol(protocol);
        let manager = builder.build().unwrap();
        if protocol == Protocol::Fenced {
            manager.open_nodes().unwrap();
        }
        let guard = kept(&manager, "job", NODE_TIMEOUT * 4);
        let end = now() + guard.remaining();
        servers[0].stop();
        // The renewal was sent to it, too.
        let is_renewed = || now() + guard.remaining() > end + ms(100);
        assert!(eventually(BOUND, is_renewed));
        guard.unlock().unwrap();
        servers[0].resume();
        assert!(eventually(BOUND, || servers[0].get("job").is_none()));
        pause(ms(100));
        assert!(servers.iter().all(|server| server.get("job").is_none()));
    }
}

#[test]
fn locks_that_can_not_be_renewed_do_not_delay_those_that_can() {
    let nodes = FakeNode::cluster(3);
    let manager = LockManager::builder().fakes(&nodes).build().unwrap();
    // Two thousand locks on two nodes each, because the third failed.
    nodes[1].refuse();
    let many: Vec<LockGuard> = (0..2000)
        .map(|i| kept(&manager, &format!("two {i}"), ms(6_000)))
        .collect();
    nodes[1].recover();
    // As many on all of them as need a renewal soon.
    let locked = eventually(BOUND, || {
        let guard = kept(&manager, "probe", ms(6_000));
        guard
            .votes()
            .iter()
            .all(|report| matches!(report.vote, Vote::Granted))
    });
    assert!(locked);
    let stalls = Stalls::watch();
    let ttl = ms(900);
    let urgent: Vec<LockGuard> = (0..20)
        .map(|i| kept(&manager, &format!("three {i}"), ttl))
        .collect();
    nodes[2].hang();
    let (began, mut stalled, mut lost) = (now(), Duration::ZERO, Vec::new());
    while began.elapsed() < ms(3_500) && lost.is_empty() {
        pause(ms(50));
        stalled = stalled.max(stalls.longest());
        lost.extend(urgent.iter().filter_map(|guard| guard.check().err()));
    }
    let after = began.elapsed();
    // Before the assertion, so that the guards of a test that fails are not in its way.
    nodes[2].recover();
    drop((many, urgent));
    assert!(
        lost.is_empty() || stalled > ttl / 3,
        "after {after:?}, with {stalled:?} at most in which nothing ran: {lost:?}"
    );
}

#[test]
fn servers_that_forget_their_scripts_cost_no_lock() {
    let servers = Server::cluster(3);
    let builder = LockManager::builder().nodes(servers.iter().map(Server::url));
    let builder = builder
        .node_timeout(NODE_TIMEOUT)
        .protocol(Protocol::Fenced);
    let manager = builder.build().unwrap();
    manager.open_nodes().unwrap();
    let ttl = NODE_TIMEOUT * 4;
    let guards: Vec<LockGuard> = (0..100)
        .map(|i| kept(&manager, &format!("job {i}"), ttl))
        .collect();
    let began = now();
    while began.elapsed() < ttl * 3 / 2 {
        for server in &servers {
            server.command(&["SCRIPT", "FLUSH"]);
        }
        pause(ms(5));
    }
    assert!(guards.iter().all(|guard| guard.check().is_ok()));
}

#[test]
fn no_hook_is_called_once_the_lock_was_given_back() {
    let nodes = FakeNode::cluster(3);
    let manager = LockManager::builder().fakes(&nodes).build().unwrap();
    let guard = manager.try_lock("job", ms(200)).unwrap();
    let (begun, has_begun) = mpsc::channel();
    let (go_on, goes_on) = mpsc::channel::<()>();
    guard.on_lost(move |_| {
        begun.send(()).unwrap();
        goes_on.recv().unwrap_err();
    });
    let (tell, told) = mpsc::channel();
    guard.on_lost(move |_| tell.send(()).unwrap());
    has_begun.recv_timeout(BOUND).unwrap();
    // While the first one runs, the second is still to come.
    drop(guard);
    drop(go_on);
    assert!(matches!(
        told.recv_timeout(BOUND),
        Err(mpsc::RecvTimeoutError::Disconnected)
    ));
}

#[test]
fn ten_thousand_locks_are_kept_by_one_manager() {
    const LOCKS: usize = 10_000;
    let servers = Server::cluster(3);
    let manager = patient(servers.iter().map(Server::url));
    // As long as a machine that has other things to do takes to renew so many.
    let ttl = Duration::from_secs(40);
    let (lost, guards) = within(BOUND * 2, move || {
        let lost = Arc::new(AtomicUsize::new(0));
        let guards: Vec<(LockGuard, Instant)> = (0..LOCKS)
            .map(|i| {
                let guard = kept(&manager, &format!("job {i}"), ttl);
                let lost = Arc::clone(&lost);
                guard.on_lost(move |_| {
                    lost.fetch_add(1, Ordering::Relaxed);
                });
                let end = now() + guard.remaining();
                (guard, end)
            })
            .collect();
        let is_renewed = |(guard, end): &(LockGuard, Instant)| {
            guard.check().is_err() || now() + guard.remaining() > *end + ms(100)
        };
        while !guards.iter().all(is_renewed) {
            pause(ms(200));
        }
        (lost, guards)
    });
    assert_eq!(lost.load(Ordering::Relaxed), 0);
    for (guard, _) in &guards {
        guard.check().unwrap();
    }
    assert!(servers.iter().all(|server| server.keys() == 10_000));
    within(BOUND, move || drop(guards));
    assert!(servers.iter().all(|server| server.keys() == 0));
}
