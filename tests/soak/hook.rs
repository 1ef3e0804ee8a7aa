//! What a guard's hook tells, in the order of time with what the thread tells that has the guard.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use redlatch::LockGuard;
use redlatch_history::{Call, What, Why};
use redlatch_testing::pause;

use crate::ask::why_lost;
use crate::claim::clock;
use crate::event::Told;
use crate::pipe::{happened, tell};

/// How often a thread that has seen a loss looks whether its hook was called. It counts looks and not time: a worker that is
/// stopped, or has no processor, does not look either.
const LOOKS: u32 = 2_000;

/// When the hook was called, and why the lock is lost.
type Called = Option<(u64, Option<Why>)>;

/// The hook of a guard.
pub(crate) struct Hook {
    hold: Call,
    called: Arc<Mutex<Called>>,
    /// Whether the judge knows of it.
    is_told: Cell<bool>,
}

impl Hook {
    /// Registers the hook.
    pub(crate) fn of(guard: &LockGuard, hold: Call) -> Self {
        let called: Arc<Mutex<Called>> = Arc::default();
        let hook = Arc::clone(&called);
        happened(clock(), What::Hooks { hold });
        guard.on_lost(move |cause| {
            let mut called = hook.lock();
            *called = Some((clock(), why_lost(&cause)));
        });
        let is_told = Cell::new(false);
        Self {
            hold,
            called,
            is_told,
        }
    }

    /// Tells what has happened, and what the hook has told by now: what it tells later is later than all that was seen so far.
    pub(crate) fn happened(&self, at: u64, what: What) {
        let called = self.called.lock().take();
        let before = called.filter(|(called, _)| *called <= at);
        if let Some(called) = before {
            self.is_lost(called);
        }
        happened(at, what);
        if let Some(called) = called.filter(|_| before.is_none()) {
            self.is_lost(called);
        }
    }

    fn is_lost(&self, (at, why): (u64, Option<Why>)) {
        let hold = self.hold;
        self.is_told.set(true);
        match why {
            Some(why) => happened(at, What::Lost { hold, why }),
            None => tell(&Told::Wrong(
                "a hook was told that its lock was given back".to_owned(),
            )),
        }
    }

    /// Waits until the hook is called for a loss that was seen. If it is not called, the judge says so.
    pub(crate) fn wait(&self) {
        for _ in 0..LOOKS {
            if self.is_told.get() || self.called.lock().is_some() {
                return;
            }
            pause(Duration::from_millis(5));
        }
    }
}
