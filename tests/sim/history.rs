//! What happens in a run, noted for the judge of histories, which hears it at once.

use std::collections::HashMap;
use std::time::Duration;

use redlatch_history::{
    Assumed, Call, Checker, Event, Given, Leased, Nanos, On, Rule, Span, Violation, What, Who, Why,
    write,
};

use super::access::Access;
use super::claims::NOTICE;
use super::plan::{Plan, nanos};
use super::world::{State, World};
use crate::{Error, Lease, LockGuard, LossCause};

/// The place of the only semaphore.
const SEMAPHORE: u32 = 0;

/// The history of a run, and its judge.
pub(crate) struct Record {
    events: Vec<Event>,
    calls: u64,
    checker: Checker,
    /// For each task, the call that it waits for.
    asking: HashMap<usize, Call>,
    violation: Option<Violation>,
}

impl Record {
    pub(crate) fn new(plan: &Plan) -> Self {
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
            events: Vec::new(),
            calls: 0,
            checker: Checker::new(assumed),
            asking: HashMap::new(),
            violation: None,
        }
    }

    fn new_call(&mut self) -> Call {
        self.calls += 1;
        Call(self.calls)
    }

    /// Writes the events of a violation that the judge found, or what happened just before the run was ended. Returns where
    /// they are.
    pub(crate) fn write(&self, kind: &str, seed: u64, what: &str) -> String {
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

pub(super) fn why(error: &Error) -> Why {
    if let Error::Lost { cause, .. } = error {
        why_lost(cause)
    } else if matches!(error, Error::Held { .. }) {
        Why::Held
    } else {
        Why::Unknown
    }
}

pub(super) fn why_lost(cause: &LossCause) -> Why {
    match cause {
        LossCause::Expired { .. } | LossCause::Unreachable { .. } => Why::Expired,
        LossCause::Taken { .. } | LossCause::Vanished { .. } => Why::Gone,
        LossCause::MaxHold { .. } => Why::Limited,
        LossCause::Released => Why::Unknown,
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
        let before = self.record.checker.violations().len();
        let is_well = self.record.checker.hear(&event);
        self.record.events.push(event);
        if !is_well {
            self.is_judged(before);
        }
    }

    /// The run has ended.
    pub(super) fn all_calls_have_ended(&mut self) {
        let before = self.record.checker.violations().len();
        self.record.checker.ends(self.now);
        self.is_judged(before);
    }

    /// What the judge has found now, behind what it had found before. Two holders are to be expected without the assumptions of
    /// the algorithm, and all that comes of them.
    fn is_judged(&mut self, before: usize) {
        let is_sound = self.plan.kind.is_sound();
        let mut found = self.record.checker.violations()[before..].iter();
        let found = found.find(|found| {
            let is_of_two = matches!(found.rule, Rule::Revival | Rule::Release);
            let is_late = matches!(found.rule, Rule::LateMove);
            !(is_of_two && !is_sound || is_late && self.is_of_a_stop(found))
        });
        if let Some(found) = found.cloned() {
            let words = found.to_string();
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
                client.stood_still_until(self.now) && !client.could_go_on(claim.former..self.now)
            })
    }

    fn who(&self) -> Who {
        let thread = self.task() % self.plan.workers;
        Who {
            client: number(self.client()),
            thread: number(thread),
        }
    }

    fn on(&self, on: &Access) -> On {
        if self.plan.permits.is_some() {
            return On::permit(SEMAPHORE);
        }
        let places = on.resources().iter().map(|resource| number(*resource));
        if on.is_read() {
            On::read(number(on.resources()[0]))
        } else {
            On::all(places)
        }
    }

    /// The running task begins to call for a lock.
    pub(super) fn records_call(&mut self, on: &Access, ttl: Option<Nanos>, adopts: Option<&Lease>) {
        let (call, task) = (self.record.new_call(), self.task());
        let (who, on) = (self.who(), self.on(on));
        let adopts = adopts.map(|lease| Leased {
            token: lease.token().into(),
            fencing: lease.fencing_token(),
        });
        self.record.asking.insert(task, call);
        let what = What::Asks {
            who,
            on,
            ttl,
            adopts,
        };
        self.records(Some(call), what);
    }

    /// The running task has got no guard.
    pub(super) fn records_failure(&mut self, why: Why) {
        let task = self.task();
        if let Some(call) = self.record.asking.remove(&task) {
            self.records(Some(call), What::Fails(why));
        }
    }

    /// The task that is running has got a guard. Returns the number by which the judge knows it.
    pub(super) fn records_guard(&mut self, guard: &LockGuard, end: Nanos) -> Call {
        let task = self.task();
        // One that was not asked for is the judge's: it has heard of no such call.
        let asked = self.record.asking.remove(&task);
        let call = asked.unwrap_or_else(|| self.record.new_call());
        let given = Given {
            token: guard.token().into(),
            fencing: guard.fencing_token(),
            slot: guard.slot(),
            end: Some(Span::exactly(end)),
        };
        self.records(Some(call), What::Gets(given));
        call
    }

    /// Counts the guards that share something, as they may.
    pub(super) fn counts_company(&mut self, id: u64) {
        let now = self.now;
        let valid = self.witness.guards.iter().filter(|claim| claim.until > now);
        let held = valid.clone().count();
        let mine = self.witness.guards.iter().find(|claim| claim.id == id);
        let mine = mine.filter(|mine| mine.on.is_read() && mine.until > now);
        let mut others = valid.filter(|other| other.id != id);
        if mine.is_some_and(|mine| others.any(|other| other.on == mine.on)) {
            self.count("readers at the same time");
        }
        let permits = self.plan.permits.as_ref();
        let most = permits.map(|permits| usize::try_from(permits.agreed).unwrap());
        if most == Some(held) && held > 1 {
            self.count("all permits at once");
        }
    }
}

fn number(number: usize) -> u32 {
    u32::try_from(number).unwrap()
}

impl World {
    /// Something happens now to the guard of a claim.
    pub(super) fn records(&self, id: u64, what: What) {
        let mut state = self.state();
        if let Some(hold) = state.claim(id).map(|claim| claim.hold) {
            state.records(Some(hold), what);
        }
    }

    /// A guard is about to be asked whether it is valid. Returns whether it is.
    pub(super) fn begins_to_look(&self, id: u64) -> bool {
        self.look_now();
        self.state().is_held(id)
    }

    /// A guard was asked whether it is valid, and said yes. What has ended since that was asked was right to say so.
    pub(super) fn records_look(&self, id: u64, was_held: bool) {
        self.look_now();
        let state = self.state();
        let (end, is_held) = (state.end_of(id).map(Span::exactly), state.is_held(id));
        drop(state);
        if is_held || !was_held {
            self.records(id, What::Looks(end));
        }
    }

    /// Extends a lock, of which the judge knows.
    pub(super) fn extends(&self, id: u64, guard: &LockGuard, ttl: Duration) -> Result<(), Error> {
        self.records(id, What::Extends(nanos(ttl)));
        guard.extend(ttl)
    }
}
