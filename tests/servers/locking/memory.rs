//! What a lock takes of the memory while it is held.

use std::time::Duration;

use redlatch::{Fanout, KeepAlive, LockManager, LockRequest};
use redlatch_testing::{Server, is_alone};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region};

use crate::managers::{fenced_over, patient};

/// Nothing is renewed while it is measured.
const TTL: Duration = Duration::from_mins(10);

/// So many that the room for more locks in the tables of the manager counts as well.
const LOCKS: usize = 1_500;

/// The bytes for each lock: its guard, its name of 16 bytes, and all that the manager keeps of it.
fn bytes_of_each<T>(manager: &LockManager, hold: impl Fn(LockRequest) -> T) -> usize {
    let hold = |name: &str| hold(manager.request(name).ttl(TTL));
    // The first lock connects and starts threads.
    drop(hold("first"));
    let region = Region::new(&INSTRUMENTED_SYSTEM);
    let all: Vec<T> = (0..LOCKS).map(|n| hold(&format!("held:{n:011}"))).collect();
    let change = region.change();
    drop(all);
    (change.bytes_allocated - change.bytes_deallocated) / LOCKS
}

#[test]
fn a_lock_that_is_held_takes_a_few_hundred_bytes() {
    // The bytes of the whole process are counted.
    if !is_alone("servers::locking::memory::a_lock_that_is_held_takes_a_few_hundred_bytes") {
        return;
    }
    let servers = Server::cluster(5);
    let manager = patient(servers.iter().map(Server::url));
    let plain = |request: LockRequest| request.lock().unwrap();
    let kept = |request: LockRequest| plain(request.keep_alive(KeepAlive::unbounded()));

    let bytes = bytes_of_each(&manager, plain);
    assert!(bytes <= 600, "{bytes} for a lock");
    let bytes = bytes_of_each(&manager, kept);
    assert!(bytes <= 760, "{bytes} for a lock that is kept alive");

    let left = bytes_of_each(&manager, |request| drop(plain(request).into_lease()));
    assert!(
        left <= 8,
        "{left} for a lock that is on its way to another holder"
    );

    drop(manager);
    let servers = Server::cluster(5);
    let fenced = fenced_over(&servers);
    let bytes = bytes_of_each(&fenced, plain);
    assert!(bytes <= 640, "{bytes} for a lock with a fencing token");
}

/// The name, the key, what the lock is on, and the guard; the acquire and the release as they are sent; and room for the answers to
/// each of them.
const MOST_OF_A_PAIR: usize = 8;

#[test]
fn a_lock_that_nobody_else_wants_is_taken_and_released_with_eight_allocations() {
    // Those of the whole process are counted.
    if !is_alone(
        "servers::locking::memory::a_lock_that_nobody_else_wants_is_taken_and_released_with_eight_allocations",
    ) {
        return;
    }
    let servers = Server::cluster(5);
    for fanout in [Fanout::Sequential, Fanout::Overlapped] {
        let manager = LockManager::builder()
            .nodes(servers.iter().map(Server::url))
            .fanout(fanout)
            .node_timeout(Duration::from_secs(10))
            .build()
            .unwrap();
        let take = || manager.lock("job", TTL).unwrap().unlock().unwrap();
        // The first ones connect, teach the servers the scripts and start threads.
        (0..10).for_each(|_| take());
        // Another thread of the process may allocate in between, but not each time.
        let count = || {
            let region = Region::new(&INSTRUMENTED_SYSTEM);
            take();
            let change = region.change();
            change.allocations + change.reallocations
        };
        let fewest = (0..20).map(|_| count()).min().unwrap();
        assert!(fewest <= MOST_OF_A_PAIR, "{fewest} {fanout:?}");
    }
}

#[test]
fn a_read_takes_few_allocations_more_than_a_lock() {
    // The allocations of the whole process are counted.
    if !is_alone("servers::locking::memory::a_read_takes_few_allocations_more_than_a_lock") {
        return;
    }
    let servers = Server::cluster(3);
    let manager = patient(servers.iter().map(Server::url));
    let of_each = |run: &dyn Fn()| {
        run();
        let region = Region::new(&INSTRUMENTED_SYSTEM);
        (0..100).for_each(|_| run());
        region.change().allocations / 100
    };
    let lock = of_each(&|| {
        let guard = manager.request("ledger").ttl(TTL).try_lock().unwrap();
        guard.unlock().unwrap();
    });
    let read = of_each(&|| {
        let guard = manager.rw_lock("ledger").ttl(TTL).try_read().unwrap();
        guard.unlock().unwrap();
    });
    assert!(read <= lock + 3, "{read} for a read, {lock} for a lock");
}
