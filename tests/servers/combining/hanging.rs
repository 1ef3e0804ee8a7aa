//! Nodes that hang while many threads ask: nobody waits for another thread longer than is written, and what goes to a node that
//! hangs holds up nothing that goes to others.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::thread;
use std::time::Duration;

use redlatch::{Builder, Fanout, LockGuard, LockManager};
use redlatch_testing::scripted::{Kind, Scripted};
use redlatch_testing::{BlackHole, Server, Stalls, eventually, now};

use crate::servers::combining::crowd::{BOUND, TTL, consent};

/// So long that a wait for half of it is told from a slow machine.
const LONG: Duration = Duration::from_secs(30);

fn overlapped(urls: impl IntoIterator<Item = String>) -> Builder {
    let builder = LockManager::builder().nodes(urls);
    builder.fanout(Fanout::Overlapped).node_timeout(LONG)
}

/// A lock is taken long before anybody has waited for half of a node timeout.
#[track_caller]
fn assert_takes_no_time(manager: &LockManager) {
    let began = now();
    manager.try_lock("another", TTL).unwrap().unlock().unwrap();
    let took = began.elapsed();
    assert!(took < LONG / 4, "{took:?}");
}

const WELL: u8 = 0;
const WRONG: u8 = 1;
const SILENT: u8 = 2;

#[test]
fn who_waits_for_a_connection_to_a_node_that_hangs_holds_up_nobody() {
    let state = Arc::new(AtomicU8::new(WELL));
    let is_probed = Arc::new(AtomicBool::new(false));
    let (said, noted) = (Arc::clone(&state), Arc::clone(&is_probed));
    let bad = Scripted::start(move |peer, command| {
        if said.load(Ordering::SeqCst) == WRONG {
            said.store(SILENT, Ordering::SeqCst);
            return peer.say(b":7\r\n");
        }
        while said.load(Ordering::SeqCst) == SILENT {
            noted.store(true, Ordering::SeqCst);
            peer.wait(Duration::from_millis(2));
        }
        peer.say(&consent(command));
    });
    let good = [(); 2].map(|()| Scripted::start(|peer, command| peer.say(&consent(command))));
    let urls = good.iter().map(Scripted::url).chain([bad.url()]);
    let manager = overlapped(urls).pool_size(1).build().unwrap();
    let guard = manager.try_lock("job", TTL).unwrap();
    state.store(WRONG, Ordering::SeqCst);
    // From now on the node is left out, and the question whether it is back has its only connection.
    drop(manager.try_lock("warning", TTL).unwrap());
    assert!(eventually(BOUND, || is_probed.load(Ordering::SeqCst)));
    thread::scope(|scope| {
        let releaser = scope.spawn(move || drop(guard));
        let is_released = |server: &Scripted| {
            let heard = server.heard_of(Kind::Release).into_iter();
            heard.filter(|command| command.key() == "job").count() == 1
        };
        let are_released = || good.iter().all(is_released);
        assert!(eventually(BOUND, are_released));
        assert_takes_no_time(&manager);
        assert!(!releaser.is_finished(), "it had nothing to wait for");
        state.store(WELL, Ordering::SeqCst);
    });
}

#[test]
fn who_connects_to_a_node_out_of_reach_holds_up_nobody() {
    let mut servers = Server::cluster(3);
    let manager = overlapped(servers.iter().map(Server::url)).build().unwrap();
    // The shortest of these round trips is one to a server near by, for which there are two lanes.
    for _ in 0..300 {
        drop(manager.try_lock("warm", TTL).unwrap());
    }
    let jobs = ["job 1", "job 2"];
    let guards = jobs.map(|job| manager.try_lock(job, TTL).unwrap());
    servers[2].kill();
    // From now on it is left out.
    drop(manager.try_lock("warning", TTL).unwrap());
    let hole = BlackHole::open_on(servers[2].port());
    thread::scope(|scope| {
        let releasers = guards.map(|guard| scope.spawn(move || drop(guard)));
        let are_released = |server: &Server| jobs.iter().all(|job| server.get(job).is_none());
        assert!(eventually(LONG / 4, || servers[..2]
            .iter()
            .all(are_released)));
        assert_takes_no_time(&manager);
        for releaser in &releasers {
            assert!(!releaser.is_finished(), "it had nothing to wait for");
        }
        drop(hole);
    });
}

#[test]
fn releases_to_a_stopped_node_hold_up_no_acquire() {
    let servers = Server::cluster(3);
    let timeout = Duration::from_secs(3);
    let builder = overlapped(servers.iter().map(Server::url)).node_timeout(timeout);
    let manager = builder.build().unwrap();
    let lock = |i| manager.try_lock(&format!("job {i}"), TTL).unwrap();
    let guards: Vec<_> = (0..8).map(lock).collect();
    servers[2].stop();
    // From now on it is left out.
    drop(manager.try_lock("warning", TTL).unwrap());
    thread::scope(|scope| {
        for guard in guards {
            scope.spawn(|| drop(guard));
        }
        let stalls = Stalls::watch();
        for _ in 0..20 {
            let began = now();
            drop(manager.try_lock("another", TTL).unwrap());
            let (took, stall) = (began.elapsed(), stalls.longest());
            // An attempt and a release.
            assert!(took < timeout / 3 + stall * 4, "{took:?}, stall {stall:?}");
        }
        servers[2].resume();
    });
    let is_empty = || servers.iter().all(|server| server.keys() == 0);
    assert!(eventually(BOUND, is_empty));
}

#[test]
fn eight_threads_that_ask_a_stopped_node_all_end_in_time() {
    let timeout = Duration::from_secs(1);
    for (n, fanout) in [
        (1, Fanout::Overlapped),
        (3, Fanout::Overlapped),
        (3, Fanout::Sequential),
    ] {
        let servers = Server::cluster(n);
        let builder = overlapped(servers.iter().map(Server::url)).fanout(fanout);
        let manager = builder.node_timeout(timeout).build().unwrap();
        drop(manager.try_lock("warm", TTL).unwrap());
        servers[0].stop();
        let stalls = Stalls::watch();
        let times = thread::scope(|scope| {
            let threads = (0..8).map(|i| {
                let manager = &manager;
                scope.spawn(move || {
                    let began = now();
                    let result = manager.try_lock(&format!("job {i}"), TTL);
                    // Its release is none of this.
                    let result = result.map(LockGuard::into_lease);
                    assert_eq!(result.is_ok(), n > 1, "{result:?}");
                    began.elapsed()
                })
            });
            let threads: Vec<_> = threads.collect();
            let times = threads.into_iter().map(|thread| thread.join().unwrap());
            times.max().unwrap()
        });
        // Half a node timeout in the queue, and one for the node; for an attempt that failed, as much again for its release.
        let longest = timeout * 4 + stalls.longest() * 8;
        assert!(times < longest, "{n} {fanout:?}: {times:?}, {longest:?}");
        servers[0].resume();
    }
}
