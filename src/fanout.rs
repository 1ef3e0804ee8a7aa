//! In which order the nodes are asked for a lock.

/// In which order the nodes are asked for a lock.
///
/// Releases, extensions and looks always go to all nodes at once. The difference is in the acquire, and it is one between
/// round trips and contention: where contenders ask all nodes at once, each may get a minority of the votes, and nobody
/// the lock. Where all ask in the same order, whoever is first at the first node usually is at the others as well.
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
    /// The way of the published algorithm's first ports. Contenders don't split the votes, and a contender that comes
    /// second stops as soon as a majority is out of reach.
    #[default]
    Sequential,
    /// All nodes before any reply is read: one round trip, whatever their number, on the calling thread.
    ///
    /// For locks that are seldom contended, over links that take time. An attempt that follows one that met another
    /// holder asks the first node of the canonical order alone, and the others at once when that has granted: one that all
    /// contenders ask first keeps them from splitting the votes.
    ///
    /// Managers of both kinds can be mixed.
    Overlapped,
}
