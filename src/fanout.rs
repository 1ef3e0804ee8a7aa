//! In which order the nodes are asked for a lock.

/// In which order the nodes are asked for a lock.
///
/// Releases, extensions and looks always go to all nodes at once. The acquire has a choice between round trips and
/// contention: where contenders ask all nodes at once, each may get a minority of the votes, and nobody the lock. Where all
/// ask in the same order, whoever is first at the first node usually is at the others as well.
///
/// What holds for both:
///
/// - A guard is valid for its ttl less the drift from before the first node was asked, and each node has the
///   [`node_timeout`](crate::Builder::node_timeout) to itself.
/// - An attempt that follows one that met another holder ends where the first node of the canonical order does not grant.
///   That one is the arbiter, and keeps contenders from splitting the votes. Where it fails, the next one is. Every eighth
///   attempt in a row asks the others all the same: what is left on that one node, of a holder that is gone, must not be in
///   the way of a majority.
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Fanout {
    /// One node after the other, in the canonical order: as many round trips as nodes.
    ///
    /// The way of the published algorithm's first ports. Contenders don't split the votes, and one that comes second stops
    /// as soon as a majority is out of reach.
    #[default]
    Sequential,
    /// All nodes before any reply is read: one round trip, whatever their number, on the calling thread.
    ///
    /// For locks that are seldom contended, over links that take time. An attempt in which there is an arbiter asks that
    /// one alone, and the others at once when it has granted: two round trips.
    ///
    /// A node that hangs does not delay the reading of the others, and nodes that hang at the same time cost one node
    /// timeout together. It delays the return all the same, until it is left out as one that failed a moment ago.
    ///
    /// It is not for locks that many want at the same moment: in the first attempt of each they can split the votes, and
    /// then all of them wait for a retry delay; and who is refused has asked all nodes, and releases them. A thread
    /// has a connection to each node at the same time, where it otherwise has one, so as many threads need a larger
    /// [`pool_size`](crate::Builder::pool_size); where there are too few, nodes are asked as connections come free.
    ///
    /// Connections that are still to be made are made one after the other.
    Overlapped,
}
