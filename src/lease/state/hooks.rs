//! The hooks of a program on a lock that it holds: for its loss, and for those who wait for it.

use std::collections::VecDeque;

use crate::callbacks::despite_panics;
use crate::error::LossCause;

type LostHook = Box<dyn FnOnce(LossCause) + Send>;
pub(super) type WantedHook = Box<dyn FnOnce() + Send>;

#[derive(Default)]
pub(crate) struct Hooks {
    pub(in super::super) lost: VecDeque<LostHook>,
    pub(super) wanted: VecDeque<WantedHook>,
    /// Those of them that are to be called.
    pub(super) due: VecDeque<WantedHook>,
}

impl Hooks {
    /// Has those called that wait to hear that the lock is wanted.
    pub(super) fn call_wanted(&mut self) {
        self.due.append(&mut self.wanted);
    }

    /// Takes the next one to call, of those for a loss if there is one. A lock that is lost is wanted no more.
    pub(super) fn next(&mut self, loss: Option<&LossCause>) -> Option<WantedHook> {
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
