//! Keeps callers away from a node that failed a moment ago.

use std::sync::Arc;

use crate::sync::Mutex;

/// Open from a failure of the node until its next reply: then it has the failure.
#[derive(Default)]
pub(super) struct Breaker(Mutex<Option<Arc<str>>>);

impl Breaker {
    /// Returns how the node failed, if the breaker is open.
    pub(super) fn failure(&self) -> Option<Arc<str>> {
        self.0.lock().clone()
    }

    /// Opens the breaker; returns this opening, or none if it was open before.
    pub(super) fn open(&self, failure: impl FnOnce() -> String) -> Option<Arc<str>> {
        let mut open = self.0.lock();
        if open.is_some() {
            return None;
        }
        *open = Some(failure().into());
        open.clone()
    }

    /// Closes the breaker; returns whether it was open.
    pub(super) fn close(&self) -> bool {
        self.0.lock().take().is_some()
    }

    /// Whether this opening still lasts. Another one with the same words is none.
    pub(super) fn has_been_open_since(&self, opening: &Arc<str>) -> bool {
        let open = self.0.lock();
        open.as_ref().is_some_and(|open| Arc::ptr_eq(open, opening))
    }
}
