//! What clients are told that makes them go without a lock, or without more of it.

use super::client::Worker;
use super::history::why;
use crate::{Error, LockGuard};

impl Worker {
    pub(super) fn refused(&self, error: &Error) {
        let mut state = self.world.state();
        state.witness.refused += 1;
        state.counts_what_is_short(error);
        state.count(outcome(error));
        let id = self.id;
        state.note(|| format!("c{id} does not get it: {error}"));
        drop(state);
        if !error.is_transient() || matches!(error, Error::NotALock { .. }) {
            self.world
                .broken_promise(format!("c{id} got an error that makes no sense: {error}"));
        }
    }

    pub(super) fn was_extended(&self, claim: u64, guard: &LockGuard, result: Result<(), Error>) {
        let Err(error) = result else {
            return self.world.extended(claim, guard);
        };
        let (id, mut state) = (self.id, self.world.state());
        let is_lost = matches!(error, Error::Lost { .. });
        state.count(if is_lost {
            "extension: lost"
        } else {
            "extension: not told"
        });
        state.note(|| format!("c{id} can't extend: {error}"));
        drop(state);
        self.world.not_extended(claim, guard, why(&error));
    }
}

fn outcome(error: &Error) -> &'static str {
    if matches!(error, Error::Held { .. }) {
        "held"
    } else if matches!(error, Error::TooSlow { .. }) {
        "too slow"
    } else {
        "unavailable"
    }
}
