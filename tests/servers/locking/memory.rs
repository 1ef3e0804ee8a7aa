//! What a lock takes of the memory while it is held. That of the whole process is counted, so each test is alone in its own.

use std::time::Duration;

use redlatch::{Fanout, KeepAlive, LockManager, LockRequest};
use redlatch_testing::{Server, is_alone};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region};

use crate::managers::{fenced_over, over};

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
    if !is_alone("servers::locking::memory::a_lock_that_is_held_takes_a_few_hundred_bytes") {
        return;
    }
    let plain = |request: LockRequest| request.lock().unwrap();
    let kept = |request: LockRequest| plain(request.keep_alive(KeepAlive::unbounded()));
    let servers = Server::cluster(5);
    let manager = over(&servers).build().unwrap();
    let bytes = bytes_of_each(&manager, plain);
    assert!(bytes <= 600, "{bytes} for a lock");
    let bytes = bytes_of_each(&manager, kept);
    assert!(bytes <= 760, "{bytes} for a lock that is kept alive");
    let bytes = bytes_of_each(&manager, |request| drop(plain(request).into_lease()));
    assert!(bytes <= 8, "{bytes} for a lock that is on its way");

    drop(manager);
    let servers = Server::cluster(5);
    let bytes = bytes_of_each(&fenced_over(&servers), plain);
    assert!(bytes <= 640, "{bytes} for a lock with a fencing token");
}

/// The fewest allocations of some runs. Another thread of the process may allocate in between, but not each time.
fn allocations(run: impl Fn()) -> usize {
    // The first ones connect, teach the servers the scripts and start threads.
    (0..10).for_each(|_| run());
    let count = |_| {
        let region = Region::new(&INSTRUMENTED_SYSTEM);
        run();
        let change = region.change();
        change.allocations + change.reallocations
    };
    (0..20).map(count).min().unwrap()
}

/// The name, the key, what the lock is on, and the guard; the acquire and the release as they are sent; and room for the answers to
/// each of them.
#[test]
fn a_lock_that_nobody_else_wants_takes_eight_allocations_and_a_read_three_more() {
    if !is_alone(
        "servers::locking::memory::a_lock_that_nobody_else_wants_takes_eight_allocations_and_a_read_three_more",
    ) {
        return;
    }
    let servers = Server::cluster(5);
    for fanout in [Fanout::Sequential, Fanout::Overlapped] {
        let manager = over(&servers).fanout(fanout).build().unwrap();
        let lock = allocations(|| manager.lock("job", TTL).unwrap().unlock().unwrap());
        assert!(lock <= 8, "{lock} {fanout:?}");
        let ledger = manager.rw_lock("ledger").ttl(TTL);
        let read = allocations(|| ledger.try_read().unwrap().unlock().unwrap());
        assert!(read <= lock + 3, "{read} for a read, {lock} for a lock");
    }
}
