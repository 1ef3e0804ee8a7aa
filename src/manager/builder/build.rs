//! `Builder::build`: checks the options, and puts the nodes into their canonical order.

use std::fmt;
use std::ops::RangeBounds;
use std::sync::Arc;
use std::time::Duration;

use super::Builder;
use super::spec::NodeSpec;
use crate::clock::{Clock, Timers, one_thread, wait_for};
use crate::cluster::Options;
use crate::cluster::key::forbids_all_names;
use crate::error::Error;
use crate::fencing::Protocol;
use crate::holder::Label;
use crate::manager::LockManager;
use crate::node::{Node, Setup, lanes};
use crate::process;
use crate::wire::address::Security;
use crate::wire::transport::Connect;

/// A lock that is held for more than a year is not a lease.
const LONGEST_TTL: Duration = Duration::from_secs(365 * 24 * 60 * 60);
/// With the fenced protocol a token may be ahead of the clock by the longest ttl. Counters are kept for a day, and have
/// to outlive that time twice.
const LONGEST_FENCED_TTL: Duration = Duration::from_secs(11 * 60 * 60);
/// The longest node timeout and retry delay.
const LONGEST_WAIT: Duration = Duration::from_secs(60 * 60);
/// A time that is more than zero.
const SHORTEST: Duration = Duration::from_nanos(1);
/// A shorter timeout can end before a round trip within one machine does.
const SHORTEST_NODE_TIMEOUT: Duration = Duration::from_millis(1);
const LARGEST_POOL: u32 = 10_000;

impl Builder {
    /// Makes the manager. It connects to nothing, so dead servers are no error here.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`], which names the option, what is wrong with it and what to do; [`Error::Forked`] in the child of a
    /// process that has built a manager.
    ///
    /// # Panics
    ///
    /// Where the operating system can't start a thread.
    ///
    /// ```
    /// use redlatch::{Error, LockManager};
    /// // No node, which only `build` reports.
    /// let result = LockManager::builder().build();
    /// assert!(matches!(result, Err(Error::Invalid { field: "nodes", .. })));
    /// ```
    pub fn build(self) -> Result<LockManager, Error> {
        let invalid = |reason: String| Error::invalid("nodes", reason);
        let mut specs: Vec<(String, NodeSpec)> = Vec::with_capacity(self.nodes.len());
        for (i, spec) in self.nodes.iter().enumerate() {
            let number = i.saturating_add(1);
            let identity = spec
                .identity()
                .map_err(|reason| invalid(format!("node {number}: {reason}")))?;
            if self.credentials.is_none() && spec.has_user_alone() {
                return Err(invalid(format!(
                    "node {number}: a user without a password; give both, as user:password@, or user= and pass= of a Unix socket"
                )));
            }
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
            let reason = "there are none; give at least one with `node(url)`";
            return Err(Error::invalid("nodes", reason));
        }
        // The canonical order: if all contenders ask in the same order, one of them wins.
        specs.sort_by(|(a, _), (b, _)| a.cmp(b));

        #[cfg(feature = "fake")]
        let clock = super::fakes::common_clock(&specs)?;
        #[cfg(not(feature = "fake"))]
        let clock = Clock::system();
        // All options are checked before a thread is started.
        self.checked_options()?;
        let security = self.security(&specs)?;
        process::claim()?;
        // Lookups have a thread of their own, because the system's resolver can hang.
        let needs_lookups = specs.iter().any(|(_, spec)| spec.needs_lookups());
        let lookups = needs_lookups.then(|| one_thread("redlatch-lookup"));
        let nodes = specs
            .into_iter()
            .filter_map(|(_, spec)| {
                let name = spec.name().into();
                let connector = spec.connector(&clock, lookups.as_ref(), &security)?;
                Some((name, connector))
            })
            .collect();
        self.assemble(nodes, clock)
    }

    /// The TLS setup and the credentials for connections to these nodes.
    #[cfg_attr(
        not(feature = "tls-rustls"),
        expect(
            clippy::unnecessary_wraps,
            reason = "with TLS, certificates can be invalid"
        )
    )]
    fn security(&self, specs: &[(String, NodeSpec)]) -> Result<Security, Error> {
        #[cfg(not(feature = "tls-rustls"))]
        let _ = specs;
        Ok(Security {
            #[cfg(feature = "tls-rustls")]
            tls: specs
                .iter()
                .any(|(_, spec)| spec.has_tls())
                .then(|| self.tls.config())
                .transpose()
                .map_err(|reason| Error::invalid("tls", reason))?,
            credentials: self.credentials.clone(),
        })
    }

    /// Makes the manager over nodes in the canonical order, each with its name and its connector.
    pub(crate) fn assemble(
        self,
        nodes: Vec<(Arc<str>, Box<dyn Connect>)>,
        clock: Clock,
    ) -> Result<LockManager, Error> {
        let options = self.checked_options()?;
        let thread = one_thread("redlatch");
        let timers = Timers::new(&clock, &thread);
        let common_lanes = Arc::new(lanes(self.pool_size));
        let nodes = nodes
            .into_iter()
            .map(|(name, connector)| {
                Node::new(Setup {
                    name,
                    connector,
                    pool_size: self.pool_size,
                    common_lanes: Arc::clone(&common_lanes),
                    timeout: options.node_timeout,
                    clock: &clock,
                    timers: &timers,
                    thread: &thread,
                })
            })
            .collect();
        // The slots are made on that thread; without this wait, the first lock could find none.
        wait_for(&thread);
        Ok(LockManager::with_nodes(nodes, clock, options))
    }

    fn checked_options(&self) -> Result<Options, Error> {
        let mut options = self.options.clone();
        let (node_timeout, max_ttl) = (options.node_timeout, options.max_ttl);
        let bounds = SHORTEST_NODE_TIMEOUT..=LONGEST_WAIT;
        within(
            "node_timeout",
            node_timeout,
            bounds,
            "it must be 1 ms to 1 h",
        )?;
        let bounds = 1..=LARGEST_POOL;
        within(
            "pool_size",
            self.pool_size,
            bounds,
            "it must be 1 to 10,000",
        )?;
        let (first, second) = (options.retry_min, options.retry_max);
        let rule = "the first bound must not be above the second";
        within("retry_delay", first, ..=second, rule)?;
        let rule = "the second bound must be more than zero and at most 1 h";
        within("retry_delay", second, SHORTEST..=LONGEST_WAIT, rule)?;
        let rule = "it must be at least 0 and below 1";
        within("drift_factor", options.drift_factor, 0.0..1.0, rule)?;
        let rule = "it must be at most 365 days";
        within("max_ttl", max_ttl, ..=LONGEST_TTL, rule)?;
        if options.protocol == Protocol::Fenced {
            let rule = "with Protocol::Fenced it must be at most 11 h, because counters are kept for a day";
            within("max_ttl", max_ttl, ..=LONGEST_FENCED_TTL, rule)?;
        }
        if forbids_all_names(&options.key_prefix) {
            let reason = "keys with `:redlatch:` in them are kept beside those of locks, so no lock could have a name; choose another";
            return Err(Error::invalid("key_prefix", reason));
        }
        let label = self.holder.as_deref().map(Label::new).transpose();
        options.holder = label.map_err(|reason| Error::invalid("holder", reason))?;
        options.term_of("max_ttl", max_ttl)?;
        options.default_ttl = self
            .default_ttl
            .unwrap_or_else(|| options.default_ttl.min(options.max_ttl));
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
