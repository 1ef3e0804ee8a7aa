//! A request for a lock, for when its name and ttl are not all there is to say.

use std::time::{Duration, Instant};

use crate::error::Error;
use crate::guard::LockGuard;
use crate::manager::LockManager;

/// A lock to be taken, made by [`LockManager::request`].
///
/// ```
/// # use std::time::Duration;
/// # let nodes = redlatch::fake::FakeNode::cluster(3);
/// # let manager = redlatch::LockManager::builder().fakes(&nodes).build()?;
/// let wait = Duration::from_secs(1);
/// let guard = manager.request("invoices").ttl(Duration::from_secs(5)).try_lock_for(wait)?;
/// # Ok::<(), redlatch::Error>(())
/// ```
#[derive(Debug, Clone)]
#[must_use = "a request does nothing until one of its lock methods is called"]
pub struct LockRequest<'a> {
    manager: &'a LockManager,
    resource: &'a str,
    ttl: Duration,
}

impl<'a> LockRequest<'a> {
    pub(crate) fn new(manager: &'a LockManager, resource: &'a str) -> Self {
        Self {
            manager,
            resource,
            ttl: manager.default_ttl(),
        }
    }

    /// Sets the time to live.
    ///
    /// Defaults to the builder's `default_ttl` (30 s unless set).
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// Takes the lock as [`LockManager::lock`] does.
    ///
    /// # Errors
    ///
    /// As for [`LockManager::lock`].
    pub fn lock(&self) -> Result<LockGuard, Error> {
        self.manager.lock(self.resource, self.ttl)
    }

    /// Takes the lock as [`LockManager::try_lock`] does.
    ///
    /// # Errors
    ///
    /// As for [`LockManager::lock`].
    pub fn try_lock(&self) -> Result<LockGuard, Error> {
        self.manager.try_lock(self.resource, self.ttl)
    }

    /// Takes the lock as [`LockManager::try_lock_for`] does.
    ///
    /// # Errors
    ///
    /// As for [`LockManager::lock`].
    pub fn try_lock_for(&self, timeout: Duration) -> Result<LockGuard, Error> {
        self.manager.try_lock_for(self.resource, self.ttl, timeout)
    }

    /// Takes the lock as [`LockManager::try_lock_until`] does.
    ///
    /// # Errors
    ///
    /// As for [`LockManager::lock`].
    pub fn try_lock_until(&self, deadline: Instant) -> Result<LockGuard, Error> {
        self.manager
            .try_lock_until(self.resource, self.ttl, deadline)
    }
}
