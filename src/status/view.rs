//! `NodeStatus` and `View`: what one node says about the key of a lock.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::{ReadBy, Shown};
use crate::error::{NodeError, NodeReport, Vote};
use crate::holder::Holder;

/// What one node said about the key of a lock.
///
/// ```
/// # use std::time::Duration;
/// use redlatch::View;
/// # let nodes = redlatch::fake::FakeNode::cluster(3);
/// # let manager = redlatch::LockManager::builder().fakes(&nodes).build()?;
/// # nodes[1].refuse();
///
/// let guard = manager.lock("invoices", Duration::from_secs(10))?;
/// for node in manager.status("invoices")?.nodes() {
///     if !matches!(node.view, View::Held { .. }) {
///         println!("{node}");
///     }
/// }
/// # Ok::<(), redlatch::Error>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct NodeStatus {
    /// The node as `host:port`, or as the path of its socket.
    pub node: Arc<str>,
    /// Its answer.
    pub view: View,
    /// The time from the beginning of the call to this node to its answer.
    pub elapsed: Duration,
    /// The run id of the server behind it, where that is known.
    pub(crate) server: Option<Arc<str>>,
}

/// The key of a lock as one node sees it, or why the node does not say.
///
/// A token is the value of the key, without the [label](crate::Builder::holder) of a holder of this crate. Tokens of this
/// crate are 40 hexadecimal characters. Values of other programs may be any bytes, and are shown as text, with what can't be printed escaped as in a Rust string (`\n`, `\u{1b}`, `\xff`,
/// and `\\` for a backslash). Equal texts mean equal tokens, and [`LockManager::release`](crate::LockManager::release)
/// takes the token as shown.
///
/// A value of more than 256 bytes is unlikely to be a token, and may be private. Only its first 16 bytes and its length
/// are shown (`{"user":"anna","… (9000 bytes)`). Values that are shown alike count as one token, and `release` refuses
/// such a text.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum View {
    /// The key is there, with a time to live.
    #[non_exhaustive]
    Held {
        /// The token, or the value of another program.
        token: String,
        /// The time to live that the key has left on this node.
        remaining: Duration,
        /// Who has the lock, or had it last if it rests, if the holder says so.
        holder: Option<Holder>,
        /// Whether the lock rests: its value begins with `rest:`, whatever else is in it.
        resting: bool,
    },
    /// [Readers](crate::LockManager::rw_lock) have the key together.
    #[non_exhaustive]
    Read {
        /// How many of them have time left on this node. It does not tell which ones.
        readers: u64,
        /// The time that the first of them to end has left on this node.
        remaining: Duration,
        /// The time that the last of them to end has left there.
        last: Duration,
    },
    /// There is no key.
    Free,
    /// The node could not be asked, or its answer does not describe a lock. Or it was left out
    /// ([`NodeError::BreakerOpen`]), because it had failed a moment ago and the others were enough to tell.
    ///
    /// After [`NodeError::NotALock`], nobody gets the vote of this node until the key is deleted; or, if it is a lock that
    /// lost its time to live, until its holder extends it or gives it back.
    Failed(NodeError),
}

impl NodeStatus {
    /// The vote of the node for a holder that it does not have.
    pub(crate) fn against(self) -> NodeReport {
        NodeReport {
            vote: match self.view {
                View::Held {
                    remaining,
                    holder,
                    resting,
                    ..
                } => Vote::Held {
                    remaining: Some(remaining),
                    holder,
                    resting,
                    resource: None,
                    readers: None,
                    writer_waits: false,
                },
                View::Read { readers, last, .. } => Vote::Held {
                    remaining: Some(last),
                    holder: None,
                    resting: false,
                    resource: None,
                    readers: Some(readers),
                    writer_waits: false,
                },
                View::Free => Vote::Missing,
                View::Failed(error) => Vote::Failed(error),
            },
            node: self.node,
            elapsed: self.elapsed,
            server: self.server,
        }
    }
}

impl View {
    /// Whether the node does not tell what is under the key.
    pub(crate) fn is_silent(&self) -> bool {
        matches!(self, Self::Failed(error) if !error.is_about_the_key())
    }

    /// Whether the node may be one of a majority that some holder has, for all that it tells.
    pub(crate) fn may_count(&self) -> bool {
        self.is_silent() || self.lost_its_ttl()
    }

    /// Whether the key is a lock that lost its time to live.
    pub(crate) fn lost_its_ttl(&self) -> bool {
        matches!(self, Self::Failed(error) if error.is_a_lock_without_ttl())
    }

    /// Whether the node was not asked because it had failed a moment ago.
    pub(crate) fn is_left_out(&self) -> bool {
        matches!(self, Self::Failed(error) if error.is_left_out())
    }
}

impl fmt::Display for NodeStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.node, self.view)
    }
}

impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held {
                token,
                remaining,
                holder,
                resting,
            } => {
                let holder = Shown(token, holder.as_ref());
                let how = if *resting { "rests as" } else { "held by" };
                write!(f, "{how} {holder}, for another {remaining:.1?}")
            }
            Self::Read {
                readers,
                remaining,
                last,
            } => ReadBy(*readers, *remaining, *last).fmt(f),
            Self::Free => f.write_str("no key"),
            Self::Failed(error) => write!(f, "{error}"),
        }
    }
}
