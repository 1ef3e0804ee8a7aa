//! The hooks of a program on a lock that it holds: for its loss, and for those who wait for it.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use super::{HeldState, LeaseState};
use crate::callbacks::despite_panics;
use crate::clock::Timestamp;
use crate::error::LossCause;

type LostHook = Box<dyn FnOnce(LossCause) + Send>;
type WantedHook = Box<dyn FnOnce() + Send>;

#[derive(Default)]
pub(crate) struct Hooks {
    pub(in super::super) lost: VecDeque<LostHook>,
    wanted: VecDeque<WantedHook>,
    /// Those of them that are to be called.
    due: VecDeque<WantedHook>,
}

impl Hooks {
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

impl HeldState {
    fn hooks(&mut self) -> &mut Hooks {
        self.hooks.get_or_insert_default()
    }

    /// How many hooks are to be called while the lock is held.
    fn news(&self) -> usize {
        self.hooks.as_ref().map_or(0, |hooks| hooks.due.len())
    }

    /// Has the hooks called that wait to hear that the lock is wanted.
    fn call_wanted(&mut self) {
        if let Some(hooks) = &mut self.hooks {
            hooks.due.append(&mut hooks.wanted);
        }
    }

    /// Takes the next hook to call, of those for a loss if there is one. A lock that is lost is wanted no more. After the guard has
    /// ended the lock, there is none.
    fn next_hook(&mut self, loss: Option<&LossCause>) -> Option<WantedHook> {
        let hooks = self.hooks.as_mut()?;
        let Some(cause) = loss.cloned() else {
            return hooks.due.pop_front();
        };
        let hook = hooks.lost.pop_front()?;
        Some(Box::new(move || hook(cause)))
    }
}

impl LeaseState {
    /// Adds a hook to call when the lock is lost.
    pub(crate) fn on_lost(&self, hook: impl FnOnce(LossCause) + Send + 'static) {
        self.state.lock().hooks().lost.push_back(Box::new(hook));
    }

    /// Adds a hook to call when another client waits for the lock.
    pub(crate) fn on_wanted(&self, hook: impl FnOnce() + Send + 'static) {
        self.state.lock().hooks().wanted.push_back(Box::new(hook));
    }

    /// Whether there are hooks to call.
    pub(crate) fn has_hooks(&self) -> bool {
        let state = self.state.lock();
        state.hooks.as_ref().is_some_and(|hooks| {
            !(hooks.lost.is_empty() && hooks.wanted.is_empty() && hooks.due.is_empty())
        })
    }

    /// Remembers whether the nodes say that another client waits for the lock.
    pub(crate) fn note_wanted(&self, is_wanted: bool) {
        let mut state = self.state.lock();
        // An extension may have begun before the loss.
        let is_wanted = is_wanted && !state.is_lost();
        self.is_wanted.store(is_wanted, Ordering::Relaxed);
        if is_wanted {
            state.call_wanted();
        }
    }

    /// Has the hooks called that wait to hear that the lock is wanted.
    pub(crate) fn call_wanted(&self) {
        self.state.lock().call_wanted();
    }

    /// Whether another client waited when the nodes were last asked.
    pub(crate) fn is_wanted(&self) -> bool {
        self.is_wanted.load(Ordering::Relaxed)
    }

    /// When a hook is to be called: at once, or shortly before the validity ends.
    pub(crate) fn hooks_due_at(&self) -> Timestamp {
        if self.has_news() {
            return Timestamp::from_nanos(0);
        }
        self.loss_notice_at()
    }

    /// Whether there is something to tell the hooks while the lock is held.
    pub(crate) fn has_news(&self) -> bool {
        self.state.lock().news() > 0
    }

    /// Calls the hooks for which there is news, and those for a loss if there is one. One that a hook has set meanwhile is left to
    /// the next time, so that the hooks of other locks get their turn.
    pub(crate) fn call_hooks(&self, loss: Option<&LossCause>) {
        let most = loss.map_or_else(|| self.state.lock().news(), |_| usize::MAX);
        for _ in 0..most {
            // Without the mutex, because a hook may use this lock.
            let hook = self.state.lock().next_hook(loss);
            let Some(hook) = hook else {
                return;
            };
            despite_panics(hook);
        }
    }
}
