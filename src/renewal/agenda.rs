//! What is done for held locks in the background: renewals, and telling of losses, each on a thread of its own.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;

use crate::clock::{Clock, Timers, Timestamp};
use crate::guard::held::{Held, Purpose};

/// The two queues of a manager. Their threads start when they are first needed, and end with the manager.
pub(crate) struct Keeper {
    renewals: Line,
    /// Beside the other, so that neither a node that hangs nor a program's hook delays what the other does.
    losses: Line,
}

impl Default for Keeper {
    fn default() -> Self {
        Self {
            renewals: Line::new(Purpose::Renew, "redlatch-keeper"),
            losses: Line::new(Purpose::Watch, "redlatch-losses"),
        }
    }
}

impl Keeper {
    pub(crate) fn line(&self, purpose: Purpose) -> &Line {
        match purpose {
            Purpose::Renew => &self.renewals,
            Purpose::Watch => &self.losses,
        }
    }
}

/// Locks in the order in which something is due, and the thread that does it.
pub(crate) struct Line {
    purpose: Purpose,
    name: &'static str,
    timers: OnceLock<Timers>,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    /// By when it is due, and the number of the lock.
    due: BTreeMap<(Timestamp, u64), Arc<Held>>,
    /// The wake that is to come; earlier ones were for what is not due so soon any more.
    wake: u64,
    wakes_at: Option<Timestamp>,
}

/// A wake of a line's thread.
#[derive(Clone, Copy)]
pub(crate) struct Wake {
    number: u64,
    pub(crate) at: Timestamp,
}

impl Line {
    fn new(purpose: Purpose, name: &'static str) -> Self {
        Self {
            purpose,
            name,
            timers: OnceLock::new(),
            queue: Mutex::default(),
        }
    }

    /// The thread, which is started now if it is not there.
    ///
    /// It has to be there before anything is queued: a wake that is planned and never comes would be waited for.
    pub(crate) fn start(&self, clock: &Clock) -> io::Result<&Timers> {
        if let Some(timers) = self.timers.get() {
            return Ok(timers);
        }
        let timers = Timers::on_own_thread(clock, self.name)?;
        Ok(self.timers.get_or_init(|| timers))
    }

    /// The thread, if it was started.
    pub(crate) fn timers(&self) -> Option<&Timers> {
        self.timers.get()
    }

    /// Puts a lock into the queue, in place of where it stood there, unless it is over. Returns the wake that this takes.
    pub(crate) fn put(&self, held: &Arc<Held>, at: Timestamp) -> Option<Wake> {
        let mut queue = self.queue.lock();
        if let Some(before) = held.leave(self.purpose) {
            queue.due.remove(&(before, held.number));
        }
        if held.stand(self.purpose, at) {
            queue.due.insert((at, held.number), Arc::clone(held));
        }
        queue.next_wake()
    }

    /// Takes a lock out of the queue, if it stands there.
    pub(crate) fn remove(&self, held: &Held) {
        let Some(at) = held.leave(self.purpose) else {
            return;
        };
        let removed = self.queue.lock().due.remove(&(at, held.number));
        drop(removed);
    }

    /// Whether nothing else has been planned since.
    pub(crate) fn is_current(&self, wake: Wake) -> bool {
        self.queue.lock().wake == wake.number
    }

    /// Takes what is due at this wake, and of the rest what may be served with it: each as much earlier as `soon` says,
    /// and none more than `at_most`.
    pub(crate) fn take_due(
        &self,
        now: Timestamp,
        at_most: Duration,
        soon: impl Fn(&Held) -> Duration,
    ) -> Vec<Arc<Held>> {
        let mut queue = self.queue.lock();
        queue.wakes_at = None;
        let horizon = (now.saturating_add(at_most), u64::MAX);
        let is_due = |at: Timestamp, held: &Held| at <= now || at <= now.saturating_add(soon(held));
        let early = queue.due.range(..=horizon);
        let early = early.filter(|((at, _), held)| is_due(*at, held));
        let keys: Vec<(Timestamp, u64)> = early.map(|(key, _)| *key).collect();
        let taken: Vec<Arc<Held>> = keys
            .iter()
            .filter_map(|key| queue.due.remove(key))
            .collect();
        for held in &taken {
            held.leave(self.purpose);
        }
        taken
    }

    /// The wake for what is due next, if none is planned for as early.
    pub(crate) fn next_wake(&self) -> Option<Wake> {
        self.queue.lock().next_wake()
    }
}

impl Queue {
    fn next_wake(&mut self) -> Option<Wake> {
        let ((first, _), _) = self.due.first_key_value()?;
        let at = *first;
        if self.wakes_at.is_some_and(|planned| planned <= at) {
            return None;
        }
        self.wake = self.wake.wrapping_add(1);
        self.wakes_at = Some(at);
        Some(Wake {
            number: self.wake,
            at,
        })
    }
}
