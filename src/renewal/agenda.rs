//! When background work is due for which lock, and the thread that does the work.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::schedule::head_start;
use crate::clock::{Clock, Timers, Timestamp};
use crate::lease::state::LeaseState;
use crate::sync::{Mutex, OnceLock};

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
            losses: Agenda::new("redlatch-losses", |lease| {
                lease.hooks(|hooks| !hooks.is_empty())
            }),
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
    plans: Mutex<Plans>,
}

#[derive(Default)]
struct Plans {
    /// Each with when it is due, by the numbers of the locks.
    by_lock: BTreeMap<u64, (Timestamp, Arc<LeaseState>)>,
    /// The next wake of the thread. Timers for other wakes are out of date and do nothing.
    wake: Option<Wake>,
    /// How many wakes were planned.
    wakes: u64,
}

/// A wake of the thread.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Wake {
    pub(super) at: Timestamp,
    /// Tells it from an earlier one for the same time: timers check again and again whether theirs is still the next.
    number: u64,
}

impl Agenda {
    fn new(name: &'static str, is_wanted: fn(&LeaseState) -> bool) -> Self {
        Self {
            name,
            is_wanted,
            timers: OnceLock::new(),
            plans: Mutex::default(),
        }
    }

    /// Returns the thread, and starts it if it does not run.
    ///
    /// The thread has to exist before work is planned. Otherwise a wake would be planned and never armed, and later
    /// plans would rely on it.
    pub(super) fn start(&self, clock: &Clock) -> io::Result<()> {
        if self.timers.get().is_none() {
            let timers = Timers::on_own_thread(clock, self.name)?;
            self.timers.get_or_init(|| timers);
        }
        Ok(())
    }

    pub(super) fn timers(&self) -> Option<&Timers> {
        self.timers.get()
    }

    /// Plans the work for a lock at the time that `at` returns, in place of an earlier plan, unless there is no more work for it.
    /// Returns the wake that the caller has to arm, if no earlier one is planned.
    ///
    /// The time is asked for under the mutex. Otherwise a thread that has looked before the lock was lost could replace the plan
    /// of the thread that has lost it, and the hooks would be called when the lock would have ended.
    pub(super) fn put(
        &self,
        lease: &Arc<LeaseState>,
        at: impl FnOnce(&LeaseState) -> Timestamp,
    ) -> Option<Wake> {
        let mut plans = self.plans.lock();
        if !(self.is_wanted)(lease) {
            // The caller has another reference, so this drops no lease under the mutex.
            plans.by_lock.remove(&lease.number);
            return None;
        }
        let due = at(lease);
        let plan = (due, Arc::clone(lease));
        plans.by_lock.insert(lease.number, plan);
        plans.wake_at(due)
    }

    /// Drops the plan for a lock.
    pub(super) fn remove(&self, lease: &LeaseState) {
        // Without a thread nothing was ever planned. Most managers have none, and skip the mutex.
        if self.timers.get().is_none() {
            return;
        }
        let removed = self.plans.lock().by_lock.remove(&lease.number);
        drop(removed);
    }

    /// For how many locks work is planned.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.plans.lock().by_lock.len()
    }

    /// Whether work is planned for a lock.
    pub(super) fn has(&self, lease: &LeaseState) -> bool {
        self.plans.lock().by_lock.contains_key(&lease.number)
    }

    /// Whether this is still the next wake: an earlier one may have been planned since.
    pub(super) fn is_current(&self, wake: Wake) -> bool {
        self.plans.lock().wake == Some(wake)
    }

    /// Takes the locks that are due, and those whose renewal is due within their head start and within `at_most`.
    pub(super) fn take_due(&self, now: Timestamp, at_most: Duration) -> Vec<Arc<LeaseState>> {
        let mut plans = self.plans.lock();
        plans.wake = None;
        let horizon = now.saturating_add(at_most);
        let is_within_head_start = |at: Timestamp, lease: &LeaseState| {
            let renewal = lease.renewal();
            renewal.is_some_and(|renewal| at <= now.saturating_add(head_start(renewal.ttl)))
        };
        let mut due = Vec::new();
        // What is dropped here is in the list, so no lease is dropped under the mutex.
        plans.by_lock.retain(|_, (at, lease)| {
            let is_due = *at <= now || *at <= horizon && is_within_head_start(*at, lease);
            due.extend(is_due.then(|| (*at, Arc::clone(lease))));
            !is_due
        });
        drop(plans);
        due.sort_by_key(|(at, _)| *at);
        due.into_iter().map(|(_, lease)| lease).collect()
    }

    /// When the next lock is due.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.plans.lock().next_due()
    }

    /// The next wake, unless it is planned already.
    pub(super) fn next_wake(&self) -> Option<Wake> {
        let mut plans = self.plans.lock();
        let first = plans.next_due()?;
        plans.wake_at(first)
    }
}

impl Plans {
    fn next_due(&self) -> Option<Timestamp> {
        self.by_lock.values().map(|(at, _)| *at).min()
    }

    /// Plans a wake, unless an earlier one is planned.
    fn wake_at(&mut self, at: Timestamp) -> Option<Wake> {
        if self.wake.is_some_and(|planned| planned.at <= at) {
            return None;
        }
        self.wakes = self.wakes.wrapping_add(1);
        let number = self.wakes;
        self.wake = Some(Wake { at, number });
        self.wake
    }
}

#[cfg(test)]
#[path = "../../tests/rooms/renewal/agenda/tests.rs"]
pub(super) mod tests;
