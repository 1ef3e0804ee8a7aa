//! `ListedLock`: a lock of a list.

use std::fmt;

use super::LockStatus;

/// A lock that [`LockManager::locks`](crate::LockManager::locks) has found.
///
/// ```
/// # use std::time::Duration;
/// use redlatch::LockStatus;
/// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
/// # let _guard = manager.lock("invoices", Duration::from_secs(10))?;
///
/// for lock in manager.locks("")? {
///     let lock = lock?;
///     if let LockStatus::Held { token, remaining, .. } = &lock.status {
///         println!("{} is held by {token} for another {remaining:.0?}", lock.resource);
///     }
/// }
/// # Ok::<(), redlatch::Error>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ListedLock {
    /// The name of the lock, or of the semaphore, without the key prefix.
    pub resource: String,
    /// The slot of a semaphore, counted from 0; none for a lock.
    pub slot: Option<u32>,
    /// Who holds it, and what each node says. It is never [`Free`](LockStatus::Free) or
    /// [`Blocked`](LockStatus::Blocked).
    pub status: LockStatus,
}

impl fmt::Display for ListedLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.resource)?;
        if let Some(slot) = self.slot {
            write!(f, " slot {slot}")?;
        }
        write!(f, ": {:#}", self.status)?;
        if let LockStatus::Resting { token, .. } = &self.status {
            // Who wants to end the rest needs it.
            write!(f, ", as {token}")?;
        }
        let (nodes, has) = (self.status.nodes(), self.status.nodes_with_it());
        write!(f, ", on {has} of {} nodes", nodes.len())
    }
}
