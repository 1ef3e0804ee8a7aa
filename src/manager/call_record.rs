//! The record of one call for a lock, for the counters, the log and the spans.

use std::time::Duration;

use crate::claim::Resource;
use crate::clock::Timestamp;
use crate::cluster::Cluster;
use crate::error::{Error, NodeReport, Vote};
use crate::guard::LockGuard;
use crate::log_lines;
use crate::spans::LockSpan;

/// The record of a call that is under way. Its drop counts how the call ended: by default, as its last attempt did.
pub(super) struct CallRecord<'a> {
    cluster: &'a Cluster,
    resource: &'a Resource,
    started: Timestamp,
    attempts: u32,
    is_contended: bool,
    is_queued: bool,
    outcome: CallOutcome,
    span: LockSpan,
}

/// How a call ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CallOutcome {
    Acquired,
    Held,
    Unavailable,
    TooSlow,
    Cancelled,
    /// No random bytes for a token, or a panic.
    Failed,
}

impl<'a> CallRecord<'a> {
    pub(super) fn begin(cluster: &'a Cluster, resource: &'a Resource, ttl: Duration) -> Self {
        let span = LockSpan::enter(&resource.name, ttl);
        if resource.is_read() {
            span.reads();
        }
        Self {
            cluster,
            resource,
            started: cluster.clock.now_for_records(),
            attempts: 0,
            is_contended: false,
            is_queued: false,
            outcome: CallOutcome::Failed,
            span,
        }
    }

    /// Counts what the nodes said to an attempt.
    fn count_votes<'v>(&self, votes: impl Iterator<Item = &'v Vote>) {
        for (node, vote) in self.cluster.each().zip(votes) {
            node.stats.voted(vote);
        }
    }

    /// Counts once that the call waits behind other threads.
    pub(super) fn queued(&mut self) {
        if !self.is_queued {
            self.is_queued = true;
            self.cluster.stats.queued.count();
        }
    }

    /// Records the result of an attempt.
    pub(super) fn attempted(
        &mut self,
        result: Result<LockGuard, Error>,
    ) -> Result<LockGuard, Error> {
        self.attempts = self.attempts.saturating_add(1);
        self.cluster.stats.attempts.count();
        match &result {
            Ok(guard) => {
                self.count_votes(guard.each_vote());
                self.acquired(guard);
            }
            Err(error) => self.failed(error),
        }
        result.map_err(|error| error.after(self.waited()))
    }

    /// Records that the call got the lock.
    pub(super) fn acquired(&mut self, guard: &LockGuard) {
        let waited = self.waited();
        let recorder = &self.cluster.stats;
        recorder.acquired.count();
        recorder.waits.record(waited);
        guard.count();
        self.outcome = CallOutcome::Acquired;
        if self.attempts <= 1 {
            log_lines::acquired(self.resource, waited);
        } else {
            log_lines::waited(self.resource, waited, self.attempts);
        }
    }

    /// Records why the call ends without a further attempt.
    pub(super) fn refused(&mut self, error: Error) -> Error {
        (self.outcome, _) = outcome_of(&error);
        error.after(self.waited())
    }

    /// How long the caller has waited by now.
    fn waited(&self) -> Duration {
        let now = self.cluster.clock.now_for_records();
        now.saturating_since(self.started)
    }

    fn failed(&mut self, error: &Error) {
        let (outcome, nodes) = outcome_of(error);
        self.outcome = outcome;
        self.count_votes(nodes.iter().map(|node| &node.vote));
        if outcome == CallOutcome::Held {
            self.met(error, nodes);
        }
    }

    /// Counts and logs contention once a call.
    fn met(&mut self, error: &Error, nodes: &[NodeReport]) {
        let is_held = |report: &NodeReport| report.vote.is_refusal();
        if !self.is_contended && nodes.iter().any(is_held) {
            self.is_contended = true;
            self.cluster.stats.contended.count();
            let resource = error.resource().unwrap_or(&self.resource.name);
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
}

fn outcome_of(error: &Error) -> (CallOutcome, &[NodeReport]) {
    if let Error::Held { nodes, .. } = error {
        (CallOutcome::Held, nodes)
    } else if let Error::Unavailable { nodes, .. } | Error::NotALock { nodes, .. } = error {
        (CallOutcome::Unavailable, nodes)
    } else if let Error::TooSlow { nodes, .. } = error {
        (CallOutcome::TooSlow, nodes)
    } else if let Error::Cancelled { .. } = error {
        (CallOutcome::Cancelled, &[])
    } else {
        (CallOutcome::Failed, &[])
    }
}

impl Drop for CallRecord<'_> {
    fn drop(&mut self) {
        let recorder = &self.cluster.stats;
        match self.outcome {
            CallOutcome::Held => recorder.failed_held.count(),
            CallOutcome::Unavailable => recorder.failed_unavailable.count(),
            CallOutcome::TooSlow => recorder.failed_too_slow.count(),
            CallOutcome::Acquired | CallOutcome::Cancelled | CallOutcome::Failed => {}
        }
        self.span.end(match self.outcome {
            CallOutcome::Acquired => "acquired",
            CallOutcome::Held => "held",
            CallOutcome::Unavailable => "unavailable",
            CallOutcome::TooSlow => "too slow",
            CallOutcome::Cancelled => "cancelled",
            CallOutcome::Failed => "failed",
        });
    }
}
