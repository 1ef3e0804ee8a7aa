//! The options of a manager, their defaults and their bounds.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::{Clock, Timers, one_thread, wait_for};
use crate::error::Error;
use crate::fake::{FakeClock, FakeNode};
use crate::fanout::Fanout;
use crate::fencing::Protocol;
use crate::handover::{Allowance, MOST_TIMES};
use crate::manager::LockManager;
use crate::node::transport::Connect;
use crate::node::{Node, Setup};
use crate::process;

mod options;
mod spec;

pub(crate) use self::options::Options;
use self::spec::Spec;

/// A lock that is held for longer than a year is not a lease.
const LONGEST_TTL: Duration = Duration::from_hours(365 * 24);
/// With the fenced protocol a token may be ahead by the longest ttl, and counters have to outlive that twice.
const LONGEST_FENCED_TTL: Duration = Duration::from_hours(11);
/// The longest node timeout and retry delay.
const LONGEST_WAIT: Duration = Duration::from_hours(1);
/// Below, no round trip is sure to be made, even to this machine.
const SHORTEST_NODE_TIMEOUT: Duration = Duration::from_millis(1);
const LARGEST_POOL: u32 = 10_000;

/// Makes a [`LockManager`]. Every problem is reported by [`build`](Self::build), which connects to nothing.
///
/// ```
/// use std::time::Duration;
/// use redlatch::LockManager;
///
/// let manager = LockManager::builder()
///     .nodes(["redis://10.0.0.1", "redis://10.0.0.2"])
///     .client(redis::Client::open("redis://locks:secret@10.0.0.3:6380/1").expect("a good URL"))
///     .key_prefix("billing:")
///     .node_timeout(Duration::from_millis(20))
///     .acquire_timeout(Duration::from_secs(60))
///     .retry_delay(Duration::from_millis(10), Duration::from_millis(100))
///     .pool_size(4)
///     .default_ttl(Duration::from_secs(10))
///     .max_ttl(Duration::from_secs(300))
///     .drift_factor(0.02)
///     .protocol(redlatch::Protocol::Fenced)
///     .build()?;
/// # Ok::<(), redlatch::Error>(())
/// ```
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct Builder {
    nodes: Vec<Spec>,
    pool_size: u32,
    default_ttl: Option<Duration>,
    options: Options,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            nodes: Vec::new(),
            pool_size: 10,
            default_ttl: None,
            options: Options::default(),
        }
    }
}

impl Builder {
    /// Adds the server at `url`: `redis://[user:password@]host[:port][/db]`, `rediss://…` or `unix:///path`.
    ///
    /// The order of the nodes does not matter: all managers ask them in one canonical order. All clients must name
    /// the same nodes, and in the same way (a host name and its address are two names).
    pub fn node(mut self, url: impl AsRef<str>) -> Self {
        self.nodes.push(Spec::parse(url.as_ref()));
        self
    }

    /// Adds the servers at `urls`, each as [`node`](Self::node) does.
    pub fn nodes<I>(mut self, urls: I) -> Self
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        let specs = urls.into_iter().map(|url| Spec::parse(url.as_ref()));
        self.nodes.extend(specs);
        self
    }

    /// Adds the server of a `redis::Client`, with its login, database, TCP settings and certificates.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "a client is handed over, as a URL is"
    )]
    pub fn client(mut self, client: redis::Client) -> Self {
        self.nodes.push(Spec::from_client(&client));
        self
    }

    /// Adds a fake node, for tests.
    pub fn fake(mut self, node: &FakeNode) -> Self {
        self.nodes.push(Spec::Fake(node.clone()));
        self
    }

    /// Adds fake nodes, for tests.
    pub fn fakes(mut self, nodes: &[FakeNode]) -> Self {
        self.nodes.extend(nodes.iter().cloned().map(Spec::Fake));
        self
    }

    /// Sets what is put before each resource name to make its key. All clients must use the same.
    ///
    /// Defaults to nothing.
    pub fn key_prefix(mut self, prefix: &str) -> Self {
        prefix.clone_into(&mut self.options.key_prefix);
        self
    }

    /// Sets the time for one command to one node: waiting for a pooled connection, connecting, writing and reading.
    ///
    /// It should be far below the shortest ttl, and well above a round trip. From 1 ms to 1 h.
    ///
    /// Defaults to 50 ms.
    pub fn node_timeout(mut self, timeout: Duration) -> Self {
        self.options.node_timeout = timeout;
        self
    }

    /// Sets how long [`LockManager::lock`] waits. [`Duration::MAX`] means without a bound.
    ///
    /// Defaults to 10 s.
    pub fn acquire_timeout(mut self, timeout: Duration) -> Self {
        self.options.acquire_timeout = timeout;
        self
    }

    /// Sets the bounds of the random delay between two attempts, at most 1 h.
    ///
    /// While another process has the lock, it is between two looks at one node. A release wakes one who waits before it is
    /// over; who was not woken, because the holder is a client of another kind or the server does not allow it, finds out
    /// after the delay, or when the key expires.
    ///
    /// Defaults to 50 ms and 250 ms.
    pub fn retry_delay(mut self, min: Duration, max: Duration) -> Self {
        self.options.retry_min = min;
        self.options.retry_max = max;
        self
    }

    /// Sets the number of connections to each node, 1 to 10,000. A thread uses one at a time, for a round trip.
    ///
    /// Only a release or an extension that finds none free for half a node timeout makes one beside the pool.
    ///
    /// Defaults to 10.
    pub fn pool_size(mut self, size: u32) -> Self {
        self.pool_size = size;
        self
    }

    /// Sets the time to live of a [`request`](LockManager::request) that does not say.
    ///
    /// Defaults to 30 s, or `max_ttl` if that is shorter.
    pub fn default_ttl(mut self, ttl: Duration) -> Self {
        self.default_ttl = Some(ttl);
        self
    }

    /// Sets the share of a ttl by which the clocks of client and nodes may drift apart in its course, from 0 to below 1.
    ///
    /// Defaults to 0.01. The constant 2 ms comes on top.
    pub fn drift_factor(mut self, factor: f64) -> Self {
        self.options.drift_factor = factor;
        self
    }

    /// Sets the longest ttl that is accepted, at most 365 days; with [`Protocol::Fenced`] at most 11 h.
    ///
    /// Defaults to 1 h.
    pub fn max_ttl(mut self, ttl: Duration) -> Self {
        self.options.max_ttl = ttl;
        self
    }

    /// Sets how locks are asked for. All clients that rely on fencing tokens have to use [`Protocol::Fenced`], with the same
    /// nodes, `max_ttl` and `drift_factor`.
    ///
    /// Defaults to [`Protocol::Classic`], the published algorithm.
    pub fn protocol(mut self, protocol: Protocol) -> Self {
        self.options.protocol = protocol;
        self
    }

    /// Sets in which order the nodes are asked for a lock: one after the other, or all at once where nobody else seems to
    /// want it. Each manager may have its own.
    ///
    /// Defaults to [`Fanout::Sequential`].
    pub fn fanout(mut self, fanout: Fanout) -> Self {
        self.options.fanout = fanout;
        self
    }

    /// Lets a lock go from thread to thread of this manager without going back to the servers: `max_times` in succession at
    /// most, 1 to 1000, and for no longer than `max_time` from when it was taken. Not done unless set.
    ///
    /// A guard that is given back hands the lock to the thread that has waited longest for it here, if at least half of the
    /// validity that this one asked for remains. That thread gets a guard of its own, which is valid for what remains and no
    /// longer than it asked for; with [`Protocol::Fenced`] it has a larger fencing token, one of `max_times` that were set
    /// apart when the lock was taken; of fewer, and so less often, while locks are taken so fast that the tokens that were set
    /// apart in vain run ahead of the clock by more than the drift of [`max_ttl`](Self::max_ttl): 36 s, unless you set it, and
    /// 3 ms with one of 100 ms. The clock gives back a million tokens a second. All of them have the same [`token`](crate::LockGuard::token): to the servers, they are
    /// one holder, and if the process dies, others wait for the time to live that the first of them has asked for.
    ///
    /// It saves the round trips, and it is unfair: while threads of this manager wait, other processes wait as well, for the
    /// time of `max_times` more holders or for `max_time`, whichever is over first. Among the threads it is first in, first out.
    /// The idea is that of lock cohorting (Dice, Marathe and Shavit, 2012).
    ///
    /// ```
    /// # use std::time::Duration;
    /// use redlatch::LockManager;
    /// # let nodes = redlatch::fake::FakeNode::cluster(3);
    /// let manager = LockManager::builder()
    ///     .fakes(&nodes)
    ///     .local_handover(16, Duration::from_millis(100))
    ///     .build()?;
    /// # drop(manager.lock("invoices", Duration::from_secs(10))?);
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn local_handover(mut self, max_times: u32, max_time: Duration) -> Self {
        self.options.handover = Some(Allowance {
            times: max_times,
            time: max_time,
        });
        self
    }

    /// Makes the manager. It connects to nothing, so dead servers are no error here.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidConfig`], with what is wrong and what to do; [`Error::Forked`] in the child of a process that has built
    /// a manager.
    ///
    /// # Panics
    ///
    /// Where the operating system can't start a thread.
    pub fn build(self) -> Result<LockManager, Error> {
        let mut specs: Vec<(String, Spec)> = Vec::with_capacity(self.nodes.len());
        for (i, spec) in self.nodes.iter().enumerate() {
            let number = i.saturating_add(1);
            let identity = spec
                .identity()
                .map_err(|reason| invalid(format!("node {number}: {reason}")))?;
            let same = specs.iter().position(|(other, _)| *other == identity);
            if let Some((other, (_, same))) = same.and_then(|at| Some((at, specs.get(at)?))) {
                return Err(invalid(format!(
                    "node {number}: {} is the same server as node {}, {}, and so is there twice; one server has one vote, \
                     remove one of them",
                    spec.name(),
                    other.saturating_add(1),
                    same.name(),
                )));
            }
            specs.push((identity, spec.clone()));
        }
        if specs.is_empty() {
            return Err(invalid("no nodes: give at least one with `node(url)`"));
        }
        // The canonical order: contenders that ask in the same order always have a winner.
        specs.sort_by(|(a, _), (b, _)| a.cmp(b));

        let clock = common_clock(&specs)?;
        // All that can be wrong is found before there is a thread.
        self.checked_options()?;
        process::claim()?;
        // The system's resolver can hang, and then only lookups should wait for it.
        let needs_lookups = specs.iter().any(|(_, spec)| spec.needs_lookups());
        let lookups = needs_lookups.then(|| one_thread("redlatch-lookup"));
        let nodes = specs
            .into_iter()
            .filter_map(|(_, spec)| {
                let name = spec.name().into();
                let connector =
                    spec.connector(&clock, lookups.as_ref(), self.options.node_timeout)?;
                Some((name, connector))
            })
            .collect();
        self.assemble(nodes, clock)
    }

    /// Makes the manager over nodes that are in the canonical order, each a name and what connects to it.
    pub(crate) fn assemble(
        self,
        nodes: Vec<(Arc<str>, Box<dyn Connect>)>,
        clock: Clock,
    ) -> Result<LockManager, Error> {
        let options = self.checked_options()?;
        let thread = one_thread("redlatch");
        let timers = Timers::new(&clock, &thread);
        let nodes = nodes
            .into_iter()
            .map(|(name, connector)| {
                Node::new(Setup {
                    name,
                    connector,
                    pool_size: self.pool_size,
                    timeout: options.node_timeout,
                    clock: &clock,
                    timers: &timers,
                    thread: &thread,
                })
            })
            .collect();
        // The slots are being made there; else the first lock could find none.
        wait_for(&thread);
        Ok(LockManager::with_nodes(nodes, clock, options))
    }

    fn checked_options(&self) -> Result<Options, Error> {
        let mut options = self.options.clone();
        let require = |good: bool, reason: &str| if good { Ok(()) } else { Err(invalid(reason)) };
        require(
            (SHORTEST_NODE_TIMEOUT..=LONGEST_WAIT).contains(&options.node_timeout),
            "node_timeout must be 1 ms to 1 h",
        )?;
        require(
            (1..=LARGEST_POOL).contains(&self.pool_size),
            "pool_size must be 1 to 10,000",
        )?;
        require(
            options.retry_min <= options.retry_max,
            "retry_delay: the first bound must not be above the second",
        )?;
        require(
            !options.retry_max.is_zero() && options.retry_max <= LONGEST_WAIT,
            "retry_delay: the second bound must be more than zero and at most 1 h",
        )?;
        require(
            (0.0..1.0).contains(&options.drift_factor),
            "drift_factor must be at least 0 and below 1",
        )?;
        require(
            options.max_ttl <= LONGEST_TTL,
            "max_ttl must be at most 365 days",
        )?;
        require(
            options.protocol == Protocol::Classic || options.max_ttl <= LONGEST_FENCED_TTL,
            "max_ttl: with Protocol::Fenced it must be at most 11 h, because counters are kept for a day",
        )?;
        let handover = options.handover;
        require(
            handover.is_none_or(|some| (1..=MOST_TIMES).contains(&some.times)),
            "local_handover: max_times must be 1 to 1000; leave it out to have none",
        )?;
        require(
            handover.is_none_or(|some| !some.time.is_zero()),
            "local_handover: max_time must be more than zero; leave it out to have none",
        )?;
        options
            .validity(options.max_ttl)
            .map_err(|error| invalid(format!("max_ttl: {error}")))?;
        options.default_ttl = self
            .default_ttl
            .unwrap_or_else(|| options.default_ttl.min(options.max_ttl));
        options
            .validity(options.default_ttl)
            .map_err(|error| invalid(format!("default_ttl: {error}")))?;
        Ok(options)
    }
}

/// The clock that all nodes are on.
fn common_clock(specs: &[(String, Spec)]) -> Result<Clock, Error> {
    let mut clocks = specs.iter().map(|(_, spec)| spec.fake_clock());
    let first = clocks.next().flatten();
    let same = |other: Option<&FakeClock>| match (first, other) {
        (None, None) => true,
        (Some(a), Some(b)) => a.is_same(b),
        (None, Some(_)) | (Some(_), None) => false,
    };
    if !clocks.all(same) {
        return Err(invalid(
            "the nodes are on different clocks; make all of them with FakeNode::cluster_on and one FakeClock",
        ));
    }
    Ok(first.cloned().map_or_else(Clock::system, Clock::from))
}

fn invalid(reason: impl Into<String>) -> Error {
    Error::InvalidConfig {
        reason: reason.into(),
    }
}
