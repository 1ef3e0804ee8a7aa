//! What is known of one node.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::error::NodeError;
use crate::fencing::Rules;

/// What one node's server says of itself.
///
/// A field is `None`, or has a variant `Unknown`, where the server did not say: the node was not reached, the user's ACL
/// hides it, the server does not have it, or what it said makes no sense. Texts are the server's own, of at most 64
/// characters, with what can't be printed escaped as in a Rust string.
///
/// ```
/// # use redlatch::fake::FakeNode;
/// # use redlatch::{LockManager, Role};
/// # let nodes = FakeNode::cluster(3);
/// # let manager = LockManager::builder().fakes(&nodes).build()?;
/// for node in &manager.health()?.nodes {
///     println!("{}: up for {:?}, {:?}", node.node, node.uptime, node.clock);
///     assert_eq!(node.role, Role::Master);
/// }
/// # Ok::<(), redlatch::Error>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct NodeHealth {
    /// The node as `host:port`, or as the path of its socket.
    pub node: Arc<str>,
    /// Whether it answers, or why not.
    pub reach: Reach,
    /// The shortest time that an answer took: from the call to this client's having read it, with up to 2 ms for each
    /// other node that was slower. `None` without any answer.
    pub round_trip: Option<Duration>,
    /// What the server is: `redis`, `valkey`, `KeyDB`, `Dragonfly`, or what it calls itself.
    pub server: Option<String>,
    /// The server's own version; that of `KeyDB` is the one it gives for Redis.
    pub version: Option<String>,
    /// `standalone`, as it should be, or `cluster` or `sentinel`.
    pub mode: Option<String>,
    /// Whether it is a master.
    pub role: Role,
    /// What tells one process from another, and from the same server after a restart. A server without a `run_id`
    /// (Dragonfly) is known by its `master_replid`, if it is a master.
    pub run_id: Option<String>,
    /// How long the process has been running, in whole seconds.
    pub uptime: Option<Duration>,
    /// What happens when the memory is used up: `noeviction`, as it should be, or what deletes keys.
    pub eviction: Option<String>,
    /// What is written to disk.
    pub persistence: Option<Persistence>,
    /// The server's wall clock, compared with this client's.
    pub clock: Option<ClockDifference>,
    /// Whether clients that fence may have this node's vote.
    pub quarantine: Quarantine,
    /// The settings of the clients that made the node's marker, which have to be the same for all of them; `None` if there
    /// is no marker of the present process.
    pub settings: Option<String>,
    /// Whether the server says that its last write to disk failed.
    pub(crate) fails_to_save: bool,
    /// What the user may not ask, or the server does not have.
    pub(crate) hidden: Vec<&'static str>,
    /// An answer that can't be read.
    pub(crate) unreadable: Option<NodeError>,
}

/// Whether a node answers.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Reach {
    /// It answers.
    Answers,
    /// It answers with an error that a lock would meet as well, such as `LOADING`, `NOAUTH` or `MASTERDOWN`.
    Refuses(NodeError),
    /// It did not answer within the node timeout.
    TimedOut,
    /// It could not be asked, or none of its answers makes sense.
    Failed(NodeError),
}

/// What a node is in replication. Everything but a master is a fault: each node has to be independent of all others.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Role {
    /// It copies from nobody.
    Master,
    /// It copies what another server has, and accepts no locks of its own.
    Replica {
        /// Its master as `host:port`, if it says.
        master: Option<String>,
    },
    /// `KeyDB`'s `active-replica`: it accepts locks, and exchanges them with another server.
    ActiveReplica,
    /// Something that this crate does not know.
    Other(String),
    /// It does not say.
    Unknown,
}

/// What a server writes to disk, as far as `INFO` tells.
///
/// A server that comes back with less than it had can give a vote twice. No server tells in `INFO` how often it flushes
/// its append-only file (`appendfsync`): only `always` keeps every vote, and whether that is set the operator has to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Persistence {
    /// There is no append-only file, and no snapshot was taken since the server was started; whether one is going to be,
    /// `INFO` does not tell.
    Off,
    /// There is no append-only file, and there are snapshots (RDB): a restart goes back to the last.
    Snapshots,
    /// There is an append-only file (AOF).
    AppendOnly,
    /// There are both.
    AppendOnlyAndSnapshots,
}

/// How far the wall clock of a node is from that of this client.
///
/// The node read its clock at some moment between the sending of the question and the receipt of the answer. The
/// difference is the one to the middle of that time, and the uncertainty is half of it: the true difference is at most so
/// much smaller or larger. This client's own clock may as well be the one that is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClockDifference {
    /// The node's clock is ahead of this client's, or equal.
    #[non_exhaustive]
    Ahead {
        /// By how much.
        by: Duration,
        /// How much less or more it may be.
        uncertainty: Duration,
    },
    /// The node's clock is behind this client's.
    #[non_exhaustive]
    Behind {
        /// By how much.
        by: Duration,
        /// How much less or more it may be.
        uncertainty: Duration,
    },
}

/// What a node's marker says: the key `<key_prefix>redlatch:node`, which clients that fence put there.
///
/// A server that was restarted may have forgotten locks. Clients that fence notice it by the marker, which names the
/// process, and leave the node out until every lock of before has ended. Clients that don't fence take no notice of it. Where
/// no client fences, there are no markers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Quarantine {
    /// There is none: no client that fences was ever here, or the node has forgotten. Its quarantine begins with the
    /// next lock.
    NoMarker,
    /// The marker is of this process, and the node may vote.
    Open,
    /// The marker is of this process, which may have forgotten: the node does not vote yet.
    #[non_exhaustive]
    Quarantined {
        /// How much longer.
        remaining: Duration,
    },
    /// The marker is of an earlier process, or was copied from another one: quarantine begins with the next lock.
    OtherProcess,
    /// What is under the key is no marker: the node does not vote until it is deleted.
    Unreadable,
    /// The key, the process or the node's time could not be asked for.
    Unknown,
}

impl NodeHealth {
    /// Whether its answers leave room for a vote.
    pub(super) fn can_vote(&self) -> bool {
        let is_replica = matches!(self.role, Role::Replica { .. } | Role::ActiveReplica);
        let is_sentinel = self.mode.as_deref() == Some("sentinel");
        matches!(self.reach, Reach::Answers) && !is_replica && !is_sentinel
    }

    /// Why a client that fences by these rules, and takes its clock for right, gets no vote, beside what its marker says.
    pub(super) fn objection(&self, rules: &Rules) -> Option<NodeError> {
        if !matches!(self.reach, Reach::Answers) {
            return None;
        }
        if self.run_id.is_none() {
            let reason = "INFO has shown none".into();
            return Some(NodeError::Unidentified { reason });
        }
        if let Some(theirs) = self.settings.as_ref().filter(|s| **s != rules.config) {
            return Some(NodeError::ConfigMismatch {
                ours: rules.config.clone(),
                theirs: theirs.clone(),
            });
        }
        let Some(ClockDifference::Behind { by, uncertainty }) = self.clock else {
            return None;
        };
        let is_too_far = by.saturating_sub(uncertainty) > rules.quarantine;
        is_too_far.then_some(NodeError::ClockSkew {
            difference: by,
            node_is_ahead: false,
            allowed: rules.skew,
        })
    }

    pub(super) fn is_same_server(&self, other: &Self) -> bool {
        self.run_id.is_some() && self.run_id == other.run_id
    }
}

impl Quarantine {
    /// Whether a client that fences has been here.
    pub(super) fn is_marked(self) -> bool {
        matches!(
            self,
            Self::Open | Self::Quarantined { .. } | Self::OtherProcess
        )
    }

    /// Whether a client that fences would not get this node's vote now.
    pub(super) fn is_closed(self) -> bool {
        !matches!(self, Self::Open | Self::Unknown)
    }
}

impl ClockDifference {
    /// The difference, given that the node's clock showed `node_us` at some moment in the `elapsed` time before the
    /// client's showed `client_us`, all in microseconds since the Unix epoch.
    pub(crate) fn of(node_us: u64, client_us: u64, elapsed: Duration) -> Self {
        let uncertainty = elapsed.checked_div(2).unwrap_or_default();
        let half_us = u64::try_from(uncertainty.as_micros()).unwrap_or(u64::MAX);
        let middle_us = client_us.saturating_sub(half_us);
        let by = Duration::from_micros(node_us.abs_diff(middle_us));
        if node_us < middle_us {
            Self::Behind { by, uncertainty }
        } else {
            Self::Ahead { by, uncertainty }
        }
    }

    /// Returns the difference, whichever clock is ahead.
    pub fn by(&self) -> Duration {
        match self {
            Self::Ahead { by, .. } | Self::Behind { by, .. } => *by,
        }
    }

    /// Returns how much less or more it may be.
    pub fn uncertainty(&self) -> Duration {
        match self {
            Self::Ahead { uncertainty, .. } | Self::Behind { uncertainty, .. } => *uncertainty,
        }
    }
}

impl fmt::Display for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answers => f.write_str("answers"),
            Self::Refuses(error) | Self::Failed(error) => write!(f, "{error}"),
            Self::TimedOut => f.write_str("no answer within the node timeout"),
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Master => "master",
            Self::Replica { .. } => "replica",
            Self::ActiveReplica => "active-replica",
            Self::Other(role) => role,
            Self::Unknown => "unknown",
        })
    }
}

impl fmt::Display for Persistence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Off => "off",
            Self::Snapshots => "rdb",
            Self::AppendOnly => "aof",
            Self::AppendOnlyAndSnapshots => "aof, rdb",
        })
    }
}

impl fmt::Display for ClockDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match self {
            Self::Ahead { .. } => '+',
            Self::Behind { .. } => '-',
        };
        write!(
            f,
            "{sign}{:.1?} \u{b1}{:.1?}",
            self.by(),
            self.uncertainty()
        )
    }
}

impl fmt::Display for Quarantine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoMarker => f.write_str("no marker"),
            Self::Open => f.write_str("open"),
            Self::Quarantined { remaining } => write!(f, "quarantine {remaining:.0?}"),
            Self::OtherProcess => f.write_str("other process"),
            Self::Unreadable => f.write_str("unreadable"),
            Self::Unknown => f.write_str("unknown"),
        }
    }
}
