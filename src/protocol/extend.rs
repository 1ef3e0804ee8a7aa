//! Extends locks: the lock of one guard, or many locks that are renewed in one round over the nodes.

use std::sync::Arc;

use crate::clock::Timestamp;
use crate::cluster::Cluster;
use crate::error::{Error, NodeError, NodeReport, Vote};
use crate::lease::state::{LeaseState, Renewal};
use crate::node::extend::extend_all;
use crate::quorum::Term;
use crate::wire::pack::Packed;

/// The extension of one lock.
pub(crate) struct Extension<'l> {
    pub(crate) lease: &'l Arc<LeaseState>,
    key: String,
    pub(crate) term: Term,
    /// What each node has said, in the canonical order.
    pub(crate) nodes: Vec<NodeReport>,
}

impl<'l> Extension<'l> {
    pub(crate) fn new(cluster: &Cluster, lease: &'l Arc<LeaseState>, term: Term) -> Self {
        Self {
            lease,
            key: cluster.key_in(&lease.resource, lease.slot),
            term,
            nodes: Vec::new(),
        }
    }

    /// Applies the votes on this extension, which began at `started`. If it succeeds, `renewal` replaces the keep-alive
    /// of the lock, if there is one.
    pub(crate) fn settle(
        self,
        started: Timestamp,
        now: Timestamp,
        renewal: Option<Renewal>,
    ) -> Result<(), Error> {
        self.lease
            .extended(started, self.term, renewal, self.nodes, now)
    }
}

/// Asks these nodes, with one write to each node for all locks.
pub(crate) fn ask(cluster: &Cluster, extensions: &mut [Extension<'_>], asked: &[bool]) {
    let mut commands = extensions.iter().map(|extension| {
        super::command(cluster, extension.lease, &extension.key).extend(extension.term.ttl)
    });
    let Some(first) = commands.next() else {
        return;
    };
    let command: Packed = first.followed_by(commands.collect());
    let nodes = cluster.each().zip(asked.iter().copied());
    let answers = extend_all(nodes.clone(), &command, extensions.len());
    for (extension, answers) in extensions.iter_mut().zip(answers) {
        extension.nodes = answers;
        let may_have_key = extension.lease.may_have_key.iter();
        let reports = extension
            .nodes
            .iter_mut()
            .zip(nodes.clone())
            .zip(may_have_key);
        for ((report, (node, asked)), may_have_key) in reports {
            // A node that was left out may still have the key, so its vote is unknown and not against us.
            if *may_have_key && !asked {
                let failure = node.recent_failure().unwrap_or_default();
                report.vote = Vote::Failed(NodeError::BreakerOpen { failure });
            }
        }
    }
}
