//! What counters, the log and the spans are told of a call for a lock.

use std::mem::replace;

use super::acquire::Acquire;
use crate::clock::Timestamp;
use crate::error::{Error, NodeReport, Vote};
use crate::guard::LockGuard;
use crate::log_lines;
use crate::protocol::look;

impl Acquire<'_> {
    /// Counts once that the call waits behind other threads.
    pub(super) fn note_queued(&mut self) {
        if !replace(&mut self.is_queued, true) {
            self.cluster.stats.queued.count();
        }
    }

    /// Counts an attempt and what the nodes said. Logs once that the call has met another holder. Returns when a reader has met a
    /// client that has the lock alone, or that waits for that.
    pub(super) fn note_attempt(&mut self, result: &Result<LockGuard, Error>) -> Option<Timestamp> {
        self.attempts = self.attempts.saturating_add(1);
        self.cluster.stats.attempts.count();
        let is_read = self.demand.resource.is_read();
        let error = match result {
            Ok(guard) => {
                let is_refused = self.count_votes(guard.votes.each());
                // The clock is not read again: a guard has had its last look at it.
                return (is_read && is_refused).then(|| guard.lease.since);
            }
            Err(error) => error,
        };
        let (_, nodes) = error.round();
        let is_refused = self.count_votes(nodes.iter().map(|report| &report.vote));
        if !error.is_held() {
            return None;
        }
        if is_refused && !replace(&mut self.is_contended, true) {
            self.cluster.stats.contended.count();
            let resource = error.resource().unwrap_or(&self.demand.resource.name);
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
        is_read.then(|| self.cluster.clock.now())
    }

    /// Returns whether a node has refused the lock.
    fn count_votes<'v>(&self, votes: impl Iterator<Item = &'v Vote>) -> bool {
        let mut is_refused = false;
        for (node, vote) in self.cluster.each().zip(votes) {
            node.stats.voted(vote);
            is_refused |= vote.is_refusal();
        }
        is_refused
    }

    /// Counts and logs what came of the call. Returns it for the caller of the library.
    pub(super) fn end(self, result: Result<LockGuard, Error>) -> Result<LockGuard, Error> {
        let ended = self.cluster.clock.now_for_records();
        let waited = ended.saturating_since(self.started);
        let stats = &self.cluster.stats;
        let (outcome, counter) = match &result {
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
        if let Ok(guard) = &result {
            stats.waits.record(waited);
            guard.lease.count_its_end();
            match self.attempts {
                0 | 1 => log_lines::acquired(&self.demand.resource, waited),
                attempts => log_lines::waited(&self.demand.resource, waited, attempts),
            }
        }
        self.span.end(outcome);
        result.map_err(|error| self.with_holder(error.after(waited)))
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
        let is_due = self.demand.waits && self.attempts > 0;
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
