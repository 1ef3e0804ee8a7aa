//! Read-write locks: many readers at a time, or one writer.

use std::time::{Duration, Instant};

use super::LockManager;
use super::request::LockRequest;
use crate::claim::Kind;
use crate::contend::cancel::Cancel;
use crate::error::Error;
use crate::guard::LockGuard;
use crate::renewal::KeepAlive;

impl LockManager {
    /// Starts a request for the lock on `name`, to read or to write: many readers share it, and a writer has it alone.
    ///
    /// [`write`](RwLock::write) takes the ordinary lock on that name, as [`lock`](Self::lock) does. So a writer excludes
    /// readers, other writers and everybody who takes the plain lock, also with other implementations of Redlock; and so do
    /// these exclude readers. Nothing is created, and one name can be locked in both ways.
    ///
    /// ```
    /// use std::time::Duration;
    /// use redlatch::Error;
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(5)).build()?;
    ///
    /// let ledger = manager.rw_lock("ledger").ttl(Duration::from_secs(10));
    /// let first = ledger.read()?;
    /// let second = ledger.read()?;
    /// assert!(matches!(ledger.try_write(), Err(Error::Held { .. })));
    ///
    /// drop((first, second));
    /// let writer = ledger.write()?;
    /// assert!(matches!(ledger.try_read(), Err(Error::Held { .. })));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn rw_lock(&self, name: &str) -> RwLock<'_> {
        RwLock {
            write: self.request(name),
        }
    }
}

/// A lock to be taken for reading or writing, made by [`LockManager::rw_lock`]. Its methods are named as those of
/// `parking_lot::RwLock`, and each returns a [`LockGuard`].
///
/// Unlike that type, it protects no data, and [`read`](Self::read) and [`write`](Self::write) give up after the builder's
/// `acquire_timeout`. There is no `downgrade`, `upgradable_read`, `read_recursive` or `is_locked`.
///
/// It holds nothing itself: it can be used as often as you like, and from several threads.
///
/// # Readers
///
/// A reader has a lock of its own, with its own token and its own time to live, which it shares with other readers. A guard of a
/// reader [is as any other](LockGuard): [`check`](LockGuard::check) it, [extend](LockGuard::extend) it, have it
/// [kept alive](Self::keep_alive). That prolongs this reader's lock and no other one, and the loss of one says nothing of the
/// others. A reader that dies is gone when its time to live ends, by the clock of each node. Reading needs a majority of the
/// nodes, as writing does, so it costs the same round trips. Threads of one manager read in parallel.
///
/// A guard of a reader has no [fencing token](LockGuard::fencing_token), also with
/// [`Protocol::Fenced`](crate::Protocol::Fenced): a reader changes nothing that could be refused by its number. All else of that
/// protocol holds for readers too: a node that may have forgotten locks gives no vote to a reader.
///
/// # Fairness
///
/// A writer that waits says so at the first node that answers, and from then on no reader gets the lock. So it waits for the
/// readers that are there, and not for those that come later. When a writer gives the lock back, readers that wait get it
/// before the next writer does. So neither a stream of readers nor a stream of writers keeps the others out. There is no
/// strict order: a client that comes at the right moment gets ahead, and a reader that is late for its turn waits for the
/// next one. A call that does not wait, such as [`try_write`](Self::try_write), says nothing to anybody. A writer that gives
/// up, is cancelled or dies while it waits may hold readers up for a little longer: its announcement ends by itself, after a
/// [`retry_delay`](crate::Builder::retry_delay), a node timeout and 100 ms, and after a minute at most.
///
/// The order is a courtesy among clients of this crate, and exclusion does not depend on it. Other implementations
/// know nothing of it, and take the lock when it is free.
///
/// # There is no upgrade and no downgrade
///
/// No method makes a writer of a reader. Two readers that both did that would wait for each other without end: each of them for
/// the end of the other. Give the lock back, take it for writing, and look again at what you read: somebody else may have
/// written in between. No method makes a reader of a writer either: give the lock back, and take it for reading.
///
/// ```compile_fail,E0599
/// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
/// let reader = manager.rw_lock("ledger").read()?;
/// let writer = reader.upgrade()?;
/// # Ok::<(), redlatch::Error>(())
/// ```
///
/// # Twice in one thread
///
/// A thread that asks for the lock for writing while it reads, or for reading while it writes, waits for itself until its
/// timeout, and fails.
///
/// A thread that reads may read again, and has two locks then: but not while a writer waits. Then the second read waits
/// for the writer, and the writer waits for the first read, until one of them gives up. Whether a writer waits can't be
/// known in advance. So don't read again in a function that is called under a read lock: pass the guard down.
#[derive(Debug, Clone)]
#[must_use = "a lock is taken by one of the methods of this value"]
pub struct RwLock<'a> {
    /// The request for the ordinary lock.
    write: LockRequest<'a>,
}

impl<'a> RwLock<'a> {
    /// Sets the time to live, as [`LockRequest::ttl`] does.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
    /// let writer = manager.rw_lock("ledger").ttl(Duration::from_secs(5)).write()?;
    /// assert!(writer.remaining() < Duration::from_secs(5));
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn ttl(self, ttl: Duration) -> Self {
        self.with(|request| request.ttl(ttl))
    }

    /// Renews the lock in the background, as [`LockRequest::keep_alive`] does. Of a reader it renews the lock of that reader and
    /// no other.
    ///
    /// ```
    /// # use std::time::Duration;
    /// use redlatch::KeepAlive;
    /// # let clock = redlatch::fake::FakeClock::new();
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster_on(3, &clock)).build()?;
    /// let reader = manager.rw_lock("ledger").keep_alive(KeepAlive::unbounded()).read()?;
    /// # clock.advance(Duration::from_secs(600));
    /// // Ten minutes later, still ours.
    /// reader.check()?;
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn keep_alive(self, keep_alive: KeepAlive) -> Self {
        self.with(|request| request.keep_alive(keep_alive))
    }

    /// Keeps everybody else from the lock for this time from when a writer got it, as [`LockRequest::at_least`] does. To read
    /// with it is refused, as [`Error::Invalid`]: readers share the lock, so none of them can keep the others from it.
    ///
    /// ```
    /// # use std::time::Duration;
    /// use redlatch::Error;
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
    /// let ledger = manager.rw_lock("ledger").at_least(Duration::from_secs(600));
    /// ledger.write()?.unlock()?;
    /// assert!(ledger.try_write().expect_err("it rests").is_resting());
    /// assert!(matches!(ledger.read(), Err(Error::Invalid { field: "at_least", .. })));
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn at_least(self, minimum: Duration) -> Self {
        self.with(|request| request.at_least(minimum))
    }

    /// Lets another thread end the wait for the lock, as [`LockRequest::cancelled_by`] does.
    ///
    /// ```
    /// use redlatch::{Cancel, Error};
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
    /// let shutdown = Cancel::new();
    /// let ledger = manager.rw_lock("ledger").cancelled_by(&shutdown);
    /// shutdown.cancel();
    /// assert!(matches!(ledger.read(), Err(Error::Cancelled { .. })));
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn cancelled_by(self, cancel: &Cancel) -> Self {
        self.with(|request| request.cancelled_by(cancel))
    }

    /// Says who takes the lock, as [`LockRequest::holder`] does. Nobody is told of the label of a reader: others learn how many
    /// read, and not who. It is under the key on the nodes.
    ///
    /// ```
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
    /// let ledger = manager.rw_lock("ledger").holder("web-3");
    /// let writer = ledger.write()?;
    /// let error = ledger.try_write().expect_err("it is held");
    /// assert_eq!(error.holder().map(|holder| &*holder.label), Some("web-3"));
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn holder(self, label: &str) -> Self {
        self.with(|request| request.holder(label))
    }

    /// Takes the lock for reading, waiting for it up to the builder's `acquire_timeout` (the ttl and 10 s unless set).
    ///
    /// The first attempt is made at once, whatever other threads of this manager do. If a writer has the lock or waits for it, the
    /// call waits as [`LockManager::lock`] does: the first such thread of a manager waits at one node, which wakes it, and when it
    /// has the lock, the others ask as well, all at once.
    ///
    /// # Errors
    ///
    /// As for [`LockRequest::lock`]. [`Error::Held`] says that somebody has the lock alone, or that a writer
    /// [waits](Error::writer_waits) for it, which comes first. [`Error::Invalid`] where
    /// [`at_least`](Self::at_least) was set.
    ///
    /// ```
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
    /// let reader = manager.rw_lock("ledger").read()?;
    /// assert!(reader.is_read());
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn read(&self) -> Result<LockGuard, Error> {
        self.reading().lock()
    }

    /// Takes the lock for reading if no writer has it or waits for it: one round over the nodes, and no waiting.
    ///
    /// # Errors
    ///
    /// As for [`read`](Self::read); [`Error::Held`] is the normal "no", also while only readers have the lock and a writer
    /// waits.
    ///
    /// ```
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
    /// let ledger = manager.rw_lock("ledger");
    /// let writer = ledger.write()?;
    /// assert!(ledger.try_read().is_err());
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn try_read(&self) -> Result<LockGuard, Error> {
        self.reading().try_lock()
    }

    /// Takes the lock for reading, waiting for it up to `timeout`. [`Duration::MAX`] means without a bound.
    ///
    /// # Errors
    ///
    /// As for [`read`](Self::read).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
    /// let reader = manager.rw_lock("ledger").try_read_for(Duration::from_secs(1))?;
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn try_read_for(&self, timeout: Duration) -> Result<LockGuard, Error> {
        self.reading().try_lock_for(timeout)
    }

    /// Takes the lock for reading, waiting for it until `deadline`.
    ///
    /// # Errors
    ///
    /// As for [`read`](Self::read).
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
    /// let soon = Instant::now() + Duration::from_secs(2);
    /// let reader = manager.rw_lock("ledger").try_read_until(soon)?;
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn try_read_until(&self, deadline: Instant) -> Result<LockGuard, Error> {
        self.reading().try_lock_until(deadline)
    }

    /// Takes the lock for writing: the ordinary lock on this name, as [`LockRequest::lock`] does. While others read, a writer that
    /// waits keeps further readers from the lock.
    ///
    /// # Errors
    ///
    /// As for [`LockRequest::lock`]. [`Error::Held`] says of each node [how many readers](crate::Vote::Read::readers) it has, if
    /// it is they.
    ///
    /// ```
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
    /// let writer = manager.rw_lock("ledger").write()?;
    /// assert!(!writer.is_read());
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn write(&self) -> Result<LockGuard, Error> {
        self.write.lock()
    }

    /// Takes the lock for writing if it is free, as [`LockRequest::try_lock`] does.
    ///
    /// # Errors
    ///
    /// As for [`write`](Self::write); [`Error::Held`] is the normal "no".
    ///
    /// ```
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
    /// let ledger = manager.rw_lock("ledger");
    /// let reader = ledger.read()?;
    /// let error = ledger.try_write().expect_err("it is read");
    /// assert_eq!(error.readers(), Some(1));
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn try_write(&self) -> Result<LockGuard, Error> {
        self.write.try_lock()
    }

    /// Takes the lock for writing, waiting for it up to `timeout`, as [`LockRequest::try_lock_for`] does.
    ///
    /// # Errors
    ///
    /// As for [`write`](Self::write).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
    /// let writer = manager.rw_lock("ledger").try_write_for(Duration::from_secs(1))?;
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn try_write_for(&self, timeout: Duration) -> Result<LockGuard, Error> {
        self.write.try_lock_for(timeout)
    }

    /// Takes the lock for writing, waiting for it until `deadline`, as [`LockRequest::try_lock_until`] does.
    ///
    /// # Errors
    ///
    /// As for [`write`](Self::write).
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
    /// let soon = Instant::now() + Duration::from_secs(2);
    /// let writer = manager.rw_lock("ledger").try_write_until(soon)?;
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn try_write_until(&self, deadline: Instant) -> Result<LockGuard, Error> {
        self.write.try_lock_until(deadline)
    }

    fn with(mut self, set: impl FnOnce(LockRequest<'a>) -> LockRequest<'a>) -> Self {
        self.write = set(self.write);
        self
    }

    /// The request for the lock of a reader.
    fn reading(&self) -> LockRequest<'a> {
        let mut request = self.write.clone();
        request.kind = Kind::Read;
        request
    }
}
