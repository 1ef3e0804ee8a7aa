//! Opening the nodes of a brand-new deployment.

use super::LockManager;
use crate::error::{Error, NodeError, NodeReport, Vote};
use crate::node::fenced::{Opening, open_all};

impl LockManager {
    /// Opens the nodes of a brand-new deployment of [`Protocol::Fenced`](crate::Protocol::Fenced), so that they vote at
    /// once.
    ///
    /// A node without a marker may have forgotten locks, so it abstains for `max_ttl` and the drift. Nobody but its
    /// operator knows that it is new. Call this once, when no client uses the nodes yet; or leave it, and wait.
    ///
    /// It is refused, and changes nothing, unless every node answers and is fresh: without a marker, or abstaining for want
    /// of one. A node that is in use is not fresh, and neither is one that was restarted and still has its keys. Should a
    /// node fail while it is being opened, those that were opened before it are closed again.
    ///
    /// Nodes that have lost everything look fresh. Don't call it after all of them were flushed, or restarted without
    /// persistence: locks of before may still be valid. To wait is always right.
    ///
    /// # Errors
    ///
    /// - [`Error::NotOpened`], with what each node said: it was not reached, is in use
    ///   ([`NodeError::Serving`](crate::NodeError::Serving)), or was set up by clients with other settings.
    /// - [`Error::InvalidConfig`] with [`Protocol::Classic`](crate::Protocol::Classic), which has nothing to open, and
    ///   [`Error::Forked`] in a forked child.
    ///
    /// ```
    /// # use std::time::Duration;
    /// use redlatch::{Error, LockManager, Protocol};
    /// # let nodes = redlatch::fake::FakeNode::cluster(3);
    /// let manager = LockManager::builder().fakes(&nodes).protocol(Protocol::Fenced).build()?;
    ///
    /// let ttl = Duration::from_secs(10);
    /// assert!(matches!(manager.try_lock("invoices", ttl), Err(Error::Unavailable { .. })));
    /// manager.open_nodes()?;
    /// let guard = manager.try_lock("invoices", ttl)?;
    ///
    /// // Never again: now they know of locks.
    /// assert!(matches!(manager.open_nodes(), Err(Error::NotOpened { .. })));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn open_nodes(&self) -> Result<(), Error> {
        if self.is_forked() {
            return Err(Error::Forked);
        }
        let Some(rules) = self.rules() else {
            let reason = "open_nodes: only nodes of Protocol::Fenced are opened".into();
            return Err(Error::InvalidConfig { reason });
        };
        let all = |nodes: &[NodeReport]| nodes.iter().all(|report| report.vote.is_granted());
        let nodes = open_all(self.each(), rules, Opening::Look);
        if !all(&nodes) {
            return Err(Error::NotOpened { nodes });
        }
        let nodes = open_all(self.each(), rules, Opening::Open);
        if all(&nodes) {
            return Ok(());
        }
        // But not those that someone else has opened meanwhile, who was told that they are. One that can't be reached now
        // stays open, which is no harm: it has nothing to forget.
        let is_others = |report: &NodeReport| {
            let vote = &report.vote;
            matches!(vote, Vote::Failed(NodeError::Serving))
        };
        let mine = self.each().zip(&nodes);
        let mine = mine.filter(|(_, report)| !is_others(report));
        drop(open_all(mine.map(|(node, _)| node), rules, Opening::Close));
        Err(Error::NotOpened { nodes })
    }
}
