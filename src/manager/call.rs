//! The record of one call for a lock, for the counters, the log and the spans.

use std::time::Duration;

use crate::clock::Timestamp;
use crate::cluster::Cluster;
use crate::error::{Error, NodeReport, Vote};
use crate::guard::LockGuard;
use crate::log_lines;
use crate::spans::LockSpan;

/// The record of a call that is under way. Its drop counts how the call ended: by default, as its last attempt did.
pub(super) struct Call<'a> {
    cluster: &'a Cluster,
    resource: &'a str,
    started: Timestamp,
    attempts: u32,
    is_contended: bool,
    outcome: Outcome,
    span: LockSpan,
}

/// How a call ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Acquired,
    Held,
    Unavailable,
    TooSlow,
    Cancelled,
    /// No random bytes for a token, or a panic.
    Failed,
}

impl<'a> Call<'a> {
    pub(super) fn begin(cluster: &'a Cluster, resource: &'a str, ttl: Duration) -> Self {
        Self {
            cluster,
            resource,
            started: cluster.clock.glance(),
            attempts: 0,
            is_contended: false,
            outcome: Outcome::Failed,
            span: LockSpan::enter(resource, ttl),
        }
    }

    /// Counts what the nodes said to an attempt.
    fn count_votes(&self, reports: &[NodeReport]) {
        for (node, report) in self.cluster.each().zip(reports) {
            node.stats.voted(report);
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
                self.count_votes(guard.votes());
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
        self.outcome = Outcome::Acquired;
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
        let now = self.cluster.clock.glance();
        now.saturating_since(self.started)
    }

    fn failed(&mut self, error: &Error) {
        let (outcome, nodes) = outcome_of(error);
        self.outcome = outcome;
        self.count_votes(nodes);
        if outcome == Outcome::Held {
            self.met(nodes);
        }
    }

    /// Counts and logs contention once a call.
    fn met(&mut self, nodes: &[NodeReport]) {
        let is_held = |report: &NodeReport| matches!(report.vote, Vote::Held { .. });
        if !self.is_contended && nodes.iter().any(is_held) {
            self.is_contended = true;
            self.cluster.stats.contended.count();
            log_lines::contended(self.resource);
        }
    }
}

fn outcome_of(error: &Error) -> (Outcome, &[NodeReport]) {
    if let Error::Held { nodes, .. } = error {
        (Outcome::Held, nodes)
    } else if let Error::Unavailable { nodes, .. } = error {
        (Outcome::Unavailable, nodes)
    } else if let Error::TooSlow { nodes, .. } = error {
        (Outcome::TooSlow, nodes)
    } else if let Error::Cancelled { .. } = error {
        (Outcome::Cancelled, &[])
    } else {
        (Outcome::Failed, &[])
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        let recorder = &self.cluster.stats;
        match self.outcome {
            Outcome::Held => recorder.failed_held.count(),
            Outcome::Unavailable => recorder.failed_unavailable.count(),
            Outcome::TooSlow => recorder.failed_too_slow.count(),
            Outcome::Acquired | Outcome::Cancelled | Outcome::Failed => {}
        }
        self.span.end(match self.outcome {
            Outcome::Acquired => "acquired",
            Outcome::Held => "held",
            Outcome::Unavailable => "unavailable",
            Outcome::TooSlow => "too slow",
            Outcome::Cancelled => "cancelled",
            Outcome::Failed => "failed",
        });
    }
}
