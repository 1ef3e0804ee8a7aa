//! Counts and logs the end of a lock.

use std::mem::take;

use super::{Ended, Inner, LeaseState, MutexGuard};
use crate::error::{LossCause, NodeReport};
use crate::log_lines;
use crate::verdict::{self, Verdict};

impl LeaseState {
    /// Counts and logs the end of the lock from now on, because a program has it.
    pub(crate) fn count(&self) {
        let mut state = self.state.lock();
        state.is_counted = true;
        // It may have been lost before.
        if let Some(cause) = state.loss() {
            self.tell_loss(&mut state, &cause);
        }
    }

    /// Records what came of the release by the guard; unless a loss was recorded before. Returns how the lock was lost, if it was.
    pub(crate) fn given_back(&self, ended: &Ended, nodes: &[NodeReport]) -> Option<LossCause> {
        let verdict = verdict::of_held(nodes);
        let loss = ended.loss.clone();
        let loss = loss.or_else(|| self.lost_by(ended, verdict, nodes));
        match &loss {
            Some(cause) => self.tell_loss(&mut self.state.lock(), cause),
            None if verdict == Verdict::Confirmed => self.released(),
            None => self.unconfirmed(),
        }
        loss
    }

    /// How the lock was lost, if the votes on its release don't confirm it. Nodes that answer after its end have no key of it, and
    /// that says nothing of the time before.
    fn lost_by(&self, ended: &Ended, verdict: Verdict, nodes: &[NodeReport]) -> Option<LossCause> {
        if verdict == Verdict::Confirmed {
            return None;
        }
        if self.owner.clock.now() >= ended.deadline {
            return Some(ended.expiry.clone().with(nodes.to_vec()));
        }
        (verdict == Verdict::Lost).then(|| verdict::loss(nodes.to_vec()))
    }

    /// Records a release that no majority has confirmed; unless a loss was recorded before.
    fn unconfirmed(&self) {
        if take(&mut self.state.lock().is_counted) {
            self.owner.stats.unconfirmed.count();
            log_lines::unconfirmed(&self.claim.resource);
        }
    }

    /// Records that the guard has released the lock, or handed it over; unless a loss was recorded before.
    pub(crate) fn released(&self) {
        if !take(&mut self.state.lock().is_counted) {
            return;
        }
        self.owner.stats.released.count();
        let now = self.owner.clock.now_for_records();
        log_lines::released(&self.claim.resource, now.saturating_since(self.since));
    }

    /// Records that the guard was turned into a lease, unless a loss was recorded before.
    pub(crate) fn passed_on(&self) {
        if take(&mut self.state.lock().is_counted) {
            self.owner.stats.passed_on.count();
        }
    }

    /// Records a loss, once.
    pub(super) fn tell_loss(&self, state: &mut MutexGuard<'_, Inner>, cause: &LossCause) {
        // A release is recorded later, by `given_back`, when the nodes have answered.
        if matches!(cause, LossCause::Released) {
            return;
        }
        if take(&mut state.is_counted) {
            // Without the mutex, because the program's logger may use this lock, and its recorder of metrics may be slow.
            MutexGuard::unlocked(state, || {
                self.owner.stats.lost.count();
                log_lines::lost(&self.claim.resource, cause);
            });
        }
    }
}
