//! How long the last answer of a node and the last connection took. Messages show these times, and no decision depends on them.

#![cfg_attr(not(test), expect(clippy::disallowed_types, reason = "only shown"))]

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::clock::Timestamp;

#[derive(Debug, Default)]
pub(super) struct Pace {
    /// How long an answer took, which may have come too late.
    pub(super) answer: LastTime,
    pub(super) connection: LastTime,
}

/// In nanoseconds + 1. Zero means that the time is not known.
#[derive(Debug, Default)]
pub(super) struct LastTime(AtomicU64);

impl LastTime {
    pub(super) fn note(&self, since: Timestamp, at: Timestamp) {
        let known = Timestamp::from_nanos(1).later_by(since, at);
        self.0.store(known.as_nanos(), Ordering::Relaxed);
    }

    pub(super) fn last(&self) -> Option<Duration> {
        let nanos = self.0.load(Ordering::Relaxed).checked_sub(1);
        nanos.map(Duration::from_nanos)
    }
}
