//! `SemaphoreStatus`: who holds the permits of a semaphore.

use std::fmt;

use super::LockStatus;

/// What [`LockManager::semaphore_status`](crate::LockManager::semaphore_status) found: a snapshot, which may be out of
/// date when it is read.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SemaphoreStatus {
    /// The status of each slot, from the first one on.
    pub slots: Vec<LockStatus>,
}

impl SemaphoreStatus {
    /// Returns how many of the permits are held, as far as the nodes can tell. A permit that rests is not held, and not free.
    ///
    /// ```
    /// # let nodes = redlatch::fake::FakeNode::cluster(3);
    /// # let manager = redlatch::LockManager::builder().fakes(&nodes).build()?;
    /// let permit = manager.semaphore("exports", 3).lock()?;
    /// assert_eq!(manager.semaphore_status("exports", 3)?.held(), 1);
    /// permit.unlock()?;
    /// assert_eq!(manager.semaphore_status("exports", 3)?.held(), 0);
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn held(&self) -> usize {
        let is_held = |slot: &&LockStatus| matches!(slot, LockStatus::Held { .. });
        self.slots.iter().filter(is_held).count()
    }
}

impl fmt::Display for SemaphoreStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} held", self.held(), self.slots.len())?;
        let is_resting = |slot: &&LockStatus| matches!(slot, LockStatus::Resting { .. });
        let resting = self.slots.iter().filter(is_resting).count();
        if resting > 0 {
            write!(f, ", {resting} resting")?;
        }
        for (slot, status) in self.slots.iter().enumerate() {
            if !matches!(status, LockStatus::Free { .. }) {
                write!(f, "; slot {slot}: {status:#}")?;
            }
        }
        Ok(())
    }
}
