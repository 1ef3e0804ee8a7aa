//! Many clients that wait for locks of other processes: which of them get the locks, and that connections are left for others.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use redlatch::LockManager;
use redlatch_testing::{Stalls, eventually, now, pause, within};

use crate::managers::over;
use crate::waiters::{
    BOUND, LONG, TTL, asked, assert_nothing_is_left, cluster, got, process, process_with,
};

/// Lets processes take a lock again and again for some seconds. Returns how often each had it, and its longest wait.
fn contend(processes: usize) -> Vec<(u32, Duration)> {
    let servers = cluster(3);
    let is_over = Arc::new(AtomicBool::new(false));
    let run = |manager: LockManager| {
        let is_over = Arc::clone(&is_over);
        move || {
            let (mut count, mut longest) = (0, Duration::ZERO);
            while !is_over.load(Ordering::Relaxed) {
                let asked = now();
                let guard = manager.try_lock_for("job", TTL, BOUND).unwrap();
                longest = longest.max(now() - asked);
                count += 1;
                pause(Duration::from_millis(1));
                guard.unlock().unwrap();
            }
            (count, longest)
        }
    };
    let managers = (0..processes).map(|_| over(&servers).build().unwrap());
    let threads: Vec<_> = managers
        .map(|manager| thread::spawn(run(manager)))
        .collect();
    pause(Duration::from_secs(3));
    is_over.store(true, Ordering::Relaxed);
    let results = threads.into_iter().map(got).collect();
    assert_nothing_is_left(&servers);
    results
}

#[test]
fn processes_that_contend_have_equal_shares_and_none_waits_for_long() {
    for processes in [2, 4] {
        let stalls = Stalls::watch();
        let results = contend(processes);
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
    const ROUNDS: usize = 20;
    /// The one that was woken is waited for as long as this, if one asks again within half of it. It may come later, where
    /// the machine is busy.
    const COURTESY: Duration = Duration::from_millis(10);
    let servers = cluster(3);
    let [greedy, waiter] = [(); 2].map(|()| process(&servers, LONG));
    let overtaken = (0..ROUNDS).filter(|_| {
        let guard = greedy.lock("job", TTL).unwrap();
        let waiter = waiter.clone();
        let waiting = thread::spawn(move || {
            let guard = waiter.try_lock_for("job", TTL, BOUND).unwrap();
            // While it has the lock: nobody can have got it after this one and before that moment.
            let got = now();
            drop(guard);
            got
        });
        assert!(eventually(BOUND, || servers[0].blocked() == 1));
        let released = now();
        guard.unlock().unwrap();
        let asked = now();
        let again = greedy.try_lock_for("job", TTL, BOUND).unwrap();
        let got_again = now();
        // So that the other one gives back later if it comes second.
        pause(Duration::from_millis(5));
        drop(again);
        let is_overtaken = within(BOUND, || waiting.join().unwrap()) > got_again;
        is_overtaken && asked - released < COURTESY / 2 && got_again - asked < COURTESY
    });
    let overtaken = overtaken.count();
    assert!(overtaken <= ROUNDS / 4, "{overtaken} of {ROUNDS}");
}

/// The announcement of one who has left goes on for a while, and must not be kept up by the one who is polite to it.
#[test]
fn who_is_alone_again_soon_pays_for_nobody_who_waits() {
    const ROUNDS: u64 = 20;
    let servers = cluster(3);
    let [alone, waiter] = [(); 2].map(|()| {
        let (delay, node_timeout) = (Duration::from_millis(100), Duration::from_secs(1));
        process_with(&servers, delay, node_timeout)
    });
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
    const POOL: u32 = 8;
    let servers = cluster(3);
    let delay = [1, 2].map(Duration::from_secs);
    let builder = over(&servers)
        .pool_size(POOL)
        .retry_delay(delay[0], delay[1]);
    let build = || builder.clone().build().unwrap();
    let holder = build();
    let ttl = TTL * 5;
    let lock = |n: usize| holder.lock(&format!("job-{n}"), ttl).unwrap();
    let held: Vec<_> = (0..LOCKS).map(lock).collect();
    let managers: Vec<_> = (0..PROCESSES).map(|_| build()).collect();
    let threads: Vec<_> = (0..LOCKS)
        .map(|n| {
            let manager = managers[n % PROCESSES].clone();
            let wait = move || manager.try_lock_for(&format!("job-{n}"), ttl, BOUND * 2);
            let small = thread::Builder::new().stack_size(512 * 1024);
            small.spawn(move || drop(wait().unwrap())).unwrap()
        })
        .collect();
    let listen = PROCESSES * usize::try_from(POOL).unwrap() / 2;
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
        let most = (PROCESSES + 1) * usize::try_from(POOL).unwrap() + 1;
        assert!(count <= most, "{count} connections to {}", server.name());
    }
    assert_nothing_is_left(&servers);
}
