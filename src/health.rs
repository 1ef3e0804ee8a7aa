//! Pure: what the answers of the servers say of a deployment.

use std::cmp::Reverse;
use std::fmt;

use crate::fencing::{Protocol, Rules};
use crate::quorum;

mod advice;
pub(crate) mod answers;
mod finding;
mod info;
mod node;
mod table;

pub use self::finding::Finding;
pub use self::node::{ClockDifference, NodeHealth, Persistence, Quarantine, Reach, Role};

/// What [`LockManager::health`](crate::LockManager::health) found: a snapshot of every node, and what is wrong.
///
/// A program branches on [`severity`](Self::severity) and [`margin`](Self::margin), and on the kinds of
/// [`findings`](Self::findings). A person reads its `Display`: a table with one line per node, then one line per
/// finding that says what to do, the worst first, then the verdict. What is unknown says so, and of a node that was not
/// reached there is nothing:
///
/// ```text
/// NODE           STATE   ROUND TRIP  SERVER        ROLE    RUN ID    UP      EVICTION     PERSISTENCE  CLOCK              MARKER
/// 10.0.0.1:6379  up      167.9µs     redis 7.0.15  master  a09618ee  3d 5h   noeviction   aof          +10.0µs ±112.6µs   no marker
/// 10.0.0.2:6379  up      200.3µs     redis 7.0.15  master  49094dbd  12m 3s  allkeys-lru  off          -44.0µs ±128.3µs   no marker
/// 10.0.0.3:6379  SILENT  -           -             -       -         -       -            -            -                  -
/// critical  10.0.0.2:6379: deletes keys, and so locks, when its memory is used up (allkeys-lru); CONFIG SET …
/// warning   10.0.0.2:6379: without an append-only file a restart forgets locks, which others may then have as …
/// warning   10.0.0.3:6379: no answer within the node timeout; look whether its process hangs, its machine …
/// verdict: critical; 2 of 3 can vote, 2 have to: no further failure is survived
/// ```
///
/// ```
/// use redlatch::{LockManager, Margin, Severity};
/// # use redlatch::fake::FakeNode;
/// # let nodes = FakeNode::cluster(5);
/// # nodes[3].refuse();
///
/// let manager = LockManager::builder().fakes(&nodes).build()?;
/// let health = manager.health()?;
/// if health.severity() >= Severity::Warning {
///     println!("{health}");
/// }
/// assert_eq!(health.margin(), Margin::Survives { failures: 1 });
/// # Ok::<(), redlatch::Error>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Health {
    /// Each node, in the order in which they are asked to lock.
    pub nodes: Vec<NodeHealth>,
    /// What is wrong or worth knowing, the worst first; empty if nothing is.
    pub findings: Vec<Finding>,
    /// How many nodes can give a vote now, as far as their answers tell.
    ///
    /// These are the nodes that answer and don't refuse, are no replica and no sentinel; several URLs of one server
    /// count once. For a manager that fences, only nodes whose [marker](Quarantine) is open, or can't be read for want of
    /// rights, count; for one that does not, markers don't matter. What no answer shows is not in it, such as memory that
    /// is used up.
    pub voters: usize,
    /// How many votes a lock needs: the smallest majority of the nodes.
    pub quorum: usize,
}

/// How bad something is. The order is that of the variants, so the worst of several is their `max`.
///
/// ```
/// use redlatch::Severity;
///
/// assert!(Severity::Critical > Severity::Warning);
/// assert_eq!(Severity::Critical.to_string(), "critical");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Severity {
    /// Nothing is wrong.
    Ok,
    /// Worth knowing, and no reason to do anything now: something could not be seen.
    Notice,
    /// Locks are taken and exclusive, and there is less between that and an outage than there should be.
    Warning,
    /// No locks can be taken, or two holders of one lock are possible.
    Critical,
}

/// How many more nodes may fail before no lock can be taken: the nodes that can vote, less the quorum.
///
/// ```
/// use redlatch::Margin;
///
/// assert_eq!(Margin::Survives { failures: 2 }.to_string(), "2 more failures are survived");
/// assert_eq!(Margin::NoMajority { missing: 1 }.to_string(), "no majority: 1 vote is missing");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Margin {
    /// Locks can be taken, and so they can after this many more failures. Zero: the next failure is an outage.
    Survives {
        /// How many nodes may fail.
        failures: usize,
    },
    /// No lock can be taken until this many more nodes can vote.
    NoMajority {
        /// How many votes are missing for a quorum; at least one.
        missing: usize,
    },
}

impl Health {
    /// What the nodes' answers come to.
    pub(crate) fn of(nodes: Vec<NodeHealth>, own: Option<&Rules>) -> Self {
        let protocol = own.map_or(Protocol::Classic, |_| Protocol::Fenced);
        let quorum = quorum::quorum(nodes.len());
        let voters = voters(&nodes, protocol, own);
        let mut findings = finding::find(&nodes, protocol, own, (voters, quorum));
        findings.sort_by_key(|finding| Reverse(finding.severity()));
        Self {
            nodes,
            findings,
            voters,
            quorum,
        }
    }

    /// Returns the severity of the worst finding, [`Severity::Ok`] if there is none.
    pub fn severity(&self) -> Severity {
        let severities = self.findings.iter().map(Finding::severity);
        severities.max().unwrap_or(Severity::Ok)
    }

    /// Returns how many further failures are survived.
    pub fn margin(&self) -> Margin {
        match self.voters.checked_sub(self.quorum) {
            Some(failures) => Margin::Survives { failures },
            None => Margin::NoMajority {
                missing: self.quorum.saturating_sub(self.voters),
            },
        }
    }
}

/// How many nodes can vote; several that are one server have one vote.
fn voters(nodes: &[NodeHealth], protocol: Protocol, own: Option<&Rules>) -> usize {
    let is_fenced = protocol == Protocol::Fenced;
    let can_vote = |node: &&NodeHealth| {
        node.can_vote()
            && !(is_fenced && node.quarantine.is_closed())
            && own.is_none_or(|rules| node.objection(rules).is_none())
    };
    let mut voters: Vec<&NodeHealth> = Vec::with_capacity(nodes.len());
    for node in nodes.iter().filter(can_vote) {
        if !voters.iter().any(|other| node.is_same_server(other)) {
            voters.push(node);
        }
    }
    voters.len()
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ok => "ok",
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Critical => "critical",
        })
    }
}

impl fmt::Display for Margin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Survives { failures: 0 } => f.write_str("no further failure is survived"),
            Self::Survives { failures: 1 } => f.write_str("1 more failure is survived"),
            Self::Survives { failures } => write!(f, "{failures} more failures are survived"),
            Self::NoMajority { missing: 1 } => f.write_str("no majority: 1 vote is missing"),
            Self::NoMajority { missing } => write!(f, "no majority: {missing} votes are missing"),
        }
    }
}

#[cfg(test)]
mod exhaustive;
#[cfg(test)]
mod texts;
