//! What counters, the log and the spans are told of a call for a lock.

use std::mem::replace;
use std::time::Duration;

use crate::claim::Resource;
use crate::clock::Timestamp;
use crate::cluster::Cluster;
use crate::contend::spec::Spec;
use crate::error::{Error, Vote};
use crate::guard::LockGuard;
use crate::log_lines;
use crate::spans::LockSpan;

pub(super) struct Record<'m> {
    cluster: &'m Cluster,
    resource: &'m Resource,
    started: Timestamp,
    pub(super) attempts: u32,
    is_contended: bool,
    is_queued: bool,
    span: LockSpan,
}

impl<'m> Record<'m> {
    pub(super) fn begin(cluster: &'m Cluster, spec: &'m Spec) -> Self {
        let span = LockSpan::enter(&spec.resource.name, spec.term.ttl);
        if spec.resource.is_read() {
            span.reads();
        }
        Self {
            cluster,
            resource: &spec.resource,
            started: cluster.clock.now_for_records(),
            attempts: 0,
            is_contended: false,
            is_queued: false,
            span,
        }
    }

    /// Counts once that the call waits behind other threads.
    pub(super) fn queued(&mut self) {
        if !replace(&mut self.is_queued, true) {
            self.cluster.stats.queued.count();
        }
    }

    /// Counts an attempt and what the nodes said. Logs once that the call has met another holder.
    pub(super) fn attempted(&mut self, result: &Result<LockGuard, Error>) {
        self.attempts = self.attempts.saturating_add(1);
        self.cluster.stats.attempts.count();
        let error = match result {
            Ok(guard) => return self.count_votes(guard.votes.each()),
            Err(error) => error,
        };
        let votes = error.round().1.iter().map(|report| &report.vote);
        self.count_votes(votes.clone());
        let is_refused = error.is_held() && votes.clone().any(Vote::is_refusal);
        if !is_refused || replace(&mut self.is_contended, true) {
            return;
        }
        self.cluster.stats.contended.count();
        let resource = error.resource().unwrap_or(&self.resource.name);
        match (error.readers(), error.holder()) {
            _ if error.writer_waits() => log_lines::kept_for_a_writer(resource),
            (Some(readers), _) => log_lines::read_by(resource, readers),
            (None, Some(holder)) => log_lines::held_by(resource, holder),
            (None, None) => log_lines::held_by_another(resource),
        }
        if let Some(holder) = error.holder() {
            self.span.held_by(holder);
        }
    }

    fn count_votes<'v>(&self, votes: impl Iterator<Item = &'v Vote>) {
        for (node, vote) in self.cluster.nodes().iter().zip(votes) {
            node.stats.voted(vote);
        }
    }

    /// Counts and logs what came of the call. Returns how long it took.
    pub(super) fn end(&self, result: &Result<LockGuard, Error>) -> Duration {
        let ended = self.cluster.clock.now_for_records();
        let waited = ended.saturating_since(self.started);
        let stats = &self.cluster.stats;
        let (outcome, counter) = match result {
            Ok(_) => ("acquired", Some(&stats.acquired)),
            Err(Error::Held { .. }) => ("held", Some(&stats.failed_held)),
            Err(Error::Unavailable { .. } | Error::NotALock { .. }) => {
                ("unavailable", Some(&stats.failed_unavailable))
            }
            Err(Error::TooSlow { .. }) => ("too slow", Some(&stats.failed_too_slow)),
            Err(Error::Cancelled { .. }) => ("cancelled", None),
            // No random bytes for a token.
            Err(_) => ("failed", None),
        };
        if let Some(counter) = counter {
            counter.count();
        }
        if let Ok(guard) = result {
            stats.waits.record(waited);
            guard.lease.count_its_end();
            match self.attempts {
                0 | 1 => log_lines::acquired(self.resource, waited),
                attempts => log_lines::waited(self.resource, waited, attempts),
            }
        }
        self.span.end(outcome);
        waited
    }
}
