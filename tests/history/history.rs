//! Everything that happened in a run, as it was noted.

use crate::checker::{Assumed, Checker, Violation};
use crate::event::{Call, Event, Nanos, On, What, Who};

/// Everything that happened in a run.
#[derive(Clone, Debug, Default)]
pub struct History {
    events: Vec<Event>,
    calls: u64,
}

impl History {
    /// Notes that a call for a lock begins, and gives it a number.
    pub fn asks(&mut self, at: Nanos, who: Who, on: On, ttl: Option<Nanos>) -> Call {
        let call = self.new_call();
        let what = What::Asks {
            call,
            who,
            on,
            ttl,
            adopts: None,
        };
        self.notes(at, what);
        call
    }

    /// A number for a call.
    pub fn new_call(&mut self) -> Call {
        self.calls += 1;
        Call(self.calls)
    }

    /// Notes something. What was noted late may come in any order: the judge looks at the times.
    pub fn notes(&mut self, at: Nanos, what: What) {
        self.events.push(Event { at, what });
    }

    /// All of it, in the order in which it was noted.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// What no lock can have done, in the order of time.
    #[must_use]
    pub fn violations(&self, assumed: &Assumed) -> Vec<Violation> {
        let events = self.in_order();
        let end = events.last().map_or(0, |event| event.at);
        let mut checker = Checker::new(assumed.clone());
        for event in events {
            checker.hear(event);
        }
        checker.ends(end);
        checker.into_violations()
    }

    pub(crate) fn in_order(&self) -> Vec<&Event> {
        let mut events: Vec<&Event> = self.events.iter().collect();
        events.sort_by_key(|event| event.at);
        events
    }
}
