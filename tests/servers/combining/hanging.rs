//! Nodes that hang while many threads ask: nobody waits for another thread longer than is written, and what goes to a node that
//! hangs holds up nothing that goes to others.

use std::thread;
use std::time::Duration;

use redlatch::{Builder, Fanout, LockGuard, LockManager};
use redlatch_testing::{Server, Stalls, eventually, now};

use crate::servers::combining::crowd::{BOUND, TTL};

fn overlapped(urls: impl IntoIterator<Item = String>) -> Builder {
    LockManager::builder()
        .nodes(urls)
        .fanout(Fanout::Overlapped)
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
