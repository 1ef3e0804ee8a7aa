//! What one node said in a round.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::NodeError;
use super::words::{done_by, named, read_by};
use crate::holder::Holder;
use crate::shown::span;
use crate::token::Hint;

/// What one node said in one round, or of the key of a lock in a [`LockStatus`](crate::LockStatus).
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
    /// Of a [status](crate::LockManager::status), whether a client has announced at this node that it waits for the lock. Clients
    /// wait at the first node, so the others mostly don't know.
    pub is_wanted: bool,
}

impl NodeReport {
    /// What a node said in so much time.
    pub(crate) fn new(node: &Arc<str>, vote: Vote, elapsed: Duration) -> Self {
        Self {
            node: Arc::clone(node),
            vote,
            elapsed,
            is_wanted: false,
        }
    }
}

/// One node's answer, to a call about a lock or for its [status](crate::LockManager::status).
///
/// A token is the value of a key, without the [label](crate::Builder::holder) of a holder of this crate. Tokens of this
/// crate are 40 hexadecimal characters. Values of other programs may be any bytes, and are shown as text, with what can't be
/// printed escaped as in a Rust string (`\n`, `\u{1b}`, `\xff`, and `\\` for a backslash). Equal texts mean equal tokens, and
/// [`LockManager::release`](crate::LockManager::release) takes the token as shown.
///
/// A value of more than 256 bytes is unlikely to be a token, and may be private. Only its first 16 bytes and its length
/// are shown (`{"user":"anna","… (9000 bytes)`). Values that are shown alike count as one token, and `release` refuses
/// such a text.
#[derive(Clone)]
#[non_exhaustive]
pub enum Vote {
    /// The node did what it was asked: it set the key, or extended it.
    Granted,
    /// The node was asked to release the lock, and has deleted the key, which was ours.
    Released,
    /// The key is there, with a time to live. In an error, it is someone else's.
    #[non_exhaustive]
    Held {
        /// The token, or the value of another program. Only a status has it.
        token: Option<String>,
        /// The time to live that the key has left on this node, if the node could be asked for it. A status has it.
        remaining: Option<Duration>,
        /// Who has the lock, or had it last if it rests, if the holder says so and the node's answer has it.
        holder: Option<Holder>,
        /// Whether the lock [rests](crate::LockRequest::at_least), as far as the node's answer tells: its value begins with
        /// `rest:`, whatever else is in it.
        resting: bool,
        /// Which one is in the way, if the lock is on [several resources](crate::LockManager::request_all).
        resource: Option<Arc<str>>,
    },
    /// [Readers](crate::LockManager::rw_lock) have the key together.
    #[non_exhaustive]
    Read {
        /// How many of them have time left on this node. It does not tell which ones.
        readers: u64,
        /// The time that the first of them to end has left on this node. Only a status has it.
        first: Option<Duration>,
        /// The time that the last of them to end has left there.
        last: Duration,
        /// Which one is in the way, if the lock is on [several resources](crate::LockManager::request_all).
        resource: Option<Arc<str>>,
    },
    /// The node refuses a reader because a writer waits there, which comes first. Nobody may exclude the reader yet, and other
    /// readers may have the lock.
    #[non_exhaustive]
    WriterWaits {
        /// For how long the writer goes on waiting if it says nothing more.
        remaining: Duration,
    },
    /// With the fenced protocol: the proposed token was not above the node's counter.
    ///
    /// Another client's clock is ahead, or a newer attempt came first. The manager tries again at once, with a larger
    /// token.
    #[non_exhaustive]
    Stale {
        /// The node's counter.
        counter: u64,
    },
    /// There is no key: none to extend or delete, or in a status none at all. Of
    /// [several resources](crate::LockManager::request_all), one of the keys is gone, and the vote does not say which.
    Missing,
    /// The node could not be asked, or its answer was no vote and describes no lock. Or it was left out
    /// ([`NodeError::BreakerOpen`]), because it had failed a moment ago.
    ///
    /// After [`NodeError::NotALock`], nobody gets the vote of this node until the key is deleted; or, if it is a lock that
    /// lost its time to live, until its holder extends it or gives it back.
    Failed(NodeError),
    /// The node was not asked: the round was decided before, or the node has no key of this lock.
    NotAsked,
}

impl Vote {
    /// Whether the node did what it was asked.
    pub(crate) fn is_granted(&self) -> bool {
        matches!(self, Self::Granted | Self::Released)
    }

    /// Whether another has the lock on the node, or comes first there.
    pub(crate) fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::Held { .. } | Self::Read { .. } | Self::WriterWaits { .. }
        )
    }

    /// Whether this is a failure of the node, not an answer about the lock.
    pub(crate) fn is_failure(&self) -> bool {
        self.failure().is_some()
    }

    /// Whether the node was not asked because it had failed a moment ago.
    pub(crate) fn is_left_out(&self) -> bool {
        self.failure().is_some_and(NodeError::is_left_out)
    }

    pub(crate) fn failure(&self) -> Option<&NodeError> {
        if let Self::Failed(error) = self {
            Some(error)
        } else {
            None
        }
    }

    /// The vote of a node that has another holder's key, and does not tell more.
    pub(crate) fn held(remaining: Option<Duration>) -> Self {
        Self::Held {
            token: None,
            remaining,
            holder: None,
            resting: false,
            resource: None,
        }
    }

    /// The same vote, on a lock on several resources of which this one is in the way.
    pub(crate) fn about(mut self, name: &Arc<str>) -> Self {
        if let Self::Held { resource, .. }
        | Self::Read { resource, .. }
        | Self::Failed(NodeError::NotALock { resource, .. }) = &mut self
        {
            *resource = Some(Arc::clone(name));
        }
        self
    }

    /// Which of several resources another holder has, if the node says so.
    pub(crate) fn resource(&self) -> Option<&Arc<str>> {
        if let Self::Held { resource, .. } | Self::Read { resource, .. } = self {
            resource.as_ref()
        } else {
            None
        }
    }

    pub(super) fn readers(&self) -> Option<u64> {
        if let Self::Read { readers, .. } = self {
            Some(*readers)
        } else {
            None
        }
    }

    pub(crate) fn holder(&self) -> Option<&Holder> {
        if let Self::Held { holder, .. } = self {
            holder.as_ref()
        } else {
            None
        }
    }

    /// Leaves out what a status alone tells. With the token of another holder, anybody can release its lock.
    pub(crate) fn hide_token(&mut self) {
        if let Self::Held { token, .. } = self {
            *token = None;
        } else if let Self::Read { first, .. } = self {
            *first = None;
        }
    }

    /// Whether what the node has under the key is no lock.
    pub(crate) fn is_no_lock(&self) -> bool {
        matches!(self, Self::Failed(NodeError::NotALock { .. }))
    }

    /// Whether something is under the key that never was a lock.
    pub(crate) fn is_foreign(&self) -> bool {
        self.is_no_lock() && !self.lost_its_ttl()
    }

    /// Whether it was a lock, which its holder may still have.
    pub(crate) fn lost_its_ttl(&self) -> bool {
        self.failure().is_some_and(NodeError::is_a_lock_without_ttl)
    }

    /// Whether the node does not tell what is under the key.
    pub(crate) fn is_silent(&self) -> bool {
        self.is_failure() && !self.is_no_lock()
    }

    /// Whether the node certainly has no key of this lock.
    pub(crate) fn is_gone(&self) -> bool {
        self.is_refusal() || matches!(self, Self::Missing | Self::NotAsked)
    }
}

impl fmt::Display for NodeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.node, self.vote)
    }
}

/// Shows the same as a derived `Debug`, but only the first digits of the token.
impl fmt::Debug for Vote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Granted => f.write_str("Granted"),
            Self::Released => f.write_str("Released"),
            Self::Held {
                token,
                remaining,
                holder,
                resting,
                resource,
            } => {
                let mut held = f.debug_struct("Held");
                held.field("token", &token.as_deref().map(Hint));
                held.field("remaining", remaining).field("holder", holder);
                held.field("resting", resting).field("resource", resource);
                held.finish()
            }
            Self::Read {
                readers,
                first,
                last,
                resource,
            } => {
                let mut read = f.debug_struct("Read");
                read.field("readers", readers).field("first", first);
                read.field("last", last).field("resource", resource);
                read.finish()
            }
            Self::WriterWaits { remaining } => {
                let mut waits = f.debug_struct("WriterWaits");
                waits.field("remaining", remaining).finish()
            }
            Self::Stale { counter } => {
                let mut stale = f.debug_struct("Stale");
                stale.field("counter", counter).finish()
            }
            Self::Missing => f.write_str("Missing"),
            Self::Failed(error) => f.debug_tuple("Failed").field(error).finish(),
            Self::NotAsked => f.write_str("NotAsked"),
        }
    }
}

impl fmt::Display for Vote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(resource) = self.resource() {
            write!(f, "{resource:?} ")?;
        }
        match self {
            Self::Granted => f.write_str("granted"),
            Self::Released => f.write_str("released"),
            Self::Held {
                token,
                remaining,
                holder,
                resting,
                ..
            } => {
                let holder = holder.as_ref();
                f.write_str(&match (token, resting, holder) {
                    (Some(token), true, _) => format!("rests as {}", named(token, holder)),
                    (Some(token), false, _) => format!("held by {}", named(token, holder)),
                    (None, true, _) => format!("rests{}", done_by(holder)),
                    (None, false, Some(holder)) => format!("held by {holder}"),
                    (None, false, None) => "held by another".to_owned(),
                })?;
                remaining.map_or(Ok(()), |left| write!(f, ", for another {}", span(left)))
            }
            Self::Read {
                readers,
                first,
                last,
                ..
            } => f.write_str(&read_by(*readers, *first, *last)),
            Self::WriterWaits { remaining } => {
                write!(f, "a writer waits, for another {}", span(*remaining))
            }
            Self::Stale { counter } => write!(
                f,
                "the proposed fencing token is not above its counter, {counter}"
            ),
            Self::Missing => f.write_str("no key"),
            Self::Failed(error) => write!(f, "{error}"),
            Self::NotAsked => f.write_str("not asked"),
        }
    }
}
