//! Loom's locks, as those of `sync.rs` are called.

use std::ops::{Deref, DerefMut};

pub(crate) use loom::sync::atomic::AtomicU64;

pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

pub(crate) struct MutexGuard<'m, T> {
    mutex: &'m loom::sync::Mutex<T>,
    guard: Option<loom::sync::MutexGuard<'m, T>>,
}

pub(crate) struct Condvar(loom::sync::Condvar);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(loom::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard {
            mutex: &self.0,
            guard: Some(self.0.lock().unwrap()),
        }
    }
}

impl<T> MutexGuard<'_, T> {
    /// Lets go of the lock and takes it again, as a wait does that may end by itself.
    pub(crate) fn bump(&mut self) {
        Self::unlocked(self, || ());
    }

    pub(crate) fn unlocked(guard: &mut Self, job: impl FnOnce()) {
        guard.guard = None;
        job();
        guard.guard = Some(guard.mutex.lock().unwrap());
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.guard.as_ref().unwrap()
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.guard.as_mut().unwrap()
    }
}

impl Condvar {
    pub(crate) fn new() -> Self {
        Self(loom::sync::Condvar::new())
    }

    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }

    pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let inner = guard.guard.take().unwrap();
        guard.guard = Some(self.0.wait(inner).unwrap());
    }
}
