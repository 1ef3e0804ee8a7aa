//! Whether somebody waits for a lock that is held, so that its holder can make room.

use super::LockGuard;
use crate::error::Error;

impl LockGuard {
    /// Returns whether somebody waits for this lock, as far as the guard knows.
    ///
    /// A holder that works in slices can so give the lock back at a good moment, and ask for it again:
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
    /// let mut guard = manager.lock("reindex", Duration::from_secs(10))?;
    /// for slice in 1..=3 {
    ///     println!("slice {slice}");
    ///     if guard.is_wanted() {
    ///         guard.unlock()?;
    ///         guard = manager.lock("reindex", Duration::from_secs(10))?;
    ///     }
    ///     guard.extend(Duration::from_secs(10))?;
    /// }
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    ///
    /// It asks no server. A thread of this manager that waits in its queue for the same name is seen at once. All others, such as
    /// clients of other managers and threads that wait for a permit or behind readers, are seen by [extensions](Self::extend), also
    /// those of a [keep-alive](crate::KeepAlive): their replies tell whether a client has announced that it waits. This is a hint,
    /// and no promise rests on it. A client announces itself only while it can listen. An extension in the first `retry_delay` and
    /// node timeout of a lock tells nothing, because it may be this holder that was announced.
    /// There is no priority among those who wait: the holder can't know how urgent they are, and one that says so of itself
    /// would starve the others.
    pub fn is_wanted(&self) -> bool {
        if self.shared.cluster().is_forked() {
            return false;
        }
        self.lease.is_wanted() || self.turns.iter().any(|turn| turn.first().is_some())
    }

    /// Calls `hook` once, when somebody waits for this lock; at once, if that is so already.
    ///
    /// The hook is called when [`is_wanted`](Self::is_wanted) begins to return true, in the way of
    /// [`on_lost`](Self::on_lost). After the hook was called, another one can be set; it is called at once as long as somebody
    /// waits.
    ///
    /// # Errors
    ///
    /// As for [`on_lost`](Self::on_lost).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use std::sync::Arc;
    /// # use std::sync::atomic::{AtomicBool, Ordering};
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
    /// let guard = manager.lock("leader", Duration::from_secs(10))?;
    /// let must_yield = Arc::new(AtomicBool::new(false));
    /// let told = Arc::clone(&must_yield);
    /// guard.on_wanted(move || told.store(true, Ordering::Relaxed))?;
    /// # assert!(!must_yield.load(Ordering::Relaxed));
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn on_wanted(&self, hook: impl FnOnce() + Send + 'static) -> Result<(), Error> {
        self.start_calling_hooks()?;
        self.lease.hooks(|hooks| hooks.on_wanted(hook));
        if self.is_wanted() {
            self.shared.keeper.tell_wanted(&self.lease);
        }
        Ok(())
    }
}
