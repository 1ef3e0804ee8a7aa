//! The hooks of a program on a lock that it holds, for its loss and for other clients that wait for it.

use crate::callbacks::despite_panics;
use crate::error::LossCause;

/// The hooks that were not called yet.
#[derive(Default)]
pub(crate) struct Hooks(Vec<Hook>);

pub(super) struct Hook {
    event: HookEvent,
    pub(super) call: Box<dyn FnOnce(LossCause) + Send>,
}

/// What a hook waits for.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum HookEvent {
    Loss,
    /// Another client waits for the lock. None was seen yet.
    Wish,
    /// Another client waits, and the hook is to be called.
    DueWish,
}

impl Hooks {
    pub(crate) fn on_lost(&mut self, hook: impl FnOnce(LossCause) + Send + 'static) {
        let (event, call) = (HookEvent::Loss, Box::new(hook));
        self.0.push(Hook { event, call });
    }

    pub(crate) fn on_wanted(&mut self, hook: impl FnOnce() + Send + 'static) {
        let (event, call) = (HookEvent::Wish, Box::new(move |_| hook()));
        self.0.push(Hook { event, call });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The hooks that wait to hear that the lock is wanted are due from now on.
    pub(crate) fn mark_wishes_due(&mut self) {
        let wishes = self.0.iter_mut();
        for hook in wishes.filter(|hook| hook.event == HookEvent::Wish) {
            hook.event = HookEvent::DueWish;
        }
    }

    /// How many hooks are to be called while the lock is held.
    pub(crate) fn due_wishes(&self) -> usize {
        let is_due = |hook: &&Hook| hook.event == HookEvent::DueWish;
        self.0.iter().filter(is_due).count()
    }

    pub(super) fn take(&mut self, event: HookEvent) -> Option<Hook> {
        let index = self.0.iter().position(|hook| hook.event == event)?;
        Some(self.0.remove(index))
    }
}

impl Drop for Hooks {
    /// Drops each hook by itself, because a value that a hook owns may panic when it is dropped.
    fn drop(&mut self) {
        for hook in self.0.drain(..) {
            despite_panics(|| drop(hook));
        }
    }
}
