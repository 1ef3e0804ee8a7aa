//! The record of a run: takes what all workers tell, hands it to the judge in the order of time, and counts.
//!
//! A process may be stopped between an event and its line, so lines come late. Each thread tells its own events in order. So
//! up to the time of the thread that is furthest behind, nothing more can come, and the judge hears it. What it has heard is
//! kept for a while, to be shown, and then forgotten: a long run takes no more memory than a short one.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::mem;
use std::sync::Arc;

use parking_lot::Mutex;
use redlatch_history::{
    Asks, Assumed, Call, Checker, Event, Given, Nanos, On, Rule, Says, Span, Violation, Way, What,
};

use crate::ask::FIRST_SEMAPHORE;
use crate::options::{Clients, Options, PERMITS, RESOURCES, SEMAPHORES};
use crate::told::{Told, call, caller, clock};
use crate::worker::THREADS;

/// What the driver and the listeners of all workers write into.
pub(crate) type Shared = Arc<Mutex<Record>>;

/// A hook may be called by this much before the end of the lease.
const NOTICE: Nanos = 1_000_000;
/// How many events are shown before something that was found.
const SHOWN: usize = 2_000;

pub(crate) struct Record {
    checker: Checker,
    began: Nanos,
    longest: Nanos,
    /// What the judge has not heard yet. The second number keeps what is of the same time in order.
    pending: BTreeMap<(Nanos, u64), (Option<Call>, What)>,
    noted: u64,
    /// The tokens in the order in which they came.
    tokens: HashMap<Arc<str>, usize>,
    /// Up to when each thread has told everything.
    threads: HashMap<(u32, u32), Nanos>,
    /// The last events that the judge has heard.
    recent: VecDeque<Event>,
    /// What was found first, when, and the events before it.
    pub(crate) first: Option<(Violation, Nanos, VecDeque<Event>)>,
    /// For each call that has not ended, what it asks for.
    asked: HashMap<Call, On>,
    /// When the last fault was repaired.
    calm: Option<Nanos>,
    /// When each place was held for the first time after that, alone or not.
    firsts: BTreeMap<(usize, bool), Nanos>,
    /// How often something was told, by its name.
    pub(crate) counts: BTreeMap<String, u64>,
    pub(crate) sections: u64,
    /// What workers and the driver saw themselves.
    pub(crate) wrong: Vec<String>,
}

impl Record {
    pub(crate) fn new(options: &Options) -> Self {
        let assumed = Assumed {
            nodes_forget: options.clients == Clients::Fenced || options.planted,
            permits: semaphores().map(|place| (place, PERMITS)).collect(),
            notice: NOTICE,
            is_exact: false,
        };
        Self {
            checker: Checker::new(assumed),
            began: clock(),
            longest: options.ttl_ms().end() * 1_000_000,
            pending: BTreeMap::new(),
            noted: 0,
            tokens: HashMap::new(),
            threads: HashMap::new(),
            recent: VecDeque::new(),
            first: None,
            asked: HashMap::new(),
            calm: None,
            firsts: BTreeMap::new(),
            counts: BTreeMap::new(),
            sections: 0,
            wrong: Vec::new(),
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
        self.notes(clock() + self.longest, None, What::Dies(client));
        self.tells_no_more(client);
    }

    fn tells_no_more(&mut self, client: u32) {
        self.threads.retain(|(other, _), _| *other != client);
        self.settle();
    }

    /// Notes something that happens to nodes or clients now.
    pub(crate) fn notes_now(&mut self, text: String) {
        self.notes(clock(), None, What::Beside(text));
    }

    /// Takes a line of a worker.
    pub(crate) fn hear(&mut self, client: u32, told: Told) {
        match told {
            Told::Happened(event) => {
                if let Some(call) = event.call {
                    self.threads.insert(caller(call), event.at);
                }
                self.notes(event.at, event.call, event.what);
                self.settle();
            }
            Told::Counted(what) => self.count(&what),
            Told::Wrong(text) => self.wrong(format!("worker {client}: {text}")),
            // Nothing of what follows is for the judge.
            Told::Done => self.tells_no_more(client),
        }
    }

    fn notes(&mut self, at: Nanos, call: Option<Call>, what: What) {
        self.noted += 1;
        let what = self.numbered(what);
        self.pending.insert((at, self.noted), (call, what));
    }

    /// The same with the number of each token, which people can tell from others, in its place.
    fn numbered(&mut self, mut what: What) -> What {
        let token = match &mut what {
            What::Gets(given) => &mut given.token,
            What::Asks(Asks {
                adopts: Some(leased),
                ..
            }) => &mut leased.token,
            _ => return what,
        };
        let next = self.tokens.len();
        let number = *self.tokens.entry(Arc::clone(token)).or_insert(next);
        *token = format!("t{number}").into();
        what
    }

    /// Lets the judge hear all that nothing can come before any more.
    fn settle(&mut self) {
        self.settle_until(self.threads.values().min().copied().unwrap_or_else(clock));
    }

    fn settle_until(&mut self, until: Nanos) {
        let later = self.pending.split_off(&(until, 0));
        for ((at, _), (call, what)) in mem::replace(&mut self.pending, later) {
            let event = Event { at, call, what };
            self.look_at(&event);
            let is_well = self.checker.hear(&event);
            if self.recent.len() == SHOWN {
                self.recent.pop_front();
            }
            self.recent.push_back(event);
            if !is_well {
                let found = self.checker.violations().last().cloned();
                self.keeps(found.unwrap());
            }
        }
    }

    /// Keeps what was found, and what happened before it, if it is the first.
    fn keeps(&mut self, found: Violation) {
        if self.first.is_none() {
            let after = clock() - self.began;
            self.first = Some((found, after, self.recent.clone()));
        }
    }

    /// Counts something by its name.
    fn look_at(&mut self, event: &Event) {
        let Some(call) = event.call else { return };
        match &event.what {
            What::Asks(asks) => drop(self.asked.insert(call, asks.on.clone())),
            What::Fails(why) => {
                self.asked.remove(&call);
                self.count(&format!("calls that failed: {why:?}"));
            }
            What::Gets(given) => {
                let on = self.asked.remove(&call);
                if let Some(on) = on.filter(|_| given.end.is_some_and(|end| end.high > event.at)) {
                    self.section(&on, event.at);
                }
            }
            What::Extended(_) => self.count("extensions"),
            What::NotExtended(why) => self.count(&format!("extensions that failed: {why:?}")),
            What::Lost(why) => self.count(&format!("losses told: {why:?}")),
            What::Released(says) if *says != Says::Nothing => {
                self.count(&format!("unlocks: {says:?}"));
            }
            _ => {}
        }
    }

    fn section(&mut self, on: &On, at: Nanos) {
        self.sections += 1;
        if self.calm.is_some_and(|calm| at >= calm) {
            for &place in &on.places {
                self.firsts.entry((place, on.is_read())).or_insert(at);
            }
        }
    }

    fn count(&mut self, what: &str) {
        *self.counts.entry(what.to_owned()).or_default() += 1;
    }

    /// Notes something that must not be, which another part of the test saw.
    pub(crate) fn wrong(&mut self, text: String) {
        self.keeps(Violation {
            rule: Rule::Other,
            at: clock(),
            calls: Vec::new(),
            text: text.clone(),
        });
        self.wrong.push(text);
    }

    pub(crate) fn is_calm(&mut self) {
        self.calm = Some(clock());
    }

    /// How long after the last fault the last place was had again; or those that were not, where some are to be had to read.
    pub(crate) fn recovery(&self) -> Result<Nanos, Vec<(usize, bool)>> {
        let places = (0..RESOURCES).flat_map(|place| [(place, false), (place, true)]);
        let places = places.chain(semaphores().map(|place| (place, false)));
        let stuck: Vec<_> = places.filter(|it| !self.firsts.contains_key(it)).collect();
        let last = self.firsts.values().max().copied().unwrap_or_default();
        if stuck.is_empty() {
            Ok(last - self.calm.unwrap_or(last))
        } else {
            Err(stuck)
        }
    }

    pub(crate) fn ends(&mut self) {
        self.settle_until(Nanos::MAX);
        self.checker.ends(clock() + self.longest);
        if let Some(found) = self.violations().first().cloned() {
            self.keeps(found);
        }
    }

    pub(crate) fn violations(&self) -> &[Violation] {
        self.checker.violations()
    }

    /// How often two had what one may have.
    pub(crate) fn overlaps(&self) -> usize {
        let is_overlap = |found: &&Violation| {
            matches!(found.rule, Rule::Exclusion | Rule::Readers | Rule::Permits)
        };
        self.violations().iter().filter(is_overlap).count()
    }
}

fn semaphores() -> std::ops::Range<usize> {
    FIRST_SEMAPHORE..FIRST_SEMAPHORE + SEMAPHORES
}

/// Shows at the start of a run that it can fail: what is told reaches the judge, in the order of time.
pub(crate) fn self_check() {
    let options = ["--seconds".to_owned(), "10".to_owned()];
    let options = Options::parse(&options).unwrap();
    let locked = |client: u32, at: Nanos| {
        let given = Given {
            token: client.to_string().into(),
            fencing: None,
            slot: None,
            end: Some(Span::exactly(at + 500)),
        };
        let asks = What::Asks(Asks {
            client,
            on: On::new(Way::Lock, [0]),
            ttl: None,
            adopts: None,
        });
        let call = Some(call(client, 0, 1));
        [(at - 1, asks), (at, What::Gets(given))]
            .map(|(at, what)| Told::Happened(Event { at, call, what }))
    };
    // A worker that was stopped tells it late.
    for (first, second, rules) in [
        (100, 599, &[Rule::Exclusion][..]),
        (599, 100, &[Rule::Exclusion]),
        (100, 600, &[]),
        (600, 100, &[]),
    ] {
        let mut record = Record::new(&options);
        (1..=2).for_each(|client| record.enters(client));
        let told = [(1, locked(1, first)), (2, locked(2, second))];
        for (client, told) in told.into_iter().flat_map(|(c, t)| t.map(|t| (c, t))) {
            record.hear(client, told);
        }
        record.ends();
        let found: Vec<Rule> = record.violations().iter().map(|found| found.rule).collect();
        assert_eq!(
            (found.as_slice(), record.first.is_some()),
            (rules, !rules.is_empty())
        );
    }
}
