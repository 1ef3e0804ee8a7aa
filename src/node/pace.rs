//! How long the last answer of a node and the last connection took. Messages show these times, and no decision depends on them.

#![cfg_attr(not(test), expect(clippy::disallowed_types, reason = "only shown"))]

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

#[derive(Debug, Default)]
pub(super) struct Pace {
    /// How long an answer took, which may have come too late.
    pub(super) answer: LastTime,
    pub(super) connection: LastTime,
}

/// In microseconds + 1. Zero means that the time is not known.
#[derive(Debug, Default)]
pub(super) struct LastTime(AtomicU64);

impl LastTime {
    pub(super) fn note(&self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.0.store(us.saturating_add(1), Ordering::Relaxed);
    }

    pub(super) fn last(&self) -> Option<Duration> {
        let us = self.0.load(Ordering::Relaxed).checked_sub(1);
        us.map(Duration::from_micros)
    }
}
