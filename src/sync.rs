//! The mutexes of the code that loom checks: the local queue, and the state of a lease. The models replace them by
//! loom's.

#[cfg(test)]
pub(crate) mod model;

pub(crate) use std::sync::atomic::AtomicU64;

pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::clock::{Clock, Timestamp};

/// Waits on `condvar` until it is notified or `until` has come; may wake early.
pub(crate) fn nap<T>(
    clock: &Clock,
    condvar: &Condvar,
    guard: &mut MutexGuard<'_, T>,
    until: Timestamp,
) {
    clock.nap(condvar, guard, until);
}
