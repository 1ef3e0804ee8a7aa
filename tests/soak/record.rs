//! The record of a run: what all workers and the driver told, for the judge to hear in the order of time.
//!
//! A process may be stopped between an event and its line, so lines come late. So the judge hears them when all are there.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use redlatch_history::{Assumed, Checker, Event, Nanos, Rule, Says, Violation, What};

use crate::ask::{FIRST_SEMAPHORE, each, when_calm};
use crate::options::{Kind, Options, PERMITS, SEMAPHORES};
use crate::told::{Told, clock};

/// What the driver and the listeners of all workers write into.
pub(crate) type Shared = Arc<Mutex<Record>>;

/// A hook may be called by this much before the end of the lease.
const NOTICE: Nanos = 1_000_000;
/// What is counted for each guard that was valid when it was returned.
pub(crate) const SECTIONS: &str = "critical sections";

#[derive(Default)]
pub(crate) struct Record {
    pub(crate) events: Vec<Event>,
    /// How often something was told, by its name.
    pub(crate) counts: BTreeMap<String, usize>,
    /// What workers and the driver saw themselves, and must not be.
    pub(crate) wrong: Vec<Violation>,
}

impl Record {
    /// Takes a line of a worker.
    pub(crate) fn hear(&mut self, client: u32, told: Told) {
        match told {
            Told::Happened(event) => self.events.push(event),
            Told::Counted(what) => self.count(what),
            Told::Wrong(text) => self.wrong(format!("worker {client}: {text}")),
            Told::Done => {}
        }
    }

    /// A worker has ended, and all it had said is told. Its leases last: to the judge it dies when the last of them is over.
    pub(crate) fn leaves(&mut self, client: u32, longest_ms: u64) {
        let at = clock() + longest_ms * 1_000_000;
        self.notes(at, What::Dies(client));
    }

    pub(crate) fn notes(&mut self, at: Nanos, what: What) {
        let call = None;
        self.events.push(Event { at, call, what });
    }

    pub(crate) fn wrong(&mut self, text: String) {
        let at = clock();
        self.notes(at, What::Beside(format!("WRONG: {text}")));
        self.wrong.push(Violation {
            rule: Rule::Other,
            at,
            calls: Vec::new(),
            text,
        });
    }

    fn count(&mut self, what: String) {
        *self.counts.entry(what).or_default() += 1;
    }

    /// What was not had since the last fault.
    pub(crate) fn stuck(&self) -> Vec<String> {
        let mut all: Vec<String> = each().iter().map(when_calm).collect();
        all.retain(|on| !self.counts.contains_key(on));
        all
    }

    /// Lets the judge hear it all.
    pub(crate) fn judge(&mut self, options: &Options) -> Vec<Violation> {
        let semaphores = (0..SEMAPHORES).map(|i| FIRST_SEMAPHORE + i);
        let mut checker = Checker::new(Assumed {
            nodes_forget: options.kind == Kind::Fenced || options.is_planted(),
            permits: semaphores.map(|place| (place, PERMITS)).collect(),
            notice: NOTICE,
            is_exact: false,
        });
        self.events.sort_by_key(|event| event.at);
        // A long run has many: they are not copied.
        let events = std::mem::take(&mut self.events);
        for event in &events {
            checker.hear(event);
            self.count_event(event);
        }
        self.events = events;
        checker.ends(clock());
        checker.violations().to_vec()
    }

    /// A record of the events up to a second ago: what is younger may not have been told yet.
    pub(crate) fn up_to_now(&self) -> Self {
        let until = clock() - 1_000_000_000;
        let told = self.events.iter().filter(|event| event.at < until);
        Self {
            events: told.cloned().collect(),
            ..Self::default()
        }
    }

    fn count_event(&mut self, event: &Event) {
        self.count(match &event.what {
            What::Fails(why) => format!("calls that failed: {why:?}"),
            What::Gets(given) if given.end.is_some_and(|end| end.high > event.at) => {
                SECTIONS.to_owned()
            }
            What::Extended(_) => "extensions".to_owned(),
            What::NotExtended(why) => format!("extensions that failed: {why:?}"),
            What::Lost(why) => format!("losses told: {why:?}"),
            What::Released(says) if *says != Says::Nothing => format!("unlocks: {says:?}"),
            _ => return,
        });
    }
}

/// Whether two have what one may have.
pub(crate) fn is_overlap(found: &Violation) -> bool {
    matches!(found.rule, Rule::Exclusion | Rule::Readers | Rule::Permits)
}
