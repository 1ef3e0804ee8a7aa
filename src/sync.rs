//! The mutexes, condition variables and atomics of everything that threads decide by.
//!
//! In the library they are those of `parking_lot` and of the standard library. In its unit tests they are the same, with a
//! point before and after each operation, where the simulation may let another thread go on (`points`). Loom's models
//! replace them by loom's (`model`).

#[cfg(test)]
pub(crate) mod model;
#[cfg(test)]
pub(crate) mod points;

#[cfg(not(test))]
pub(crate) use std::sync::OnceLock;
#[cfg(not(test))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

#[cfg(not(test))]
pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard};

#[cfg(test)]
pub(crate) use self::points::{
    AtomicBool, AtomicU32, AtomicU64, Condvar, Mutex, MutexGuard, OnceLock, while_unlocked,
};

/// Runs `wait` while the mutex is unlocked, as a wait on the condition variable does. On virtual time, that is the whole wait.
#[cfg(not(test))]
pub(crate) fn while_unlocked<T>(_: &Condvar, guard: &mut MutexGuard<'_, T>, wait: impl FnOnce()) {
    MutexGuard::unlocked(guard, wait);
}
