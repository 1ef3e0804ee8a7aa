//! How a lock was lost.

use std::fmt;

use super::NodeReport;
use super::reports::Told;

/// How a lock was lost, with what the nodes said.
///
/// The reports are those of the round that found the loss, or of the last renewal that failed. If only the clock showed
/// the loss, there are none.
///
/// ```
/// # use std::time::Duration;
/// use redlatch::{KeepAlive, LockManager, LossCause};
/// # use redlatch::fake::{FakeClock, FakeNode};
/// # let nodes = FakeNode::cluster_on(3, &FakeClock::new());
/// # let manager = LockManager::builder().fakes(&nodes).build()?;
/// let ttl = Duration::from_secs(10);
/// let guard = manager.request("nightly-report").ttl(ttl).keep_alive(KeepAlive::unbounded()).lock()?;
/// # for node in &nodes { node.refuse() }
/// match guard.wait_lost(Duration::from_secs(60)) {
///     None => println!("still ours"),
///     Some(LossCause::Taken { nodes, .. }) => println!("someone else has it: {nodes:?}"),
///     Some(cause) => println!("gone: {cause}"),
/// }
/// # Ok::<(), redlatch::Error>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum LossCause {
    /// The validity, less the [margin](crate::KeepAlive::margin), ended by the local clock without an extension: nobody tried, or
    /// this process or its machine was stopped.
    #[non_exhaustive]
    Expired {
        /// What each node said of an extension, a release or an adoption that came too late.
        nodes: Vec<NodeReport>,
    },
    /// A majority of the nodes no longer has our key, and most of these have the key of another holder, or the lock
    /// [rests](crate::LockRequest::at_least) there: somebody has had it since, or has given it back with this token. Or
    /// something else is under the key, which is no lock ([`NodeError::NotALock`](crate::NodeError::NotALock)).
    #[non_exhaustive]
    Taken {
        /// What each node said.
        nodes: Vec<NodeReport>,
    },
    /// A majority of the nodes no longer has our key, and most of these have none: they were restarted or flushed.
    #[non_exhaustive]
    Vanished {
        /// What each node said.
        nodes: Vec<NodeReport>,
    },
    /// The validity, less the [margin](crate::KeepAlive::margin), ended while too few nodes answered to renew it.
    #[non_exhaustive]
    Unreachable {
        /// What each node said to the last renewal.
        nodes: Vec<NodeReport>,
    },
    /// The lock was held for as long as [`KeepAlive::max_hold`](crate::KeepAlive::max_hold) allows.
    #[non_exhaustive]
    MaxHold {
        /// What each node said to the last renewal, if that failed.
        nodes: Vec<NodeReport>,
    },
    /// Its guard released the lock, or turned it into a [`Lease`](crate::Lease). Only a
    /// [`LeaseWatch`](crate::LeaseWatch) reports this.
    Released,
}

impl LossCause {
    /// Returns what each node said; empty if only the clock showed the loss.
    ///
    /// ```
    /// # use std::time::Duration;
    /// use redlatch::{Error, LossCause};
    /// # let nodes = redlatch::fake::FakeNode::cluster(3);
    /// # let manager = redlatch::LockManager::builder().fakes(&nodes).build()?;
    /// let ttl = Duration::from_secs(10);
    /// let guard = manager.lock("invoices", ttl)?;
    /// for node in &nodes {
    ///     node.restart();
    /// }
    /// let Err(Error::Lost { cause, .. }) = guard.extend(ttl) else { panic!("no node has it") };
    /// assert!(matches!(cause, LossCause::Vanished { .. }));
    /// assert_eq!(cause.nodes().len(), 3);
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn nodes(&self) -> &[NodeReport] {
        match self {
            Self::Expired { nodes }
            | Self::Taken { nodes }
            | Self::Vanished { nodes }
            | Self::Unreachable { nodes }
            | Self::MaxHold { nodes } => nodes,
            Self::Released => &[],
        }
    }

    /// The same cause, with what the nodes have said since.
    pub(crate) fn with(mut self, votes: Vec<NodeReport>) -> Self {
        match &mut self {
            Self::Expired { nodes }
            | Self::Taken { nodes }
            | Self::Vanished { nodes }
            | Self::Unreachable { nodes }
            | Self::MaxHold { nodes } => *nodes = votes,
            Self::Released => {}
        }
        self
    }
}

impl fmt::Display for LossCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes = Told(self.nodes());
        f.write_str(match self {
            Self::Expired { .. } => "it was not extended in time",
            Self::Taken { .. } if nodes.is_rest() => {
                "a majority of the nodes has lost it, and on most of them the lock rests"
            }
            Self::Taken { .. } if nodes.is_no_lock() => {
                "a majority of the nodes has lost it, and on most of them something else is under its key"
            }
            Self::Taken { .. } => {
                "a majority of the nodes has lost it, most of them to another holder"
            }
            Self::Vanished { .. } => "a majority of the nodes has forgotten it",
            Self::Unreachable { .. } => "too few nodes answered to renew it in time",
            Self::MaxHold { .. } => "it was held for as long as its max_hold allows",
            Self::Released => "its guard has given it back",
        })?;
        match self.nodes() {
            [] => Ok(()),
            _ => write!(f, ": {nodes}"),
        }
    }
}
