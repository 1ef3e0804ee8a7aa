//! What is counted of one node.

use std::fmt;
use std::sync::Arc;

use super::recorder::Counter;
use crate::error::Vote;

/// What one node answered to the attempts of a manager.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeStats {
    /// The node as `host:port`, or as the path of its socket.
    pub node: Arc<str>,
    /// Attempts for which it voted.
    pub granted: u64,
    /// Attempts that it refused, because it has another holder's key, or a fencing token that is not smaller.
    pub refused: u64,
    /// Attempts for which it gave no vote: it did not answer in time, or failed.
    pub failed: u64,
    /// How often it failed at any command, and was left out from then on.
    pub opened: u64,
    /// How often it answered again after that. The node is left out now if this is less than `opened`.
    pub closed: u64,
}

impl fmt::Display for NodeStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {} granted, {} refused, {} failed; left out {} times, back {} times",
            self.node, self.granted, self.refused, self.failed, self.opened, self.closed
        )
    }
}

/// The counters of a node. [`NodeStats`] says what each of them is.
#[derive(Debug)]
pub(crate) struct NodeRecorder {
    granted: Counter,
    refused: Counter,
    failed: Counter,
    pub(crate) opened: Counter,
    pub(crate) closed: Counter,
}

impl NodeRecorder {
    pub(crate) fn new(node: &str) -> Self {
        let counter = |name, text| Counter::new(name, text, &[("node", node)]);
        let votes = |vote| {
            let text = "What the node said to attempts; failed is no answer in time, or an error.";
            Counter::new("node_votes", text, &[("node", node), ("vote", vote)])
        };
        Self {
            granted: votes("granted"),
            refused: votes("refused"),
            failed: votes("failed"),
            opened: counter(
                "node_left_out",
                "How often the node failed and was left out from then on.",
            ),
            closed: counter("node_back", "How often the node answered again after that."),
        }
    }

    /// Counts the node's vote on an attempt.
    pub(crate) fn voted(&self, vote: &Vote) {
        match vote {
            Vote::Granted => self.granted.count(),
            Vote::Held { .. }
            | Vote::Read { .. }
            | Vote::WriterWaits { .. }
            | Vote::Stale { .. }
            | Vote::Missing => self.refused.count(),
            Vote::Failed(error) if error.is_left_out() => {}
            Vote::Failed(_) => self.failed.count(),
            Vote::Released | Vote::NotAsked => {}
        }
    }

    pub(crate) fn snapshot(&self, node: &Arc<str>) -> NodeStats {
        NodeStats {
            node: Arc::clone(node),
            granted: self.granted.get(),
            refused: self.refused.get(),
            failed: self.failed.get(),
            opened: self.opened.get(),
            closed: self.closed.get(),
        }
    }
}
