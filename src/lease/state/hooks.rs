//! The hooks of a program on a lock that it holds, for its loss and for those who wait for it; and when they are called.

use super::{Hook, LeaseState, News};
use crate::callbacks::despite_panics;
use crate::clock::Timestamp;
use crate::error::LossCause;

impl LeaseState {
    pub(crate) fn on_lost(&self, hook: impl FnOnce(LossCause) + Send + 'static) {
        self.add_hook(News::Loss, hook);
    }

    pub(crate) fn on_wanted(&self, hook: impl FnOnce() + Send + 'static) {
        self.add_hook(News::Wish, move |_| hook());
    }

    fn add_hook(&self, news: News, hook: impl FnOnce(LossCause) + Send + 'static) {
        let call = Box::new(hook);
        self.state.lock().hooks.push(Hook { news, call });
    }

    pub(crate) fn has_hooks(&self) -> bool {
        !self.state.lock().hooks.is_empty()
    }

    /// Remembers whether the nodes say that another client waits for the lock.
    pub(crate) fn note_wanted(&self, is_wanted: bool) {
        let mut state = self.state.lock();
        // An extension may have begun before the loss.
        let is_wanted = is_wanted && !state.is_lost();
        state.is_wanted = is_wanted;
        drop(state);
        if is_wanted {
            self.mark_wishes_due();
        }
    }

    /// The hooks that wait to hear that the lock is wanted are due from now on.
    pub(crate) fn mark_wishes_due(&self) {
        for hook in &mut self.state.lock().hooks {
            if hook.news == News::Wish {
                hook.news = News::DueWish;
            }
        }
    }

    /// Whether another client waited when the nodes were last asked.
    pub(crate) fn is_wanted(&self) -> bool {
        self.state.lock().is_wanted
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
        self.due_wishes() > 0
    }

    fn due_wishes(&self) -> usize {
        let is_due = |hook: &&Hook| hook.news == News::DueWish;
        self.state.lock().hooks.iter().filter(is_due).count()
    }

    /// Calls the hooks for a loss if there is one, and else those that are due because the lock is wanted. A hook that becomes due
    /// meanwhile is left to the next time, so that the hooks of other locks get their turn.
    pub(crate) fn call_hooks(&self, loss: Option<&LossCause>) {
        let (told, most) = match loss {
            Some(_) => (News::Loss, usize::MAX),
            None => (News::DueWish, self.due_wishes()),
        };
        for _ in 0..most {
            // Without the mutex, because a hook may use this lock. After the guard has ended the lock, there is none.
            let Some(hook) = self.take_hook(&told) else {
                return;
            };
            // A hook for a wish ignores the cause.
            let cause = loss.cloned().unwrap_or(LossCause::Released);
            despite_panics(|| (hook.call)(cause));
        }
    }

    fn take_hook(&self, told: &News) -> Option<Hook> {
        let hooks = &mut self.state.lock().hooks;
        let place = hooks.iter().position(|hook| hook.news == *told)?;
        Some(hooks.remove(place))
    }
}

/// Drops each hook by itself, because the drop of what one owns may panic.
pub(crate) fn drop_each(hooks: Vec<Hook>) {
    for hook in hooks {
        despite_panics(|| drop(hook));
    }
}
