//! By what the resource tells holders apart: the fencing token, the slot, and whether it is a reader.

use super::LockGuard;
use crate::fencing::FencingToken;
use crate::subject::Subject;

impl LockGuard {
    /// Returns the fencing token, or none with [`Protocol::Classic`](crate::Protocol::Classic), and for a
    /// [reader](Self::is_read).
    ///
    /// It is larger than the token of every earlier guard of this resource. The locked resource should refuse a request
    /// with a smaller token than it has seen; see [`FencingToken`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// use redlatch::{LockManager, Protocol};
    /// # let nodes = redlatch::fake::FakeNode::cluster(3);
    /// let manager = LockManager::builder().fakes(&nodes).protocol(Protocol::Fenced).build()?;
    /// manager.open_nodes()?;
    /// let guard = manager.lock("invoices", Duration::from_secs(10))?;
    /// println!("write with {:?}", guard.fencing_token());
    /// # assert!(guard.fencing_token().is_some());
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn fencing_token(&self) -> Option<FencingToken> {
        self.lease.fencing()
    }

    /// Returns whether this is the lock of a reader, which others may [read](crate::RwLock::read) at the same time.
    ///
    /// ```
    /// # let nodes = redlatch::fake::FakeNode::cluster(3);
    /// # let manager = redlatch::LockManager::builder().fakes(&nodes).build()?;
    /// let reader = manager.rw_lock("ledger").read()?;
    /// assert!(reader.is_read() && reader.fencing_token().is_none());
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn is_read(&self) -> bool {
        *self.lease.subject() == Subject::Read
    }

    /// Returns the slot of the [semaphore](crate::LockManager::semaphore), which no other guard has while this one is
    /// valid: a number from 0, below the number of permits. None if the guard is of a lock.
    pub fn slot(&self) -> Option<u32> {
        self.lease.slot()
    }
}
