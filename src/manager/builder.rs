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
use crate::wire::{Credentials, Source};

mod build;
mod spec;

use self::spec::Spec;

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
    nodes: Vec<Spec>,
    pool_size: u32,
    default_ttl: Option<Duration>,
    #[cfg(feature = "tls-rustls")]
    tls: Tls,
    credentials: Option<Source>,
    options: Options,
    handover: Option<Allowance>,
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

    /// Adds the server of a `redis::Client`, with its login, database and TCP settings. The certificates in a client can't be
    /// read: a client with certificates is refused, and [`tls`](Self::tls) takes them.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "a client is handed over, as a URL is"
    )]
    pub fn client(mut self, client: redis::Client) -> Self {
        self.nodes.push(Spec::from_client(&client));
        self
    }

    /// Sets how `rediss://` nodes prove who they are, and how this program does.
    ///
    /// Defaults to [`Tls::default`]: the certificates that the operating system trusts, none of this program's own, and the
    /// names in the URLs.
    #[cfg(feature = "tls-rustls")]
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = tls;
        self
    }

    /// Sets where the user and the password of a node come from, for those that change: it is asked at each new connection,
    /// with the name of the node as `host:port`. A node whose URL has a password of its own keeps that.
    ///
    /// The callback runs on the thread that needs the connection, whose time is running: it has to answer at once, from
    /// memory, and must not use the manager, which would ask it again. It makes an error with [`io::Error::other`]; that
    /// becomes [`NodeError::NoCredentials`](crate::NodeError::NoCredentials), and so does a panic. Servers that end connections
    /// when a password changes cost one new connection; those that don't keep the ones that there are.
    ///
    /// Defaults to what is in the URLs.
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
        self.credentials = Some(Source::new(callback));
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

    /// Sets how long [`LockManager::lock`](crate::LockManager::lock) waits. [`Duration::MAX`] means without a bound.
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

    /// Sets the time to live of a [`request`](crate::LockManager::request) that does not say.
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
        self.handover = Some(Allowance {
            times: max_times,
            time: max_time,
        });
        self
    }
}
