//! What the hooks of a lock are told, and when.

use std::sync::atomic::Ordering;

use super::LeaseState;
use super::hooks::{HookCall, Hooks};
use crate::callbacks::despite_panics;
use crate::clock::Timestamp;
use crate::error::LossCause;

impl LeaseState {
    /// Adds a hook to call when the lock is lost.
    pub(crate) fn on_lost(&self, hook: impl FnOnce(LossCause) + Send + 'static) {
        self.add_hook(|hooks| hooks.lost.push_back(Box::new(hook)));
    }

    /// Adds a hook to call when another client waits for the lock.
    pub(crate) fn on_wanted(&self, hook: impl FnOnce() + Send + 'static) {
        self.add_hook(|hooks| hooks.wanted.push_back(Box::new(hook)));
    }

    fn add_hook(&self, add: impl FnOnce(&mut Hooks)) {
        add(self.state.lock().hooks.get_or_insert_default());
    }

    /// Whether there are hooks to call.
    pub(crate) fn has_hooks(&self) -> bool {
        let state = self.state.lock();
        state.hooks.as_ref().is_some_and(|hooks| !hooks.is_empty())
    }

    /// Remembers whether the nodes say that another client waits for the lock.
    pub(crate) fn note_wanted(&self, is_wanted: bool) {
        let mut state = self.state.lock();
        // An extension may have begun before the loss.
        let is_wanted = is_wanted && !state.is_lost();
        self.is_wanted.store(is_wanted, Ordering::Relaxed);
        if is_wanted && let Some(hooks) = &mut state.hooks {
            hooks.note_wanted();
        }
    }

    /// Has the hooks called that wait to hear that the lock is wanted.
    pub(crate) fn call_wanted(&self) {
        if let Some(hooks) = &mut self.state.lock().hooks {
            hooks.note_wanted();
        }
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
        self.news() > 0
    }

    /// How many hooks are to be called while the lock is held.
    fn news(&self) -> usize {
        let state = self.state.lock();
        state.hooks.as_ref().map_or(0, |hooks| hooks.due())
    }

    /// Calls the hooks for which there is news, and those for a loss if there is one. One that a hook has set meanwhile is left to
    /// the next time, so that the hooks of other locks get their turn.
    pub(crate) fn call_hooks(&self, loss: Option<&LossCause>) {
        let mut left = if loss.is_some() {
            usize::MAX
        } else {
            self.news()
        };
        while left > 0
            && let Some(hook) = self.next_hook(loss)
        {
            despite_panics(hook);
            left = left.saturating_sub(1);
        }
    }

    /// Takes the next hook to call, of those for a loss if there is one. After the guard has ended the lock, there is none.
    pub(crate) fn next_hook(&self, loss: Option<&LossCause>) -> Option<HookCall> {
        self.state.lock().hooks.as_mut()?.next(loss)
    }
}
