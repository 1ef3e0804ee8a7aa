//! The options of a manager, their defaults and their bounds.

use std::io;
use std::time::Duration;

use crate::cluster::Options;
use crate::contend::handover::Allowance;
use crate::fake::FakeNode;
use crate::fanout::Fanout;
use crate::fencing::Protocol;
#[cfg(feature = "tls-rustls")]
use crate::wire::Tls;
use crate::wire::{CredentialSource, Credentials};

mod build;
mod spec;

use self::spec::NodeSpec;

/// Makes a [`LockManager`](crate::LockManager). Every problem is reported by [`build`](Self::build), which connects to nothing.
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
    nodes: Vec<NodeSpec>,
    pool_size: u32,
    default_ttl: Option<Duration>,
    #[cfg(feature = "tls-rustls")]
    tls: Tls,
    credentials: Option<CredentialSource>,
    options: Options,
    handover: Option<Allowance>,
    holder: Option<String>,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            nodes: Vec::new(),
            pool_size: 10,
            default_ttl: None,
            #[cfg(feature = "tls-rustls")]
            tls: Tls::default(),
            credentials: None,
            options: Options::default(),
            handover: None,
            holder: None,
        }
    }
}

impl Builder {
    /// Adds the server at `url`: `redis://[user:password@]host[:port][/db]`, `rediss://…` or `unix:///path`.
    ///
    /// The order of the nodes does not matter: all managers ask them in one canonical order. All clients must name the
    /// same nodes in the same way: a host name and its address are two names.
    pub fn node(mut self, url: impl AsRef<str>) -> Self {
        self.nodes.push(NodeSpec::parse(url.as_ref()));
        self
    }

    /// Adds the servers at `urls`, each as [`node`](Self::node) does.
    pub fn nodes<I>(mut self, urls: I) -> Self
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        let specs = urls.into_iter().map(|url| NodeSpec::parse(url.as_ref()));
        self.nodes.extend(specs);
        self
    }

    /// Adds the server of a `redis::Client`, with its login, database and TCP settings. The certificates inside a
    /// client can't be read, so a client with certificates is refused. Give certificates to [`tls`](Self::tls).
    #[expect(
        clippy::needless_pass_by_value,
        reason = "a client is handed over, as a URL is"
    )]
    pub fn client(mut self, client: redis::Client) -> Self {
        self.nodes.push(NodeSpec::from_client(&client));
        self
    }

    /// Sets how `rediss://` nodes prove their identity, and how this program proves its own.
    ///
    /// Defaults to [`Tls::default`]: the certificates that the operating system trusts, none of this program's own, and the
    /// names in the URLs.
    #[cfg(feature = "tls-rustls")]
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = tls;
        self
    }

    /// Sets a callback that gives the user and the password of a node, for credentials that change. It is called at
    /// each new connection, with the name of the node as `host:port`. A node whose URL has a password keeps that
    /// password.
    ///
    /// The callback runs on the thread that needs the connection, within its node timeout. It has to answer at once,
    /// from memory, and must not use the manager, which would call it again. An error, made with [`io::Error::other`],
    /// and a panic become [`NodeError::NoCredentials`](crate::NodeError::NoCredentials). A server that closes
    /// connections when a password changes costs one new connection; on other servers, the existing connections stay in
    /// use.
    ///
    /// Defaults to the user and password in the URL.
    ///
    /// ```
    /// use redlatch::{Credentials, LockManager};
    /// # fn token_of_today() -> String { String::from("secret") }
    ///
    /// let manager = LockManager::builder()
    ///     .nodes(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])
    ///     .credentials(|_node| Ok(Credentials::new("locks", token_of_today())))
    ///     .build()?;
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn credentials(
        mut self,
        callback: impl Fn(&str) -> io::Result<Credentials> + Send + Sync + 'static,
    ) -> Self {
        self.credentials = Some(CredentialSource::new(callback));
        self
    }

    /// Adds a fake node, for tests.
    pub fn fake(mut self, node: &FakeNode) -> Self {
        self.nodes.push(NodeSpec::Fake(node.clone()));
        self
    }

    /// Adds fake nodes, for tests.
    pub fn fakes(mut self, nodes: &[FakeNode]) -> Self {
        self.nodes.extend(nodes.iter().cloned().map(NodeSpec::Fake));
        self
    }

    /// Sets the prefix that makes a key of a resource name. All clients must use the same prefix.
    ///
    /// Defaults to nothing.
    pub fn key_prefix(mut self, prefix: &str) -> Self {
        prefix.clone_into(&mut self.options.key_prefix);
        self
    }

    /// Sets the time for one command to one node: waiting for a pooled connection, connecting, writing and reading.
    ///
    /// It should be far below the shortest ttl, and well above a round trip. From 1 ms to 1 h. Where a command has to wait
    /// for other threads of the manager, and for a pooled connection, it takes up to twice that.
    ///
    /// Defaults to 50 ms.
    pub fn node_timeout(mut self, timeout: Duration) -> Self {
        self.options.node_timeout = timeout;
        self
    }

    /// Sets how long [`LockManager::lock`](crate::LockManager::lock) waits. [`Duration::MAX`] means without a bound.
    ///
    /// Defaults to 10 s, which is less than the default ttl. After a holder that was killed, a call that waits for longer than
    /// the ttl gets the lock.
    pub fn acquire_timeout(mut self, timeout: Duration) -> Self {
        self.options.acquire_timeout = timeout;
        self
    }

    /// Sets the bounds of the random delay between two attempts, at most 1 h.
    ///
    /// While another process has the lock, it is the delay between two looks at one node. A release wakes a waiting
    /// client earlier. A client that is not woken, because the holder uses another library or the ACL forbids it, looks
    /// again after the delay, or when the key expires.
    ///
    /// Defaults to 50 ms and 250 ms.
    pub fn retry_delay(mut self, min: Duration, max: Duration) -> Self {
        self.options.retry_min = min;
        self.options.retry_max = max;
        self
    }

    /// Sets the number of connections to each node, 1 to 10,000.
    ///
    /// What threads of the manager ask of the same nodes at the same time goes out together, in one write to each node.
    /// So the number of threads is no reason for a larger pool. A longer way is one: up to a round trip of 300 µs, two
    /// such writes are under way at a time, and else one for each 50 µs of it, as long as there are connections. So is a
    /// program that waits for several locks of other processes at the same time: each such wait keeps a connection to one
    /// node busy, up to half of the pool.
    ///
    /// Only a release or an extension that finds no free connection for half a node timeout opens one outside the pool.
    ///
    /// Defaults to 10.
    pub fn pool_size(mut self, size: u32) -> Self {
        self.pool_size = size;
        self
    }

    /// Sets the time to live of a [`request`](crate::LockManager::request) that sets none.
    ///
    /// Defaults to 30 s, or `max_ttl` if that is shorter.
    pub fn default_ttl(mut self, ttl: Duration) -> Self {
        self.default_ttl = Some(ttl);
        self
    }

    /// Sets the part of a ttl by which the clocks of client and nodes may drift apart during it, from 0 to below 1.
    ///
    /// Defaults to 0.01. A constant of 2 ms is added.
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

    /// Sets the protocol of the locks. All clients that rely on fencing tokens have to use [`Protocol::Fenced`], with
    /// the same nodes, `max_ttl` and `drift_factor`.
    ///
    /// Defaults to [`Protocol::Classic`], the published algorithm.
    pub fn protocol(mut self, protocol: Protocol) -> Self {
        self.options.protocol = protocol;
        self
    }

    /// Sets in which order the nodes are asked for a lock: one after the other, or all at once unless there is
    /// contention. Each manager may have its own order.
    ///
    /// Defaults to [`Fanout::Sequential`].
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
    pub fn holder(mut self, label: impl Into<String>) -> Self {
        self.holder = Some(label.into());
        self
    }

    /// Lets a thread of this manager hand its lock to the next one without a round over the servers: at most `max_times`
    /// in succession, 1 to 1000, and no longer than `max_time` after it was taken. Off by default.
    ///
    /// Also without this, threads get a lock from each other in one round trip: the release and the attempt of the next
    /// thread go out as one command to each node, unless another process waits. This is for threads that hold a lock for
    /// less than a round trip.
    ///
    /// The end of a guard hands the lock to the thread of this manager that has waited longest for it. At least half of
    /// the validity that this thread asked for has to remain. That thread gets a guard of its own, valid for what
    /// remains and no longer than it asked for. To the servers, all of these guards are one holder with one
    /// [`token`](crate::LockGuard::token): if the process dies, others wait for the time to live that the first of them
    /// asked for.
    ///
    /// With [`Protocol::Fenced`], each of these guards has a larger fencing token than the one before. The attempt that
    /// takes the lock reserves `max_times` tokens. It reserves fewer, so that fewer hand-overs are possible, while
    /// unused reserved tokens are ahead of the clock by more than the drift of [`max_ttl`](Self::max_ttl): 36 s by
    /// default, and 3 ms with a `max_ttl` of 100 ms. The clock catches up with a million tokens a second.
    ///
    /// It saves that round trip, but is unfair: while threads of this manager wait, other processes wait for `max_times`
    /// more holders or for `max_time`, whichever ends first. The threads get the lock in the order in which they asked.
    /// The idea is lock cohorting (Dice, Marathe and Shavit, 2012).
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
        self.handover = Some(Allowance {
            times: max_times,
            time: max_time,
        });
        self
    }
}
