//! `Builder::build`: checks the options, and puts the nodes into their canonical order.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeBounds;
use std::sync::Arc;
use std::time::Duration;

use super::Builder;
use super::given_node::GivenNode;
use crate::clock::{Clock, Timers, one_thread};
use crate::cluster::key::objection_to_all_names;
use crate::cluster::{Cluster, Options};
use crate::error::Error;
use crate::fencing::Protocol;
use crate::guard::Shared;
use crate::manager::LockManager;
use crate::node::{Node, Setup, lanes};
use crate::process;
use crate::wire::address::{Address, Security};
use crate::wire::transport::Connect;

/// A lock that is held for more than a year is not a lease.
const LONGEST_TTL: Duration = Duration::from_secs(365 * 24 * 60 * 60);
/// With the fenced protocol a token may be ahead of a node's clock by the longest ttl and its drift, which is twice this time at
/// most. Counters are kept for a day, and have to outlive that.
const LONGEST_FENCED_TTL: Duration = Duration::from_secs(11 * 60 * 60);
/// The longest node timeout and retry delay.
const HOUR: Duration = Duration::from_secs(60 * 60);
/// A time that is more than zero.
const SHORTEST: Duration = Duration::from_nanos(1);
/// A shorter timeout can end before a round trip within one machine does.
const MILLISECOND: Duration = Duration::from_millis(1);

impl Builder {
    /// Makes the manager. It connects to nothing, so dead servers are no error here.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`], which names the option, what is wrong with it and what to do; [`Error::Forked`] in the child of a
    /// process that has built a manager; [`Error::NoThread`].
    ///
    /// ```
    /// use redlatch::{Error, LockManager};
    /// // No node, which only `build` reports.
    /// let result = LockManager::builder().build();
    /// assert!(matches!(result, Err(Error::Invalid { field: "nodes", .. })));
    /// ```
    pub fn build(self) -> Result<LockManager, Error> {
        // In the canonical order: if all contenders ask in the same order, one of them wins.
        let mut nodes = BTreeMap::new();
        for (number, given) in (1_u32..).zip(&self.nodes) {
            let refuse = |reason: &str| Error::invalid("nodes", format!("node {number}: {reason}"));
            let node = given.as_ref().map_err(|reason| refuse(reason))?;
            if self.credentials.is_none() && node.address().is_some_and(Address::has_user_alone) {
                return Err(refuse(
                    "a user without a password; give both, as user:password@, or user= and pass= of a Unix socket",
                ));
            }
            if let Some((other, same)) = nodes.insert(node.identity(), (number, node)) {
                return Err(refuse(&format!(
                    "{} is the same server as node {other}, {}, and so is there twice; one server has one vote, \
                     remove one of them",
                    node.name(),
                    same.name(),
                )));
            }
        }
        if nodes.is_empty() {
            let reason = "there are none; give at least one with `node(url)`";
            return Err(Error::invalid("nodes", reason));
        }
        let nodes = || nodes.values().map(|(_, node)| *node);

        #[cfg(feature = "fake")]
        let clock = super::fakes::common_clock(nodes())?;
        #[cfg(not(feature = "fake"))]
        let clock = Clock::system();
        // All options are checked before a thread is started.
        self.checked_options()?;
        let addresses = || nodes().filter_map(GivenNode::address);
        let security = Security {
            #[cfg(feature = "tls-rustls")]
            tls: addresses()
                .any(Address::has_tls)
                .then(|| self.tls.config())
                .transpose()
                .map_err(|reason| Error::invalid("tls", reason))?,
            credentials: self.credentials.clone(),
        };
        process::claim()?;
        // Lookups have a thread of their own, because the system's resolver can hang.
        let needs_lookups = addresses().any(Address::has_host_name);
        let lookups = needs_lookups.then(|| one_thread("redlatch-lookup"));
        let lookups = lookups.transpose().map_err(Error::no_thread)?;
        let connectors = nodes().map(|node| {
            let connector = node.connector(&clock, lookups.as_ref(), &security);
            (node.name().into(), connector)
        });
        self.assemble(connectors.collect(), clock.clone())
    }

    /// Makes the manager over nodes in the canonical order, each with its name and its connector.
    pub(crate) fn assemble(
        &self,
        nodes: Vec<(Arc<str>, Box<dyn Connect>)>,
        clock: Clock,
    ) -> Result<LockManager, Error> {
        let options = self.checked_options()?;
        let thread = one_thread("redlatch").map_err(Error::no_thread)?;
        let timers = Timers::new(&clock, &thread);
        let common_lanes = Arc::new(lanes(options.pool_size));
        let node = |(name, connector)| {
            Node::new(Setup {
                name,
                connector,
                pool_size: options.pool_size,
                common_lanes: Arc::clone(&common_lanes),
                timeout: options.node_timeout,
                connect_timeout: options.connect_timeout(),
                clock: &clock,
                timers: &timers,
                thread: &thread,
            })
        };
        let nodes = nodes.into_iter().map(node).collect();
        let shared = Shared::new(Cluster::new(nodes, clock, options));
        Ok(LockManager { shared })
    }

    fn checked_options(&self) -> Result<Options, Error> {
        let mut options = self.options.clone();
        let (node_timeout, max_ttl) = (options.node_timeout, options.max_ttl);
        let (first, second) = (options.retry_min, options.retry_max);
        let delay = "the first bound must not be above the second";
        let longest_delay = "the second bound must be more than zero and at most 1 h";
        let part = "it must be at least 0 and below 1";
        let (pool, timeout) = ("it must be 1 to 10,000", "it must be 1 ms to 1 h");
        within("node_timeout", node_timeout, MILLISECOND..=HOUR, timeout)?;
        within(
            "connect_timeout",
            options.connect_timeout(),
            MILLISECOND..=HOUR.saturating_mul(4),
            "it must be 1 ms to 4 h",
        )?;
        within("pool_size", options.pool_size, 1..=10_000, pool)?;
        within("retry_delay", first, ..=second, delay)?;
        within("retry_delay", second, SHORTEST..=HOUR, longest_delay)?;
        within("drift_factor", options.drift_factor, 0.0..1.0, part)?;
        let (longest, rule) = match options.protocol {
            Protocol::Classic => (LONGEST_TTL, "it must be at most 365 days"),
            Protocol::Fenced => (
                LONGEST_FENCED_TTL,
                "with Protocol::Fenced it must be at most 11 h, because counters are kept for a day",
            ),
        };
        within("max_ttl", max_ttl, ..=longest, rule)?;
        if let Some(reason) = objection_to_all_names(&options.key_prefix) {
            return Err(Error::invalid("key_prefix", reason));
        }
        let label = self.holder.clone().transpose();
        options.holder = label.map_err(|reason| Error::invalid("holder", reason))?;
        options.term_of("max_ttl", max_ttl)?;
        options.default_ttl = self.default_ttl.unwrap_or(options.default_ttl.min(max_ttl));
        options.term_of("default_ttl", options.default_ttl)?;
        Ok(options)
    }
}

/// Refuses a value of an option that is out of its bounds.
fn within<T: PartialOrd + Copy + fmt::Debug>(
    option: &'static str,
    value: T,
    bounds: impl RangeBounds<T>,
    rule: &str,
) -> Result<(), Error> {
    if bounds.contains(&value) {
        return Ok(());
    }
    let reason = format!("{value:?} is out of bounds: {rule}");
    Err(Error::invalid(option, reason))
}
