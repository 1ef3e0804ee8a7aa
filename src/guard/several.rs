//! The resources that a guard has.

use super::LockGuard;

impl LockGuard {
    /// Returns the name of the locked resource, or of the semaphore, without the manager's key prefix. Of [several
    /// resources](crate::LockManager::request_all) it is a text for people: the first three names, and how many more there are.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let nodes = redlatch::fake::FakeNode::cluster(3);
    /// # let manager = redlatch::LockManager::builder().fakes(&nodes).build()?;
    /// let guard = manager.lock("invoices", Duration::from_secs(10))?;
    /// assert_eq!(guard.resource(), "invoices");
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn resource(&self) -> &str {
        self.lease.name()
    }

    /// Returns the names of the locked resources in order, without the manager's key prefix: one, or each of those given to
    /// [`LockManager::request_all`](crate::LockManager::request_all). Of a permit it is the name of the semaphore.
    ///
    /// The lock on several resources is lost as a whole. Where another holder has one of them, the [votes](crate::Vote::Held) of
    /// the loss name it. Where a key is gone, [`Vote::Missing`](crate::Vote::Missing) does not say which:
    /// [`LockManager::status`](crate::LockManager::status) of each name tells.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let nodes = redlatch::fake::FakeNode::cluster(3);
    /// # let manager = redlatch::LockManager::builder().fakes(&nodes).build()?;
    /// let guard = manager.lock_all(["account:2", "account:1"], Duration::from_secs(10))?;
    /// assert_eq!(guard.resources(), ["account:1", "account:2"]);
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn resources(&self) -> Vec<&str> {
        self.names().iter().map(AsRef::as_ref).collect()
    }
}
