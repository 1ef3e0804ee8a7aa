//! A queue of locks by the time at which background work is due, and the thread that does the work.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;

use crate::clock::{Clock, Timers, Timestamp};
use crate::lease::state::LeaseState;

/// The kinds of background work for a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    Renew,
    /// Calls the hooks when the lock is lost.
    Watch,
}

/// The two agendas of a manager. Their threads start when they are first needed, and end with the manager.
pub(super) struct Agendas {
    renewals: Agenda,
    /// A separate thread, so that a node that hangs delays no hook, and a slow hook delays no renewal.
    losses: Agenda,
}

impl Default for Agendas {
    fn default() -> Self {
        Self {
            // A lost lock is no longer renewed, but its hooks still have to be called.
            renewals: Agenda::new("redlatch-keeper", |lease| !lease.is_lost()),
            losses: Agenda::new("redlatch-losses", LeaseState::has_hooks),
        }
    }
}

impl Agendas {
    pub(super) fn of(&self, purpose: Purpose) -> &Agenda {
        match purpose {
            Purpose::Renew => &self.renewals,
            Purpose::Watch => &self.losses,
        }
    }
}

pub(super) struct Agenda {
    name: &'static str,
    /// Whether there is still work to do for a lock.
    is_wanted: fn(&LeaseState) -> bool,
    timers: OnceLock<Timers>,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    /// The locks by due time and number.
    due: BTreeMap<(Timestamp, u64), Arc<LeaseState>>,
    /// The due time of each lock, by its number.
    places: HashMap<u64, Timestamp>,
    /// The time of the next wake. Timers for other times are out of date and do nothing.
    wakes_at: Option<Timestamp>,
}

impl Agenda {
    fn new(name: &'static str, is_wanted: fn(&LeaseState) -> bool) -> Self {
        Self {
            name,
            is_wanted,
            timers: OnceLock::new(),
            queue: Mutex::default(),
        }
    }

    /// Returns the thread, and starts it if it does not run.
    ///
    /// The thread has to exist before work is planned. Otherwise a wake would be planned and never armed, and later
    /// plans would rely on it.
    pub(super) fn start(&self, clock: &Clock) -> io::Result<&Timers> {
        if let Some(timers) = self.timers.get() {
            return Ok(timers);
        }
        let timers = Timers::on_own_thread(clock, self.name)?;
        Ok(self.timers.get_or_init(|| timers))
    }

    pub(super) fn timers(&self) -> Option<&Timers> {
        self.timers.get()
    }

    /// Plans the work for a lock at that time, in place of an earlier plan, unless there is no more work for it. Returns the
    /// wake that the caller has to arm, if no earlier one is planned.
    pub(super) fn put(&self, lease: &Arc<LeaseState>, at: Timestamp) -> Option<Timestamp> {
        let mut queue = self.queue.lock();
        // The caller has another reference, so this drops no lease under the mutex.
        drop(queue.remove(lease.number));
        if (self.is_wanted)(lease) {
            queue.due.insert((at, lease.number), Arc::clone(lease));
            queue.places.insert(lease.number, at);
        }
        queue.next_wake()
    }

    /// Drops the plan for a lock.
    pub(super) fn remove(&self, lease: &LeaseState) {
        // Without a thread nothing was ever planned. Most managers have none, and skip the mutex.
        if self.timers.get().is_none() {
            return;
        }
        let removed = self.queue.lock().remove(lease.number);
        drop(removed);
    }

    /// Whether work is planned for a lock.
    pub(super) fn has(&self, lease: &LeaseState) -> bool {
        self.queue.lock().places.contains_key(&lease.number)
    }

    /// Whether this is still the next wake: an earlier one may have been planned since.
    pub(super) fn is_current(&self, wake: Timestamp) -> bool {
        self.queue.lock().wakes_at == Some(wake)
    }

    /// Takes the locks that are due, and those that are due within the span that `soon` returns for them, which is at
    /// most `at_most`.
    pub(super) fn take_due(
        &self,
        now: Timestamp,
        at_most: Duration,
        soon: impl Fn(&LeaseState) -> Duration,
    ) -> Vec<Arc<LeaseState>> {
        let mut queue = self.queue.lock();
        queue.wakes_at = None;
        let horizon = (now.saturating_add(at_most), u64::MAX);
        let is_due =
            |at: Timestamp, lease: &LeaseState| at <= now || at <= now.saturating_add(soon(lease));
        let early = queue.due.range(..=horizon);
        let early = early.filter(|((at, _), lease)| is_due(*at, lease));
        let numbers: Vec<u64> = early.map(|((_, number), _)| *number).collect();
        let taken = numbers
            .into_iter()
            .filter_map(|number| queue.remove(number));
        taken.collect()
    }

    /// The next wake, unless it is planned already.
    pub(super) fn next_wake(&self) -> Option<Timestamp> {
        self.queue.lock().next_wake()
    }
}

impl Queue {
    fn remove(&mut self, number: u64) -> Option<Arc<LeaseState>> {
        let at = self.places.remove(&number)?;
        self.due.remove(&(at, number))
    }

    fn next_wake(&mut self) -> Option<Timestamp> {
        let ((first, _), _) = self.due.first_key_value()?;
        let at = *first;
        if self.wakes_at.is_some_and(|planned| planned <= at) {
            return None;
        }
        self.wakes_at = Some(at);
        Some(at)
    }
}
