//! One way to have a lock for a while, and that of this crate.

use std::time::Duration;

use redlatch::{Error, LockManager};

/// Longer than a benchmark holds any lock.
pub(crate) const TTL: Duration = Duration::from_secs(90);

pub(crate) trait Locker: Send + Sync {
    /// Takes the lock, runs the section and releases the lock; returns whether the lock was had.
    fn hold(&self, resource: &str, section: &mut dyn FnMut()) -> bool;
}

pub(crate) struct Redlatch(pub(crate) LockManager);

impl Locker for Redlatch {
    fn hold(&self, resource: &str, section: &mut dyn FnMut()) -> bool {
        let Ok(guard) = self.0.lock(resource, TTL) else {
            return false;
        };
        section();
        // If a stall of the machine keeps nodes from answering, the next caller waits longer, and that wait is measured.
        let unlocked = guard.unlock();
        let is_fair = matches!(unlocked, Ok(()) | Err(Error::Unconfirmed { .. }));
        assert!(is_fair, "lost within a section: {unlocked:?}");
        true
    }
}
