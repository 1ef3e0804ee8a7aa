//! Many clients that wait for locks of other processes: which of them get the locks, and that connections are left for others.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use redlatch::{LockManager, Protocol};
use redlatch_testing::scripted::{Command, Kind};
use redlatch_testing::{Stalls, eventually, now, pause};

use crate::managers::{over, processes_by};
use crate::waiters::{BOUND, TTL, answering, asked, assert_nothing_is_left, cluster, got};

#[test]
fn processes_that_contend_have_equal_shares_and_none_waits_for_long() {
    for processes in [2, 4] {
        let servers = cluster(3);
        let stalls = Stalls::watch();
        let is_over = AtomicBool::new(false);
        // How often a process had the lock, and its longest wait.
        let contend = |manager: LockManager| {
            let (mut count, mut longest) = (0_u32, Duration::ZERO);
            while !is_over.load(Ordering::Relaxed) {
                let asked = now();
                let guard = manager.try_lock_for("job", TTL, BOUND).unwrap();
                longest = longest.max(now() - asked);
                count += 1;
                pause(Duration::from_millis(1));
                guard.unlock().unwrap();
            }
            (count, longest)
        };
        let results: Vec<(u32, Duration)> = thread::scope(|scope| {
            let contend = &contend;
            let managers = (0..processes).map(|_| over(&servers).build().unwrap());
            let threads = managers.map(|manager| scope.spawn(move || contend(manager)));
            let threads: Vec<_> = threads.collect();
            pause(Duration::from_secs(3));
            is_over.store(true, Ordering::Relaxed);
            let ended = threads.into_iter().map(|thread| thread.join().unwrap());
            ended.collect()
        });
        assert_nothing_is_left(&servers);
        let stalled = stalls.longest();
        let counts = results.iter().map(|(count, _)| *count);
        let (least, most) = (counts.clone().min().unwrap(), counts.max().unwrap());
        assert!(least >= 10 && most <= least * 2, "{results:?}");
        let longest = results.iter().map(|(_, longest)| *longest).max();
        let most = Duration::from_secs(2) + stalled * 4;
        assert!(longest.unwrap() < most, "{results:?} {stalled:?}");
    }
}

#[test]
fn one_who_asks_again_at_once_lets_the_one_go_first_whom_it_has_woken() {
    let server = answering([(Kind::Release, b":2\r\n")]);
    let manager = over(std::slice::from_ref(&server)).build().unwrap();
    let heard = |waits: bool| -> Vec<Kind> {
        manager.lock("job", TTL).unwrap().unlock().unwrap();
        let before = server.heard().len();
        let wait = if waits { TTL } else { Duration::ZERO };
        drop(manager.try_lock_for("job", TTL, wait).unwrap());
        let heard = server.heard();
        heard[before..].iter().map(Command::kind).collect()
    };
    // It looks before it asks, unless a busy machine has kept it from running for longer than its courtesy lasts.
    assert!(eventually(BOUND, || heard(true)[0] == Kind::Look));
    // One that does not wait has no time for that.
    assert_eq!(heard(false)[0], Kind::Set);
}

/// The announcement of one who has left goes on for a while, and must not be kept up by the one who is polite to it.
#[test]
fn who_is_alone_again_soon_pays_for_nobody_who_waits() {
    const ROUNDS: u64 = 20;
    let servers = cluster(3);
    let delay = Duration::from_millis(100);
    let builder = over(&servers).node_timeout(Duration::from_secs(1));
    let [alone, waiter] = processes_by(&builder.retry_delay(delay, delay), Protocol::Classic);
    let guard = alone.lock("job", TTL).unwrap();
    let short = Duration::from_millis(300);
    assert!(waiter.try_lock_for("job", TTL, short).is_err());
    guard.unlock().unwrap();
    let is_cheap = eventually(BOUND, || {
        let before = asked(&servers[0]);
        for _ in 0..ROUNDS {
            alone.lock("job", TTL).unwrap().unlock().unwrap();
        }
        asked(&servers[0]) - before == ROUNDS * 2
    });
    assert!(is_cheap);
    assert_nothing_is_left(&servers);
}

#[test]
fn a_thousand_locks_that_are_waited_for_at_once_are_all_got_over_a_bounded_number_of_connections() {
    const LOCKS: usize = 1_000;
    const PROCESSES: usize = 4;
    const POOL: usize = 8;
    let servers = cluster(3);
    let builder = over(&servers).pool_size(POOL.try_into().unwrap());
    let builder = builder.retry_delay(Duration::from_secs(1), Duration::from_secs(2));
    let build = || builder.clone().build().unwrap();
    let (holder, ttl) = (build(), TTL * 5);
    let lock = |n: usize| holder.lock(&format!("job-{n}"), ttl).unwrap();
    let held: Vec<_> = (0..LOCKS).map(lock).collect();
    let managers = [(); PROCESSES].map(|()| build());
    let threads: Vec<_> = (0..LOCKS)
        .map(|n| {
            let manager = managers[n % PROCESSES].clone();
            let wait = move || manager.try_lock_for(&format!("job-{n}"), ttl, BOUND * 2);
            let small = thread::Builder::new().stack_size(512 * 1024);
            small.spawn(move || drop(wait().unwrap())).unwrap()
        })
        .collect();
    let listen = PROCESSES * POOL / 2;
    assert!(eventually(BOUND, || servers[0].blocked() == listen));
    // Half of the connections are left to those who do not wait.
    for manager in managers.iter().cycle().take(30) {
        assert!(servers[0].blocked() <= listen);
        manager.lock("another", TTL).unwrap().unlock().unwrap();
    }
    drop(held);
    threads.into_iter().for_each(got);
    for server in &servers {
        let clients = server.info("clients");
        let mut lines = clients.lines();
        let count = lines.find_map(|line| line.strip_prefix("connected_clients:"));
        let count: usize = count.unwrap().parse().unwrap();
        // And the one that asks.
        let most = (PROCESSES + 1) * POOL + 1;
        assert!(count <= most, "{count} connections to {}", server.name());
    }
    assert_nothing_is_left(&servers);
}
