//! `Cancel`: ends a wait for a lock from another thread.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::sync::AtomicBool;

/// How often a call that can be cancelled checks whether it was.
pub(crate) const LOOK: Duration = Duration::from_millis(20);

/// Ends calls that wait for a lock, from another thread: when a program shuts down, or gets a signal.
///
/// Clones are the same `Cancel`. Give it to [`LockRequest::cancelled_by`](crate::LockRequest::cancelled_by), for as
/// many calls as you like. A call that waits notices within 50 ms and fails with
/// [`Error::Cancelled`](crate::Error::Cancelled); a call that is asking the nodes ends its round first, which may
/// still get the lock, and else leaves no key of the lock behind. Where a writer waited for readers, its announcement
/// ends by itself a moment later; see [`RwLock`](crate::RwLock#fairness).
///
/// ```
/// use std::thread;
/// use std::time::Duration;
/// use redlatch::{Cancel, Error, LockManager};
/// # let nodes = redlatch::fake::FakeNode::cluster(3);
/// # for node in &nodes { node.hold("invoices", "another", Duration::from_secs(60)); }
/// # let manager = LockManager::builder().fakes(&nodes).build()?;
///
/// let cancel = Cancel::new();
/// let waiting = thread::spawn({
///     let (manager, cancel) = (manager.clone(), cancel.clone());
///     move || manager.request("invoices").cancelled_by(&cancel).try_lock_for(Duration::MAX)
/// });
/// cancel.cancel();
/// let result = waiting.join().expect("a thread that ends");
/// assert!(matches!(result, Err(Error::Cancelled { .. })));
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Cancel {
    is_cancelled: Arc<AtomicBool>,
}

impl Cancel {
    /// Makes a `Cancel` that is not cancelled.
    ///
    /// ```
    /// assert!(!redlatch::Cancel::new().is_cancelled());
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancels all calls that have it, those that wait now and those that begin later. This can't be undone.
    ///
    /// ```
    /// use redlatch::{Cancel, Error};
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
    /// let cancel = Cancel::new();
    /// cancel.cancel();
    /// // A call that begins later asks no node.
    /// let result = manager.request("invoices").cancelled_by(&cancel).lock();
    /// assert!(matches!(result, Err(Error::Cancelled { .. })));
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Release);
    }

    /// Returns whether it was cancelled.
    ///
    /// ```
    /// let cancel = redlatch::Cancel::new();
    /// let of_another_thread = cancel.clone();
    /// of_another_thread.cancel();
    /// assert!(cancel.is_cancelled());
    /// ```
    pub fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Acquire)
    }

    /// For rooms below, which don't know this type.
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_cancelled)
    }
}
