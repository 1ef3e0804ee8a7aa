//! The record of a run: takes what all workers tell, hands it to the judge in the order of time, and counts.
//!
//! A process may be stopped between an event and its line, so lines come late. Each thread tells its own events in order. So
//! up to the time of the thread that is furthest behind, nothing more can come, and the judge hears it. What it has heard is
//! kept for a while, to be drawn, and then forgotten: a long run takes no more memory than a short one.

use std::collections::{BTreeMap, HashMap};
use std::mem;
use std::sync::Arc;

use parking_lot::Mutex;
use redlatch_history::{
    Access, Assumed, Call, Checker, Does, Event, History, Nanos, On, Origin, Rule, Says, Span,
    Violation, Way, What, Who, Why,
};

use crate::bounds::{PERMITS, SEMAPHORES};
use crate::claim::clock;
use crate::event::Told;
use crate::excerpt::Excerpt;
use crate::on::semaphore;
use crate::options::{Clients, Options};
use crate::pipe::caller;
use crate::worker::THREADS;

/// What the driver and the listeners of all workers write into.
pub(crate) type Shared = Arc<Mutex<Record>>;

/// A hook may be called by this much before the end of the lease.
pub(crate) const NOTICE: Nanos = 1_000_000;
/// What is counted of those who have something at the same time, or one after the other.
pub(crate) const READ_TOGETHER: &str = "readers that had company";
pub(crate) const PERMITS_TOGETHER: &str = "permits that had company";
pub(crate) const TO_FENCED: &str = "resources that went from a classic client to a fenced one";
pub(crate) const TO_CLASSIC: &str = "resources that went from a fenced client to a classic one";
/// The thread of a client that has its locks that rest.
const RESTS: u32 = 9;

pub(crate) struct Record {
    checker: Checker,
    began: Nanos,
    /// The longest ttl.
    longest: Nanos,
    /// What the judge has not heard yet. The second number keeps what is of the same time in order.
    pending: BTreeMap<(Nanos, u64), What>,
    noted: u64,
    /// Up to when each thread has told everything.
    threads: HashMap<(u32, u32), Nanos>,
    /// What is drawn: around the first violation, around what was seen first to be wrong, and around the end of the last fault.
    violated: Excerpt,
    around_wrong: Excerpt,
    around_calm: Excerpt,
    /// How long after the beginning the first violation was found.
    pub(crate) found_after: Nanos,
    /// For each call that has not ended, what it asks for.
    asked: HashMap<Call, On>,
    /// What is held, and until when, as the guards say.
    held: HashMap<Call, (On, Span)>,
    /// By place, whether a fenced client had it last.
    last: HashMap<u32, bool>,
    /// When the last fault was repaired.
    calm: Option<Nanos>,
    /// When each place was held for the first time after that, alone or not.
    firsts: BTreeMap<(u32, bool), Nanos>,
    /// How often something was told, by its name.
    pub(crate) counts: BTreeMap<String, u64>,
    pub(crate) sections: u64,
    /// Guards that had ended when the worker first looked at them.
    pub(crate) late: u64,
    /// The longest time from the end of a lease to its hook.
    pub(crate) latest: Nanos,
    /// What workers and the driver saw themselves.
    pub(crate) wrong: Vec<String>,
    /// When the first of it was seen.
    wrong_at: Option<Nanos>,
}

impl Record {
    pub(crate) fn new(options: &Options) -> Self {
        let assumed = Assumed {
            nodes_forget: options.clients == Clients::Fenced || options.planted,
            permits: (0..SEMAPHORES).map(|i| (semaphore(i), PERMITS)).collect(),
            notice: NOTICE,
            is_exact: false,
        };
        Self {
            checker: Checker::new(assumed),
            longest: options.ttl_ms().end() * 1_000_000,
            pending: BTreeMap::new(),
            noted: 0,
            threads: HashMap::new(),
            violated: Excerpt::default(),
            around_wrong: Excerpt::default(),
            around_calm: Excerpt::default(),
            found_after: 0,
            asked: HashMap::new(),
            held: HashMap::new(),
            last: HashMap::new(),
            calm: None,
            firsts: BTreeMap::new(),
            counts: BTreeMap::new(),
            sections: 0,
            late: 0,
            latest: 0,
            began: clock(),
            wrong: Vec::new(),
            wrong_at: None,
        }
    }

    /// A worker is about to be started.
    pub(crate) fn enters(&mut self, client: u32) {
        let now = clock();
        for thread in 0..THREADS {
            self.threads.insert((client, thread), now);
        }
    }

    /// A worker has ended, and all it had said is told. Its leases last: to the judge it dies when the last of them is over.
    pub(crate) fn leaves(&mut self, client: u32) {
        let at = clock() + self.longest;
        let does = Does::Dies;
        self.notes(at, What::Client { client, does });
        self.threads.retain(|(other, _), _| *other != client);
        self.settle();
    }

    /// Notes something that happens to a node or a client now.
    pub(crate) fn notes_now(&mut self, what: What) {
        self.notes(clock(), what);
    }

    /// Takes a line of a worker.
    pub(crate) fn hear(&mut self, client: u32, told: Told) {
        match told {
            Told::Happened(event) => {
                if let Some(call) = event.what.call() {
                    self.threads.insert(caller(call), event.at);
                }
                self.notes(event.at, event.what);
                self.settle();
            }
            Told::Rests {
                call,
                on,
                slot,
                from,
                until,
            } => self.rests(call, on, slot, (from, until)),
            Told::Counted(what) => self.count(&what),
            Told::Wrong(text) => self.wrong(format!("worker {client}: {text}")),
            // The driver passes it on.
            Told::Posts(_) => {}
            // Nothing of what follows is for the judge.
            Told::Done => {
                self.threads.retain(|(other, _), _| *other != client);
                self.settle();
            }
        }
    }

    /// To the judge a lock that rests is one that somebody else has.
    fn rests(&mut self, call: Call, on: On, slot: Option<u32>, (from, until): (Nanos, Nanos)) {
        let who = Who {
            client: caller(call).0,
            thread: RESTS,
        };
        let asks = What::Asks {
            call,
            who,
            on,
            ttl: None,
            adopts: None,
        };
        let gets = What::Gets {
            call,
            token: format!("rest {}", call.0).into(),
            fencing: None,
            slot,
            end: Some(Span::exactly(until)),
            origin: Origin::Nodes,
        };
        let (hold, way, says) = (call, Way::Drop, Says::Nothing);
        self.notes(from, asks);
        self.notes(from, gets);
        self.notes(until, What::Releases { hold, way });
        self.notes(until, What::Released { hold, says });
    }

    fn notes(&mut self, at: Nanos, what: What) {
        self.noted += 1;
        self.pending.insert((at, self.noted), what);
    }

    /// Lets the judge hear all that nothing can come before any more.
    fn settle(&mut self) {
        self.settle_until(self.threads.values().min().copied().unwrap_or_else(clock));
    }

    fn settle_until(&mut self, until: Nanos) {
        let later = self.pending.split_off(&(until, 0));
        for ((at, _), what) in mem::replace(&mut self.pending, later) {
            self.judge(&Event { at, what });
        }
    }

    fn judge(&mut self, event: &Event) {
        self.look_at(event);
        self.checker.hear(event);
        if self.found_after == 0 && !self.checker.violations().is_empty() {
            self.violated.is_around(event.at);
            self.found_after = clock() - self.began;
        }
        for excerpt in [
            &mut self.violated,
            &mut self.around_wrong,
            &mut self.around_calm,
        ] {
            excerpt.hear(event);
        }
    }

    /// Counts something by its name.
    fn look_at(&mut self, event: &Event) {
        let at = event.at;
        match &event.what {
            What::Asks { call, who, on, .. } if who.thread != RESTS => {
                self.asked.insert(*call, on.clone());
            }
            What::Fails { call, why } => {
                self.asked.remove(call);
                self.count(&format!("calls that failed: {why:?}"));
            }
            What::Gets {
                call, fencing, end, ..
            } => {
                let Some(on) = self.asked.remove(call) else {
                    return;
                };
                match end {
                    Some(end) if end.high > at => {
                        self.section(&on, at, fencing.is_some());
                        self.held.insert(*call, (on, *end));
                    }
                    _ => self.late += 1,
                }
            }
            What::Looks { hold, says } => self.moves(*hold, *says),
            What::Extended { hold, end } => {
                self.moves(*hold, *end);
                self.count("extensions");
            }
            What::Lost { hold, why } => self.is_told(at, *hold, *why),
            What::Releases { hold, .. } => drop(self.held.remove(hold)),
            What::Client {
                client,
                does: Does::Dies,
            } => self.held.retain(|call, _| caller(*call).0 != *client),
            What::NotExtended { why, .. } => {
                self.count(&format!("extensions that failed: {why:?}"));
            }
            What::Released { says, .. } if *says != Says::Nothing => {
                self.count(&format!("unlocks: {says:?}"));
            }
            _ => {}
        }
    }

    /// The end of a guard is known anew.
    fn moves(&mut self, hold: Call, end: Option<Span>) {
        if let (Some((_, former)), Some(end)) = (self.held.get_mut(&hold), end) {
            *former = end;
        }
    }

    /// A hook was called.
    fn is_told(&mut self, at: Nanos, hold: Call, why: Why) {
        self.count(&format!("losses told: {why:?}"));
        let Some((_, end)) = self.held.get(&hold) else {
            return;
        };
        self.latest = self.latest.max(at.saturating_sub(end.high));
        if at < end.low {
            self.count("losses told before the end");
        }
    }

    fn section(&mut self, on: &On, at: Nanos, is_fenced: bool) {
        self.sections += 1;
        let shares = |(other, end): &(On, Span)| *other == *on && end.low > at;
        let has_company = self.held.values().any(shares);
        let is_read = on.access == Access::Read;
        for &place in &on.places {
            if on.access == Access::Alone {
                let before = self.last.insert(place, is_fenced);
                if before.is_some_and(|before| before != is_fenced) {
                    self.count(if is_fenced { TO_FENCED } else { TO_CLASSIC });
                }
            }
            if self.calm.is_some_and(|calm| at >= calm) {
                self.firsts.entry((place, is_read)).or_insert(at);
            }
        }
        match on.access {
            Access::Read if has_company => self.count(READ_TOGETHER),
            Access::Permit if has_company => self.count(PERMITS_TOGETHER),
            _ => {}
        }
    }

    pub(crate) fn count(&mut self, what: &str) {
        *self.counts.entry(what.to_owned()).or_default() += 1;
    }

    pub(crate) fn of(&self, what: &str) -> u64 {
        self.counts.get(what).copied().unwrap_or_default()
    }

    /// Notes something that must not be, which another part of the test saw.
    pub(crate) fn wrong(&mut self, text: String) {
        let at = *self.wrong_at.get_or_insert_with(clock);
        self.around_wrong.is_around(at);
        self.wrong.push(text);
    }

    /// The last fault was repaired.
    pub(crate) fn is_calm(&mut self) {
        let now = clock();
        self.around_calm.is_around(now);
        self.calm = Some(now);
    }

    /// How long it took until a place was had again, alone or not.
    pub(crate) fn recovered(&self, what: (u32, bool)) -> Option<Nanos> {
        Some(self.firsts.get(&what)? - self.calm?)
    }

    /// The run is over.
    pub(crate) fn ends(&mut self) {
        self.settle_until(Nanos::MAX);
        self.checker.ends(clock() + self.longest);
    }

    pub(crate) fn violations(&self) -> &[Violation] {
        self.checker.violations()
    }

    /// How often two had what one may have.
    pub(crate) fn overlaps(&self) -> usize {
        let is_overlap = |found: &&Violation| matches!(found.rule, Rule::Exclusion | Rule::Permits);
        self.violations().iter().filter(is_overlap).count()
    }

    /// The first violation, and what happened around it.
    pub(crate) fn first_violation(&self) -> Option<(Violation, History)> {
        let first = self.violations().first()?;
        Some((first.clone(), self.violated.history()))
    }

    /// What was seen first to be wrong, and what happened around it.
    pub(crate) fn first_wrong(&self) -> Option<(Violation, History)> {
        let found = seen(self.wrong_at?, self.wrong.first()?);
        Some((found, self.around_wrong.history()))
    }

    /// What was seen at the end, and what happened around the last fault.
    pub(crate) fn left_at_the_end(&self, text: &str) -> Option<(Violation, History)> {
        Some((seen(self.calm?, text), self.around_calm.history()))
    }
}

/// Something that the test saw itself.
fn seen(at: Nanos, text: &str) -> Violation {
    Violation {
        rule: Rule::Other,
        at,
        calls: Vec::new(),
        text: text.to_owned(),
    }
}
