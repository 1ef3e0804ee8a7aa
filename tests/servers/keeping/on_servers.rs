//! Keep-alive on real servers and in real time: killed and stopped servers, races with the unlock, thousands of locks.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use redlatch::fake::FakeNode;
use redlatch::{KeepAlive, LockGuard, LockManager, LossCause, NodeReport, Protocol, Vote};
use redlatch_testing::{Server, Stalls, eventually, now, pause, within};

use crate::managers::{over, processes_by};

const BOUND: Duration = Duration::from_secs(100);

pub(crate) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A lock that is kept has a ttl of three of these at least.
const NODE_TIMEOUT: Duration = Duration::from_secs(1);

#[track_caller]
pub(crate) fn kept(manager: &LockManager, name: &str, ttl: Duration) -> LockGuard {
    let request = manager.request(name).ttl(ttl);
    request.keep_alive(KeepAlive::unbounded()).lock().unwrap()
}

#[test]
fn when_every_server_stops_all_are_told_before_the_validity_ends() {
    let servers = Server::cluster(5);
    let manager = over(&servers).node_timeout(NODE_TIMEOUT).build().unwrap();
    let stalls = Stalls::watch();
    let guard = kept(&manager, "job", NODE_TIMEOUT * 4);
    let (tell, told) = mpsc::channel();
    let (tell_too, watch) = (tell.clone(), guard.watch());
    guard.on_lost(move |cause| tell.send((cause, now())).unwrap());
    thread::spawn(move || tell_too.send((watch.wait_lost(BOUND).unwrap(), now())));
    servers.iter().for_each(Server::stop);
    let mut end = now() + guard.remaining();
    while guard.check().is_ok() {
        // The end as it is known shortly before it comes: a renewal may have been under way when they stopped.
        end = end.max(now() + guard.remaining());
        pause(ms(1));
    }
    // A generous bound: the machine is shared. The exact moment is seen over virtual time.
    let latest = end + Duration::from_secs(1) + stalls.longest();
    for _ in 0..2 {
        let (cause, told_at) = told.recv_timeout(BOUND).unwrap();
        assert!(matches!(cause, LossCause::Unreachable { .. }), "{cause}");
        assert!(told_at < latest, "{:?} late", told_at - end);
    }
    servers.iter().for_each(Server::resume);
    drop(guard);
    assert!(servers.iter().all(|server| server.get("job").is_none()));
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
        let is_granted = |report: &NodeReport| matches!(report.vote, Vote::Granted);
        guard.votes().iter().all(is_granted)
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
    let is_fine = lost.is_empty() || stalled > ttl / 3;
    assert!(
        is_fine,
        "after {after:?}, nothing ran for {stalled:?}: {lost:?}"
    );
}

#[test]
fn servers_that_forget_their_scripts_cost_no_lock() {
    let servers = Server::cluster(3);
    let [manager] = processes_by(&over(&servers).node_timeout(NODE_TIMEOUT), Protocol::Fenced);
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
    let is_gone = Err(mpsc::RecvTimeoutError::Disconnected);
    assert_eq!(told.recv_timeout(BOUND), is_gone);
}

#[test]
fn ten_thousand_locks_are_kept_by_one_manager() {
    const LOCKS: usize = 10_000;
    let servers = Server::cluster(3);
    let manager = over(&servers).build().unwrap();
    // As long as a machine that has other things to do takes to renew so many.
    let ttl = Duration::from_secs(40);
    let (lost, guards) = within(BOUND * 2, move || {
        let lost = Arc::new(AtomicBool::new(false));
        let guards: Vec<(LockGuard, Instant)> = (0..LOCKS)
            .map(|i| {
                let guard = kept(&manager, &format!("job {i}"), ttl);
                let lost = Arc::clone(&lost);
                guard.on_lost(move |_| lost.store(true, Ordering::Relaxed));
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
    assert!(!lost.load(Ordering::Relaxed));
    assert!(guards.iter().all(|(guard, _)| guard.check().is_ok()));
    assert!(servers.iter().all(|server| server.keys() == 10_000));
    within(BOUND, move || drop(guards));
    assert!(servers.iter().all(|server| server.keys() == 0));
}
