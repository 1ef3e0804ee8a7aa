//! The options of a manager, their defaults and their bounds.

use std::time::Duration;

use crate::cluster::Options;
use crate::fanout::Fanout;
use crate::fencing::Protocol;
use crate::holder::Label;
use crate::wire::CredentialSource;
#[cfg(feature = "tls-rustls")]
use crate::wire::Tls;

mod build;
#[cfg(test)]
mod defaults;
#[cfg(feature = "fake")]
mod fakes;
mod given_node;
mod nodes;
mod url;

use self::given_node::GivenNode;

/// Makes a [`LockManager`](crate::LockManager). Every problem is reported by [`build`](Self::build), which connects to nothing.
///
/// At least one node is needed. What is not set has its default:
///
/// | setting | defaults to | bounds |
/// |---|---|---|
/// | [`acquire_timeout`](Self::acquire_timeout) | the ttl and 10 s | any; zero makes one attempt, [`Duration::MAX`] never gives up |
/// | [`node_timeout`](Self::node_timeout) | 50 ms | 1 ms to 1 h |
/// | [`connect_timeout`](Self::connect_timeout) | four node timeouts | 1 ms to 4 h |
/// | [`retry_delay`](Self::retry_delay) | 50 ms and 250 ms | the first no larger than the second; the second above zero, at most 1 h |
/// | [`pool_size`](Self::pool_size) | 10 | 1 to 10,000 |
/// | [`default_ttl`](Self::default_ttl) | 30 s, or `max_ttl` if that is shorter | more than the drift, at most `max_ttl` |
/// | [`max_ttl`](Self::max_ttl) | 1 h | more than the drift, at most 365 days; with [`Protocol::Fenced`] at most 11 h |
/// | [`drift_factor`](Self::drift_factor) | 0.01 | 0 to below 1; 2 ms are added to the drift |
/// | [`protocol`](Self::protocol) | [`Protocol::Classic`] | [`Protocol`] |
/// | [`fanout`](Self::fanout) | [`Fanout::Sequential`] | [`Fanout`] |
/// | [`key_prefix`](Self::key_prefix) | nothing | any text without `:redlatch:` |
/// | [`holder`](Self::holder) | none | 1 to 200 bytes of printable text on one line |
///
/// [`credentials`](Self::credentials) and [`tls`](Self::tls) say how the manager logs in to the nodes.
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
#[derive(Debug, Clone, Default)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct Builder {
    /// Each as it was given, or why it can't be used.
    nodes: Vec<Result<GivenNode, String>>,
    default_ttl: Option<Duration>,
    #[cfg(feature = "tls-rustls")]
    tls: Tls,
    credentials: Option<CredentialSource>,
    options: Options,
    holder: Option<Result<Label, String>>,
}

impl Builder {
    /// Sets the prefix that makes a key of a resource name: any text without `:redlatch:`, of less than 64 KiB. All clients
    /// must use the same prefix.
    ///
    /// Defaults to nothing.
    ///
    /// ```
    /// # use std::time::Duration;
    /// use redlatch::LockManager;
    /// # let nodes = redlatch::fake::FakeNode::cluster(3);
    /// let manager = LockManager::builder().fakes(&nodes).key_prefix("billing:").build()?;
    /// let guard = manager.lock("invoices", Duration::from_secs(10))?;
    /// assert!(nodes[0].token_of("billing:invoices").is_some());
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn key_prefix(mut self, prefix: &str) -> Self {
        prefix.clone_into(&mut self.options.key_prefix);
        self
    }

    /// Sets the time for one command to one node: waiting for a pooled connection, writing and reading.
    ///
    /// It should be far below the shortest ttl, and well above a round trip. From 1 ms to 1 h. Where a command has to wait
    /// for other threads of the manager, and for a pooled connection, it takes up to twice that. Where it needs a new connection,
    /// add the [`connect_timeout`](Self::connect_timeout).
    ///
    /// Defaults to 50 ms.
    ///
    /// ```
    /// # use std::time::Duration;
    /// use redlatch::LockManager;
    /// # let clock = redlatch::fake::FakeClock::new();
    /// # let nodes = redlatch::fake::FakeNode::cluster_on(3, &clock);
    /// let timeout = Duration::from_millis(20);
    /// let manager = LockManager::builder().fakes(&nodes).node_timeout(timeout).build()?;
    /// nodes[0].hang();
    /// let guard = manager.lock("invoices", Duration::from_secs(10))?;
    /// assert_eq!(guard.votes()[0].elapsed, timeout);
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn node_timeout(mut self, timeout: Duration) -> Self {
        self.options.node_timeout = timeout;
        self
    }

    /// Sets the time for a new connection to one node: name lookup, TCP, TLS and the login, which take several round trips.
    ///
    /// From 1 ms to 4 h. A node that hung a moment ago does not get this time: connecting is then a part of the
    /// [`node_timeout`](Self::node_timeout), and a background thread goes on trying. An extension gives a connection no more than
    /// half of the time that the lock has left.
    ///
    /// Defaults to four node timeouts.
    ///
    /// ```
    /// # use std::time::Duration;
    /// use redlatch::LockManager;
    /// // Servers that are far away, with TLS.
    /// let builder = LockManager::builder().node("redis://10.0.0.1");
    /// let builder = builder.node_timeout(Duration::from_millis(500));
    /// let manager = builder.connect_timeout(Duration::from_secs(3)).build()?;
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.options.connect_timeout = Some(timeout);
        self
    }

    /// Sets how long [`LockManager::lock`](crate::LockManager::lock) waits. [`Duration::MAX`] means without a bound, and zero
    /// one attempt.
    ///
    /// Defaults to the ttl and 10 s. So the key of a holder that was killed ends before the call gives up, if that holder asked for
    /// no longer ttl than the call.
    ///
    /// ```
    /// # use std::time::Duration;
    /// use redlatch::LockManager;
    /// # let clock = redlatch::fake::FakeClock::new();
    /// # let nodes = redlatch::fake::FakeNode::cluster_on(3, &clock);
    /// let timeout = Duration::from_secs(2);
    /// let manager = LockManager::builder().fakes(&nodes).acquire_timeout(timeout).build()?;
    /// # for node in &nodes { node.hold("invoices", "another", Duration::from_secs(60)); }
    /// // Another process has it for a minute.
    /// assert!(manager.lock("invoices", Duration::from_secs(10)).is_err());
    /// assert_eq!(clock.elapsed(), timeout);
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn acquire_timeout(mut self, timeout: Duration) -> Self {
        self.options.acquire_timeout = Some(timeout);
        self
    }

    /// Sets the bounds of the random delay between two attempts: `max` is above zero, at most 1 h, and no smaller than `min`.
    ///
    /// While another process has the lock, it is the delay between two looks at one node. A release wakes a waiting
    /// client earlier. A client that is not woken, because the holder uses another library or the ACL forbids it, looks
    /// again after the delay, or when the key expires.
    ///
    /// Defaults to 50 ms and 250 ms.
    ///
    /// ```
    /// # use std::time::Duration;
    /// use redlatch::{Error, LockManager};
    /// # let nodes = redlatch::fake::FakeNode::cluster(3);
    /// let (min, max) = (Duration::from_millis(10), Duration::from_millis(100));
    /// let builder = LockManager::builder().fakes(&nodes);
    /// assert!(builder.clone().retry_delay(min, max).build().is_ok());
    /// let result = builder.retry_delay(max, min).build();
    /// assert!(matches!(result, Err(Error::Invalid { field: "retry_delay", .. })));
    /// ```
    pub fn retry_delay(mut self, min: Duration, max: Duration) -> Self {
        self.options.retry_min = min;
        self.options.retry_max = max;
        self
    }

    /// Sets the number of connections to each node, 1 to 10,000.
    ///
    /// What threads of the manager ask of the same nodes at the same time goes out together, in one write to each node.
    /// So many threads need no larger pool. There are two reasons for one:
    ///
    /// - A longer way to the nodes. Up to a round trip of 300 µs, two writes are under way at a time; beyond that, one for
    ///   each 50 µs, as long as there are connections.
    /// - Waits for several locks of other processes at the same time. Each keeps a connection to one node busy, up to half of
    ///   the pool. With a pool of 1, no release wakes a thread of this manager: a thread that waits asks again after its
    ///   `retry_delay`, and readers without a pause may keep a writer waiting.
    ///
    /// Only a release or an extension that finds no free connection for half a node timeout opens one outside the pool.
    ///
    /// Defaults to 10.
    ///
    /// ```
    /// use redlatch::{Error, LockManager};
    /// # let nodes = redlatch::fake::FakeNode::cluster(3);
    /// let builder = LockManager::builder().fakes(&nodes);
    /// assert!(builder.clone().pool_size(4).build().is_ok());
    /// let result = builder.pool_size(0).build();
    /// assert!(matches!(result, Err(Error::Invalid { field: "pool_size", .. })));
    /// ```
    pub fn pool_size(mut self, size: u32) -> Self {
        self.options.pool_size = size;
        self
    }

    /// Sets the time to live of a [`request`](crate::LockManager::request) that sets none: more than the drift, at most `max_ttl`.
    ///
    /// Defaults to 30 s, or `max_ttl` if that is shorter.
    ///
    /// ```
    /// # use std::time::Duration;
    /// use redlatch::LockManager;
    /// # let clock = redlatch::fake::FakeClock::new();
    /// # let nodes = redlatch::fake::FakeNode::cluster_on(3, &clock);
    /// let ttl = Duration::from_secs(10);
    /// let manager = LockManager::builder().fakes(&nodes).default_ttl(ttl).build()?;
    /// let guard = manager.request("invoices").lock()?;
    /// assert_eq!(nodes[0].ttl_of("invoices"), Some(ttl));
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn default_ttl(mut self, ttl: Duration) -> Self {
        self.default_ttl = Some(ttl);
        self
    }

    /// Sets the part of a ttl by which the clocks of client and nodes may drift apart during it, from 0 to below 1.
    ///
    /// Defaults to 0.01. A constant of 2 ms is added.
    ///
    /// ```
    /// # use std::time::Duration;
    /// use redlatch::LockManager;
    /// # let clock = redlatch::fake::FakeClock::new();
    /// # let nodes = redlatch::fake::FakeNode::cluster_on(3, &clock);
    /// let manager = LockManager::builder().fakes(&nodes).drift_factor(0.1).build()?;
    /// let guard = manager.lock("invoices", Duration::from_secs(10))?;
    /// // Less 10 % and 2 ms.
    /// assert!(guard.remaining() <= Duration::from_millis(8_998));
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn drift_factor(mut self, factor: f64) -> Self {
        self.options.drift_factor = factor;
        self
    }

    /// Sets the longest ttl that is accepted, at most 365 days; with [`Protocol::Fenced`] at most 11 h.
    ///
    /// Defaults to 1 h.
    ///
    /// ```
    /// # use std::time::Duration;
    /// use redlatch::{Error, LockManager};
    /// # let nodes = redlatch::fake::FakeNode::cluster(3);
    /// let minute = Duration::from_secs(60);
    /// let manager = LockManager::builder().fakes(&nodes).max_ttl(minute).build()?;
    /// assert!(manager.lock("invoices", minute).is_ok());
    /// let result = manager.lock("invoices", minute * 2);
    /// assert!(matches!(result, Err(Error::Invalid { field: "ttl", .. })));
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn max_ttl(mut self, ttl: Duration) -> Self {
        self.options.max_ttl = ttl;
        self
    }

    /// Sets the protocol of the locks. All clients that rely on fencing tokens have to use [`Protocol::Fenced`], with
    /// the same nodes, `max_ttl` and `drift_factor`.
    ///
    /// Defaults to [`Protocol::Classic`], the published algorithm.
    ///
    /// ```
    /// # use std::time::Duration;
    /// use redlatch::{LockManager, Protocol};
    /// # let nodes = redlatch::fake::FakeNode::cluster(3);
    /// let manager = LockManager::builder().fakes(&nodes).protocol(Protocol::Fenced).build()?;
    /// manager.open_nodes()?;
    /// let guard = manager.lock("invoices", Duration::from_secs(10))?;
    /// assert!(guard.fencing_token().is_some());
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn protocol(mut self, protocol: Protocol) -> Self {
        self.options.protocol = protocol;
        self
    }

    /// Sets in which order the nodes are asked for a lock: one after the other, or all at once unless there is
    /// contention. Each manager may have its own order.
    ///
    /// Defaults to [`Fanout::Sequential`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// use redlatch::{Fanout, LockManager};
    /// # let clock = redlatch::fake::FakeClock::new();
    /// # let nodes = redlatch::fake::FakeNode::cluster_on(3, &clock);
    /// let manager = LockManager::builder().fakes(&nodes).fanout(Fanout::Overlapped).build()?;
    /// // Each answers after 20 ms, and they are asked together.
    /// # for node in &nodes { node.delay(Duration::from_millis(20)); }
    /// let guard = manager.lock("invoices", Duration::from_secs(10))?;
    /// assert!(clock.elapsed() < Duration::from_millis(40));
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn fanout(mut self, fanout: Fanout) -> Self {
        self.options.fanout = fanout;
        self
    }

    /// Says who takes the locks of this manager: `label` is what [`Holder::label`](crate::Holder::label) shows to others,
    /// for example the host, the process and the job. [`LockRequest::holder`](crate::LockRequest::holder) sets another
    /// one for a call.
    ///
    /// A label is 1 to 200 bytes of printable text on one line. It becomes a part of the value of the key, with the time
    /// of the acquisition. So everybody who may read the keys on a server can read it, and so can everybody who gets an
    /// [`Error::Held`](crate::Error::Held) or a [`status`](crate::LockManager::status). Clients of other libraries
    /// compare whole values, and are not disturbed.
    ///
    /// Defaults to none, and then nothing is added to the value.
    ///
    /// ```
    /// # use std::time::Duration;
    /// use redlatch::{LockManager, LockStatus};
    /// # let nodes = redlatch::fake::FakeNode::cluster(3);
    /// let manager = LockManager::builder().fakes(&nodes).holder("web-3 4711").build()?;
    /// let guard = manager.lock("invoices", Duration::from_secs(10))?;
    /// let LockStatus::Held { holder, .. } = manager.status("invoices")? else { panic!("it is held") };
    /// assert_eq!(holder.map(|holder| holder.label).as_deref(), Some("web-3 4711"));
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn holder(mut self, label: impl Into<String>) -> Self {
        self.holder = Some(Label::new(&label.into()));
        self
    }
}
