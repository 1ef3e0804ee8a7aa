//! `ListedLock`: a lock of a list.

use std::fmt;

use super::LockStatus;
use crate::error::Vote;

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
        let (nodes, has) = (self.status.nodes(), self.nodes_with_it());
        write!(f, ", on {has} of {} nodes", nodes.len())
    }
}

impl ListedLock {
    /// How many nodes have the key of the holder, or of readers, or any key where it is unknown who has the lock.
    fn nodes_with_it(&self) -> usize {
        let owner = self.status.owner().map(|(token, ..)| token);
        let is_read = matches!(self.status, LockStatus::Read { .. });
        let has_it = |vote: &Vote| match (owner, vote) {
            (Some(_), Vote::Held { token, .. }) => token.as_deref() == owner,
            (None, Vote::Read { .. }) if is_read => true,
            _ => owner.is_none() && !is_read && vote.is_refusal(),
        };
        let nodes = self.status.nodes().iter();
        nodes.filter(|node| has_it(&node.vote)).count()
    }
}
