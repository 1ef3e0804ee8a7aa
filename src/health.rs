//! Pure: `Health`, judged from the replies of the servers.
//!
//! `answers` has the questions and notes the replies; `facts` is the list of what these tell, with `info` for the fields of `INFO`,
//! `marker` for the key of the fenced protocol, and `stranger` for connections without a login; `findings` is the table of all
//! findings; `table` is the output for people, and `serialise` for programs. `survey` counts the nodes of each held lock.

use crate::fencing::Rules;
use crate::quorum;

pub(crate) mod answers;
pub(crate) mod facts;
mod finding;
mod findings;
mod info;
mod marker;
#[cfg(feature = "serde")]
mod serialise;
mod stranger;
pub(crate) mod survey;
mod table;

pub(crate) use self::facts::Facts;
pub use self::finding::{Finding, Severity};
pub(crate) use self::stranger::Stranger;
pub(crate) use self::survey::Survey;

/// What [`LockManager::health`](crate::LockManager::health) found: a snapshot of every node, and the findings.
///
/// A program branches on the [`severity`](Self::severity), the [`margin`](Self::margin), and the [code](Finding::code)
/// of each finding. A person reads its `Display`: a table with one line per node, then one line per finding that says
/// what to do, the worst first, then the verdict. A fact that the server does not tell is `unknown`. A node that did
/// not answer has dashes:
///
/// ```text
/// NODE           STATE   ROUND TRIP  SERVER        ROLE    RUN ID    UP        EVICTION     PERSISTENCE  CLOCK              MARKER
/// 10.0.0.1:6379  up      168.0µs     redis 7.0.15  master  a09618ee  3days 5h  noeviction   aof          +10.0µs ±113.0µs   no marker
/// 10.0.0.2:6379  up      200.0µs     redis 7.0.15  master  49094dbd  12m 3s    allkeys-lru  off          -44.0µs ±129.0µs   no marker
/// 10.0.0.3:6379  SILENT  -           -             -       -         -         -            -            -                  -
/// critical  10.0.0.2:6379: deletes keys, and so locks, when its memory is full (allkeys-lru); run CONFIG SET …
/// warning   10.0.0.2:6379: without an append-only file a restart forgets locks, which others may then get as …
/// warning   10.0.0.3:6379: no answer within the node timeout; check whether its process hangs, its machine …
/// verdict: critical; 2 of 3 can vote, 2 have to: no further failure is survived
/// ```
///
/// With the cargo feature `serde` it can be serialised, with the same findings and all [facts](Self::fact) of each
/// node.
///
/// ```
/// use redlatch::{LockManager, Severity};
/// # let nodes = redlatch::fake::FakeNode::cluster(5);
/// # nodes[3].refuse();
///
/// let manager = LockManager::builder().fakes(&nodes).build()?;
/// let health = manager.health()?;
/// if health.severity >= Severity::Warning {
///     println!("{health}");
/// }
/// assert_eq!(health.margin, 1);
/// # Ok::<(), redlatch::Error>(())
/// ```
// No `PartialEq`: two snapshots never have the same round trip times.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Health {
    /// The severity of the worst finding, [`Severity::Ok`] if there is none.
    pub severity: Severity,
    /// How many more nodes may fail before no lock can be taken: the nodes that can vote, less the quorum.
    ///
    /// Zero: the next failure is an outage. Negative: no lock can be taken until that many more nodes can vote.
    ///
    /// A node can vote if it answers within `node_timeout`, gives the lock that is tried, and is no replica and no sentinel. Several URLs of one
    /// server count once. With the fenced protocol, the marker of the node also has to be open, unless the user may not
    /// read it. With the classic protocol, markers don't matter. Where the user may not use the key of the lock that is
    /// tried, a node counts as one that gives locks, and the finding `untried` says so.
    pub margin: i64,
    /// The findings, the worst first; empty if there are none.
    pub findings: Vec<Finding>,
    /// Each node, in the order in which they are asked to lock.
    nodes: Vec<Facts>,
    pub(crate) voters: usize,
    quorum: usize,
}

impl Health {
    /// Judges the facts about the nodes, for a client with these rules, or without rules for one of the classic
    /// protocol.
    pub(crate) fn of(nodes: Vec<Facts>, own: Option<&Rules>, survey: &Survey) -> Self {
        let (voters, quorum) = (facts::voters(&nodes, own), quorum::quorum(nodes.len()));
        let signed = |count| i64::try_from(count).unwrap_or(i64::MAX);
        let findings = findings::find(&nodes, own, survey);
        // The worst one is the first.
        let worst = findings.first().map(|finding| finding.severity);
        Self {
            severity: worst.unwrap_or(Severity::Ok),
            margin: signed(voters).saturating_sub(signed(quorum)),
            findings,
            nodes,
            voters,
            quorum,
        }
    }

    /// Returns the names of the nodes, in the order in which they are asked to lock: `host:port`, or the path of a socket.
    ///
    /// ```
    /// # let nodes = redlatch::fake::FakeNode::cluster(3);
    /// # let manager = redlatch::LockManager::builder().fakes(&nodes).build()?;
    /// let health = manager.health()?;
    /// assert_eq!(health.nodes().count(), 3);
    /// assert_eq!(health.nodes().next(), Some(nodes[0].name()));
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn nodes(&self) -> impl Iterator<Item = &str> {
        self.nodes.iter().map(|node| &*node.node)
    }

    /// Returns one fact about a node as text; `None` if it is unknown, or does not apply.
    ///
    /// A fact is unknown if the node was not reached, the user's ACL hides it, the server does not have it, or its
    /// value makes no sense. These are the names of the facts; later versions may have more:
    ///
    /// | name | |
    /// |---|---|
    /// | `state` | `up`; `refuses`: it answers with an error that a lock would meet as well, or gives no lock; `timed_out`; `failed` |
    /// | `error` | why it is not `up` |
    /// | `round_trip_us` | the shortest time that an answer took, with up to 2 ms for each other node that was slower |
    /// | `connection_us` | how long its last connection took to make |
    /// | `server`, `version` | `redis`, `valkey`, `KeyDB`, `Dragonfly`, or what it calls itself; its own version |
    /// | `mode` | `standalone`, as it should be, or `cluster` or `sentinel` |
    /// | `role`, `master` | `master`, as it should be, `replica`, `active_replica`, or what it calls itself; the master of a replica |
    /// | `run_id` | what tells one process from another, and from the same server after a restart |
    /// | `uptime_s` | for how many seconds the process has been running |
    /// | `eviction` | `noeviction`, as it should be, or what deletes keys when the memory is full |
    /// | `persistence` | `off`, `rdb`, `aof` or `aof+rdb`; `INFO` does not tell `appendfsync` |
    /// | `clock_ahead_us`, `clock_uncertainty_us` | how far the node's clock is ahead of this client's, and how much more or less that may be |
    /// | `quarantine` | what its marker says to clients that fence: `open`, `quarantined`, `no_marker`, `other_process` or `unreadable` |
    /// | `quarantine_remaining_ms` | how much longer it is `quarantined` |
    /// | `settings` | the settings of the clients that wrote the marker |
    ///
    /// ```
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
    /// let health = manager.health()?;
    /// for node in health.nodes() {
    ///     assert_eq!(health.fact(node, "role").as_deref(), Some("master"));
    /// }
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn fact(&self, node: &str, name: &str) -> Option<String> {
        let facts = self.nodes.iter().find(|facts| *facts.node == *node)?;
        facts.all().find(|(other, _)| *other == name)?.1
    }
}

#[cfg(test)]
mod cases;
