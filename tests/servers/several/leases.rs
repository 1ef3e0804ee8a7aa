//! Handing a lock on several resources over, over real servers, with either protocol. Two managers stand for two processes.

use std::time::Duration;

use redlatch::{Error, Lease, LockManager, LossCause, Protocol};
use redlatch_testing::{eventually, side_by_side};

use crate::managers::invalid_field;
use crate::managers::{BOTH, two_processes};
use crate::waiters::{BOUND, TTL, assert_nothing_is_left};

const NAMES: [&str; 3] = ["account:1", "account:2", "account:3"];

/// The lease of a lock on three resources, as it comes out at the other end of a pipe.
fn lease(manager: &LockManager) -> Lease {
    let guard = manager.lock_all(NAMES, TTL).unwrap();
    let text = guard.into_lease().to_string();
    text.parse().unwrap()
}

fn copy(lease: &Lease) -> Lease {
    lease.to_string().parse().unwrap()
}

#[track_caller]
fn assert_lost(manager: &LockManager, lease: Lease) -> LossCause {
    match manager.adopt(lease) {
        Err(Error::Lost { cause, .. }) => cause,
        other => panic!("{other:?}"),
    }
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
fn a_node_without_one_of_the_keys_has_no_vote_on_the_adoption() {
    side_by_side(BOTH, |protocol| {
        let (servers, [one, other]) = two_processes(protocol);
        let lease = lease(&one);
        // Each key is on two of three nodes, and all of them are on one.
        servers[0].command(&["DEL", "account:1"]);
        let again = copy(&lease);
        drop(other.adopt(copy(&lease)).unwrap().into_lease());
        servers[1].command(&["DEL", "account:3"]);
        let cause = assert_lost(&other, lease);
        assert!(matches!(cause, LossCause::Vanished { .. }), "{cause}");
        // Another has it.
        for server in &servers[..2] {
            server.command(&["SET", "account:1", "another", "PX", "60000"]);
        }
        let cause = assert_lost(&other, again);
        assert!(matches!(cause, LossCause::Taken { .. }), "{cause}");
        assert!(cause.to_string().contains("\"account:1\""), "{cause}");
    });
}

#[test]
fn a_token_that_a_counter_does_not_know_is_forged() {
    let (servers, [one, other]) = two_processes(Protocol::Fenced);
    let lease = lease(&one);
    for server in &servers[..2] {
        server.command(&["SET", "account:2:fence", "1", "PX", "60000"]);
    }
    let cause = assert_lost(&other, lease);
    assert!(matches!(cause, LossCause::Vanished { .. }), "{cause}");
}

#[test]
fn a_name_that_can_not_be_locked_is_refused_and_no_node_is_asked() {
    let (servers, [one, other]) = two_processes(Protocol::Classic);
    let text = lease(&one).to_string();
    let before: Vec<u64> = servers.iter().map(|server| server.count("eval")).collect();
    for reserved in [
        "account:2:fence",
        "account:2:redlatch:bell",
        "redlatch:node",
    ] {
        let text = text.replace("account:2", reserved);
        let Ok(lease) = text.parse() else {
            // It is no longer in order.
            continue;
        };
        let error = other.adopt(lease).unwrap_err();
        assert_eq!(invalid_field(&error), "resource", "{error}");
    }
    let after = servers.iter().map(|server| server.count("eval"));
    assert!(after.eq(before));
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

#[test]
fn what_is_taken_back_of_a_dead_holder_is_one_resource_at_a_time() {
    side_by_side(BOTH, |protocol| {
        let (servers, [one, other]) = two_processes(protocol);
        let guard = one.lock_all(NAMES, TTL).unwrap();
        other.release("account:2", guard.token()).unwrap();
        drop(other.try_lock("account:2", TTL).unwrap());
        for name in ["account:1", "account:3"] {
            let error = other.try_lock(name, TTL).unwrap_err();
            assert!(matches!(error, Error::Held { .. }), "{error}");
        }
        // A holder that runs on learns by its next extension that it no longer has all of them.
        let lost = guard.extend(TTL).unwrap_err();
        assert!(matches!(lost, Error::Lost { .. }), "{lost}");
        guard.unlock().unwrap_err();
        for name in NAMES {
            drop(other.try_lock(name, TTL).unwrap());
        }
        if protocol == Protocol::Classic {
            assert_nothing_is_left(&servers);
        }
    });
}
