//! What is counted of one node.

use std::fmt;
use std::sync::Arc;

use super::recorder::Counter;
use crate::error::Vote;

const VOTES: &str = "What the node said to attempts; failed is no answer in time, or an error.";

counters! {
    /// What one node answered to the attempts of a manager.
    #[derive(Debug, Clone, PartialEq, Eq)]
    NodeStats (listed if feature = "serde") of NodeRecorder
    "node" {
        /// Attempts for which it voted.
        granted as "node_votes" where vote = "granted": VOTES;
        /// Attempts that it refused, because it has another holder's key, or a fencing token that is not smaller.
        refused as "node_votes" where vote = "refused": VOTES;
        /// Attempts for which it gave no vote: it did not answer in time, or failed.
        failed as "node_votes" where vote = "failed": VOTES;
        /// How often it failed at any command, and was left out from then on.
        opened as "node_left_out": "How often the node failed and was left out from then on.";
        /// How often it answered again after that. The node is left out now if this is less than `opened`.
        closed as "node_back": "How often the node answered again after that.";
    }
    /// The node as `host:port`, or as the path of its socket.
    pub node: Arc<str>,
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

impl NodeRecorder {
    /// Counts the node's vote on an attempt.
    pub(crate) fn voted(&self, vote: &Vote) {
        match vote {
            Vote::Granted => self.granted.count(),
            Vote::Held { .. }
            | Vote::Read { .. }
            | Vote::WriterWaits { .. }
            | Vote::Stale { .. }
            | Vote::Missing => self.refused.count(),
            Vote::Failed(error) if !error.is_left_out() => self.failed.count(),
            Vote::Failed(_) | Vote::Released | Vote::NotAsked => {}
        }
    }
}
