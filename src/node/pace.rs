//! How long the last answer of a node and the last connection took. Messages show these times, and no decision depends on them.

#![cfg_attr(not(test), expect(clippy::disallowed_types, reason = "only shown"))]

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::clock::Timestamp;

/// Both times are in nanoseconds + 1. Zero means that the time is not known.
#[derive(Debug, Default)]
pub(super) struct Pace {
    answer: AtomicU64,
    connection: AtomicU64,
}

impl Pace {
    /// Notes an answer, which may have come too late.
    pub(super) fn note_answer(&self, since: Timestamp, at: Timestamp) {
        note(&self.answer, since, at);
    }

    pub(super) fn note_connection(&self, since: Timestamp, at: Timestamp) {
        note(&self.connection, since, at);
    }

    pub(super) fn answer(&self) -> Option<Duration> {
        known(&self.answer)
    }

    pub(super) fn connection(&self) -> Option<Duration> {
        known(&self.connection)
    }
}

fn note(last: &AtomicU64, since: Timestamp, at: Timestamp) {
    let known = Timestamp::from_nanos(1).later_by(since, at);
    last.store(known.as_nanos(), Ordering::Relaxed);
}

fn known(last: &AtomicU64) -> Option<Duration> {
    let nanos = last.load(Ordering::Relaxed).checked_sub(1);
    nanos.map(Duration::from_nanos)
}
