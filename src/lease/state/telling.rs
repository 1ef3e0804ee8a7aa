//! What the hooks of a lock are told, and when.

use std::sync::atomic::Ordering;

use super::LeaseState;
use super::hooks::WantedHook;
use crate::callbacks::despite_panics;
use crate::clock::Timestamp;
use crate::error::LossCause;

impl LeaseState {
    /// Adds a hook to call when the lock is lost.
    pub(crate) fn on_lost(&self, hook: impl FnOnce(LossCause) + Send + 'static) {
        let mut state = self.state.lock();
        state
            .hooks
            .get_or_insert_default()
            .lost
            .push_back(Box::new(hook));
    }

    /// Adds a hook to call when another client waits for the lock.
    pub(crate) fn on_wanted(&self, hook: impl FnOnce() + Send + 'static) {
        let mut state = self.state.lock();
        state
            .hooks
            .get_or_insert_default()
            .wanted
            .push_back(Box::new(hook));
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
        if is_wanted && let Some(hooks) = &mut state.hooks {
            hooks.call_wanted();
        }
    }

    /// Has the hooks called that wait to hear that the lock is wanted.
    pub(crate) fn call_wanted(&self) {
        if let Some(hooks) = &mut self.state.lock().hooks {
            hooks.call_wanted();
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

    fn news(&self) -> usize {
        let state = self.state.lock();
        state.hooks.as_ref().map_or(0, |hooks| hooks.due.len())
    }

    /// Calls the hooks for which there is news, and those for a loss if there is one. One that a hook has set meanwhile is left to
    /// the next time, so that the hooks of other locks get their turn.
    pub(crate) fn call_hooks(&self, loss: Option<&LossCause>) {
        let most = loss.map_or_else(|| self.news(), |_| usize::MAX);
        for _ in 0..most {
            // Without the mutex, because a hook may use this lock.
            let Some(hook) = self.next_hook(loss) else {
                return;
            };
            despite_panics(hook);
        }
    }

    /// After the guard has ended the lock, there is none.
    fn next_hook(&self, loss: Option<&LossCause>) -> Option<WantedHook> {
        self.state.lock().hooks.as_mut()?.next(loss)
    }
}
