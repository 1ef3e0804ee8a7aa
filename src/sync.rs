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
pub(crate) use self::real::{
    AtomicBool, AtomicU32, AtomicU64, Condvar, Mutex, MutexGuard, OnceLock,
};

/// Types of their own names, so that clippy tells a lock that is taken from elsewhere (`disallowed-types`).
#[cfg(not(test))]
#[expect(clippy::disallowed_types, reason = "this is the seam")]
mod real {
    pub(crate) type AtomicBool = std::sync::atomic::AtomicBool;
    pub(crate) type AtomicU32 = std::sync::atomic::AtomicU32;
    pub(crate) type AtomicU64 = std::sync::atomic::AtomicU64;
    pub(crate) type OnceLock<T> = std::sync::OnceLock<T>;
    pub(crate) type Condvar = parking_lot::Condvar;
    pub(crate) type Mutex<T> = parking_lot::Mutex<T>;
    pub(crate) type MutexGuard<'a, T> = parking_lot::MutexGuard<'a, T>;
}

#[cfg(test)]
pub(crate) use self::points::{
    AtomicBool, AtomicU32, AtomicU64, Condvar, Mutex, MutexGuard, OnceLock, while_unlocked,
};

/// Runs `wait` while the mutex is unlocked, as a wait on the condition variable does. On virtual time, that is the whole wait.
#[cfg(not(test))]
pub(crate) fn while_unlocked<T>(_: &Condvar, guard: &mut MutexGuard<'_, T>, wait: impl FnOnce()) {
    MutexGuard::unlocked(guard, wait);
}
