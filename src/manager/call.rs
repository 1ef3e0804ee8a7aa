//! One call for a lock: what it asks for, and what the counters, the log and the spans are told of it.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::Timestamp;
use crate::cluster::Cluster;
use crate::contend::demand::Demand;
use crate::error::{Error, NodeReport, Vote};
use crate::guard::{LockGuard, Shared};
use crate::log_lines;
use crate::protocol::look;
use crate::renewal::KeepAlive;
use crate::spans::LockSpan;

/// One call for a lock, from the check of what it asks for to the guard or the error.
pub(super) struct Call<'m> {
    pub(super) shared: &'m Arc<Shared>,
    pub(super) cluster: &'m Cluster,
    pub(super) demand: Demand,
    /// Zero for a call that does not wait.
    pub(super) timeout: Duration,
    pub(super) keep_alive: Option<KeepAlive>,
    /// For how long nobody else may have the lock, from when it was acquired.
    pub(super) at_least: Option<Duration>,
    started: Timestamp,
    attempts: Cell<u32>,
    is_contended: Cell<bool>,
    is_queued: Cell<bool>,
    span: LockSpan,
}

impl<'m> Call<'m> {
    pub(super) fn new(shared: &'m Arc<Shared>, demand: Demand, timeout: Duration) -> Self {
        let cluster = shared.cluster();
        let span = LockSpan::enter(&demand.resource.name, demand.term.ttl);
        if demand.resource.is_read() {
            span.reads();
        }
        Self {
            shared,
            cluster,
            demand,
            timeout,
            keep_alive: None,
            at_least: None,
            started: cluster.clock.now_for_records(),
            attempts: Cell::new(0),
            is_contended: Cell::new(false),
            is_queued: Cell::new(false),
            span,
        }
    }

    /// Takes the lock, and counts and logs what came of the call.
    pub(super) fn run(self) -> Result<LockGuard, Error> {
        let result = self.acquire();
        let ended = self.cluster.clock.now_for_records();
        let waited = ended.saturating_since(self.started);
        let stats = &self.cluster.stats;
        let outcome = match &result {
            Ok(guard) => {
                stats.acquired.count();
                stats.waits.record(waited);
                guard.lease.count();
                match self.attempts.get() {
                    0 | 1 => log_lines::acquired(&self.demand.resource, waited),
                    attempts => log_lines::waited(&self.demand.resource, waited, attempts),
                }
                "acquired"
            }
            Err(Error::Held { .. }) => {
                stats.failed_held.count();
                "held"
            }
            Err(Error::Unavailable { .. } | Error::NotALock { .. }) => {
                stats.failed_unavailable.count();
                "unavailable"
            }
            Err(Error::TooSlow { .. }) => {
                stats.failed_too_slow.count();
                "too slow"
            }
            Err(Error::Cancelled { .. }) => "cancelled",
            // No random bytes for a token.
            Err(_) => "failed",
        };
        self.span.end(outcome);
        result.map_err(|error| self.with_holder(error.after(waited)))
    }

    /// Counts once that the call waits behind other threads.
    pub(super) fn note_queued(&self) {
        if !self.is_queued.replace(true) {
            self.cluster.stats.queued.count();
        }
    }

    /// Counts an attempt and what the nodes said. Logs once that the call has met another holder.
    pub(super) fn note_attempt(&self, result: &Result<LockGuard, Error>) {
        self.attempts.set(self.attempts.get().saturating_add(1));
        self.cluster.stats.attempts.count();
        let error = match result {
            Ok(guard) => return self.count_votes(guard.each_vote()),
            Err(error) => error,
        };
        let (Error::Held { nodes, .. }
        | Error::Unavailable { nodes, .. }
        | Error::NotALock { nodes, .. }
        | Error::TooSlow { nodes, .. }) = error
        else {
            return;
        };
        let votes = nodes.iter().map(|report| &report.vote);
        self.count_votes(votes.clone());
        let is_held = matches!(error, Error::Held { .. }) && votes.clone().any(Vote::is_refusal);
        if is_held && !self.is_contended.replace(true) {
            self.cluster.stats.contended.count();
            let resource = error.resource().unwrap_or(&self.demand.resource.name);
            match error.readers() {
                _ if error.writer_waits() => log_lines::kept_for_a_writer(resource),
                Some(readers) => log_lines::read_by(resource, readers),
                None => log_lines::contended(resource, error.holder()),
            }
            if let Some(holder) = error.holder() {
                self.span.held_by(holder);
            }
        }
    }

    fn count_votes<'v>(&self, votes: impl Iterator<Item = &'v Vote>) {
        for (node, vote) in self.cluster.each().zip(votes) {
            node.stats.voted(vote);
        }
    }

    /// The same error. If the lock is held and no reply has told by whom, one look at the nodes does. A call that has asked no node
    /// asks none now.
    fn with_holder(&self, error: Error) -> Error {
        let Error::Held {
            resource,
            holder: None,
            permits: None,
            nodes,
            ..
        } = &error
        else {
            return error;
        };
        // Of several resources, the error may not say which one is in the way.
        let is_a_name = self.demand.resource.names().contains(resource);
        let is_due = !self.timeout.is_zero() && self.attempts.get() > 0;
        if !is_due || !is_a_name || nodes.iter().any(is_told) {
            return error;
        }
        match look::holder(self.cluster, resource) {
            Some((holder, votes)) => error.naming(holder, votes),
            None => error,
        }
    }
}

/// Whether a node's answer has the key, so that the holder is known, or known to have no label.
fn is_told(report: &NodeReport) -> bool {
    matches!(
        report.vote,
        Vote::Held {
            remaining: Some(_),
            ..
        } | Vote::Read { .. }
    )
}
