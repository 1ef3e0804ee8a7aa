//! The manager: rounds over the nodes, and the waiting between them.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::builder::{Builder, Options};
use crate::clock::{self, Clock};
use crate::error::{Error, NodeError, Vote};
use crate::fencing::{Proposals, Rules};
use crate::guard::LockGuard;
use crate::keep_alive::KeepAlive;
use crate::keeper::Keeper;
use crate::node::Node;
use crate::node::wait::Manner;
use crate::queue::Queue;
use crate::quorum;
use crate::request::LockRequest;
use crate::stats::Recorder;

mod adopt;
mod asking;
mod health;
mod keep;
pub(crate) mod key;
mod line;
mod open;
mod order;
mod release;
mod renew;
mod round;
mod stats;
mod status;
mod wait;

use self::line::Entered;
use self::order::Order;
use self::wait::{Courtesy, Wait};

/// How often a larger fencing token is proposed at once. Each time, another client has been granted one meanwhile.
const MOST_RAISES: u32 = 8;

/// Takes locks on a majority of independent Redis servers.
///
/// A manager is made once and shared: clones are the same manager, and all its methods can be called from any number of
/// threads. It holds a pool of connections per node, connects when it first needs to, and has a thread of its own, one more
/// if a node is given by a host name, one more from the first lock on that is [kept alive](crate::KeepAlive), and one more
/// from the first [`on_lost`](LockGuard::on_lost) on. They end when the last clone and the last guard are dropped.
///
/// The algorithm is Redlock, from the Redis documentation page "Distributed Locks with Redis"; the crate's
/// `docs/algorithm.md` lists each step and each deviation.
///
/// ```
/// use std::time::Duration;
/// use redlatch::LockManager;
/// # use redlatch::fake::FakeNode;
/// # let nodes = FakeNode::cluster(5);
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
pub struct LockManager {
    shared: Arc<Shared>,
    /// None in the background, which must not go on for its own sake.
    #[expect(dead_code, reason = "that it is dropped is what it is for")]
    user: Option<Arc<User>>,
}

/// What the program has: the clones of the manager, and its guards.
struct User {
    clock: Clock,
}

struct Shared {
    /// In the canonical order.
    nodes: Vec<Arc<Node>>,
    clock: Clock,
    options: Options,
    /// With the fenced protocol.
    rules: Option<Rules>,
    proposals: Proposals,
    keeper: Keeper,
    queue: Arc<Queue<LockManager>>,
    courtesy: Courtesy,
    stats: Arc<Recorder>,
    /// The process that made the connections.
    process: u32,
}

impl LockManager {
    /// Makes a manager for the servers at `urls`, with the defaults of [`Builder`].
    ///
    /// A URL is `redis://[user:password@]host[:port][/db]`, `rediss://…` for TLS (cargo feature `tls-rustls`) or
    /// `unix:///path/to/socket`. Nothing is connected yet.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidConfig`] when there is no URL, when one can't be used, or when two are the same server;
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
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Takes the lock on `resource`, waiting for it up to the builder's `acquire_timeout` (10 s unless set).
    ///
    /// The lock is ours for `ttl` less the drift from the moment the first command is sent, and no longer: a holder that
    /// needs more calls [`LockGuard::extend`].
    ///
    /// Threads of this manager that want the same lock get it in the order in which they came, and only the first of them
    /// talks to the servers. While another process holds the lock, that one waits at one node, which wakes it when the lock
    /// is given back; it also looks there after each `retry_delay`, and when the lock's time to live ends. While too
    /// few nodes answer, attempts follow each other after a random delay. The last one is made when the time is over.
    ///
    /// # Errors
    ///
    /// What the last attempt met: [`Error::Held`], [`Error::Unavailable`] or [`Error::TooSlow`]; of a thread that waited behind
    /// another one until its time was over, what that one met, or [`Error::Held`] without asking a node. Without any attempt:
    /// [`Error::InvalidTtl`] for a `ttl` of no more than the drift (1 % and 2 ms) or beyond `max_ttl`,
    /// [`Error::InvalidResource`] for an empty name or one beyond 64 KiB, [`Error::Forked`] in a forked child,
    /// [`Error::NoRandomness`] when the operating system gives no token.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let nodes = redlatch::fake::FakeNode::cluster(3);
    /// # let manager = redlatch::LockManager::builder().fakes(&nodes).build()?;
    /// let guard = manager.lock("invoices", Duration::from_secs(10))?;
    /// assert_eq!(guard.resource(), "invoices");
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn lock(&self, resource: &str, ttl: Duration) -> Result<LockGuard, Error> {
        self.acquire(resource, ttl, self.acquire_timeout(), None)
    }

    /// Takes the lock on `resource` if it is free: one round over the nodes, and no waiting for a holder. No node is asked
    /// where a thread of this manager holds the lock or is asking for it.
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
        self.acquire(resource, ttl, Duration::ZERO, None)
    }

    /// Takes the lock on `resource`, waiting for it up to `timeout`. [`Duration::MAX`] means without a bound.
    ///
    /// # Errors
    ///
    /// As for [`lock`](Self::lock).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let nodes = redlatch::fake::FakeNode::cluster(3);
    /// # let manager = redlatch::LockManager::builder().fakes(&nodes).build()?;
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
        self.acquire(resource, ttl, timeout, None)
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
    /// # let nodes = redlatch::fake::FakeNode::cluster(3);
    /// # let manager = redlatch::LockManager::builder().fakes(&nodes).build()?;
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
        self.acquire(resource, ttl, clock::until_instant(deadline), None)
    }

    /// Starts a request for the lock on `resource`, to set more than its name.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let nodes = redlatch::fake::FakeNode::cluster(3);
    /// # let manager = redlatch::LockManager::builder().fakes(&nodes).build()?;
    /// let guard = manager.request("invoices").ttl(Duration::from_secs(5)).try_lock()?;
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn request<'a>(&'a self, resource: &'a str) -> LockRequest<'a> {
        LockRequest::new(self, resource)
    }

    pub(crate) fn with_nodes(nodes: Vec<Arc<Node>>, clock: Clock, options: Options) -> Self {
        let user = User {
            clock: clock.clone(),
        };
        Self {
            user: Some(Arc::new(user)),
            shared: Arc::new(Shared {
                rules: options.rules(nodes.len()),
                proposals: Proposals::default(),
                keeper: Keeper::default(),
                queue: Queue::new(),
                courtesy: Courtesy::default(),
                stats: Arc::default(),
                nodes,
                clock,
                options,
                process: std::process::id(),
            }),
        }
    }

    pub(crate) fn nodes(&self) -> &[Arc<Node>] {
        &self.shared.nodes
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    /// With the fenced protocol, what all its clients have to agree on.
    pub(crate) fn rules(&self) -> Option<&Rules> {
        self.shared.rules.as_ref()
    }

    pub(crate) fn default_ttl(&self) -> Duration {
        self.shared.options.default_ttl
    }

    pub(crate) fn acquire_timeout(&self) -> Duration {
        self.shared.options.acquire_timeout
    }

    pub(crate) fn is_forked(&self) -> bool {
        std::process::id() != self.shared.process
    }

    /// How long a lease of `ttl` is valid from the moment before the first send. The ttl is in whole milliseconds, as
    /// the nodes count it.
    pub(crate) fn validity(&self, ttl: Duration) -> Result<(Duration, Duration), Error> {
        self.shared.options.validity(ttl)
    }

    /// Attempts until one succeeds or the time is over. With keep-alive, whoever asks has had that checked.
    pub(crate) fn acquire(
        &self,
        resource: &str,
        ttl: Duration,
        timeout: Duration,
        keep_alive: Option<KeepAlive>,
    ) -> Result<LockGuard, Error> {
        if self.is_forked() {
            return Err(Error::Forked);
        }
        let lease = self.validity(ttl)?;
        let key = self.checked_key(resource)?;
        // No deadline where the sum is beyond what time can count.
        let end = self.clock().now().checked_add(timeout);
        let mut asking = self.asking(resource, ttl);
        let resource: Arc<str> = resource.into();
        let turn = match self.line_up(&resource, lease, end, keep_alive, &mut asking)? {
            Entered::Holder(guard) => return Ok(guard),
            Entered::First(turn) => turn,
        };
        let mut wait = Wait::default();
        let mut order = Order::of(self.shared.options.fanout);
        if !timeout.is_zero()
            && let Manner::Polite = self.shared.courtesy.manner(&key, self.clock().now())
        {
            order = self.wait(&key, &mut wait, Manner::Polite, end)?;
        }
        let mut raised = 0_u32;
        loop {
            let attempt = self.attempt(&resource, &key, lease, order, keep_alive);
            let error = match asking.attempted(attempt) {
                Err(error) if is_worth_a_retry(&error) => error,
                Ok(guard) => return Ok(guard.with_turn(Some(turn))),
                Err(error) => return Err(error),
            };
            // Not contention: the next proposal is one that the nodes can grant.
            if was_ill_proposed(&error) && raised < MOST_RAISES {
                raised = raised.saturating_add(1);
                continue;
            }
            raised = 0;
            turn.met(&error);
            let all = Order::of(self.shared.options.fanout);
            if self.left(end).is_zero() {
                if order == all {
                    return Err(error);
                }
                // Of the last attempt each node is to say something.
                order = all;
                continue;
            }
            if let Error::Held { .. } = error {
                order = self.wait(&key, &mut wait, Manner::Eager, end)?;
            } else {
                self.sleep(self.delay()?, end);
                order = all;
            }
        }
    }

    /// Nodes that failed a moment ago are left out as long as the others are a majority.
    fn heeds_breakers(&self) -> bool {
        let closed = self.nodes().iter().filter(|node| node.is_closed()).count();
        quorum::is_reached(self.nodes().len(), closed)
    }

    pub(crate) fn each(
        &self,
    ) -> impl DoubleEndedIterator<Item = &Node> + ExactSizeIterator + Clone {
        self.nodes().iter().map(AsRef::as_ref)
    }
}

impl Drop for User {
    fn drop(&mut self) {
        // Only a probe or a renewal that nobody needs any more can be waiting now.
        self.clock.end();
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if std::process::id() != self.process {
            // A lock inside the thread pools may have been held by a thread that the child of a fork does not have, and
            // to drop them would wait for it for ever.
            #[expect(clippy::mem_forget, reason = "a leak, in place of a hang")]
            std::mem::forget((
                std::mem::take(&mut self.nodes),
                std::mem::take(&mut self.keeper),
            ));
        }
    }
}

/// Whether nodes would have granted another fencing token: a larger one, or that of this machine's clock, which the last
/// one was ahead of.
fn was_ill_proposed(error: &Error) -> bool {
    let (Error::Held { nodes } | Error::Unavailable { nodes }) = error else {
        return false;
    };
    nodes.iter().any(|report| match &report.vote {
        Vote::Stale { .. } => true,
        Vote::Failed(NodeError::ClockSkew {
            difference,
            allowed,
            ..
        }) => difference <= allowed,
        Vote::Granted
        | Vote::Released
        | Vote::Held { .. }
        | Vote::Missing
        | Vote::Failed(_)
        | Vote::NotAsked => false,
    })
}

fn is_worth_a_retry(error: &Error) -> bool {
    matches!(
        error,
        Error::Held { .. } | Error::Unavailable { .. } | Error::TooSlow { .. }
    )
}

impl fmt::Debug for LockManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockManager")
            .field("nodes", &self.shared.nodes)
            .finish_non_exhaustive()
    }
}
