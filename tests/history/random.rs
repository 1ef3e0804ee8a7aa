//! Random histories: those of a lock that gives out one lease after the other pass, and one change that breaks a rule is found.

use std::collections::HashMap;

use crate::{
    Access, Assumed, Call, Event, History, Nanos, On, Origin, Rule, Says, Span, Way, What, Who, Why,
};

/// How many permits there are of the semaphore.
const PERMITS: u32 = 2;
const SEMAPHORE: u32 = 9;

/// A lock on a single machine that nothing goes wrong with, and the history of those who use it.
struct Reference {
    rng: fastrand::Rng,
    now: Nanos,
    history: History,
    waiting: Vec<(Call, On)>,
    held: Vec<Held>,
    fencing: u64,
}

struct Held {
    call: Call,
    on: On,
    end: Nanos,
}

impl Reference {
    fn history(seed: u64) -> History {
        let mut lock = Self {
            rng: fastrand::Rng::with_seed(seed),
            now: 0,
            history: History::default(),
            waiting: Vec::new(),
            held: Vec::new(),
            fencing: 0,
        };
        for _ in 0..lock.rng.usize(10..80) {
            lock.now += lock.rng.u64(1..=10);
            match lock.rng.u8(0..6) {
                0 => lock.asks(),
                1 | 2 => lock.answers(),
                3 => lock.extends(),
                4 => lock.looks(),
                _ => lock.is_given_back(),
            }
        }
        for (call, _) in std::mem::take(&mut lock.waiting) {
            lock.fails(call);
        }
        lock.history
    }

    fn notes(&mut self, what: What) {
        self.history.notes(self.now, what);
    }

    fn asks(&mut self) {
        let who = Who {
            client: self.rng.u32(1..6),
            thread: 0,
        };
        let (one, other) = (self.rng.u32(0..2), self.rng.u32(0..2));
        let on = match self.rng.u8(0..4) {
            0 => On::read(one),
            1 => On::all([one, other]),
            2 => On::permit(SEMAPHORE),
            _ => On::alone(one),
        };
        let call = self.history.asks(self.now, who, on.clone(), None);
        self.waiting.push((call, on));
    }

    fn answers(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let place = self.rng.usize(0..self.waiting.len());
        let (call, on) = self.waiting.remove(place);
        let now = self.now;
        let valid = self.held.iter().filter(|held| held.end > now);
        let others = valid.filter(|held| held.on.places.iter().any(|p| on.places.contains(p)));
        let others: Vec<Access> = others.map(|held| held.on.access).collect();
        let is_free = match on.access {
            Access::Alone => others.is_empty(),
            Access::Read => others.iter().all(|access| *access == Access::Read),
            Access::Permit => others.len() < usize::try_from(PERMITS).unwrap(),
        };
        if !is_free || self.rng.u8(0..8) == 0 {
            return self.fails(call);
        }
        let end = now + self.rng.u64(1..60);
        self.fencing += self.rng.u64(1..3);
        let fencing = (on.access == Access::Alone).then_some(self.fencing);
        self.notes(What::Gets {
            call,
            token: format!("t{}", call.0).into(),
            fencing,
            slot: None,
            end: Some(Span::exactly(end)),
            origin: Origin::Nodes,
        });
        self.held.push(Held { call, on, end });
    }

    fn fails(&mut self, call: Call) {
        let why = Why::Held;
        self.notes(What::Fails { call, why });
    }

    fn extends(&mut self) {
        let (now, ttl) = (self.now, self.rng.u64(1..60));
        let Some(i) = self.pick() else { return };
        let hold = self.held[i].call;
        self.notes(What::Extends { hold, ttl });
        if self.held[i].end <= now {
            let why = Why::Expired;
            self.held[i].end = 0;
            return self.notes(What::NotExtended { hold, why });
        }
        let end = self.held[i].end.max(now + ttl);
        self.held[i].end = end;
        let end = Some(Span::exactly(end));
        self.notes(What::Extended { hold, end });
    }

    fn looks(&mut self) {
        let Some(i) = self.pick() else { return };
        let Held { call, end, .. } = self.held[i];
        let says = (end > self.now).then_some(Span::exactly(end));
        self.notes(What::Looks { hold: call, says });
    }

    fn is_given_back(&mut self) {
        let Some(i) = self.pick() else { return };
        let Held { call, end, .. } = self.held.remove(i);
        let (hold, way) = (call, Way::Unlock);
        let is_held = end > self.now;
        self.notes(What::Releases { hold, way });
        self.now += 1;
        let says = if is_held {
            Says::Okay
        } else {
            Says::Not(Why::Expired)
        };
        self.notes(What::Released { hold, says });
    }

    fn pick(&mut self) -> Option<usize> {
        let count = self.held.len();
        (count > 0).then(|| self.rng.usize(0..count))
    }
}

fn assumed() -> Assumed {
    Assumed {
        permits: [(SEMAPHORE, PERMITS)].into(),
        ..Assumed::default()
    }
}

fn found(events: &[Event]) -> Vec<Rule> {
    let mut history = History::default();
    for event in events {
        history.notes(event.at, event.what.clone());
    }
    let violations = history.violations(&assumed());
    violations.iter().map(|found| found.rule).collect()
}

/// Every change of one event that breaks a rule, and the rule.
#[expect(clippy::too_many_lines, reason = "one arm an event")]
fn changes(events: &[Event]) -> Vec<(Rule, Vec<Event>)> {
    let mut changes = Vec::new();
    let mut ends: HashMap<Call, Nanos> = HashMap::new();
    let mut asked: HashMap<Call, On> = HashMap::new();
    let used = events.iter().filter_map(|event| match event.what {
        What::Gets { fencing, .. } => fencing,
        _ => None,
    });
    let used: Vec<u64> = used.collect();
    // By place: the largest fencing token so far.
    let mut largest: HashMap<u32, u64> = HashMap::new();
    for (i, event) in events.iter().enumerate() {
        let at = event.at;
        let mut change = |rule, what: Option<What>| {
            let mut events = events.to_vec();
            match what {
                Some(what) => events[i].what = what,
                None => drop(events.remove(i)),
            }
            changes.push((rule, events));
        };
        match &event.what {
            What::Asks { call, on, .. } => drop(asked.insert(*call, on.clone())),
            What::Fails { .. } => change(Rule::Unended, None),
            What::Gets {
                call, fencing, end, ..
            } => {
                let end = end.unwrap().low;
                ends.insert(*call, end);
                let mut places = asked[call].places.iter();
                let before = places.find_map(|place| largest.get(place).copied());
                if let (Some(_), Some(before)) = (fencing, before) {
                    let smaller = (1..before).find(|number| !used.contains(number));
                    let smaller = smaller.map(|number| (Rule::Order, number));
                    for (rule, number) in smaller.into_iter().chain([(Rule::Twice, before)]) {
                        let mut what = event.what.clone();
                        if let What::Gets { fencing, .. } = &mut what {
                            *fencing = Some(number);
                        }
                        change(rule, Some(what));
                    }
                }
                if let Some(fencing) = fencing {
                    for place in &asked[call].places {
                        largest.insert(*place, *fencing);
                    }
                }
                let (call, on) = (Call(1_000_000), asked[call].clone());
                if on.access == Access::Alone {
                    // Somebody else gets it a moment later.
                    let mut events = events.to_vec();
                    let who = Who {
                        client: 77,
                        thread: 0,
                    };
                    let (ttl, adopts) = (None, None);
                    let asks = What::Asks {
                        call,
                        who,
                        on,
                        ttl,
                        adopts,
                    };
                    let gets = What::Gets {
                        call,
                        token: "another".into(),
                        fencing: None,
                        slot: None,
                        end: Some(Span::exactly(at + 1)),
                        origin: Origin::Nodes,
                    };
                    let new = [asks, gets].map(|what| Event { at, what });
                    events.splice(i + 1..=i, new);
                    changes.push((Rule::Exclusion, events));
                }
            }
            What::Extended { hold, end } => {
                let former = ends.insert(*hold, end.unwrap().low).unwrap();
                let (hold, end) = (*hold, Some(Span::exactly(former - 1)));
                change(Rule::Extension, Some(What::Extended { hold, end }));
            }
            What::NotExtended { hold, .. } => {
                let (hold, end) = (*hold, Some(Span::exactly(at + 1)));
                change(Rule::AfterEnd, Some(What::Extended { hold, end }));
                ends.insert(hold, 0);
            }
            What::Looks { hold, says } => {
                let hold = *hold;
                if says.is_some() {
                    change(Rule::EarlyLoss, Some(What::Looks { hold, says: None }));
                } else {
                    let says = Some(Span::exactly(at + 1));
                    change(Rule::LateLoss, Some(What::Looks { hold, says }));
                    ends.insert(hold, 0);
                }
            }
            What::Released {
                hold,
                says: Says::Okay,
            } if ends[hold] > at => {
                let (hold, says) = (*hold, Says::Not(Why::Gone));
                change(Rule::EarlyLoss, Some(What::Released { hold, says }));
            }
            _ => {}
        }
    }
    changes
}

#[test]
fn a_lock_that_gives_out_one_lease_after_the_other_passes() {
    for seed in 0..5_000 {
        let history = Reference::history(seed);
        assert_eq!(found(history.events()), [], "seed {seed}");
    }
}

#[test]
fn one_change_that_breaks_a_rule_is_found() {
    let mut seen: HashMap<Rule, u32> = HashMap::new();
    for seed in 0..500 {
        let history = Reference::history(seed);
        for (rule, events) in changes(history.events()) {
            let found = found(&events);
            assert!(found.contains(&rule), "seed {seed}: {rule:?}: {found:?}");
            *seen.entry(rule).or_default() += 1;
        }
    }
    println!("{seen:?}");
    assert_eq!(seen.len(), 8, "{seen:?}");
    assert!(seen.values().all(|count| *count > 50), "{seen:?}");
}
