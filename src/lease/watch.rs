//! `LeaseWatch`: tells threads without the guard whether the lock is held.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::state::LeaseState;
use crate::error::{Error, LossCause};

/// Tells whether a lock is still held, to threads that do not have its guard.
///
/// Made by [`LockGuard::watch`](crate::LockGuard::watch). It is cheap to clone and to ask, keeps neither the lock nor
/// the manager alive, and asks no server. When the guard releases the lock, it reports [`LossCause::Released`].
///
/// ```
/// # use std::time::Duration;
/// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
/// let guard = manager.lock("invoices", Duration::from_secs(10))?;
/// let workers: Vec<_> = (0..4)
///     .map(|worker| {
///         let watch = guard.watch();
///         std::thread::spawn(move || {
///             for invoice in 0..3 {
///                 watch.check()?;
///                 println!("worker {worker} sends invoice {invoice}");
///             }
///             Ok::<(), redlatch::Error>(())
///         })
///     })
///     .collect();
/// for worker in workers {
///     worker.join().expect("no panic")?;
/// }
/// guard.unlock()?;
/// # Ok::<(), redlatch::Error>(())
/// ```
#[derive(Clone)]
pub struct LeaseWatch {
    state: Arc<LeaseState>,
}

impl LeaseWatch {
    pub(crate) fn new(state: &Arc<LeaseState>) -> Self {
        let state = Arc::clone(state);
        Self { state }
    }

    /// When the guard is lost. For the simulation's witness, which looks between any two steps and may not read a
    /// clock.
    #[cfg(test)]
    pub(crate) fn deadline(&self) -> crate::clock::Timestamp {
        self.state.deadline()
    }

    /// Who has the lock, as the value of its key says.
    #[cfg(test)]
    pub(crate) fn holder(&self) -> Option<crate::holder::Holder> {
        self.state.claim.value.holder()
    }

    /// Returns the name of the locked resource.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
    /// let guard = manager.lock("invoices", Duration::from_secs(10))?;
    /// assert_eq!(guard.watch().resource(), "invoices");
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn resource(&self) -> &str {
        &self.state.claim.resource.name
    }

    /// Returns the fencing token for writes, as [`LockGuard::fencing_token`](crate::LockGuard::fencing_token) does.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).protocol(redlatch::Protocol::Fenced).build()?;
    /// # manager.open_nodes()?;
    /// let guard = manager.lock("invoices", Duration::from_secs(10))?;
    /// assert_eq!(guard.watch().fencing_token(), guard.fencing_token());
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn fencing_token(&self) -> Option<u64> {
        self.state.claim.token().map(u64::from)
    }

    /// Returns how long the lock is still held, as [`LockGuard::remaining`](crate::LockGuard::remaining) does.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
    /// let guard = manager.lock("invoices", Duration::from_secs(10))?;
    /// let watch = guard.watch();
    /// assert!(watch.remaining() > Duration::from_secs(5));
    /// drop(guard);
    /// assert!(watch.remaining().is_zero());
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn remaining(&self) -> Duration {
        self.state.remaining()
    }

    /// Checks, without asking a server, that the lock is still held.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] when it is not, also after the guard released it.
    ///
    /// ```
    /// # use std::time::Duration;
    /// use redlatch::{Error, LossCause};
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
    /// let guard = manager.lock("invoices", Duration::from_secs(10))?;
    /// let watch = guard.watch();
    /// watch.check()?;
    /// drop(guard);
    /// let lost = watch.check();
    /// assert!(matches!(lost, Err(Error::Lost { cause: LossCause::Released, .. })));
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn check(&self) -> Result<(), Error> {
        self.state.check()
    }

    /// Waits until the lock is no longer held, for `timeout` at most; returns the cause, or none if it is still held.
    /// [`Duration::MAX`] means without a bound.
    ///
    /// As with [`LockGuard::wait_lost`](crate::LockGuard::wait_lost), it returns a millisecond before the validity
    /// ends, or its margin earlier.
    ///
    /// ```
    /// # use std::time::Duration;
    /// use redlatch::LossCause;
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
    /// let guard = manager.lock("invoices", Duration::from_secs(10))?;
    /// let watch = guard.watch();
    /// assert!(watch.wait_lost(Duration::ZERO).is_none());
    /// drop(guard);
    /// assert!(matches!(watch.wait_lost(Duration::MAX), Some(LossCause::Released)));
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn wait_lost(&self, timeout: Duration) -> Option<LossCause> {
        self.state.wait_lost(timeout)
    }
}

impl fmt::Debug for LeaseWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseWatch")
            .field("resource", &self.resource())
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}
