//! What the counters and the log are told of a lock.

use std::sync::Arc;

use super::{LeaseState, MutexGuard, State};
use crate::error::{LossCause, NodeReport};
use crate::log_lines;
use crate::stats::Recorder;
use crate::verdict::{self, Verdict};

impl LeaseState {
    /// Has what becomes of the lock counted and logged from now on: a program has it.
    pub(crate) fn count_in(&self, recorder: &Arc<Recorder>) {
        let mut state = self.state.lock();
        state.recorder = Some(Arc::clone(recorder));
        // It may not have lasted until now.
        if let Some(cause) = state.loss.clone() {
            self.tell_loss(&mut state, &cause);
        }
    }

    /// Tells that its guard has given it back, or that it was lost when it did; unless that was told before.
    pub(crate) fn given_back(&self, nodes: &[NodeReport]) {
        let mut state = self.state.lock();
        if verdict::of_held(nodes) == Verdict::Lost {
            return self.tell_loss(&mut state, &verdict::loss(nodes.to_vec()));
        }
        drop(state);
        self.released();
    }

    /// Tells that its guard has given it back, or handed it over, unless it was told before that it is lost.
    pub(crate) fn released(&self) {
        let Some(recorder) = self.state.lock().recorder.take() else {
            return;
        };
        recorder.released.count();
        let held = self.clock.glance().saturating_since(self.since);
        log_lines::released(&self.resource, held);
    }

    /// Tells that its guard was made into a lease, unless it was told before that it is lost.
    pub(crate) fn passed_on(&self) {
        if let Some(recorder) = self.state.lock().recorder.take() {
            recorder.passed_on.count();
        }
    }

    /// Tells that it is lost, once.
    pub(super) fn tell_loss(&self, state: &mut MutexGuard<'_, State>, cause: &LossCause) {
        // That it was given back is told when the nodes have been.
        if matches!(cause, LossCause::Released) {
            return;
        }
        if let Some(recorder) = state.recorder.take() {
            recorder.lost.count();
            // Not under the lock, for which the program's logger may ask.
            MutexGuard::unlocked(state, || log_lines::lost(&self.resource, cause));
        }
    }
}
