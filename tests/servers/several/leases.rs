//! Handing a lock on several resources over, over real servers, with either protocol. Two managers stand for two processes.

use std::time::Duration;

use redlatch::{Lease, LockManager, Protocol};
use redlatch_testing::{eventually, side_by_side};

use crate::managers::{BOTH, two_processes};
use crate::waiters::{BOUND, TTL};

const NAMES: [&str; 3] = ["account:1", "account:2", "account:3"];

/// The lease of a lock on three resources, as it comes out at the other end of a pipe.
fn lease(manager: &LockManager) -> Lease {
    let guard = manager.lock_all(NAMES, TTL).unwrap();
    let text = guard.into_lease().to_string();
    text.parse().unwrap()
}

#[test]
fn an_adopted_lock_lasts_as_long_as_the_key_that_ends_first() {
    side_by_side(BOTH, |protocol| {
        let (servers, [one, other]) = two_processes(protocol);
        let lease = lease(&one);
        for server in &servers {
            server.command(&["PEXPIRE", "account:2", "5000"]);
        }
        let adopted = other.adopt(lease).unwrap();
        assert!(adopted.remaining() < Duration::from_secs(5));
        // A majority has the other keys for longer, and no such time counts.
        assert!(TTL > Duration::from_secs(6));
        adopted.extend(TTL).unwrap();
        assert!(adopted.remaining() > Duration::from_secs(5));
    });
}

#[test]
fn a_thread_waits_for_an_adopted_lock_as_for_any_other_of_its_manager() {
    let (_servers, [one, other]) = two_processes(Protocol::Classic);
    let adopted = other.adopt(lease(&one)).unwrap();
    let queued = || other.stats().queued;
    let before = queued();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| other.lock("account:3", TTL).map(drop));
        assert!(eventually(BOUND, || queued() > before));
        adopted.unlock().unwrap();
        waiting.join().unwrap().unwrap();
    });
}
