//! The extension of a lock, from its first send to the heal of its nodes: one lock for a guard, or many locks in one round for
//! renewals.
//!
//! | step | when it comes | what it does |
//! |---|---|---|
//! | `begin` | the lock is held | takes the right to heal, and notes which nodes count |
//! | `ask` | at once | asks the nodes, in one write for all locks |
//! | `heal` | nodes lack the key, and their votes may decide | sets the key there, and adds the votes |
//! | `ask` again | nodes that were left out may decide | another extension asks all nodes |
//! | `settle` | the votes decide, or nobody else can be asked | changes the state of the lock |
//! | `heal` | the extension has succeeded, and nodes lack the key | sets the key there; no vote is needed |
//!
//! A node lacks the key where a server came back empty, or where nothing of the acquisition has arrived, or it was undone.
//! `docs/protocol.md` says why a heal is safe, and why not on a node that was sent an undo which is not answered.

use std::mem::swap;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use crate::clock::Timestamp;
use crate::cluster::{Cluster, Places, places};
use crate::error::{Error, NodeError, Vote};
use crate::lease::state::holding::Holdings;
use crate::lease::state::{LeaseState, Renewal};
use crate::log_lines;
use crate::node::key_report::{KeyReport, KeyReports, votes, waiters};
use crate::node::verbs::{acquire, extend_all, release_all};
use crate::node::{Attempt, Node, Purpose, command};
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
    reports: KeyReports,
    is_settled: bool,
    /// Whether it has the right to heal the lock.
    is_healer: bool,
    has_healed: bool,
}

/// What an extension does next, after its nodes were asked.
pub(crate) enum NextStep {
    Heal,
    /// Another extension asks all nodes, because the nodes that failed lately may decide.
    AskAll,
    Settle,
    End,
}

impl Extension {
    pub(crate) fn begin(
        cluster: &Cluster,
        lease: &Arc<LeaseState>,
        term: Term,
        started: Timestamp,
    ) -> Self {
        // The extension script of the fenced protocol sets the key again itself, where that is safe.
        let is_healed_here = cluster.rules.is_none();
        Self {
            is_healer: is_healed_here && lease.nodes(Holdings::take_healer),
            has_healed: false,
            lease: Arc::clone(lease),
            term,
            started,
            counted: lease.nodes(|nodes| nodes.counted()),
            reports: KeyReports::new(),
            is_settled: false,
        }
    }

    /// An extension whose nodes have answered.
    #[cfg(test)]
    pub(crate) fn with_votes(mut self, votes: [Vote; 3]) -> Self {
        self.reports = votes.map(KeyReport::of).into_iter().collect();
        self
    }

    /// Asks these nodes, with one write to each node for all locks. A new connection may take half of the time that the first lock to
    /// end has left, up to `latest`, but a node timeout in any case.
    pub(crate) fn ask(
        extensions: &mut [Self],
        cluster: &Cluster,
        asked: &[usize],
        latest: Option<Timestamp>,
    ) {
        let keep = |extension: &Self| command::keep(&extension.lease.claim, extension.term.ttl);
        let commands: SmallVec<[Packed; 1]> = extensions.iter().map(keep).collect();
        let half = extensions.iter().map(Self::half_of_the_rest);
        let connect_by = half.chain(latest).min();
        let connect_by = connect_by.unwrap_or_else(|| cluster.clock.now());
        let all = extend_all(cluster.asking(asked), &commands, connect_by);
        for (extension, reports) in extensions.iter_mut().zip(all) {
            // The holder's own announcement from when it waited may still be there.
            let announced = cluster.options.longest_announcement();
            let is_own = extension.started < extension.lease.since.saturating_add(announced);
            let is_wanted = waiters(&reports).any() && !is_own;
            extension.lease.note_wanted(is_wanted);
            extension.reports = reports;
            // A node that was left out may still have the key, so its vote is unknown and not against us.
            let mut left_out = extension.counted.clone();
            left_out.retain(|place| !asked.contains(place));
            for (node, report) in cluster.asking(&left_out).with(&mut extension.reports) {
                let failure = node.recent_failure().unwrap_or_default();
                report.vote = Vote::Failed(NodeError::BreakerOpen { failure }).into();
            }
        }
    }

    /// Returns when half of the time that the lock has left is over.
    fn half_of_the_rest(&self) -> Timestamp {
        self.started.half_way_to(self.lease.deadline())
    }

    pub(crate) fn verdict(&self) -> Verdict {
        verdict::of_held(votes(&self.reports))
    }

    /// A key that is set again may complete the majority, so a heal comes before the result where the votes are too few. If the lock
    /// has lost a majority, it is lost all the same.
    pub(crate) fn next(&self, cluster: &Cluster) -> NextStep {
        let is_open = !self.is_settled && self.verdict() == Verdict::Unknown;
        if (is_open || self.is_settled) && !self.nodes_to_heal(cluster).is_empty() {
            NextStep::Heal
        } else if self.is_settled {
            NextStep::End
        } else if is_open && votes(&self.reports).any(Vote::is_left_out) {
            NextStep::AskAll
        } else {
            NextStep::Settle
        }
    }

    /// The nodes to heal: those that have no key, and did not fail lately.
    fn nodes_to_heal(&self, cluster: &Cluster) -> Places {
        if !self.is_healer || self.has_healed {
            return Places::new();
        }
        let nodes = self.lease.nodes(|nodes| nodes.to_heal(&self.reports));
        cluster.only(&nodes, Node::is_well)
    }

    /// Applies the votes. If the extension succeeds, `renewal` replaces the keep-alive of the lock, if there is one.
    pub(crate) fn settle(&mut self, now: Timestamp, renewal: Option<Renewal>) -> Result<(), Error> {
        self.is_settled = true;
        let (round, validity) = (self.started..now, self.term.validity);
        self.lease
            .apply(round, validity, renewal, &mut self.reports)
    }

    /// Sets the key on the nodes that have none, and adds their votes to those of the extension. An extension heals once.
    ///
    /// A node that failed lately is not asked, so a node that hangs delays one heal at most. New connections have as much time as those of
    /// the extension.
    pub(crate) fn heal(&mut self, cluster: &Cluster, latest: Option<Timestamp>) {
        let asked = self.nodes_to_heal(cluster);
        self.has_healed = true;
        let begun = self.lease.nodes_if_held(|nodes| nodes.begin_heal(&asked));
        if begun != Some(true) {
            return;
        }
        let claim = &self.lease.claim;
        let half = self.half_of_the_rest();
        let connect_by = latest.map_or(half, |latest| latest.min(half));
        let purpose = Purpose::Heal { connect_by };
        let attempt = Attempt::new(claim.clone(), self.ttl_of_heal(cluster), purpose);
        let healed = cluster.asking(&asked);
        let mut reports = healed.unasked();
        acquire(healed, &attempt, &mut reports);
        let healed_by = asked.iter().zip(healed.with(&mut reports));
        let left = healed_by.map(|(index, (_, report))| (*index, report.leftover.clone()));
        let ended = self.lease.nodes_if_held(|nodes| nodes.end_heal(left));
        if ended.is_none() {
            // The lock has ended meanwhile, and its guard has not passed these nodes on.
            let left_behind = places(&reports, KeyReport::may_have_key);
            let nodes = cluster.asking(&left_behind);
            release_all(nodes, &command::release(claim), cluster.options.max_ttl);
            return;
        }
        let both = healed
            .with(&mut self.reports)
            .zip(healed.with(&mut reports));
        both.for_each(|((_, before), (_, report))| swap(before, report));
        healed.one_vote_each(&mut self.reports);
        for (node, report) in healed.with(&mut self.reports) {
            if report.vote.is_granted() {
                cluster.stats.healed.count();
                log_lines::healed(&claim.resource, node.name());
            }
        }
    }

    /// The time to live of the key: that of the extension, or what is left of the lock if that is more. A key that ends before the lock
    /// would leave it as it was.
    fn ttl_of_heal(&self, cluster: &Cluster) -> Duration {
        let end = self.lease.end_of_validity();
        // Not since the extension began: that may be long ago, and the key is set after this reading.
        let left = end.saturating_since(cluster.clock.now());
        if left <= self.term.validity {
            return self.term.ttl;
        }
        // A time to live is cut to whole milliseconds.
        let left = left.saturating_add(Duration::from_millis(1));
        cluster.options.ttl_for(left).max(self.term.ttl)
    }
}

impl Drop for Extension {
    fn drop(&mut self) {
        if self.is_healer {
            self.lease.nodes(Holdings::return_healer);
        }
    }
}
