//! `LockStatus`: who holds a lock, and what each node says about its key.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

mod listed;
mod semaphore;
#[cfg(feature = "serde")]
mod serialise;

pub use self::listed::ListedLock;
pub use self::semaphore::SemaphoreStatus;

use crate::error::NodeError;
use crate::holder::Holder;

/// What [`LockManager::status`](crate::LockManager::status) found: a snapshot, which may be out of date when it is read.
///
/// There are exactly these five cases, so a `match` needs no further arm. Each case has the views of all nodes, which
/// [`nodes`](Self::nodes) returns.
///
/// ```
/// # use std::time::Duration;
/// use redlatch::{LockManager, LockStatus};
/// # use redlatch::fake::FakeNode;
/// # let nodes = FakeNode::cluster(5);
///
/// let manager = LockManager::builder().fakes(&nodes).build()?;
/// let guard = manager.lock("nightly-report", Duration::from_secs(30))?;
/// match manager.status("nightly-report")? {
///     LockStatus::Held { token, remaining, .. } => println!("{token} has it for {remaining:.0?}"),
///     LockStatus::Resting { remaining, .. } => println!("done, and free in {remaining:.0?}"),
///     LockStatus::Free { .. } => println!("free"),
///     LockStatus::Blocked { nodes, .. } => println!("nobody's, and can't be locked: {nodes:?}"),
///     LockStatus::Unknown { nodes, .. } => println!("too few nodes answer: {nodes:?}"),
/// }
/// # Ok::<(), redlatch::Error>(())
/// ```
#[derive(Debug, Clone)]
pub enum LockStatus {
    /// A majority of the nodes has the same token, each with a time to live.
    #[non_exhaustive]
    Held {
        /// The holder's token, as in [`View::Held`]; equal to [`LockGuard::token`](crate::LockGuard::token) if the
        /// lock is that guard's.
        token: String,
        /// How long a majority will have the token, less the drift: the quorum-th largest time to live of the nodes
        /// with the token, less `drift_factor` of that and 2 ms, from the moment they answered.
        ///
        /// The lock is held for at least this long, unless it is released: nodes that did not answer, and extensions,
        /// can only add to it. If all nodes answered, the holder can't rely on more: its own
        /// [`remaining`](crate::LockGuard::remaining) is no larger, up to the millisecond in which Redis counts. That
        /// is because it subtracts the drift of the whole time to live, and counts from before the keys were set. Zero
        /// means that the keys are about to expire: no holder relies on them any more, but they still block others.
        remaining: Duration,
        /// Who has the lock, if the holder says so.
        holder: Option<Holder>,
        /// What each node said, in the order in which they are asked to lock.
        nodes: Vec<NodeStatus>,
    },
    /// The lock rests on a majority of the nodes: it was given back before [its time](crate::LockRequest::at_least) was over,
    /// and nobody has it or gets it until then.
    #[non_exhaustive]
    Resting {
        /// The value of the keys: `rest:` and the token of the last holder. To
        /// [release](crate::LockManager::release) it ends the rest.
        token: String,
        /// How long until a majority of the nodes has no such key, so that others can get the lock.
        remaining: Duration,
        /// Who had the lock last, if that holder says so.
        holder: Option<Holder>,
        /// What each node said, in the order in which they are asked to lock.
        nodes: Vec<NodeStatus>,
    },
    /// A majority of the nodes has no key: nobody holds the lock, and a client that asks now gets it.
    ///
    /// A minority may have keys, such as those of an attempt that is under way, or of a holder that crashed.
    #[non_exhaustive]
    Free {
        /// What each node said, in the order in which they are asked to lock.
        nodes: Vec<NodeStatus>,
    },
    /// Nobody holds the lock, whatever the silent nodes have, and yet no majority is possible.
    ///
    /// Too many nodes have the key of a contender without a majority, or a key that is no lock, or don't answer. Keys
    /// of contenders are gone within their time to live, mostly at once. A key that is no lock has to be deleted by an
    /// operator.
    #[non_exhaustive]
    Blocked {
        /// What each node said, in the order in which they are asked to lock.
        nodes: Vec<NodeStatus>,
    },
    /// Too few nodes answered to tell: the silent nodes may complete a holder's majority.
    #[non_exhaustive]
    Unknown {
        /// What each node said, in the order in which they are asked to lock.
        nodes: Vec<NodeStatus>,
    },
}

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
    /// There is no key.
    Free,
    /// The node could not be asked, or its answer does not describe a lock. Or it was left out
    /// ([`NodeError::BreakerOpen`]), because it had failed a moment ago and the others were enough to tell.
    ///
    /// After [`NodeError::NotALock`], nobody gets the vote of this node until the key is deleted.
    Failed(NodeError),
}

impl LockStatus {
    /// Returns what each node said, in the order in which they are asked to lock.
    pub fn nodes(&self) -> &[NodeStatus] {
        match self {
            Self::Held { nodes, .. }
            | Self::Resting { nodes, .. }
            | Self::Free { nodes }
            | Self::Blocked { nodes }
            | Self::Unknown { nodes } => nodes,
        }
    }

    /// Whether the answers of further nodes can't change the status.
    pub(crate) fn is_decided(&self) -> bool {
        matches!(
            self,
            Self::Held { .. } | Self::Resting { .. } | Self::Free { .. }
        )
    }
}

impl View {
    /// Whether the node does not tell what is under the key.
    pub(crate) fn is_silent(&self) -> bool {
        matches!(self, Self::Failed(error) if !error.is_about_the_key())
    }

    /// Whether the node was not asked because it had failed a moment ago.
    pub(crate) fn is_left_out(&self) -> bool {
        matches!(self, Self::Failed(error) if error.is_left_out())
    }
}

/// Who has a key, as a part of a sentence.
struct Shown<'v>(&'v str, Option<&'v Holder>);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() {
            "an empty value"
        } else {
            self.0
        })?;
        match self.1 {
            Some(holder) => write!(f, " ({holder})"),
            None => Ok(()),
        }
    }
}

/// What a status says, without what each node said.
struct Summary<'s>(&'s LockStatus);

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            LockStatus::Held {
                token,
                remaining,
                holder,
                ..
            } => {
                let holder = Shown(token, holder.as_ref());
                write!(f, "held by {holder}, for another {remaining:.1?}")
            }
            LockStatus::Resting {
                remaining, holder, ..
            } => {
                f.write_str("resting")?;
                if let Some(holder) = holder {
                    write!(f, ", done by {}", holder.label)?;
                }
                write!(f, ", free in {remaining:.1?}")
            }
            LockStatus::Free { .. } => f.write_str("free"),
            LockStatus::Blocked { .. } => {
                f.write_str("held by nobody, and no majority is possible")
            }
            LockStatus::Unknown { .. } => f.write_str("unknown, too few nodes answered"),
        }
    }
}

impl fmt::Display for LockStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Summary(self))?;
        for (i, node) in self.nodes().iter().enumerate() {
            let mark = if i == 0 { ":" } else { ";" };
            write!(f, "{mark} {node}")?;
        }
        Ok(())
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
            Self::Free => f.write_str("no key"),
            Self::Failed(error) => write!(f, "{error}"),
        }
    }
}
