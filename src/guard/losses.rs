//! How a program learns that its lock is lost: it waits, is called, or looks from another thread.

use std::time::Duration;

use super::LockGuard;
use crate::error::{Error, LossCause};
use crate::lease::LeaseWatch;
use crate::renewal::Purpose;

impl LockGuard {
    /// Waits until the lock is lost, for `timeout` at most; returns the cause, or none if it is still held.
    /// [`Duration::MAX`] means without a bound.
    ///
    /// It asks no server. It returns at once when a renewal or an extension finds a loss, and a millisecond before the
    /// validity ends, so that the program knows in time; with a keep-alive, its [margin](crate::KeepAlive::margin) earlier. From
    /// then on [`check`](Self::check) fails. After a suspension of the machine it returns within 50 ms.
    ///
    /// ```
    /// # use std::time::Duration;
    /// use redlatch::LossCause;
    /// # use redlatch::fake::{FakeClock, FakeNode};
    /// # let manager = redlatch::LockManager::builder().fakes(&FakeNode::cluster_on(3, &FakeClock::new())).build()?;
    /// let guard = manager.lock("invoices", Duration::from_secs(10))?;
    /// assert!(guard.wait_lost(Duration::from_secs(1)).is_none());
    /// // Nobody extends it.
    /// assert!(matches!(guard.wait_lost(Duration::MAX), Some(LossCause::Expired { .. })));
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn wait_lost(&self, timeout: Duration) -> Option<LossCause> {
        self.lease.wait_lost(timeout)
    }

    /// Calls `hook` with the cause when the lock is lost; at once, if it is lost already.
    ///
    /// The hook is called when [`wait_lost`](Self::wait_lost) would return, on one background thread for the hooks of
    /// all locks of the manager. A slow hook delays other hooks, but neither renewals nor checks. After a suspension of
    /// the machine it is called within 50 ms. A panic of a hook affects nothing else. Once the guard releases the lock,
    /// no further hook is called, but a hook that was called before may still run.
    ///
    /// # Errors
    ///
    /// [`Error::NoThread`], and [`Error::Forked`] in a forked child. After an error, the hook is dropped without a call.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlatch::fake::{FakeClock, FakeNode};
    /// # let clock = FakeClock::new();
    /// # let manager = redlatch::LockManager::builder().fakes(&FakeNode::cluster_on(3, &clock)).build()?;
    /// let guard = manager.lock("invoices", Duration::from_secs(10))?;
    /// guard.on_lost(|cause| eprintln!("stop sending: {cause}"))?;
    /// # let (told, is_told) = std::sync::mpsc::channel();
    /// # guard.on_lost(move |cause| told.send(cause).expect("a receiver"))?;
    /// # clock.advance(Duration::from_secs(10));
    /// # assert!(is_told.try_recv().is_ok());
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn on_lost(&self, hook: impl FnOnce(LossCause) + Send + 'static) -> Result<(), Error> {
        self.start_calling_hooks()?;
        self.lease.hooks(|hooks| hooks.on_lost(hook));
        self.shared.keeper.watch(&self.lease);
        Ok(())
    }

    /// Starts the thread that calls hooks, unless the thread runs already.
    pub(super) fn start_calling_hooks(&self) -> Result<(), Error> {
        self.shared.cluster().refuse_fork()?;
        self.shared.keeper.start(Purpose::Watch)
    }

    /// Returns a watch, which tells other threads whether this lock is still held.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
    /// let guard = manager.lock("invoices", Duration::from_secs(10))?;
    /// let watch = guard.watch();
    /// assert!(watch.check().is_ok());
    /// guard.unlock()?;
    /// assert!(watch.check().is_err());
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn watch(&self) -> LeaseWatch {
        LeaseWatch::new(&self.lease)
    }
}
