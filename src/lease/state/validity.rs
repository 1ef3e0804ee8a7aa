//! Until when the program has a lock, and how renewals keep it.

use std::mem::{replace, take};
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::sync::AtomicU64;
use crate::clock::Timestamp;
use crate::error::{LossCause, NodeReport};

/// When the program loses a lock, in nanoseconds: the end of the validity, less the margin of a keep-alive. Zero once the lock is
/// known to be lost. It is read at any time, and changes under the mutex of the state.
pub(super) struct Validity(AtomicU64);

impl Validity {
    pub(super) fn until(end: Timestamp) -> Self {
        Self(AtomicU64::new(end.as_nanos()))
    }

    pub(super) fn deadline(&self) -> Timestamp {
        Timestamp::from_nanos(self.0.load(Ordering::Acquire))
    }

    pub(super) fn close(&self) {
        self.0.store(0, Ordering::Release);
    }

    pub(super) fn end(&self, renewal: Option<Renewal>) -> Timestamp {
        let margin = renewal.map_or(Duration::ZERO, |renewal| renewal.margin);
        self.deadline().saturating_add(margin)
    }

    /// Sets the end of the validity, and so the deadline of the program. With `max_hold`, the validity ends no later than that.
    pub(super) fn end_at(&self, renewal: Option<Renewal>, end: Timestamp) {
        let deadline = renewal.map_or(end, |renewal| {
            let end = renewal.until.map_or(end, |until| end.min(until));
            end.saturating_sub(renewal.margin)
        });
        self.0.store(deadline.as_nanos(), Ordering::Release);
    }
}

/// The keep-alive of a lock, if it has one. It ends with the lock.
#[derive(Default)]
pub(super) struct KeptAlive(Option<Box<Renewals>>);

struct Renewals {
    renewal: Renewal,
    /// The votes on the last renewal, if it failed.
    failed: Vec<NodeReport>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Renewal {
    pub(crate) ttl: Duration,
    /// How long before the end of the validity the program loses the lock.
    pub(crate) margin: Duration,
    /// The end of the validity that `max_hold` sets.
    pub(crate) until: Option<Timestamp>,
}

impl KeptAlive {
    pub(super) fn renewal(&self) -> Option<Renewal> {
        Some(self.0.as_ref()?.renewal)
    }

    pub(super) fn begin(&mut self, renewal: Renewal) {
        let failed = Vec::new();
        self.0 = Some(Box::new(Renewals { renewal, failed }));
    }

    /// Returns whether the renewal before has failed.
    pub(super) fn note_success(&mut self) -> bool {
        let renewals = self.0.as_mut();
        renewals.is_some_and(|renewals| !take(&mut renewals.failed).is_empty())
    }

    /// Keeps the votes on a renewal that failed. Returns whether it is the first of several in a row.
    pub(super) fn note_failure(&mut self, nodes: &[NodeReport]) -> bool {
        let renewals = self.0.as_mut();
        renewals.is_some_and(|renewals| replace(&mut renewals.failed, nodes.to_vec()).is_empty())
    }

    /// Ends the keep-alive of a lock whose validity ends at `end`. Returns why the lock is lost then.
    pub(super) fn close(&mut self, end: Timestamp) -> LossCause {
        let renewals = self.0.take();
        let (until, nodes) =
            renewals.map_or((None, Vec::new()), |it| (it.renewal.until, it.failed));
        if until.is_some_and(|until| end >= until) {
            LossCause::MaxHold { nodes }
        } else if nodes.is_empty() {
            LossCause::Expired { nodes }
        } else {
            LossCause::Unreachable { nodes }
        }
    }
}
