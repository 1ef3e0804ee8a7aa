//! The locks of what has a model under loom: the local queue, and the end of a lock. A model puts others in their place.

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
