//! What [`Error::Held`] tells: who has the lock, or why nobody gets it.

use super::{Error, NodeError, NodeReport, Told};
use crate::holder::Holder;

impl Error {
    /// Returns whether others have the lock, or all permits of the semaphore: the normal "no".
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// # let _guard = manager.lock("nightly-report", ttl)?;
    /// match manager.try_lock("nightly-report", ttl) {
    ///     Err(error) if error.is_held() => println!("another machine is at it"),
    ///     result => println!("ours: {:?}", result?),
    /// }
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn is_held(&self) -> bool {
        matches!(self, Self::Held { .. })
    }

    /// Returns who has the lock, if this error is [`Held`](Self::Held), the holder says so, and the call could learn it.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
    /// let ttl = Duration::from_secs(10);
    /// let _guard = manager.request("invoices").holder("web-3").lock()?;
    /// let error = manager.try_lock("invoices", ttl).expect_err("it is held");
    /// assert_eq!(error.holder().map(|holder| &*holder.label), Some("web-3"));
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn holder(&self) -> Option<&Holder> {
        if let Self::Held { holder, .. } = self {
            holder.as_ref()
        } else {
            None
        }
    }

    /// Returns whether the lock [rests](crate::LockRequest::at_least), as far as the answers of the nodes tell: its last
    /// holder has given it back, and nobody gets it before its time is over.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
    /// let request = manager.request("report").at_least(Duration::from_secs(600));
    /// request.lock()?.unlock()?;
    /// let error = request.try_lock().expect_err("it rests");
    /// assert!(error.is_resting());
    /// println!("{error}");
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn is_resting(&self) -> bool {
        Told(self.refusals()).is_rest()
    }

    /// Returns how many [readers](crate::LockManager::rw_lock) have the lock, as far as the answers of the nodes tell, if it is
    /// they. A node counts those that it knows; this is the largest number.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
    /// let ttl = Duration::from_secs(10);
    /// let _reader = manager.rw_lock("ledger").read()?;
    /// let error = manager.try_lock("ledger", ttl).expect_err("it is read");
    /// assert_eq!(error.readers(), Some(1));
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn readers(&self) -> Option<u64> {
        Told(self.refusals()).readers()
    }

    /// Returns whether a [reader](crate::LockManager::rw_lock) was refused because a writer waits for the lock, as far as the
    /// answers of the nodes tell. Other readers may have the lock at that time.
    ///
    /// ```
    /// use std::thread;
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
    ///
    /// let ledger = manager.rw_lock("ledger");
    /// let reader = ledger.read()?;
    /// thread::scope(|scope| {
    ///     // It waits for the reader.
    ///     let writer = scope.spawn(|| ledger.write());
    ///     let error = loop {
    ///         match ledger.try_read() {
    ///             Ok(another) => drop(another),
    /// #           Err(_) if writer.is_finished() => panic!("it has not waited"),
    ///             Err(error) => break error,
    ///         }
    ///     };
    ///     assert!(error.writer_waits(), "{error}");
    ///     drop(reader);
    ///     writer.join().expect("a thread that ends").map(drop)
    /// })?;
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn writer_waits(&self) -> bool {
        Told(self.refusals()).writer_waits()
    }

    /// Whether what is under the keys has prevented the lock, so that another slot of the semaphore may be granted.
    pub(crate) fn is_of_one_key(&self) -> bool {
        let (_, nodes) = self.round();
        let mut failures = nodes.iter().filter_map(|report| report.vote.failure());
        self.is_held() || failures.any(NodeError::is_of_key)
    }

    /// Which resource is in the way, if this error is [`Held`](Self::Held).
    pub(crate) fn resource(&self) -> Option<&str> {
        if let Self::Held { resource, .. } = self {
            Some(resource)
        } else {
            None
        }
    }

    /// What the nodes said, if this error is [`Held`](Self::Held).
    fn refusals(&self) -> &[NodeReport] {
        if self.is_held() { self.round().1 } else { &[] }
    }

    /// The same error, of a call for one of so many permits.
    pub(crate) fn of_semaphore(mut self, number: Option<u32>) -> Self {
        if let Self::Held { permits, .. } = &mut self {
            *permits = number;
        }
        self
    }

    /// The same error, if it is [`Held`](Self::Held), with the holder and what the nodes said of it.
    pub(crate) fn naming(mut self, named: Holder, votes: Vec<NodeReport>) -> Self {
        if let Self::Held { holder, nodes, .. } = &mut self {
            (*holder, *nodes) = (Some(named), votes);
        }
        self
    }
}
