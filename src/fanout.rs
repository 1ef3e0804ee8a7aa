//! In which order the nodes are asked for a lock.

/// In which order the nodes are asked for a lock.
///
/// Releases, extensions and status requests always go to all nodes at once. For an acquire, the choice is between round
/// trips and contention. If contenders ask all nodes at once, each may get a minority of the votes, and nobody the
/// lock. If all ask in the same order, the contender that is first at the first node usually is first at the others as
/// well.
///
/// What holds for both:
///
/// - A guard is valid for its ttl less the drift, counted from before the first node was asked, and each node has the
///   whole [`node_timeout`](crate::Builder::node_timeout).
/// - After an attempt that met another holder, the next attempt ends if the first node of the canonical order does not
///   grant. That node is the arbiter, which keeps contenders from splitting the votes. If it fails, the next node is
///   the arbiter. After eight looks there in vain, all nodes are asked nevertheless: a key that a crashed holder left on
///   the arbiter alone must not prevent a majority.
/// - A lock that passes from thread to thread of one manager does so in one round trip to all nodes at once: they have the key
///   of the first holder, so nobody else can get a vote in between.
/// - Managers of both kinds, and clients of the published algorithm, exclude each other.
///
/// ```
/// # use std::time::Duration;
/// use redlatch::{Fanout, LockManager};
/// # let nodes = redlatch::fake::FakeNode::cluster(5);
/// let manager = LockManager::builder().fakes(&nodes).fanout(Fanout::Overlapped).build()?;
/// let guard = manager.lock("invoices", Duration::from_secs(10))?;
/// # Ok::<(), redlatch::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Fanout {
    /// One node after the other, in the canonical order: as many round trips as nodes.
    ///
    /// This is what the first ports of the published algorithm do. Contenders don't split the votes, and a contender
    /// that comes second stops as soon as no majority is possible.
    #[default]
    Sequential,
    /// All nodes before any reply is read: one round trip, whatever their number, without a thread for each.
    ///
    /// For locks with little contention, over slow links. An attempt with an arbiter asks the arbiter alone, and all
    /// others at once when it has granted: two round trips.
    ///
    /// A node that hangs does not delay the reading of the other replies, and several nodes that hang cost one node
    /// timeout together. The call still waits for that, until the node is left out because it failed a moment ago.
    ///
    /// It is not for locks that many clients want at the same moment. Their first attempts can split the votes, and
    /// then all of them wait for a retry delay; and a client that is refused has asked all nodes, and has to release
    /// them. It uses a connection to each node at the same time, not one in all. If there are too few connections
    /// ([`pool_size`](crate::Builder::pool_size)), nodes are asked as connections become free.
    ///
    /// New connections are made one after the other.
    Overlapped,
}
