//! Which lock a guard has: the resources, and the token, the fencing token and the slot that tell holders apart.

use super::LockGuard;

impl LockGuard {
    /// Returns the name of the locked resource, or of the semaphore, without the manager's key prefix. Of [several
    /// resources](crate::LockManager::request_all) it is a text for people: the first three names, and how many more there are.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
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
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
    /// let guard = manager.lock_all(["account:2", "account:1"], Duration::from_secs(10))?;
    /// assert_eq!(guard.resources(), ["account:1", "account:2"]);
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn resources(&self) -> Vec<&str> {
        let names = self.lease.claim.resource.names();
        names.iter().map(AsRef::as_ref).collect()
    }

    /// Returns the token: 40 hexadecimal characters that no other acquisition ever has. It is the value of the key on the
    /// nodes. If the holder has a [label](crate::Builder::holder), the value has the label behind the token.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let nodes = redlatch::fake::FakeNode::cluster(3);
    /// # let manager = redlatch::LockManager::builder().fakes(&nodes).build()?;
    /// let guard = manager.lock("invoices", Duration::from_secs(10))?;
    /// assert_eq!(guard.token().len(), 40);
    /// assert_eq!(nodes[0].token_of("invoices").as_deref(), Some(guard.token()));
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn token(&self) -> &str {
        self.lease.claim.value.token()
    }

    /// Returns the fencing token, or none with [`Protocol::Classic`](crate::Protocol::Classic), and for a
    /// [reader](Self::is_read).
    ///
    /// It grows with each acquisition of a resource: no two guards for one resource have the same token, and if one
    /// acquisition began after another had ended, its token is larger. A resource that remembers the largest token it has
    /// seen, and refuses smaller ones, is safe from a holder that was paused for too long. The comparison and the write have
    /// to be one atomic step, and a new holder writes its token there before it reads anything.
    ///
    /// The number is close to the microseconds since the Unix epoch at which the lock was taken; nothing depends on that. It
    /// fits into a signed 64-bit integer, and up to the year 2255 a floating-point number holds it exactly.
    ///
    /// ```
    /// # use std::time::Duration;
    /// use redlatch::{LockManager, Protocol};
    /// # let nodes = redlatch::fake::FakeNode::cluster(3);
    /// let manager = LockManager::builder().fakes(&nodes).protocol(Protocol::Fenced).build()?;
    /// manager.open_nodes()?;
    /// let first = manager.lock("ledger", Duration::from_secs(10))?.fencing_token();
    /// let second = manager.lock("ledger", Duration::from_secs(10))?.fencing_token();
    /// assert!(first < second);
    /// println!("UPDATE ledger SET .., token = {0} WHERE token <= {0}", second.unwrap());
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn fencing_token(&self) -> Option<u64> {
        self.lease.claim.token().map(u64::from)
    }

    /// Returns whether this is the lock of a reader, which others may [read](crate::RwLock::read) at the same time.
    ///
    /// ```
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
    /// let reader = manager.rw_lock("ledger").read()?;
    /// assert!(reader.is_read() && reader.fencing_token().is_none());
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn is_read(&self) -> bool {
        self.lease.claim.resource.is_read()
    }

    /// Returns the slot of the [semaphore](crate::LockManager::semaphore), which no other guard has while this one is
    /// valid: a number from 0, below the number of permits. None if the guard is of a lock.
    ///
    /// ```
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
    /// let permit = manager.semaphore("exports", 2).lock()?;
    /// assert!(permit.slot().is_some_and(|slot| slot < 2));
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn slot(&self) -> Option<u32> {
        self.lease.claim.resource.kind.slot()
    }
}
