//! What the nodes say of an extension of a lock, or of its release, changes its state.

use std::mem::take;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::{Ended, LeaseState, Renewal};
use crate::clock::Timestamp;
use crate::error::{Error, LossCause, NodeReport, Told};
use crate::log_lines;
use crate::node::key_report::{KeyReport, KeyReports, votes};
use crate::verdict::{self, Verdict};

impl LeaseState {
    /// Applies the votes on an extension by this validity, whose round lasted from before the first send to after the last reply. If
    /// it succeeds, `renewal` replaces the keep-alive of the lock, if there is one; if not, the votes go to the error.
    pub(crate) fn apply(
        &self,
        round: Range<Timestamp>,
        validity: Duration,
        renewal: Option<Renewal>,
        reports: &mut KeyReports,
    ) -> Result<(), Error> {
        let mut state = self.state.lock();
        state.nodes.discount(round.start, reports);
        self.unless_lost(state.loss())?;
        let verdict = verdict::of_held(votes(reports));
        let in_full = |reports: &mut KeyReports| self.owner.in_full(take(reports));
        if round.end >= self.deadline() {
            // The nodes may have extended keys, but the lock may have been another holder's in between.
            let cause = self.take_cause_of_end(&mut state).with(in_full(reports));
            self.lose(&mut state, &cause);
        } else if verdict == Verdict::Lost {
            self.lose(&mut state, &verdict::loss(in_full(reports)));
        }
        self.unless_lost(state.loss())?;
        let waited = round.end.saturating_since(round.start);
        if verdict == Verdict::Unknown {
            return verdict::confirm(self.name(), waited, in_full(reports));
        }
        let end = round.start.saturating_add(validity);
        let is_late = end <= round.end;
        let end = end.max(self.end_by(&state));
        // A new margin may be longer than what is left.
        let margin = renewal.map_or(Duration::ZERO, |renewal| renewal.margin);
        if is_late || end.saturating_sub(margin) <= round.end {
            return Err(Error::TooSlow {
                resource: Arc::clone(self.name()),
                waited,
                elapsed: waited,
                nodes: in_full(reports),
            });
        }
        let has_failed = state.kept_alive.note_success();
        state.nodes.rely_on(reports);
        self.renew_until(&mut state, end, renewal);
        drop(state);
        if has_failed {
            log_lines::renewed_again(&self.claim.resource);
        }
        Ok(())
    }

    /// Keeps the votes on a renewal that failed, for the cause of a later loss. The first of several in a row is logged, as long
    /// as there is time to do something about it.
    pub(crate) fn note_failed_renewal(&self, nodes: &[NodeReport]) {
        let is_first = self.state.lock().kept_alive.note_failure(nodes);
        // Without the mutex, because the program's logger may use this lock.
        if is_first {
            let now = self.owner.clock.now_for_records();
            let left = self.deadline().saturating_since(now);
            let is_failed = |report: &&NodeReport| report.vote.is_failure();
            let failed: Vec<NodeReport> = nodes.iter().filter(is_failed).cloned().collect();
            let (count, of) = (failed.len(), nodes.len());
            log_lines::renewals_fail(&self.claim.resource, count, of, left, &Told(&failed));
        }
    }

    /// Counts and logs what came of the release by the guard, unless that was done for a loss before. Returns how the lock was lost,
    /// if it was.
    pub(crate) fn released(&self, ended: &Ended, reports: &[KeyReport]) -> Option<LossCause> {
        let in_full = || self.owner.in_full(reports.iter().cloned());
        let verdict = verdict::of_held(votes(reports));
        let loss = if ended.loss.is_some() || verdict == Verdict::Confirmed {
            ended.loss.clone()
        } else if self.owner.clock.now() >= ended.end {
            // Nodes that answer after the end have no key of the lock, and that says nothing of the time before.
            Some(ended.expiry.clone().with(in_full()))
        } else {
            (verdict == Verdict::Lost).then(|| verdict::loss(in_full()))
        };
        let mut state = self.state.lock();
        if let Some(cause) = &loss {
            self.tell_loss(&mut state, cause);
            return loss;
        }
        let is_counted = take(&mut state.is_counted);
        // Without the mutex, because the program's logger may use this lock.
        drop(state);
        if is_counted && verdict == Verdict::Confirmed {
            self.owner.stats.released.count();
            let now = self.owner.clock.now_for_records();
            log_lines::released(&self.claim.resource, now.saturating_since(self.since));
        } else if is_counted {
            self.owner.stats.unconfirmed.count();
            log_lines::unconfirmed(&self.claim.resource);
        }
        None
    }

    /// Counts that the guard was turned into a lease, unless a loss was counted before.
    pub(crate) fn passed_on(&self) {
        if take(&mut self.state.lock().is_counted) {
            self.owner.stats.passed_on.count();
        }
    }

    /// Remembers whether the nodes say that another client waits for the lock.
    pub(crate) fn note_wanted(&self, is_wanted: bool) {
        let mut state = self.state.lock();
        // An extension may have begun before the loss.
        state.is_wanted = is_wanted && !state.is_lost();
        if state.is_wanted {
            state.hooks.mark_wishes_due();
        }
    }
}
