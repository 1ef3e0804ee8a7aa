//! What a call asks for, and how long it waits for that.

use std::sync::Arc;
use std::time::Duration;

use smallvec::{SmallVec, smallvec};

use super::cancel::{Cancel, LOOK};
use crate::claim::{Kind, Resource};
use crate::clock::{Clock, Timestamp};
use crate::holder::Label;
use crate::quorum::Term;

/// What the caller asked for, checked. It is made once for a call. The threads that wait, the wait at the nodes and each attempt read
/// it here.
#[derive(Debug, Clone)]
pub(crate) struct Spec {
    pub(crate) resource: Arc<Resource>,
    pub(crate) term: Term,
    /// What the holder calls itself, if anything.
    pub(crate) label: Option<Label>,
    /// Whether the call waits, or asks once.
    pub(crate) waits: bool,
    /// Until when it waits, unless it is cancelled. None means without a bound.
    pub(crate) end: Option<Timestamp>,
    pub(crate) cancel: Option<Cancel>,
}

impl Spec {
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
        let until = clock.now().saturating_add(span);
        let until = self.end.map_or(until, |end| end.min(until));
        let longest = self.cancel.as_ref().map_or(Duration::MAX, |_| LOOK);
        while !self.is_cancelled() {
            match until.saturating_since(clock.now()) {
                Duration::ZERO => return,
                rest => clock.sleep(rest.min(longest)),
            }
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
