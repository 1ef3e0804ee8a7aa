//! Locks in the order in which something is due for them, and the thread that does it.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;

use crate::clock::{Clock, Timers, Timestamp};
use crate::lease::state::LeaseState;

/// What is done in the background for a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    Renew,
    /// To call the hooks when the lock is lost.
    Watch,
}

/// The two agendas of a manager. Their threads start when they are first needed, and end with the manager.
pub(super) struct Agendas {
    renewals: Agenda,
    /// Beside the other, so that neither a node that hangs nor a program's hook delays what the other does.
    losses: Agenda,
}

impl Default for Agendas {
    fn default() -> Self {
        Self {
            // A loss has still to be told, and a lock that is lost is not renewed any more.
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
    /// Whether there is still something to do for a lock.
    is_wanted: fn(&LeaseState) -> bool,
    timers: OnceLock<Timers>,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    /// By when it is due, and the number of the lock.
    due: BTreeMap<(Timestamp, u64), Arc<LeaseState>>,
    /// When each lock is due, by its number.
    places: HashMap<u64, Timestamp>,
    /// The wake that is to come. Others were planned for what is not due so soon any more.
    wake: Option<Wake>,
    /// How many wakes were planned.
    wakes: u64,
}

/// A wake of the thread.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Wake {
    pub(super) at: Timestamp,
    /// Tells it from others at the same time, which were replaced: on real time each looks every 50 ms for as long as it is
    /// current.
    number: u64,
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

    /// The thread, which is started now if it is not there.
    ///
    /// It has to be there before anything is queued: a wake that is planned and never comes would be waited for.
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

    /// Has something done for a lock at that time, in place of an earlier plan, unless there is nothing to do any more.
    /// Returns the wake that this takes, if no other comes before it.
    pub(super) fn put(&self, lease: &Arc<LeaseState>, at: Timestamp) -> Option<Wake> {
        let mut queue = self.queue.lock();
        // The lease itself is in the caller's hands, so that this drops no lock's last part.
        drop(queue.remove(lease.number));
        if (self.is_wanted)(lease) {
            queue.due.insert((at, lease.number), Arc::clone(lease));
            queue.places.insert(lease.number, at);
        }
        queue.next_wake()
    }

    /// Drops the plan for a lock.
    pub(super) fn remove(&self, lease: &LeaseState) {
        // Nothing was ever planned without a thread, and most managers have none.
        if self.timers.get().is_none() {
            return;
        }
        let removed = self.queue.lock().remove(lease.number);
        drop(removed);
    }

    /// Whether something is planned for a lock.
    pub(super) fn has(&self, lease: &LeaseState) -> bool {
        self.queue.lock().places.contains_key(&lease.number)
    }

    /// Whether no other wake has been planned meanwhile.
    pub(super) fn is_current(&self, wake: Wake) -> bool {
        self.queue.lock().wake == Some(wake)
    }

    /// Takes the locks that are due by now, and those that `soon` says may as well be taken: so much before they are due,
    /// and `at_most` so much.
    pub(super) fn take_due(
        &self,
        now: Timestamp,
        at_most: Duration,
        soon: impl Fn(&LeaseState) -> Duration,
    ) -> Vec<Arc<LeaseState>> {
        let mut queue = self.queue.lock();
        queue.wake = None;
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

    /// The next wake, if it is not planned.
    pub(super) fn next_wake(&self) -> Option<Wake> {
        self.queue.lock().next_wake()
    }
}

impl Queue {
    fn remove(&mut self, number: u64) -> Option<Arc<LeaseState>> {
        let at = self.places.remove(&number)?;
        self.due.remove(&(at, number))
    }

    fn next_wake(&mut self) -> Option<Wake> {
        let ((first, _), _) = self.due.first_key_value()?;
        let at = *first;
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
mod tests {
    use super::*;
    use crate::clock::FakeClock;
    use crate::lease::state::Tokens;
    use crate::token::Token;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_nanos(0).saturating_add(Duration::from_millis(millis))
    }

    fn lease() -> Arc<LeaseState> {
        let tokens = Tokens {
            token: Token::random().unwrap(),
            fencing: None,
            claim: None,
        };
        let (resource, times) = ("job".into(), (at(0), at(1_000)));
        let owed = [true; 3].into();
        let clock = Clock::from(FakeClock::new());
        Arc::new(LeaseState::new(&clock, &resource, tokens, owed, times))
    }

    #[test]
    fn a_wake_that_a_sooner_one_has_replaced_stays_replaced() {
        let agenda = Agenda::new("test", |_| true);
        let (late, soon) = (lease(), lease());
        let replaced = agenda.put(&late, at(100)).unwrap();
        assert!(agenda.is_current(replaced));
        let sooner = agenda.put(&soon, at(10)).unwrap();
        assert!(agenda.is_current(sooner) && !agenda.is_current(replaced));
        assert!(agenda.put(&lease(), at(200)).is_none());

        let due = agenda.take_due(at(10), Duration::ZERO, |_| Duration::ZERO);
        assert!(matches!(due.as_slice(), [lease] if Arc::ptr_eq(lease, &soon)));
        let again = agenda.next_wake().unwrap();
        assert!(agenda.is_current(again) && !agenda.is_current(replaced));
    }
}
