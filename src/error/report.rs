//! What one node said in a round.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::NodeError;
use crate::fencing::FencingToken;
use crate::holder::Holder;

/// What one node said in one round.
///
/// ```
/// # use std::time::Duration;
/// use redlatch::Vote;
/// # let nodes = redlatch::fake::FakeNode::cluster(3);
/// # let manager = redlatch::LockManager::builder().fakes(&nodes).build()?;
/// # nodes[1].refuse();
///
/// let guard = manager.lock("invoices", Duration::from_secs(10))?;
/// for report in guard.votes() {
///     if !matches!(report.vote, Vote::Granted) {
///         println!("{report}");
///     }
/// }
/// # Ok::<(), redlatch::Error>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct NodeReport {
    /// The node as `host:port`, or as the path of its socket.
    pub node: Arc<str>,
    /// Its answer.
    pub vote: Vote,
    /// The time from the beginning of the attempt on this node to its answer.
    pub elapsed: Duration,
    /// The run id of the server behind it, where that is known.
    pub(crate) server: Option<Arc<str>>,
}

/// Leaves each server only its first vote: a server has one vote, even if several nodes are that server.
pub(crate) fn one_vote_each(nodes: &mut [NodeReport]) {
    for i in 1..nodes.len() {
        let (before, rest) = nodes.split_at_mut(i);
        if let Some(report) = rest.first_mut() {
            report.fail_if_server_voted(before.iter());
        }
    }
}

impl NodeReport {
    /// Makes the vote a failure if one of the others is a vote of the same server.
    pub(crate) fn fail_if_server_voted<'a>(&mut self, mut others: impl Iterator<Item = &'a Self>) {
        if !self.vote.is_granted() || self.server.is_none() {
            return;
        }
        let same = |other: &&Self| other.vote.is_granted() && other.server == self.server;
        if let Some(other) = others.find(same) {
            let other = Arc::clone(&other.node);
            self.vote = Vote::Failed(NodeError::SameServer { other });
        }
    }
}

/// One node's answer.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Vote {
    /// The node did what it was asked: it set the key, or extended it.
    Granted,
    /// The node was asked to release the lock, and has deleted the key, which was ours.
    Released,
    /// Someone else holds the key on this node, or a reader is refused there because a writer waits: then nobody may
    /// exclude the reader yet, and other readers may have the lock.
    #[non_exhaustive]
    Held {
        /// The time to live that the key has left on this node, if the node could be asked for it.
        remaining: Option<Duration>,
        /// Who has it, or had it last if it rests, if the holder says so and the node's answer has it.
        holder: Option<Holder>,
        /// Whether the lock [rests](crate::LockRequest::at_least), as far as the node's answer tells.
        resting: bool,
        /// Which one is in the way, if the lock is on [several resources](crate::LockManager::request_all).
        resource: Option<Arc<str>>,
        /// How many [readers](crate::LockManager::rw_lock) have it, if it is they and the node's answer tells.
        readers: Option<u64>,
        /// Whether the node refuses a reader because a writer waits there, which comes first. Only a reader is refused so. Then
        /// `remaining` is for how long the writer goes on waiting if it says nothing more.
        writer_waits: bool,
    },
    /// With the fenced protocol: the proposed token was not above the node's counter.
    ///
    /// Another client's clock is ahead, or a newer attempt came first. The manager tries again at once, with a larger
    /// token.
    #[non_exhaustive]
    Stale {
        /// The node's counter.
        counter: FencingToken,
    },
    /// The key to extend or delete is no longer on this node; of [several resources](crate::LockManager::request_all), one of the
    /// keys, and the vote does not say which.
    Missing,
    /// The node was left out because it had failed a moment ago, or could not be asked, or its answer was no vote.
    Failed(NodeError),
    /// The node was not asked: the round was decided before, or the node has no key of this lock.
    NotAsked,
}

impl Vote {
    /// Whether the node did what it was asked.
    pub(crate) fn is_granted(&self) -> bool {
        matches!(self, Self::Granted | Self::Released)
    }

    /// Whether this is a failure of the node, not an answer about the lock.
    pub(crate) fn is_failure(&self) -> bool {
        self.failure().is_some()
    }

    /// Whether the node was not asked because it had failed a moment ago.
    pub(crate) fn is_left_out(&self) -> bool {
        self.failure().is_some_and(NodeError::is_left_out)
    }

    pub(super) fn failure(&self) -> Option<&NodeError> {
        match self {
            Self::Failed(error) => Some(error),
            Self::Granted
            | Self::Released
            | Self::Held { .. }
            | Self::Stale { .. }
            | Self::Missing
            | Self::NotAsked => None,
        }
    }

    /// The vote of a node that has another holder's key, and does not tell more.
    pub(crate) fn held(remaining: Option<Duration>) -> Self {
        Self::Held {
            remaining,
            holder: None,
            resting: false,
            resource: None,
            readers: None,
            writer_waits: false,
        }
    }

    /// The same vote, on a lock on several resources of which this one is in the way.
    pub(crate) fn about(mut self, name: &Arc<str>) -> Self {
        if let Self::Held { resource, .. } | Self::Failed(NodeError::NotALock { resource, .. }) =
            &mut self
        {
            *resource = Some(Arc::clone(name));
        }
        self
    }

    /// Which of several resources another holder has, if the node says so.
    pub(crate) fn resource(&self) -> Option<&Arc<str>> {
        if let Self::Held { resource, .. } = self {
            resource.as_ref()
        } else {
            None
        }
    }

    /// Whether the node says that the lock rests.
    pub(crate) fn is_resting(&self) -> bool {
        matches!(self, Self::Held { resting: true, .. })
    }

    /// Whether the node refuses a reader because a writer waits.
    pub(crate) fn is_for_a_writer(&self) -> bool {
        matches!(
            self,
            Self::Held {
                writer_waits: true,
                ..
            }
        )
    }

    /// How many readers the node has, if it refuses because of them.
    pub(crate) fn readers(&self) -> Option<u64> {
        if let Self::Held { readers, .. } = self {
            *readers
        } else {
            None
        }
    }

    /// The other holder that the node names.
    pub(crate) fn holder(&self) -> Option<&Holder> {
        if let Self::Held { holder, .. } = self {
            holder.as_ref()
        } else {
            None
        }
    }

    /// Whether what the node has under the key is no lock.
    pub(crate) fn is_no_lock(&self) -> bool {
        self.failure().is_some_and(NodeError::is_about_the_key)
    }

    /// Whether the node certainly has no key of this lock.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(self, Self::Held { .. } | Self::Missing | Self::NotAsked)
    }
}

impl fmt::Display for NodeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.node, self.vote)
    }
}

impl fmt::Display for Vote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Granted => f.write_str("granted"),
            Self::Released => f.write_str("released"),
            Self::Held {
                remaining,
                holder,
                resting,
                resource,
                readers,
                writer_waits,
            } => {
                if let Some(resource) = resource {
                    write!(f, "{resource:?} ")?;
                }
                match (resting, holder, readers) {
                    _ if *writer_waits => f.write_str("a writer waits")?,
                    (_, _, Some(readers)) => write!(f, "read by {readers}")?,
                    (true, Some(holder), _) => write!(f, "rests, done by {}", holder.label)?,
                    (true, None, _) => f.write_str("rests")?,
                    (false, Some(holder), _) => write!(f, "held by {holder}")?,
                    (false, None, _) => f.write_str("held by another")?,
                }
                match remaining {
                    Some(remaining) => write!(f, ", for another {remaining:.1?}"),
                    None => Ok(()),
                }
            }
            Self::Stale { counter } => {
                write!(
                    f,
                    "the proposed fencing token is not above its counter, {counter}"
                )
            }
            Self::Missing => f.write_str("the key is gone"),
            Self::Failed(error) => write!(f, "{error}"),
            Self::NotAsked => f.write_str("not asked"),
        }
    }
}
