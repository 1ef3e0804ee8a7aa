//! The nodes of a manager in their canonical order, with what a round over them needs: the clock, the options, the
//! rules of the fenced protocol, the counters.

use std::ops::Deref;
use std::process;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use crate::claim::{Fence, Resource};
use crate::clock::{Clock, Timestamp};
use crate::error::{Error, NodeReport};
use crate::fencing::{FencingToken, Proposals, Rules};
use crate::node::Node;
use crate::node::asked::Asked;
use crate::node::key_report::KeyReport;
use crate::quorum::Term;
use crate::retry;
use crate::stats::Recorder;
use crate::sync::AtomicU64;

pub(crate) mod key;
mod options;

pub(crate) use self::options::Options;

/// Some of the nodes, by their places in the canonical order.
pub(crate) type Places = SmallVec<[usize; 5]>;

/// The places of the nodes of which that is true. There is one item for each node, in the canonical order.
pub(crate) fn places<T>(nodes: &[T], is_meant: impl Fn(&T) -> bool) -> Places {
    let mut places = Places::new();
    for (place, node) in nodes.iter().enumerate() {
        if is_meant(node) {
            places.push(place);
        }
    }
    places
}

pub(crate) struct Cluster {
    /// In the canonical order.
    nodes: Vec<Arc<Node>>,
    /// The indexes of all nodes.
    all: Places,
    pub(crate) options: Options,
    /// With the fenced protocol, the settings that all clients have to share.
    pub(crate) rules: Option<Arc<Rules>>,
    pub(crate) proposals: Proposals,
    pub(crate) owner: Arc<Owner>,
}

/// What a cluster and the locks on it have in common. It keeps no connection and no thread, so that a watch may outlive the manager.
pub(crate) struct Owner {
    pub(crate) clock: Clock,
    pub(crate) stats: Recorder,
    /// How many locks it has had. Their order is the same in each run of a simulation, that of their addresses is not.
    pub(crate) leases: AtomicU64,
    /// The names of the nodes, in the canonical order.
    nodes: Box<[Arc<str>]>,
    /// The process that has the manager.
    process: u32,
}

impl Owner {
    pub(crate) fn new(clock: Clock, nodes: Box<[Arc<str>]>) -> Arc<Self> {
        Arc::new(Self {
            clock,
            stats: Recorder::new(&[]),
            leases: AtomicU64::new(0),
            nodes,
            process: process::id(),
        })
    }

    /// The reports of all nodes, for people.
    pub(crate) fn in_full(&self, reports: impl IntoIterator<Item = KeyReport>) -> Vec<NodeReport> {
        let named = reports.into_iter().zip(&self.nodes);
        named
            .map(|(report, node)| report.into_report(node))
            .collect()
    }

    /// Whether this is the child of a fork. Mutexes that other threads held at the fork stay locked there, so none may
    /// be taken.
    pub(crate) fn is_forked(&self) -> bool {
        process::id() != self.process
    }
}

impl Deref for Cluster {
    type Target = Owner;

    fn deref(&self) -> &Owner {
        &self.owner
    }
}

impl Cluster {
    pub(crate) fn new(nodes: Vec<Arc<Node>>, clock: Clock, options: Options) -> Self {
        Self {
            rules: options.rules(nodes.len()).map(Arc::new),
            proposals: Proposals::default(),
            owner: Owner::new(
                clock,
                nodes.iter().map(|node| Arc::clone(node.name())).collect(),
            ),
            all: (0..nodes.len()).collect(),
            nodes,
            options,
        }
    }

    pub(crate) fn nodes(&self) -> &[Arc<Node>] {
        &self.nodes
    }

    /// All nodes, of which those with these indexes are asked.
    pub(crate) fn asking<'c>(&'c self, indexes: &'c [usize]) -> Asked<'c> {
        let nodes = &self.nodes;
        Asked { nodes, indexes }
    }

    /// All nodes, and all are asked.
    pub(crate) fn asking_all(&self) -> Asked<'_> {
        self.asking(&self.all)
    }

    /// Those of these nodes of which that is true.
    pub(crate) fn only(&self, of: &[usize], is_meant: impl Fn(&Node) -> bool) -> Places {
        let meant = |place: &usize| self.nodes.get(*place).is_some_and(|node| is_meant(node));
        of.iter().copied().filter(meant).collect()
    }

    pub(crate) fn refuse_fork(&self) -> Result<&Self, Error> {
        if self.is_forked() {
            return Err(Error::Forked);
        }
        Ok(self)
    }

    /// The term of an extension: at most what `max_hold` leaves, rounded up, so that others don't wait longer for a
    /// holder that hangs.
    pub(crate) fn term_until(
        &self,
        limit: Option<Timestamp>,
        ttl: Duration,
        now: Timestamp,
    ) -> Result<Term, Error> {
        let longest = limit.map_or(Duration::MAX, |limit| {
            self.options.ttl_for(limit.saturating_since(now))
        });
        self.options.term(ttl.min(longest))
    }

    /// What the fenced protocol adds to an attempt: a token of its own, but for a reader, which has none.
    pub(crate) fn fence_of(&self, resource: &Resource) -> Option<Fence> {
        let next = || self.proposals.next(self.clock.wall_micros());
        let is_fenced = self.rules.is_some() && !resource.is_read();
        self.fence(if is_fenced {
            next()
        } else {
            FencingToken::UNKNOWN
        })
    }

    /// What the fenced protocol adds to a lock with this token.
    pub(crate) fn fence(&self, token: FencingToken) -> Option<Fence> {
        let rules = Arc::clone(self.rules.as_ref()?);
        Some(Fence { rules, token })
    }

    /// A random delay before the next attempt.
    pub(crate) fn delay(&self) -> Result<Duration, Error> {
        let random = self.clock.random();
        let random = random.map_err(Error::no_randomness)?;
        let options = &self.options;
        Ok(retry::delay(options.retry_min, options.retry_max, random))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if self.is_forked() {
            // Another thread of the parent may have held a mutex of the thread pools at the fork. Dropping the pools in
            // the child would wait for it without end.
            #[expect(clippy::mem_forget, reason = "a leak, in place of a hang")]
            std::mem::forget(std::mem::take(&mut self.nodes));
        }
    }
}
