//! Renewals: the extensions of many locks in one round over the nodes.

use std::sync::Arc;
use std::time::Duration;

use super::Background;
use super::agenda::Purpose;
use super::schedule::{due, pause};
use crate::clock::Timestamp;
use crate::error::{Error, LossCause};
use crate::foreign::despite_panics;
use crate::lease::state::LeaseState;
use crate::node::Node;
use crate::node::extend::{EXTENSION, MOST_AT_ONCE, MOST_BYTES};
use crate::protocol::extend::{Extension, ask};
use crate::verdict::{self, Verdict};

impl Background {
    /// Renews locks. One write to a node renews all locks whose keys are on the same nodes.
    ///
    /// First only on the nodes that have not failed lately, so without a wait for a failed node. The locks that get no
    /// majority there are asked about on all nodes, the most urgent first. Each such round can cost a node timeout, so
    /// locks that become due meanwhile are renewed in between.
    pub(super) fn renew_all(self: &Arc<Self>, due: Vec<Arc<LeaseState>>) {
        let mut left = self.renew_on_healthy_nodes(due);
        while let Some(chunk) = next_chunk(&mut left) {
            // The program's logger may panic, and the other locks have to be renewed nevertheless.
            despite_panics(|| {
                let started = self.cluster.clock.now();
                let mut rounds = self.begin(&chunk, started);
                let Some(may_have_key) =
                    rounds.first().map(|round| round.lease.may_have_key.clone())
                else {
                    return;
                };
                ask(&self.cluster, &mut rounds, &may_have_key);
                for round in rounds {
                    self.settle(round, started);
                }
            });
            self.plan_those_not_asked(&chunk);
            // No head start here: it would repeat a renewal that has just failed without a pause.
            let due = self.take_due(Duration::ZERO);
            left.extend(self.renew_on_healthy_nodes(due));
        }
    }

    /// Asks only the nodes that have not failed lately. Returns the locks that got no majority there.
    fn renew_on_healthy_nodes(
        self: &Arc<Self>,
        mut due: Vec<Arc<LeaseState>>,
    ) -> Vec<Arc<LeaseState>> {
        let mut undecided = Vec::new();
        while let Some(chunk) = next_chunk(&mut due) {
            let mut open = Vec::new();
            despite_panics(|| open = self.renew_chunk_on_healthy_nodes(&chunk));
            let is_open =
                |lease: &Arc<LeaseState>| open.iter().any(|other| Arc::ptr_eq(lease, other));
            let (later, others): (Vec<_>, Vec<_>) = chunk.into_iter().partition(is_open);
            undecided.extend(later);
            self.plan_those_not_asked(&others);
        }
        undecided
    }

    fn renew_chunk_on_healthy_nodes(
        self: &Arc<Self>,
        chunk: &[Arc<LeaseState>],
    ) -> Vec<Arc<LeaseState>> {
        let started = self.cluster.clock.now();
        let mut rounds = self.begin(chunk, started);
        let Some(may_have_key) = rounds.first().map(|round| &round.lease.may_have_key) else {
            return Vec::new();
        };
        let is_closed = |(node, may_have_key): (&Node, &bool)| node.is_closed() && *may_have_key;
        let closed: Vec<bool> = self
            .cluster
            .each()
            .zip(may_have_key)
            .map(is_closed)
            .collect();
        if !closed.contains(&true) {
            return rounds.iter().map(|round| Arc::clone(round.lease)).collect();
        }
        let is_whole = closed
            .iter()
            .zip(may_have_key)
            .all(|(closed, may_have_key)| closed == may_have_key);
        ask(&self.cluster, &mut rounds, &closed);
        let mut open = Vec::new();
        for round in rounds {
            if is_whole || !is_open(&round) {
                self.settle(round, started);
            } else {
                open.push(Arc::clone(round.lease));
            }
        }
        open
    }

    /// Plans the renewal of locks that were not asked about, because the round stopped early.
    fn plan_those_not_asked(self: &Arc<Self>, locks: &[Arc<LeaseState>]) {
        let now = self.cluster.clock.now();
        for lease in locks {
            if !self.agendas.of(Purpose::Renew).has(lease) {
                self.retry_soon(lease, now);
            }
        }
    }

    /// The extensions for those of these locks that are still kept alive.
    fn begin<'h>(
        self: &Arc<Self>,
        locks: &'h [Arc<LeaseState>],
        now: Timestamp,
    ) -> Vec<Extension<'h>> {
        let rounds = locks.iter().filter_map(|lease| self.round_of(lease, now));
        rounds.collect()
    }

    fn round_of<'h>(
        self: &Arc<Self>,
        lease: &'h Arc<LeaseState>,
        now: Timestamp,
    ) -> Option<Extension<'h>> {
        if lease.loss_at(now).is_some() {
            return None;
        }
        let ttl = lease.renewal()?.ttl;
        // An error means that max_hold leaves too little time for an extension.
        let term = self.cluster.term_until(lease.limit(), ttl, now).ok()?;
        Some(Extension::new(&self.cluster, lease, term))
    }

    /// Applies the result of a renewal, and plans the next one.
    fn settle(self: &Arc<Self>, extension: Extension<'_>, started: Timestamp) {
        let now = self.cluster.clock.now();
        let (lease, term) = (extension.lease, extension.term);
        match extension.settle(started, now, None) {
            Ok(()) => {
                self.plan(Purpose::Renew, lease, due(started, term));
                self.cluster.stats.renewed.count();
            }
            Err(Error::Unavailable { nodes, .. } | Error::TooSlow { nodes, .. }) => {
                self.cluster.stats.failed_renewals.count();
                lease.note_failed_renewal(&nodes);
                self.retry_soon(lease, now);
            }
            // Its guard released it meanwhile.
            Err(Error::Lost {
                cause: LossCause::Released,
                ..
            }) => {}
            // The lock is lost; `retry_soon` has its hooks called.
            Err(_) => {
                self.cluster.stats.failed_renewals.count();
                self.retry_soon(lease, now);
            }
        }
    }

    /// Plans another renewal after a pause, or has the hooks called if the lock is lost.
    fn retry_soon(self: &Arc<Self>, lease: &Arc<LeaseState>, now: Timestamp) {
        if lease.loss_at(now).is_some() {
            return self.watch(lease);
        }
        if lease.renewal().is_some() {
            let pause = pause(lease.deadline().saturating_since(now));
            self.plan(Purpose::Renew, lease, now.saturating_add(pause));
        }
    }
}

/// Whether answers of further nodes can decide it.
fn is_open(extension: &Extension<'_>) -> bool {
    verdict::of_held(&extension.nodes) == Verdict::Unknown
}

/// Takes locks for one write: the most urgent lock, and others whose keys are on the same nodes.
fn next_chunk(locks: &mut Vec<Arc<LeaseState>>) -> Option<Vec<Arc<LeaseState>>> {
    locks.sort_by_key(|lease| lease.deadline());
    let may_have_key = locks.first()?.may_have_key.clone();
    let (mut count, mut bytes) = (0_usize, 0_usize);
    let fits = |lease: &mut Arc<LeaseState>| {
        if lease.may_have_key != may_have_key
            || (count > 0 && bytes >= MOST_BYTES)
            || count >= MOST_AT_ONCE
        {
            return false;
        }
        count = count.saturating_add(1);
        bytes = bytes.saturating_add(EXTENSION.saturating_add(lease.resource.len()));
        true
    };
    Some(locks.extract_if(.., fits).collect())
}
