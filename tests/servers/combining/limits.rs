//! How much goes in one write, and what a crowd of threads leaves behind on real servers.

use std::thread;
use std::time::Duration;

use redlatch::{Fanout, LockGuard, LockManager, Protocol};
use redlatch_testing::scripted::Command;
use redlatch_testing::{Server, Stalls, eventually, now, within};

use crate::managers::{BOTH, fenced_over};
use crate::servers::combining::crowd::{
    BOUND, Job, TTL, Writes, answering_writes, consent, keys_of, together, with_one_lane,
};

const MOST_COMMANDS: usize = 128;
const MOST_BYTES: usize = 40 * 1024;
/// The texts of the scripts, which go to a new connection once.
const TEXTS: usize = 4 * 1024;

fn bytes(write: &[Command]) -> usize {
    write.iter().map(|command| command.raw().len()).sum()
}

#[track_caller]
fn assert_in_bounds(writes: &Writes) {
    for write in writes.lock().iter() {
        let bytes = bytes(write);
        assert!(write.len() <= MOST_COMMANDS, "{}", write.len());
        assert!(bytes <= MOST_BYTES + TEXTS, "{bytes}");
    }
}

/// Brings together threads with locks of these names, and returns how many of them there were in each write.
#[track_caller]
fn writes_of(names: &[String]) -> Vec<usize> {
    let (server, writes) = answering_writes(consent);
    let manager = with_one_lane([&server]).build().unwrap();
    let jobs = names.iter().map(|name| -> Job<'_, bool> {
        // Nothing is released while the others wait.
        Box::new(|| {
            manager
                .try_lock(name, TTL)
                .map(LockGuard::into_lease)
                .is_ok()
        })
    });
    let results = together(&manager, jobs.collect());
    assert!(results.iter().all(|is_good| *is_good));
    assert_in_bounds(&writes);
    let keys = keys_of(&writes);
    let mut all: Vec<&String> = keys.iter().flatten().collect();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), names.len());
    // Those that wait for the connection get it in any order.
    let mut counts: Vec<usize> = keys.iter().map(Vec::len).collect();
    counts.sort_unstable();
    counts
}

#[test]
fn a_write_has_no_more_than_so_many_commands() {
    let names: Vec<String> = (0..MOST_COMMANDS + 12)
        .map(|i| format!("job {i}"))
        .collect();
    assert_eq!(writes_of(&names), [12, MOST_COMMANDS]);
}

#[test]
fn a_write_has_no_more_than_so_many_bytes() {
    let names: Vec<String> = (0..64)
        .map(|i| format!("job {i} {}", "x".repeat(1_500)))
        .collect();
    let counts = writes_of(&names);
    // As many as fit with their undos.
    let most = MOST_BYTES / (2 * 1_600);
    assert_eq!(counts, [64 - 5 * most, most, most, most, most, most]);
    // A name alone may be longer than that.
    let names = ["x", "y"].map(|name| name.repeat(MOST_BYTES - 100));
    assert_eq!(writes_of(&names), [1, 1]);
}

/// A manager over real servers.
fn over(servers: &[Server], protocol: Protocol, fanout: Fanout) -> LockManager {
    if protocol == Protocol::Fenced {
        fenced_over(servers);
    }
    let builder = LockManager::builder().nodes(servers.iter().map(Server::url));
    let builder = builder.protocol(protocol).fanout(fanout);
    builder
        .node_timeout(Duration::from_secs(10))
        .build()
        .unwrap()
}

#[test]
fn sixty_four_threads_with_locks_of_their_own_get_them_and_leave_no_key_and_no_connection() {
    const POOL: u64 = 10;
    for protocol in BOTH {
        for fanout in [Fanout::Overlapped, Fanout::Sequential] {
            let servers = Server::cluster(5);
            let manager = over(&servers, protocol, fanout);
            let asked = manager.clone();
            within(BOUND * 2, move || {
                thread::scope(|scope| {
                    for i in 0..64 {
                        let manager = &asked;
                        scope.spawn(move || {
                            let name = format!("job {i}");
                            for _ in 0..10 {
                                let guard = manager.try_lock(&name, TTL).unwrap();
                                assert_eq!(guard.votes().len(), 5);
                                guard.extend(TTL * 2).unwrap();
                                guard.unlock().unwrap();
                            }
                        });
                    }
                });
            });
            for server in &servers {
                let left = (0..64).filter(|i| server.get(&format!("job {i}")).is_some());
                assert_eq!(left.count(), 0, "{protocol:?} {fanout:?}");
                let clients = || -> u64 {
                    let info = server.info("clients");
                    let mut lines = info.lines();
                    let clients = lines.find_map(|line| line.strip_prefix("connected_clients:"));
                    clients.unwrap().trim().parse().unwrap()
                };
                // This question has one itself; and a server that is busy closes late what was closed here.
                let are_few = eventually(BOUND, || clients() <= POOL + 1);
                assert!(are_few, "{protocol:?} {fanout:?}: {}", clients());
            }
            let stats = manager.stats();
            assert_eq!(stats.held(), 0);
            assert!(stats.nodes.iter().all(|node| node.opened == 0), "{stats:?}");
        }
    }
}

#[test]
fn a_thread_alone_sends_one_command_a_write_and_no_more_than_the_algorithm_has() {
    for protocol in BOTH {
        for fanout in [Fanout::Overlapped, Fanout::Sequential] {
            let (servers, writes): (Vec<_>, Vec<_>) =
                (0..3).map(|_| answering_writes(consent)).unzip();
            let builder = with_one_lane(&servers).protocol(protocol);
            let manager = builder.fanout(fanout).build().unwrap();
            for _ in 0..3 {
                let guard = manager.try_lock("job", TTL).unwrap();
                guard.extend(TTL * 2).unwrap();
                guard.unlock().unwrap();
            }
            for (server, writes) in servers.iter().zip(writes) {
                let sizes: Vec<usize> = writes.lock().iter().map(Vec::len).collect();
                // The third node is not asked for a majority of those who asked one after the other.
                let most = [1; 9];
                assert!(
                    most.starts_with(&sizes),
                    "{protocol:?} {fanout:?}: {sizes:?}"
                );
                assert!(fanout == Fanout::Sequential || sizes.len() == most.len());
                assert!(server.connections() <= 1);
            }
        }
    }
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
        let builder = LockManager::builder().nodes(servers.iter().map(Server::url));
        let builder = builder.fanout(fanout);
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
