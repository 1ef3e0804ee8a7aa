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
    /// Whether those for a lock that is wanted are to be called.
    pub(super) is_wanted: bool,
}

impl Hooks {
    pub(super) fn is_empty(&self) -> bool {
        self.lost.is_empty() && self.wanted.is_empty()
    }

    /// Has those called that are for a lock that is wanted.
    pub(super) fn note_wanted(&mut self) {
        self.is_wanted |= !self.wanted.is_empty();
    }

    /// Takes the next one to call, also those for a loss if there is one.
    pub(super) fn next(&mut self, loss: Option<&LossCause>) -> Option<HookCall> {
        if self.is_wanted
            && let Some(hook) = self.wanted.pop_front()
        {
            return Some(hook);
        }
        self.is_wanted = false;
        let (cause, hook) = (loss?.clone(), self.lost.pop_front()?);
        Some(Box::new(move || hook(cause)))
    }

    /// Drops each hook by itself, because the drop of what one owns may panic.
    pub(crate) fn drop_each(self) {
        for hook in self.lost {
            despite_panics(|| drop(hook));
        }
        for hook in self.wanted {
            despite_panics(|| drop(hook));
        }
    }
}
