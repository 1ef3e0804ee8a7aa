//! How long the last answer of a node and the last connection took. Messages show these times, and no decision depends on them.

#![cfg_attr(not(test), expect(clippy::disallowed_types, reason = "only shown"))]

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Both times are in microseconds + 1. Zero means that the time is not known.
#[derive(Debug, Default)]
pub(super) struct Pace {
    answer: AtomicU64,
    connection: AtomicU64,
}

impl Pace {
    /// Notes how long an answer took, which may have come too late.
    pub(super) fn note_answer(&self, took: Duration) {
        note(&self.answer, took);
    }

    pub(super) fn note_connection(&self, took: Duration) {
        note(&self.connection, took);
    }

    pub(super) fn answer(&self) -> Option<Duration> {
        known(&self.answer)
    }

    pub(super) fn connection(&self) -> Option<Duration> {
        known(&self.connection)
    }
}

fn note(last: &AtomicU64, took: Duration) {
    let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
    last.store(us.saturating_add(1), Ordering::Relaxed);
}

fn known(last: &AtomicU64) -> Option<Duration> {
    let us = last.load(Ordering::Relaxed).checked_sub(1);
    us.map(Duration::from_micros)
}
