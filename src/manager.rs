//! `LockManager`: the verbs of the library, over a cluster of nodes.
//!
//! `request` is what a call asks for, `acquire` the loop of a call, and `record` what is counted and logged of it. `rw_lock`,
//! `semaphore` and `several` make requests of their kinds. `operations` and `list` are for people, and `builder` makes managers.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::cluster::Cluster;
use crate::contend::spec::lines;
use crate::error::Error;
use crate::guard::{LockGuard, Shared};
use crate::lease::Lease;
use crate::protocol;

mod acquire;
mod builder;
#[cfg(test)]
#[path = "../tests/rooms/manager/left_behind.rs"]
mod left_behind;
mod list;
mod operations;
mod record;
mod request;
mod rw_lock;
mod semaphore;
mod several;

pub use self::builder::Builder;
pub use self::request::LockRequest;
pub use self::rw_lock::RwLock;

/// Takes locks on a majority of independent Redis servers.
///
/// A manager is made once and shared: clones are the same manager, and all its methods can be called from any number of
/// threads. What threads ask of the nodes at the same time goes out together, so one manager for all is faster than one
/// for each. It holds a pool of connections per node and connects when it first needs to. It has one background thread,
/// and more that are started when they are needed: for nodes with a host name, for locks that are [kept
/// alive](crate::KeepAlive), for [`on_lost`](LockGuard::on_lost) hooks, and one for each node that has failed. They end when
/// the last clone and the last guard are dropped, and with them the background work: no drop waits for it. So call
/// [`flush`](Self::flush) before a program ends that has given locks back.
///
/// The algorithm is Redlock, from the Redis documentation page "Distributed Locks with Redis"; the crate's
/// `docs/protocol.md` lists each step and each deviation.
///
/// A unit test needs no server: with the cargo feature `fake`, as `redlatch = { path = "../redlatch", features = ["fake"] }` in
/// `[dev-dependencies]`, there are `redlatch::fake::FakeNode` and `Builder::fakes`.
///
/// ```
/// use std::time::Duration;
/// use redlatch::LockManager;
/// # let nodes = redlatch::fake::FakeNode::cluster(5);
///
/// // LockManager::new(["redis://a:6379", "redis://b:6379", "redis://c:6379"])?
/// let manager = LockManager::builder().fakes(&nodes).build()?;
///
/// let guard = manager.lock("nightly-report", Duration::from_secs(30))?;
/// println!("ours for {:?}", guard.remaining());
/// guard.unlock()?;
/// # Ok::<(), redlatch::Error>(())
/// ```
#[derive(Clone)]
#[doc(alias = "fake")]
pub struct LockManager {
    shared: Arc<Shared>,
}

impl LockManager {
    /// Makes a manager for the servers at `urls`, with the defaults of [`Builder`].
    ///
    /// A URL is `redis://[user:password@]host[:port][/db]`, `rediss://…` for TLS (cargo feature `tls-rustls`) or
    /// `unix:///path/to/socket`, as [`Builder::node`] says. Nothing is connected yet.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] when there is no URL, when one can't be used, or when two are the same server;
    /// [`Error::Forked`] in the child of a process that has built a manager.
    ///
    /// ```
    /// use redlatch::LockManager;
    ///
    /// let manager = LockManager::new(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])?;
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn new<I>(urls: I) -> Result<Self, Error>
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        Self::builder().nodes(urls).build()
    }

    /// Starts a [`Builder`], to set more than the servers.
    ///
    /// ```
    /// # use std::time::Duration;
    /// use redlatch::LockManager;
    /// # let nodes = redlatch::fake::FakeNode::cluster(3);
    /// let builder = LockManager::builder().acquire_timeout(Duration::from_secs(60));
    /// let manager = builder.fakes(&nodes).build()?;
    /// manager.lock("invoices", Duration::from_secs(10))?.unlock()?;
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Takes the lock on `resource`, waiting for it up to the builder's
    /// [`acquire_timeout`](Builder::acquire_timeout), which is the ttl and 10 s unless set.
    ///
    /// The lock is valid for `ttl` less the drift, counted from before the first command is sent. A holder that needs
    /// more time calls [`LockGuard::extend`]. It is released when the guard is dropped: bind the guard to a name, because
    /// [`let _ =` drops it at once](LockGuard#let-_--gives-the-lock-back-at-once).
    ///
    /// Threads of this manager that want the same lock get it in the order in which they asked, and only the first of
    /// them talks to the servers. While another process holds the lock, this thread waits at one node, which wakes it
    /// when the lock is released. It also looks there after each `retry_delay`, and when the lock's time to live ends.
    /// While too few nodes answer, attempts follow each other after a random delay. The last attempt is made when the
    /// timeout is over.
    ///
    /// # Errors
    ///
    /// The error of the last attempt: [`Error::Held`], [`Error::Unavailable`], [`Error::NotALock`] or [`Error::TooSlow`]. A
    /// thread that waited behind another thread until its timeout gets that thread's error, or [`Error::Held`] without asking a
    /// node. Without any attempt: [`Error::Invalid`] for a `ttl` of no more than the drift (1 % and 2 ms) or above
    /// `max_ttl`, and for a name that is empty, longer than 64 KiB, or reserved (`…:fence`,
    /// `…redlatch:node`, or with `:redlatch:` in it), [`Error::Forked`] in a forked child, [`Error::NoRandomness`] when the
    /// operating system gives no random bytes for a token.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
    /// let guard = manager.lock("invoices", Duration::from_secs(10))?;
    /// assert_eq!(guard.resource(), "invoices");
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn lock(&self, resource: &str, ttl: Duration) -> Result<LockGuard, Error> {
        self.request(resource).ttl(ttl).lock()
    }

    /// Takes the lock on `resource` if it is free: one round over the nodes, and no waiting for a holder. If another
    /// thread of this manager holds the lock or is asking for it, no node is asked.
    ///
    /// # Errors
    ///
    /// As for [`lock`](Self::lock); [`Error::Held`] is the normal "no".
    ///
    /// ```
    /// # use std::time::Duration;
    /// use redlatch::Error;
    /// # let nodes = redlatch::fake::FakeNode::cluster(3);
    /// # let manager = redlatch::LockManager::builder().fakes(&nodes).build()?;
    ///
    /// # let other_process = redlatch::LockManager::builder().fakes(&nodes).build()?;
    /// let guard = manager.try_lock("invoices", Duration::from_secs(10))?;
    /// match other_process.try_lock("invoices", Duration::from_secs(10)) {
    ///     Err(Error::Held { nodes, .. }) => println!("someone is at it: {}", nodes[0]),
    ///     other => panic!("{other:?}"),
    /// }
    /// # Ok::<(), Error>(())
    /// ```
    pub fn try_lock(&self, resource: &str, ttl: Duration) -> Result<LockGuard, Error> {
        self.request(resource).ttl(ttl).try_lock()
    }

    /// Takes the lock on `resource`, waiting for it up to `timeout`. [`Duration::MAX`] means without a bound.
    ///
    /// # Errors
    ///
    /// As for [`lock`](Self::lock).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
    /// let (ttl, timeout) = (Duration::from_secs(10), Duration::from_millis(200));
    /// let guard = manager.try_lock_for("invoices", ttl, timeout)?;
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn try_lock_for(
        &self,
        resource: &str,
        ttl: Duration,
        timeout: Duration,
    ) -> Result<LockGuard, Error> {
        self.request(resource).ttl(ttl).try_lock_for(timeout)
    }

    /// Takes the lock on `resource`, waiting for it until `deadline`.
    ///
    /// # Errors
    ///
    /// As for [`lock`](Self::lock).
    ///
    /// ```
    /// # use std::time::Duration;
    /// use std::time::Instant;
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
    ///
    /// let deadline = Instant::now() + Duration::from_secs(2);
    /// let guard = manager.try_lock_until("invoices", Duration::from_secs(10), deadline)?;
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn try_lock_until(
        &self,
        resource: &str,
        ttl: Duration,
        deadline: Instant,
    ) -> Result<LockGuard, Error> {
        self.request(resource).ttl(ttl).try_lock_until(deadline)
    }

    /// Takes the lock on `resource` as [`lock`](Self::lock) does, does the work under it, and gives the lock back.
    ///
    /// The work gets the guard, to [check](LockGuard::check) or to [extend](LockGuard::extend) it. If it panics, the lock is given back
    /// as well.
    ///
    /// An error says that there was no lock and that the work has not begun. Work that has ended is not reported as failed: its result
    /// is returned also if the lock was lost meanwhile, or if too few nodes confirm the release. Neither undoes the work, and a caller
    /// that took it for a failure would do the work again. Both are counted ([`stats`](Self::stats)) and logged. If the work is
    /// worth nothing without the lock, let it return a `Result`, and check the guard in its last step, as below.
    ///
    /// # Errors
    ///
    /// As for [`lock`](Self::lock).
    ///
    /// ```
    /// # use std::time::Duration;
    /// use redlatch::Error;
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
    /// let sent = manager.with_lock("invoices", Duration::from_secs(10), |guard| {
    ///     for invoice in 1..=3 {
    ///         guard.check()?;
    ///         println!("sending invoice {invoice}");
    ///     }
    ///     guard.check()?;
    ///     Ok::<_, Error>(3)
    /// })??;
    /// assert_eq!(sent, 3);
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn with_lock<T>(
        &self,
        resource: &str,
        ttl: Duration,
        work: impl FnOnce(&LockGuard) -> T,
    ) -> Result<T, Error> {
        let guard = self.lock(resource, ttl)?;
        Ok(work(&guard))
    }

    /// Takes over the lock of a [`Lease`] that another guard was made into, here or on another machine.
    ///
    /// The nodes are asked whether they still have its token, and for how long, by a script that only reads. The guard
    /// is valid for as long as a majority of them keeps it, less the drift; [extend](LockGuard::extend) it, or have it
    /// [kept alive](LockGuard::keep_alive). Its [`votes`](LockGuard::votes) are what the nodes said now.
    ///
    /// A lock on several resources is adopted whole: a node counts if it has the token on each of them, and until the first of
    /// these keys ends. A lock of a reader is adopted as that of a reader.
    ///
    /// Adopt a lease once, in one process. Nothing tells two guards apart that adopted the same lease, so both would hold the
    /// lock.
    ///
    /// # Errors
    ///
    /// No error changes anything on the nodes, and the lease stays as good as it was: a lock that is still there ends with its
    /// time to live.
    ///
    /// - [`Error::Lost`] when the lease has expired, by its own date or on the nodes, or when a majority of them does
    ///   not have its token: the lock was released, or the lease is of other nodes, or forged.
    /// - [`Error::Unavailable`] when too few nodes answered to tell. Adopt the lease again when they do.
    /// - [`Error::Invalid`] when the lease is of another number of nodes or of the other [`Protocol`](crate::Protocol), or its
    ///   name can't be locked, and [`Error::Forked`] in a forked child.
    ///
    /// ```
    /// # use std::time::Duration;
    /// use redlatch::{Error, KeepAlive};
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
    /// let lease = manager.lock("invoices", Duration::from_secs(10))?.into_lease();
    /// let text = lease.to_string();
    ///
    /// let guard = manager.adopt(&lease)?;
    /// guard.keep_alive(Duration::from_secs(10), KeepAlive::unbounded())?;
    /// guard.unlock()?;
    ///
    /// assert!(matches!(manager.adopt(&text.parse()?), Err(Error::Lost { .. })));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn adopt(&self, lease: &Lease) -> Result<LockGuard, Error> {
        let cluster = self.cluster()?;
        let rests_until = protocol::adopt::rests_until(cluster, lease);
        let won = protocol::adopt::adopt(cluster, lease)?;
        let mut guard = LockGuard::new(&self.shared, won);
        guard.rests_until = rests_until;
        cluster.stats.adopted.count();
        guard.lease.count_its_end();
        if !guard.is_read() {
            // Where another thread of this manager is asking for the lock, that thread keeps its turn.
            let lines = lines(&guard.lease.claim.resource);
            let try_enter = |line: &Arc<str>| self.shared.queue.try_enter(line);
            guard.keep_turns(lines.iter().filter_map(try_enter).collect());
        }
        Ok(guard)
    }

    /// Returns the nodes, unless this process has inherited the manager through `fork`.
    pub(crate) fn cluster(&self) -> Result<&Cluster, Error> {
        self.shared.cluster().refuse_fork()
    }
}

impl fmt::Debug for LockManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (cluster, mut shown) = (self.shared.cluster(), f.debug_struct("LockManager"));
        if cluster.is_forked() {
            // Whether a node is well is behind a mutex, which a thread of the parent may have had at the fork.
            let names = cluster.nodes().iter().map(|node| node.name());
            shown.field("nodes", &names.collect::<Vec<_>>());
        } else {
            shown.field("nodes", &cluster.nodes());
        }
        shown.finish_non_exhaustive()
    }
}
