//! The hooks of a program on a lock that it holds: for its loss, and for those who wait for it.

use std::collections::VecDeque;

use crate::callbacks::despite_panics;
use crate::error::LossCause;

type LostHook = Box<dyn FnOnce(LossCause) + Send>;
type WantedHook = Box<dyn FnOnce() + Send>;

/// A hook with what it is told.
pub(crate) type HookCall = Box<dyn FnOnce() + Send>;

#[derive(Default)]
pub(crate) struct Hooks {
    pub(in super::super) lost: VecDeque<LostHook>,
    pub(super) wanted: VecDeque<WantedHook>,
    /// Those of them that are to be called.
    due: VecDeque<WantedHook>,
}

impl Hooks {
    pub(super) fn is_empty(&self) -> bool {
        self.lost.is_empty() && self.wanted.is_empty() && self.due.is_empty()
    }

    /// Has those called that are for a lock that is wanted.
    pub(super) fn note_wanted(&mut self) {
        self.due.append(&mut self.wanted);
    }

    /// How many are to be called while the lock is held.
    pub(super) fn due(&self) -> usize {
        self.due.len()
    }

    /// Takes the next one to call. A lock that is lost is wanted no more.
    pub(super) fn next(&mut self, loss: Option<&LossCause>) -> Option<HookCall> {
        let Some(cause) = loss.cloned() else {
            return self.due.pop_front();
        };
        let hook = self.lost.pop_front()?;
        Some(Box::new(move || hook(cause)))
    }

    /// Drops each hook by itself, because the drop of what one owns may panic.
    pub(crate) fn drop_each(self) {
        for hook in self.lost {
            despite_panics(|| drop(hook));
        }
        for hook in self.wanted.into_iter().chain(self.due) {
            despite_panics(|| drop(hook));
        }
    }
}
