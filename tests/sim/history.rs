//! What happens in a run, noted for the judge of histories, which hears it at once.

use redlatch_history::{
    Asks, Assumed, Checker, Event, Given, Leased, Nanos, Rule, Span, Violation, write,
};

use super::claims::NOTICE;
use super::prelude::*;
use crate::Lease;

const SEMAPHORE: usize = 0;

#[derive(Default)]
pub(super) struct Record {
    events: Vec<Event>,
    calls: u64,
    checker: Checker,
    /// For each task, the call that it waits for.
    asking: HashMap<usize, Call>,
    violation: Option<Violation>,
}

impl Record {
    pub(super) fn new(plan: &Plan) -> Self {
        let permits = plan.permits.iter();
        let assumed = Assumed {
            nodes_forget: plan.nodes_forget(),
            permits: permits.map(|permits| (SEMAPHORE, permits.agreed)).collect(),
            // As the client's own clock measures it.
            notice: NOTICE + NOTICE / 100,
            // A thread that stops after its last look at the clock returns a guard too late.
            is_exact: !plan.may_stop_after_a_look(),
        };
        Self {
            checker: Checker::new(assumed),
            ..Self::default()
        }
    }

    fn new_call(&mut self) -> Call {
        self.calls += 1;
        Call(self.calls)
    }

    /// Writes the events of a violation that the judge found, or what happened just before the run was ended. Returns where
    /// they are.
    pub(super) fn write(&self, kind: &str, seed: u64, what: &str) -> String {
        let other = Violation {
            rule: Rule::Other,
            at: self.events.last().map_or(0, |event| event.at),
            calls: Vec::new(),
            text: what.to_owned(),
        };
        let found = self.violation.as_ref().unwrap_or(&other);
        let path = write(&format!("sim-{kind}-{seed}"), &self.events, found);
        path.unwrap().display().to_string()
    }
}

impl State {
    /// Something happens now. The judge hears it, and what it finds ends the run.
    pub(super) fn records(&mut self, call: Option<Call>, what: What) {
        if self.is_over {
            return;
        }
        let at = self.now;
        let event = Event { at, call, what };
        self.judges(|checker| checker.hear(&event));
        self.record.events.push(event);
    }

    pub(super) fn all_calls_have_ended(&mut self) {
        let now = self.now;
        self.judges(|checker| checker.ends(now));
    }

    /// What the judge finds now ends the run. Two holders are to be expected without the assumptions of the algorithm, and all that
    /// comes of them.
    fn judges(&mut self, hears: impl FnOnce(&mut Checker)) {
        let before = self.record.checker.violations().len();
        hears(&mut self.record.checker);
        let is_sound = self.plan.kind.is_sound();
        let mut found = self.record.checker.violations()[before..].iter();
        let found = found.find(|found| {
            let is_of_two = matches!(found.rule, Rule::Revival | Rule::Release);
            let is_late = found.rule == Rule::LateMove;
            !(is_of_two && !is_sound || is_late && self.is_of_a_stop(found))
        });
        if let Some(found) = found.cloned() {
            let words = found.text.clone();
            self.record.violation.get_or_insert(found);
            self.fail(words);
        }
    }

    /// Whether a thread of the client stood still from the end of the lease up to now: by the clock that it had looked at before,
    /// all was well.
    fn is_of_a_stop(&self, found: &Violation) -> bool {
        let mut claims = self.witness.guards.iter();
        let claim = claims.find(|claim| found.calls.contains(&claim.hold));
        self.plan.may_stop_after_a_look()
            && claim.is_some_and(|claim| {
                let client = &self.clients[claim.client];
                // Another thread that waits for the end may let it go on at that very moment.
                let is_still =
                    |still: &Range<Nanos>| still.start < self.now && self.now <= still.end;
                client.stills.iter().any(is_still) && !client.could_go_on(claim.former..self.now)
            })
    }

    /// The name of a token: its number in the trace.
    fn named(&self, token: &str) -> Arc<str> {
        match self.witness.tokens.get(token) {
            Some(token) => format!("t{}", token.number).into(),
            None => token.into(),
        }
    }

    pub(super) fn records_call(&mut self, on: &On, ttl: Option<Nanos>, adopts: Option<&Lease>) {
        let (call, task) = (self.record.new_call(), self.task);
        let asks = Asks {
            client: u32::try_from(self.client()).unwrap(),
            on: match self.plan.permits {
                Some(_) => On::new(Way::Permit, [SEMAPHORE]),
                None => on.clone(),
            },
            ttl,
            adopts: adopts.map(|lease| Leased {
                token: self.named(lease.token()),
                fencing: lease.fencing_token(),
            }),
        };
        self.record.asking.insert(task, call);
        self.records(Some(call), What::Asks(asks));
    }

    pub(super) fn records_failure(&mut self, why: Why) {
        if let Some(call) = self.record.asking.remove(&self.task) {
            self.records(Some(call), What::Fails(why));
        }
    }

    /// The task that is running has got a guard. Returns the number by which the judge knows it.
    pub(super) fn records_guard(&mut self, guard: &LockGuard, end: Nanos) -> Call {
        // One that was not asked for is the judge's: it has heard of no such call.
        let asked = self.record.asking.remove(&self.task);
        let call = asked.unwrap_or_else(|| self.record.new_call());
        let given = Given {
            token: self.named(guard.token()),
            fencing: guard.fencing_token(),
            slot: guard.slot(),
            end: Some(Span::exactly(end)),
        };
        self.records(Some(call), What::Gets(given));
        call
    }

    /// Counts the guards that share something, as they may.
    pub(super) fn counts_company(&mut self, id: u64) {
        let valid = || self.witness.guards.iter().filter(|it| it.until > self.now);
        let mine = valid().find(|claim| claim.id == id && claim.on.is_read());
        let has_company = mine.is_some_and(|mine| {
            let mut others = valid().filter(|other| other.id != id);
            others.any(|other| other.on == mine.on)
        });
        let held = valid().count();
        if has_company {
            self.count("readers at the same time");
        }
        let permits = self.plan.permits.as_ref();
        let most = permits.map(|permits| usize::try_from(permits.agreed).unwrap());
        if most == Some(held) && held > 1 {
            self.count("all permits at once");
        }
    }
}

impl World {
    pub(super) fn records(&self, id: u64, what: What) {
        let mut state = self.state();
        if let Some(hold) = state.claim(id).map(|claim| claim.hold) {
            state.records(Some(hold), what);
        }
    }

    /// A guard was asked whether it is valid, and said yes. What has ended since that was asked was right to say so.
    pub(super) fn records_look(&self, id: u64, was_held: bool) {
        let mut state = self.state();
        let (is_held, end) = (state.is_held_now(id), state.end_of(id).map(Span::exactly));
        drop(state);
        if is_held || !was_held {
            self.records(id, What::Looks(end));
        }
    }
}
