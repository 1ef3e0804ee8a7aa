//! Extends locks: the lock of one guard, or many locks that are renewed in one round over the nodes.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::clock::Timestamp;
use crate::cluster::{Cluster, Places};
use crate::error::{Error, NodeError, Vote};
use crate::lease::state::healer::Healer;
use crate::lease::state::{LeaseState, Renewal};
use crate::node::command;
use crate::node::key_report::{KeyReports, votes, waiters};
use crate::node::verbs::extend_all;
use crate::quorum::Term;
use crate::verdict::{self, Verdict};
use crate::wire::pack::Packed;

pub(crate) struct Extension {
    pub(crate) lease: Arc<LeaseState>,
    pub(crate) term: Term,
    /// Before the first send.
    pub(crate) started: Timestamp,
    /// The nodes whose votes count.
    pub(crate) counted: Places,
    /// What each node has said, in the canonical order.
    pub(crate) nodes: KeyReports,
    is_wanted: bool,
    /// The right to heal the lock, where that is possible and was not done yet.
    pub(super) healer: Option<Healer>,
}

impl Extension {
    pub(crate) fn new(
        cluster: &Cluster,
        lease: &Arc<LeaseState>,
        term: Term,
        started: Timestamp,
    ) -> Self {
        // The extension script of the fenced protocol sets the key again itself, where that is safe.
        let heals = cluster.rules.is_none();
        let healer = heals.then(|| lease.take_healer()).flatten();
        Self {
            lease: Arc::clone(lease),
            term,
            started,
            counted: lease.counted(),
            nodes: KeyReports::new(),
            is_wanted: false,
            healer,
        }
    }

    /// Returns when half of the time that the lock has left is over.
    pub(super) fn half_of_the_rest(&self) -> Timestamp {
        let rest = self.lease.deadline().saturating_since(self.started);
        let half = rest.checked_div(2).unwrap_or_default();
        self.started.saturating_add(half)
    }

    pub(crate) fn verdict(&self) -> Verdict {
        verdict::of_held(votes(&self.nodes))
    }

    /// Applies the votes. If the extension succeeds, `renewal` replaces the keep-alive of the lock, if there is one.
    pub(crate) fn settle(&mut self, now: Timestamp, renewal: Option<Renewal>) -> Result<(), Error> {
        let (round, validity) = (self.started..now, self.term.validity);
        self.lease.note_wanted(self.is_wanted);
        self.lease
            .extended(round, validity, renewal, &mut self.nodes)
    }
}

/// Asks these nodes, with one write to each node for all locks. A new connection may take half of the time that the first lock to
/// end has left, up to `latest`, but a node timeout in any case.
pub(crate) fn ask(
    cluster: &Cluster,
    extensions: &mut [Extension],
    asked: &[usize],
    latest: Option<Timestamp>,
) {
    let keep = |extension: &Extension| command::keep(&extension.lease.claim, extension.term.ttl);
    let commands: SmallVec<[Packed; 1]> = extensions.iter().map(keep).collect();
    let half = extensions.iter().map(Extension::half_of_the_rest);
    let connect_by = half.chain(latest).min();
    let connect_by = connect_by.unwrap_or_else(|| cluster.clock.now());
    let reports = extend_all(cluster.asking(asked), &commands, connect_by);
    for (extension, reports) in extensions.iter_mut().zip(reports) {
        extension.is_wanted = waiters(&reports).any();
        extension.nodes = reports;
        // What the holder has announced itself while it waited may still be there.
        let announced = cluster.options.longest_announcement();
        let is_own = extension.started < extension.lease.since.saturating_add(announced);
        extension.is_wanted &= !is_own;
        // A node that was left out may still have the key, so its vote is unknown and not against us.
        for place in extension.counted.iter().filter(|it| !asked.contains(it)) {
            let node = cluster.nodes().get(*place);
            if let (Some(node), Some(report)) = (node, extension.nodes.get_mut(*place)) {
                let failure = node.recent_failure().unwrap_or_default();
                report.vote = Vote::Failed(NodeError::BreakerOpen { failure }).into();
            }
        }
    }
}
