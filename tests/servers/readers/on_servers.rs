//! Read-write locks over real servers: who shares, who is excluded, and what is left.
//!
//! Two managers stand for two processes.

use redlatch::{Error, LockGuard, LockManager, Protocol, RwLock};
use redlatch_testing::side_by_side;

use crate::managers::{BOTH, two_processes};
use crate::waiters::{TTL, assert_nothing_is_left};

pub(crate) fn ledger(manager: &LockManager) -> RwLock<'_> {
    manager.rw_lock("ledger").ttl(TTL)
}

/// The readers that each node names, if they are in the way.
#[track_caller]
pub(crate) fn assert_read_by(result: Result<LockGuard, Error>, number: u64) {
    let error = result.expect_err("it is read");
    assert_eq!(error.readers(), Some(number), "{error}");
    let head = format!("the lock on \"ledger\" is read by {number}");
    assert!(error.to_string().starts_with(&head), "{error}");
}

#[track_caller]
pub(crate) fn assert_held(result: Result<LockGuard, Error>) {
    let error = result.expect_err("another has it alone");
    assert!(matches!(error, Error::Held { .. }), "{error}");
    assert_eq!(error.readers(), None, "{error}");
}

#[test]
fn readers_share_and_a_writer_is_alone() {
    side_by_side(BOTH, |protocol| {
        let (servers, [one, other]) = two_processes(protocol);
        let first = ledger(&one).read().unwrap();
        let second = ledger(&one).read().unwrap();
        let third = ledger(&other).try_read().unwrap();
        assert!(first.token() != second.token() && second.token() != third.token());
        assert_eq!(first.fencing_token(), None);
        for manager in [&one, &other] {
            assert_read_by(ledger(manager).try_write(), 3);
            assert_read_by(manager.try_lock("ledger", TTL), 3);
        }
        second.unlock().unwrap();
        assert_read_by(ledger(&other).try_write(), 2);
        drop(first);
        third.unlock().unwrap();

        let writer = ledger(&other).try_write().unwrap();
        assert!(!writer.is_read());
        assert_held(ledger(&one).try_read());
        assert_held(ledger(&other).try_read());
        writer.unlock().unwrap();
        let plain = one.try_lock("ledger", TTL).unwrap();
        assert_held(ledger(&other).try_read());
        plain.unlock().unwrap();
        drop(ledger(&one).try_read().unwrap());
        if protocol == Protocol::Classic {
            assert_nothing_is_left(&servers);
        }
    });
}
