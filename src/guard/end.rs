//! The end of a guard: the lock goes back to the servers, or to the next thread.

use super::LockGuard;
use super::held::Hook;
use crate::clock::Timestamp;
use crate::error::{LossCause, NodeReport};
use crate::foreign::in_any_case;
use crate::handover::is_enough;
use crate::node::ask_all::release_all;

impl LockGuard {
    /// Hands the lock over, or releases every node that may have our key, once; then what the nodes said is returned, and how
    /// the lock was lost before that, if it was.
    pub(super) fn give_back(&mut self) -> Option<(Option<LossCause>, Vec<NodeReport>)> {
        self.owes = false;
        if let Some(turn) = &self.turn {
            turn.gives_back();
        }
        // First, so that no renewal is begun any more, and no watch says that the lock is there when it is not.
        let ended = self.held.end();
        self.manager.forget(&self.held);
        if ended.loss.is_none() && self.hand_over(ended.deadline) {
            self.held.released();
            drop_hooks(ended.hooks);
            return None;
        }
        let key = self.manager.key(self.resource());
        let release = self.held.command(&key, self.manager.rules()).release();
        let released = release_all(self.nodes(), &release);
        if released.has_woken {
            self.manager.owe_courtesy(&key);
        }
        // The next one is called before anything that takes its time.
        self.turn = None;
        self.held.given_back(&released.nodes);
        drop_hooks(ended.hooks);
        Some((ended.loss, released.nodes))
    }

    /// Hands the lock to the next thread of this manager that waits for it, if that is allowed and worth it. Returns whether
    /// there is one.
    fn hand_over(&self, deadline: Timestamp) -> bool {
        let now = self.manager.clock().now();
        let cohort = self.cohort.and_then(|cohort| cohort.next(now));
        let (Some(turn), Some(cohort)) = (&self.turn, cohort) else {
            return false;
        };
        turn.hand_over(|validity| {
            if !is_enough(deadline.saturating_since(now), *validity) {
                return None;
            }
            // No longer than it was asked for.
            let deadline = deadline.min(now.saturating_add(*validity));
            let held = self.held.successor(now, deadline);
            let guard = Self::new(&self.manager, held, self.votes.to_vec());
            Some(guard.with_cohort(Some(cohort)))
        })
    }
}

/// Drops what hooks own, which may be anything.
pub(super) fn drop_hooks(hooks: Vec<Hook>) {
    for hook in hooks {
        in_any_case(|| drop(hook));
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        if !self.owes || self.manager.is_forked() {
            return;
        }
        // Nothing in here is known to panic, and a second panic while unwinding would abort.
        in_any_case(|| drop(self.give_back()));
    }
}
