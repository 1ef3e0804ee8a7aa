//! What can go wrong, and what each node said.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

mod loss;
mod node;
mod report;

pub use self::loss::LossCause;
pub use self::node::{NodeError, QuarantineCause};
pub(crate) use self::report::one_vote_each;
pub use self::report::{NodeReport, Vote};

/// Why a lock was not acquired, extended or given back.
///
/// Contention is [`Held`](Self::Held), the normal "no"; everything else is a fault, a loss or a bad argument. The
/// variants that came from a round over the nodes carry a [`NodeReport`] for each, and name them in their message.
///
/// ```
/// use std::time::Duration;
/// use redlatch::{Error, LockManager};
/// # use redlatch::fake::FakeNode;
/// # let nodes = FakeNode::cluster(3);
/// # for node in &nodes[..2] { node.refuse() }
///
/// let manager = LockManager::builder().fakes(&nodes).build()?;
/// match manager.try_lock("nightly-report", Duration::from_secs(10)) {
///     Ok(guard) => println!("ours for {:?}", guard.remaining()),
///     Err(Error::Held { .. }) => println!("someone else is at it"),
///     Err(error @ Error::Unavailable { .. }) => println!("call the operator: {error}"),
///     Err(error) => return Err(error),
/// }
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Error {
    /// A majority is out of reach because others hold the lock.
    ///
    /// If another thread of the same manager has the lock or asks for it, no node was asked: each vote is
    /// [`NotAsked`](Vote::NotAsked).
    Held {
        /// What each node said, in the order in which they are asked.
        nodes: Vec<NodeReport>,
    },
    /// Failures alone rule out a majority: the lock may be free, but too few nodes can say so.
    ///
    /// [`source`](std::error::Error::source) is the first node's failure.
    Unavailable {
        /// What each node said, in the order in which they are asked.
        nodes: Vec<NodeReport>,
    },
    /// A majority said yes, but by then the validity was used up.
    ///
    /// A longer time to live, or a shorter node timeout, leaves more time.
    TooSlow {
        /// The time from before the first send to after the last reply.
        elapsed: Duration,
        /// What each node said, in the order in which they are asked.
        nodes: Vec<NodeReport>,
    },
    /// This guard's lock is no longer held.
    Lost {
        /// How it was lost, and what each node said.
        cause: LossCause,
    },
    /// With the fenced protocol: the nodes were not opened, none of them.
    NotOpened {
        /// What each node said, in the order in which they are asked.
        nodes: Vec<NodeReport>,
    },
    /// The time to live can't be used.
    InvalidTtl {
        /// What was asked for.
        ttl: Duration,
        /// What is wrong with it and what to do.
        reason: String,
    },
    /// The resource name can't be used.
    InvalidResource {
        /// What is wrong with it and what to do.
        reason: String,
    },
    /// The [`Lease`](crate::Lease) can't be read or adopted.
    InvalidLease {
        /// What is wrong with it and what to do.
        reason: String,
    },
    /// The token given to [`LockManager::release`](crate::LockManager::release) stands for no value of a key.
    InvalidToken {
        /// What is wrong with it and what to do.
        reason: String,
    },
    /// The [`Builder`](crate::Builder) was given something that can't work.
    InvalidConfig {
        /// What is wrong with it and what to do.
        reason: String,
    },
    /// The manager or guard was inherited through `fork`, or a manager was to be built in the child of a process that has
    /// built one.
    ///
    /// The lock belongs to the parent, and both would speak on the same sockets. A manager of the child's own would hang or
    /// crash now and then: of the parent's threads the child has the one that forked, and the locks of the process go on
    /// counting on the others. So let the child execute a program, as [`std::process::Command`] does, or fork before the
    /// first manager is built.
    Forked,
    /// The operating system gave no thread for keep-alive. Nothing was asked of any node.
    NoThread {
        /// The operating system's answer.
        source: Arc<io::Error>,
    },
    /// The operating system gave no random bytes for a token.
    NoRandomness {
        /// The operating system's answer.
        source: getrandom::Error,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held { nodes } if is_unasked(nodes) => f.write_str(
                "the lock is held by another guard of this manager, or another thread asks for it; no node was asked",
            ),
            Self::Held { nodes } => {
                write!(f, "the lock is held by another holder: {}", Reports(nodes))
            }
            Self::Unavailable { nodes } => {
                write!(
                    f,
                    "too many nodes failed for a majority: {}",
                    Reports(nodes)
                )
            }
            Self::TooSlow { elapsed, nodes } => write!(
                f,
                "a majority granted the lock, but its validity was used up after {elapsed:.1?}; \
                 use a longer ttl: {}",
                Reports(nodes)
            ),
            Self::Lost { cause } => write!(f, "the lock is no longer held: {cause}"),
            Self::NotOpened { nodes } => write!(
                f,
                "the nodes were not opened, because not all of them are fresh: {}",
                Reports(nodes)
            ),
            Self::InvalidTtl { ttl, reason } => write!(f, "invalid ttl of {ttl:?}: {reason}"),
            Self::InvalidResource { reason } => write!(f, "invalid resource: {reason}"),
            Self::InvalidLease { reason } => write!(f, "invalid lease: {reason}"),
            Self::InvalidToken { reason } => write!(f, "invalid token: {reason}"),
            Self::InvalidConfig { reason } => write!(f, "invalid configuration: {reason}"),
            Self::Forked => f.write_str(
                "a forked child can use no LockManager, neither its parent's nor one of its own: execute a program in the \
                 child, or fork before the first LockManager is built",
            ),
            Self::NoThread { source } => {
                write!(
                    f,
                    "the operating system gave no thread for keep-alive: {source}; look at its limits"
                )
            }
            Self::NoRandomness { source } => {
                write!(f, "the operating system gave no random bytes: {source}")
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unavailable { nodes } | Self::NotOpened { nodes } => first_failure(nodes),
            Self::Lost { cause } => first_failure(cause.nodes()),
            Self::NoThread { source } => Some(source),
            Self::NoRandomness { source } => Some(source),
            Self::Held { .. }
            | Self::TooSlow { .. }
            | Self::InvalidTtl { .. }
            | Self::InvalidResource { .. }
            | Self::InvalidLease { .. }
            | Self::InvalidToken { .. }
            | Self::InvalidConfig { .. }
            | Self::Forked => None,
        }
    }
}

fn is_unasked(nodes: &[NodeReport]) -> bool {
    let is_unasked = |report: &NodeReport| matches!(report.vote, Vote::NotAsked);
    nodes.iter().all(is_unasked)
}

fn first_failure(nodes: &[NodeReport]) -> Option<&(dyn std::error::Error + 'static)> {
    let failure = nodes.iter().find_map(|report| report.vote.failure())?;
    Some(failure)
}

/// The reports of a round in one line.
struct Reports<'a>(&'a [NodeReport]);

impl fmt::Display for Reports<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, report) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str("; ")?;
            }
            write!(f, "{report}")?;
        }
        Ok(())
    }
}
