//! `Builder::build`: checks the options, and puts the nodes into their canonical order.

use std::sync::Arc;
use std::time::Duration;

use super::Builder;
use super::spec::NodeSpec;
use crate::clock::{Clock, Timers, one_thread, wait_for};
use crate::cluster::Options;
use crate::cluster::key::forbids_all_names;
use crate::contend::handover::MOST_TIMES;
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
/// A shorter timeout can end before a round trip within one machine does.
const SHORTEST_NODE_TIMEOUT: Duration = Duration::from_millis(1);
const LARGEST_POOL: u32 = 10_000;

impl Builder {
    /// Makes the manager. It connects to nothing, so dead servers are no error here.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidConfig`], which tells what is wrong and what to do; [`Error::Forked`] in the child of a process
    /// that has built a manager.
    ///
    /// # Panics
    ///
    /// Where the operating system can't start a thread.
    ///
    /// ```
    /// use redlatch::{Error, LockManager};
    /// // No node, which only `build` reports.
    /// let result = LockManager::builder().build();
    /// assert!(matches!(result, Err(Error::InvalidConfig { .. })));
    /// ```
    pub fn build(self) -> Result<LockManager, Error> {
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
            return Err(invalid("no nodes: give at least one with `node(url)`"));
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
                .then(|| self.tls.config().map_err(invalid))
                .transpose()?,
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
        Ok(LockManager::with_nodes(
            nodes,
            clock,
            options,
            self.handover,
        ))
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
        require(
            !forbids_all_names(&options.key_prefix),
            "key_prefix: keys with `:redlatch:` in them are kept beside those of locks, so no lock could have a name; choose another",
        )?;
        let label = self.holder.as_deref().map(Label::new).transpose();
        options.holder = label.map_err(|reason| invalid(format!("holder: {reason}")))?;
        let handover = self.handover;
        require(
            handover.is_none_or(|some| (1..=MOST_TIMES).contains(&some.times)),
            "local_handover: max_times must be 1 to 1000; leave it out to have none",
        )?;
        require(
            handover.is_none_or(|some| !some.time.is_zero()),
            "local_handover: max_time must be more than zero; leave it out to have none",
        )?;
        options
            .term(options.max_ttl)
            .map_err(|error| invalid(format!("max_ttl: {error}")))?;
        options.default_ttl = self
            .default_ttl
            .unwrap_or_else(|| options.default_ttl.min(options.max_ttl));
        options
            .term(options.default_ttl)
            .map_err(|error| invalid(format!("default_ttl: {error}")))?;
        Ok(options)
    }
}

pub(super) fn invalid(reason: impl Into<String>) -> Error {
    Error::InvalidConfig {
        reason: reason.into(),
    }
}
