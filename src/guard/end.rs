//! The end of a guard: it releases the lock, or hands it over to the next thread.

use std::thread;
use std::time::Duration;

use super::LockGuard;
use crate::contend::handover::is_enough;
use crate::error::{LossCause, NodeReport};
use crate::foreign::despite_panics;
use crate::holder::Label;
use crate::lease::state::{Ended, Hook};
use crate::protocol::Won;
use crate::protocol::release::release;

/// How a guard ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// The lock rests if its minimum is not over.
    AsAsked,
    /// The lock is free at once.
    AtOnce,
}

impl LockGuard {
    /// Hands the lock over, or releases it on every node that may have our key. Returns the votes of a release, and how
    /// the lock was lost before it, if it was.
    pub(super) fn give_back(
        &mut self,
        ending: Ending,
    ) -> Option<(Option<LossCause>, Vec<NodeReport>)> {
        self.must_release = false;
        if let Some(turn) = &self.turn {
            turn.release_begins();
        }
        // The lease ends before the release, so that no renewal begins and no watch reports a lock that is already
        // released.
        let ended = self.lease.end();
        self.shared.keeper.forget(&self.lease);
        let rest = self.rest(ended.loss.as_ref(), ending);
        if ended.loss.is_none() && rest.is_none() && self.hand_over(&ended) {
            self.lease.released();
            drop_hooks(ended.hooks);
            return None;
        }
        let cluster = self.shared.cluster();
        let key = cluster.key_in(self.resource(), self.lease.slot);
        let released = release(cluster, &self.lease, &ended.standings, (&key, rest));
        if released.has_woken {
            let waited_for = cluster.key(self.resource());
            let now = cluster.clock.now();
            self.shared.courtesy.note_release(&waited_for, now);
        }
        // The next thread gets its turn before the steps that may take time.
        self.turn = None;
        self.seat = None;
        self.lease.given_back(&released.nodes);
        drop_hooks(ended.hooks);
        Some((ended.loss, released.nodes))
    }

    /// How long nobody may get the lock, if its minimum is not over. A lock that was lost may be another holder's already.
    fn rest(&self, loss: Option<&LossCause>, ending: Ending) -> Option<Duration> {
        if loss.is_some() || ending == Ending::AtOnce || thread::panicking() {
            return None;
        }
        let until = self.rests_until?;
        let left = until.saturating_since(self.shared.cluster().clock.now());
        (!left.is_zero()).then_some(left)
    }

    /// Hands the lock to the next waiting thread of this manager, if that is allowed and enough validity remains.
    /// Returns whether it did.
    fn hand_over(&self, ended: &Ended) -> bool {
        let now = self.shared.cluster().clock.now();
        let cohort = self.cohort.and_then(|cohort| cohort.next(now));
        let (Some(turn), Some(cohort)) = (&self.turn, cohort) else {
            return false;
        };
        turn.hand_over(|demand| {
            // The key keeps its value, so another label would not be that of the holder.
            let label = demand.label.as_ref().map(Label::as_str);
            let is_same = self.lease.tokens.value.label() == label;
            if !is_same || !is_enough(ended.deadline.saturating_since(now), demand.validity) {
                return None;
            }
            // The next guard is valid for no longer than its thread asked for.
            let deadline = ended.deadline.min(now.saturating_add(demand.validity));
            let won = Won {
                lease: self.lease.successor(&ended.standings, now, deadline),
                votes: self.votes.to_vec(),
                // The next thread has its own, if it asked for one.
                rests_until: None,
                cohort: Some(cohort),
            };
            Some(Self::new(&self.shared, won))
        })
    }
}

/// Drops the hooks. They own values of the program, whose drop may panic.
pub(super) fn drop_hooks(hooks: Vec<Hook>) {
    for hook in hooks {
        despite_panics(|| drop(hook));
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        if !self.must_release || self.shared.cluster().is_forked() {
            return;
        }
        // A second panic while unwinding would abort the program, so a panic must not leave this drop.
        despite_panics(|| drop(self.give_back(Ending::AsAsked)));
    }
}
