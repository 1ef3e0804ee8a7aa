//! Semaphores: at most so many holders at a time, each with a slot of its own.

use super::{LockManager, LockRequest};
use crate::claim::Kind;
use crate::cluster::key::{MOST_PERMITS, check_permits};
use crate::error::Error;
use crate::protocol;
use crate::status::LockStatus;

impl LockManager {
    /// Starts a request for one of the permits of the semaphore `name`, which at most `permits` holders have at a time.
    ///
    /// The request has the same options and methods as that for a lock. The guard knows its
    /// [slot](crate::LockGuard::slot), a number below `permits` that no other holder has while it is valid: for a
    /// directory, a port or a partition of its own. Everything else about the guard is as with a lock: it is extended,
    /// kept alive, handed on as a lease and adopted, with the votes of a majority and, with
    /// [`Protocol::Fenced`](crate::Protocol::Fenced), with fencing tokens that grow in each slot.
    ///
    /// A semaphore is not created, and its permits are no property of the servers: each slot is a lock of its own, under
    /// a key that begins with the name. So all clients should ask with the same number. If they don't, there are at most
    /// as many holders as the largest number, and a client with a smaller one uses the first slots alone. A semaphore and
    /// a lock of the same name have nothing to do with each other.
    ///
    /// Threads of this manager that wait for a permit get one in the order in which they asked. A release wakes a client
    /// that waits.
    ///
    /// ```
    /// use std::time::Duration;
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(5)).build()?;
    ///
    /// let ttl = Duration::from_secs(30);
    /// let first = manager.semaphore("exports", 2).ttl(ttl).lock()?;
    /// let second = manager.semaphore("exports", 2).ttl(ttl).lock()?;
    /// assert_ne!(first.slot(), second.slot());
    ///
    /// // There is no third one, until one of them is given back.
    /// assert!(manager.semaphore("exports", 2).ttl(ttl).try_lock().is_err());
    /// first.unlock()?;
    /// let third = manager.semaphore("exports", 2).ttl(ttl).lock()?;
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The methods of the request fail as they do for a lock, and with [`Error::Invalid`] unless `permits` is 1 to 256.
    /// [`Error::Held`] means that all permits are held, or that a call that does not wait was refused eight slots in a row
    /// that a node had called free: it asks for no more.
    pub fn semaphore(&self, name: &str, permits: u32) -> LockRequest<'_> {
        LockRequest::new(self, name, Kind::Permit(permits))
    }

    /// Tells who holds the permits of a semaphore, and for how long, without changing anything: what
    /// [`status`](Self::status) tells of a lock, for each slot, from the first one on.
    ///
    /// Up to 64 slots are asked for in one round trip.
    ///
    /// # Errors
    ///
    /// As for [`status`](Self::status), and [`Error::Invalid`] unless `permits` is 1 to 256.
    ///
    /// ```
    /// use redlatch::LockStatus;
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
    /// let permit = manager.semaphore("exports", 3).lock()?;
    /// let slots = manager.semaphore_status("exports", 3)?;
    /// for (slot, status) in slots.iter().enumerate() {
    ///     println!("slot {slot}: {status:#}");
    /// }
    /// let held = slots.iter().filter(|status| matches!(status, LockStatus::Held { .. }));
    /// assert_eq!((held.count(), slots.len()), (1, 3));
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn semaphore_status(&self, name: &str, permits: u32) -> Result<Vec<LockStatus>, Error> {
        let cluster = self.cluster()?;
        check_permits(permits)?;
        protocol::look::status_of_slots(cluster, name, permits)
    }

    /// Releases the permit that has this slot and this token: what [`release`](Self::release) does for a lock.
    ///
    /// [`semaphore_status`](Self::semaphore_status) tells the token of each slot.
    ///
    /// # Errors
    ///
    /// As for [`release`](Self::release), and [`Error::Invalid`] for a `slot` that no semaphore has, above 255.
    ///
    /// ```
    /// # use std::time::Duration;
    /// use redlatch::{Error, LockStatus};
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
    /// # let _left = manager.semaphore("exports", 3).lock()?.into_lease();
    /// for (slot, status) in (0..).zip(manager.semaphore_status("exports", 3)?) {
    ///     if let LockStatus::Held { token, .. } = status {
    ///         println!("the holder of slot {slot} is gone for good");
    ///         manager.release_slot("exports", slot, &token)?;
    ///     }
    /// }
    /// # let is_free = |status: &LockStatus| matches!(status, LockStatus::Free { .. });
    /// # assert!(manager.semaphore_status("exports", 3)?.iter().all(is_free));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn release_slot(&self, name: &str, slot: u32, token: &str) -> Result<(), Error> {
        let cluster = self.cluster()?;
        if slot >= MOST_PERMITS {
            let reason = format!(
                "no semaphore has slot {slot}; give one of 0 to 255, as its status shows it"
            );
            return Err(Error::invalid("slot", reason));
        }
        protocol::release::release_by_token(cluster, name, Some(slot), token)
    }
}
