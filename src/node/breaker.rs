//! Keeps callers away from a node that failed a moment ago.

use std::sync::Arc;

use crate::sync::Mutex;

/// Open from a failure of the node until its next reply.
#[derive(Default)]
pub(super) struct Breaker(Mutex<State>);

#[derive(Default)]
struct State {
    failure: Option<Arc<str>>,
    openings: u64,
}

impl Breaker {
    /// Returns how the node failed, if the breaker is open.
    pub(super) fn failure(&self) -> Option<Arc<str>> {
        self.0.lock().failure.clone()
    }

    /// Opens the breaker; returns the number of this opening, or none if it was open before.
    pub(super) fn open(&self, failure: impl FnOnce() -> String) -> Option<u64> {
        let mut state = self.0.lock();
        if state.failure.is_some() {
            return None;
        }
        state.failure = Some(failure().into());
        state.openings = state.openings.wrapping_add(1);
        Some(state.openings)
    }

    /// Closes the breaker; returns whether it was open.
    pub(super) fn close(&self) -> bool {
        self.0.lock().failure.take().is_some()
    }

    /// Whether this opening still lasts.
    pub(super) fn has_been_open_since(&self, opening: u64) -> bool {
        let state = self.0.lock();
        state.failure.is_some() && state.openings == opening
    }
}
