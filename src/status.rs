//! `LockStatus`: who holds a lock, and what each node says about its key.

use std::fmt;
use std::time::Duration;

mod listed;
#[cfg(feature = "serde")]
mod serialise;

pub use self::listed::ListedLock;
use crate::error::{NodeReport, Told, Vote, done_by, named, read_by};
use crate::holder::Holder;
use crate::quorum;
use crate::shown::span;
use crate::token::Hint;

/// What [`LockManager::status`](crate::LockManager::status) found: a snapshot, which may be out of date when it is read.
///
/// There are exactly these six cases, so a `match` needs no further arm. Each case has the answers of all nodes, which
/// [`nodes`](Self::nodes) returns.
///
/// ```
/// # use std::time::Duration;
/// use redlatch::{LockManager, LockStatus};
/// # let nodes = redlatch::fake::FakeNode::cluster(5);
///
/// let manager = LockManager::builder().fakes(&nodes).build()?;
/// let guard = manager.lock("nightly-report", Duration::from_secs(30))?;
/// match manager.status("nightly-report")? {
///     LockStatus::Held { token, remaining, .. } => println!("{token} has it for {remaining:.0?}"),
///     LockStatus::Read { readers, last, .. } => println!("{readers} read it, for {last:.0?} at most"),
///     LockStatus::Resting { remaining, .. } => println!("done, and free in {remaining:.0?}"),
///     LockStatus::Free { .. } => println!("free"),
///     LockStatus::Blocked { nodes, .. } => println!("nobody's, and can't be locked: {nodes:?}"),
///     LockStatus::Unknown { nodes, .. } => println!("too few nodes answer: {nodes:?}"),
/// }
/// # Ok::<(), redlatch::Error>(())
/// ```
#[derive(Clone)]
pub enum LockStatus {
    /// A majority of the nodes has the same token, each with a time to live. The lock of a writer is an ordinary lock, and so
    /// is that on each of several resources.
    #[non_exhaustive]
    Held {
        /// The holder's token, as in [`Vote::Held`](crate::Vote::Held); equal to [`LockGuard::token`](crate::LockGuard::token) if the
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
        nodes: Vec<NodeReport>,
    },
    /// A majority of the nodes has [readers](crate::LockManager::rw_lock) of the lock: further readers get it, and nobody else
    /// does.
    #[non_exhaustive]
    Read {
        /// How many readers there are: the number that a majority of the nodes reaches.
        ///
        /// A node tells how many it has, and not which ones. If each reader is on all nodes that answered, as they are
        /// while no node fails, it is their number. Readers that are on a bare majority each, and on different ones, may
        /// be more; and what attempts without a majority have left on single nodes may count as one.
        readers: u64,
        /// How long a majority of the nodes keeps all its readers, less the drift, as in [`Held`](Self::Held): until the
        /// oldest of them ends, if nobody extends it or gives it back.
        remaining: Duration,
        /// How long until a majority of the nodes has no reader left, if none comes, extends its lock or gives it back. No
        /// writer gets the lock before.
        last: Duration,
        /// What each node said, in the order in which they are asked to lock.
        nodes: Vec<NodeReport>,
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
        nodes: Vec<NodeReport>,
    },
    /// A majority of the nodes has no key: nobody holds the lock, and a client that asks now gets it.
    ///
    /// A minority may have keys, such as those of an attempt that is under way, or of a holder that crashed.
    #[non_exhaustive]
    Free {
        /// What each node said, in the order in which they are asked to lock.
        nodes: Vec<NodeReport>,
    },
    /// Nobody holds the lock, whatever the silent nodes have, and yet no majority is possible.
    ///
    /// Too many nodes have the key of a contender without a majority, or a key that is no lock, or don't answer. Keys
    /// of contenders are gone within their time to live, mostly at once. A key that is no lock has to be deleted by an
    /// operator.
    #[non_exhaustive]
    Blocked {
        /// What each node said, in the order in which they are asked to lock.
        nodes: Vec<NodeReport>,
    },
    /// Too few nodes answered to tell: the silent nodes may complete a holder's majority. Nodes with the key of a lock that
    /// lost its time to live, as by `PERSIST`, count as silent ones: its holder may still have it.
    #[non_exhaustive]
    Unknown {
        /// What each node said, in the order in which they are asked to lock.
        nodes: Vec<NodeReport>,
    },
}

impl LockStatus {
    /// Returns what each node said, in the order in which they are asked to lock.
    ///
    /// ```
    /// # let nodes = redlatch::fake::FakeNode::cluster(3);
    /// # let manager = redlatch::LockManager::builder().fakes(&nodes).build()?;
    /// nodes[1].refuse();
    /// let status = manager.status("invoices")?;
    /// assert_eq!(status.nodes().len(), 3);
    /// println!("{}", status.nodes()[1]); // why it did not answer
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn nodes(&self) -> &[NodeReport] {
        match self {
            Self::Held { nodes, .. }
            | Self::Read { nodes, .. }
            | Self::Resting { nodes, .. }
            | Self::Free { nodes }
            | Self::Blocked { nodes }
            | Self::Unknown { nodes } => nodes,
        }
    }

    /// Whether somebody waits for the lock, as far as the nodes know. How many do is on no node.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
    /// let _guard = manager.lock("invoices", Duration::from_secs(10))?;
    /// assert!(!manager.status("invoices")?.is_wanted());
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn is_wanted(&self) -> bool {
        self.nodes().iter().any(|node| node.is_wanted)
    }

    /// Returns how many more nodes may fail, or lose their keys, before nobody has the lock: the nodes with the key of the holder, or
    /// with all readers, less the quorum. None unless the lock is [`Held`](Self::Held) or [`Read`](Self::Read).
    ///
    /// Nodes that did not answer count as nodes without the key.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let nodes = redlatch::fake::FakeNode::cluster(5);
    /// # let manager = redlatch::LockManager::builder().fakes(&nodes).build()?;
    /// let _guard = manager.lock("invoices", Duration::from_secs(10))?;
    /// assert_eq!(manager.status("invoices")?.margin(), Some(2));
    /// nodes[4].restart(); // and it has forgotten its keys
    /// assert_eq!(manager.status("invoices")?.margin(), Some(1));
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn margin(&self) -> Option<usize> {
        let is_valid = matches!(self, Self::Held { .. } | Self::Read { .. });
        let quorum = quorum::quorum(self.nodes().len());
        is_valid.then(|| self.nodes_with_it().saturating_sub(quorum))
    }

    /// Whether a node has what the status is about: the key of the holder, all readers, or any key where it is unknown who has the
    /// lock.
    pub(crate) fn is_on(&self, node: &NodeReport) -> bool {
        let parts = self.parts();
        match (&node.vote, parts.token, parts.read) {
            (Vote::Held { token, .. }, Some(ours), _) => token.as_deref() == Some(ours),
            (Vote::Read { readers, .. }, _, Some((ours, _))) => *readers >= ours,
            (vote, None, None) => vote.is_refusal(),
            _ => false,
        }
    }

    fn nodes_with_it(&self) -> usize {
        let nodes = self.nodes().iter();
        nodes.filter(|node| self.is_on(node)).count()
    }

    /// The name of the case.
    fn name(&self) -> &'static str {
        match self {
            Self::Held { .. } => "Held",
            Self::Read { .. } => "Read",
            Self::Resting { .. } => "Resting",
            Self::Free { .. } => "Free",
            Self::Blocked { .. } => "Blocked",
            Self::Unknown { .. } => "Unknown",
        }
    }

    fn parts(&self) -> Parts<'_> {
        let none = Parts::default();
        match self {
            Self::Held {
                token,
                remaining,
                holder,
                ..
            }
            | Self::Resting {
                token,
                remaining,
                holder,
                ..
            } => Parts {
                token: Some(token),
                remaining: Some(*remaining),
                holder: holder.as_ref(),
                ..none
            },
            Self::Read {
                readers,
                remaining,
                last,
                ..
            } => Parts {
                remaining: Some(*remaining),
                read: Some((*readers, *last)),
                ..none
            },
            Self::Free { .. } | Self::Blocked { .. } | Self::Unknown { .. } => none,
        }
    }

    /// Whether the answers of further nodes can't change the status.
    pub(crate) fn is_decided(&self) -> bool {
        !matches!(self, Self::Blocked { .. } | Self::Unknown { .. })
    }
}

/// What a status, or a node, says of a lock.
#[derive(Default)]
struct Parts<'a> {
    token: Option<&'a str>,
    remaining: Option<Duration>,
    /// The client that has the lock, or had it last.
    holder: Option<&'a Holder>,
    /// How many readers there are, and when the last of them ends.
    read: Option<(u64, Duration)>,
}

/// Shows the same as a derived `Debug`, but only the first digits of the token.
impl fmt::Debug for LockStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct(self.name());
        let parts = self.parts();
        let remaining = parts.remaining.unwrap_or_default();
        if let Some(token) = parts.token {
            fields.field("token", &Hint(token));
            fields.field("remaining", &remaining);
            fields.field("holder", &parts.holder);
        }
        if let Some((readers, last)) = parts.read {
            fields.field("readers", &readers);
            fields.field("remaining", &remaining).field("last", &last);
        }
        fields.field("nodes", &self.nodes()).finish()
    }
}

/// With `{:#}`, without what each node said.
impl fmt::Display for LockStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = self.parts();
        let (readers, last) = parts.read.unwrap_or_default();
        let remaining = span(parts.remaining.unwrap_or_default());
        f.write_str(&match self {
            Self::Held { token, .. } => {
                let holder = named(token, parts.holder);
                format!("held by {holder}, for another {remaining}")
            }
            Self::Read { .. } => read_by(readers, parts.remaining, last),
            Self::Resting { .. } => {
                format!("resting{}, free in {remaining}", done_by(parts.holder))
            }
            Self::Free { .. } => "free".to_owned(),
            Self::Blocked { .. } => "held by nobody, and no majority is possible".to_owned(),
            Self::Unknown { nodes } if nodes.iter().any(|node| node.vote.lost_its_ttl()) => {
                "unknown, the key lost its time to live".to_owned()
            }
            Self::Unknown { .. } => "unknown, too few nodes answered".to_owned(),
        })?;
        match self.nodes() {
            nodes if !f.alternate() && !nodes.is_empty() => write!(f, ": {}", Told(nodes)),
            _ => Ok(()),
        }
    }
}
