//! What a call asks for, and how long it waits for that.

use std::sync::Arc;
use std::time::Duration;

use smallvec::{SmallVec, smallvec};

use super::cancel::{Cancel, LOOK};
use crate::claim::{Kind, Resource};
use crate::clock::{Clock, Timestamp};
use crate::holder::Label;
use crate::quorum::Term;

/// What a call asks for. The threads that wait, the wait at the nodes and each attempt read it here.
#[derive(Debug, Clone)]
pub(crate) struct Demand {
    pub(crate) resource: Arc<Resource>,
    pub(crate) term: Term,
    /// What the holder calls itself, if anything.
    pub(crate) label: Option<Label>,
    /// Whether the call waits, or asks once.
    pub(crate) waits: bool,
    pub(crate) patience: Patience,
}

/// How long one call waits: until its end, or until it is cancelled.
#[derive(Debug, Clone)]
pub(crate) struct Patience {
    /// None means without a bound.
    pub(crate) end: Option<Timestamp>,
    pub(crate) cancel: Option<Cancel>,
}

impl Patience {
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancel.as_ref().is_some_and(Cancel::is_cancelled)
    }

    /// The time that is left: zero once the call is cancelled.
    pub(crate) fn left(&self, clock: &Clock) -> Duration {
        if self.is_cancelled() {
            return Duration::ZERO;
        }
        let left = |end: Timestamp| end.saturating_since(clock.now());
        self.end.map_or(Duration::MAX, left)
    }

    /// Sleeps for `span`, and for no longer than is left.
    pub(crate) fn sleep(&self, clock: &Clock, span: Duration) {
        let span = span.min(self.left(clock));
        if self.cancel.is_none() {
            return clock.sleep(span);
        }
        let until = clock.now().saturating_add(span);
        loop {
            let rest = until.saturating_since(clock.now());
            if rest.is_zero() || self.is_cancelled() {
                return;
            }
            clock.sleep(rest.min(LOOK));
        }
    }
}

/// The lines in which threads wait for this: one for each resource, in the order of the names. The lines for a
/// semaphore, and for readers that were refused, have `:redlatch:` in their names, which no lock may have.
pub(crate) fn lines(resource: &Resource) -> SmallVec<[Arc<str>; 1]> {
    let name = &resource.name;
    match &resource.kind {
        Kind::Lock | Kind::Several(_) => resource.names().iter().cloned().collect(),
        Kind::Permit(permits) => smallvec![format!("{name}:redlatch:slots:{permits}").into()],
        Kind::Read => smallvec![format!("{name}:redlatch:readers").into()],
        Kind::Slot(_) => SmallVec::new(),
    }
}
