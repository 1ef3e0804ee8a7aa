//! The witness: knows the truth, and compares every claim with it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use super::clocks::Nanos;
use super::node::Executed;
use super::plan::{Kind, Plan};
use super::wire::{Message, Verb};
use super::world::{State, World};
use crate::fencing::FencingToken;
use crate::guard::LockGuard;

#[derive(Default)]
pub(crate) struct Witness {
    /// The guards that are out, whether their leases have ended or not.
    guards: Vec<Claim>,
    next: u64,
    /// Who had each resource last.
    last: Vec<Option<(u64, Nanos)>>,
    tokens: HashMap<String, Token>,
    /// The fencing tokens of each resource, with the times when their guards were returned.
    pub(super) fencing: Vec<Vec<(Nanos, FencingToken)>>,
    /// The tokens that each node was told to release.
    released: HashSet<(usize, String)>,
    pub(crate) violation: Option<String>,
    pub(crate) acquired: u64,
    pub(crate) extended: u64,
    pub(crate) refused: u64,
    pub(crate) commands: u64,
    /// How often each thing has happened that does not happen by itself.
    pub(crate) tally: Tally,
}

pub(crate) type Tally = BTreeMap<&'static str, u64>;

/// A guard, and until which true time it says to be valid.
struct Claim {
    id: u64,
    client: usize,
    resource: usize,
    token: String,
    since: Nanos,
    until: Nanos,
}

struct Token {
    number: usize,
    /// Who made it.
    task: usize,
    /// When it was first sent.
    since: Nanos,
}

/// The name of a resource, and its key.
pub(crate) fn key(resource: usize) -> String {
    format!("r{resource}")
}

impl Witness {
    pub(crate) fn new(plan: &Plan) -> Self {
        Self {
            last: vec![None; plan.resources],
            fencing: vec![Vec::new(); plan.resources],
            ..Self::default()
        }
    }

    pub(crate) fn sent(&mut self, task: usize, now: Nanos, message: &Message) {
        self.commands += 1;
        if message.verb == Verb::Set {
            let number = self.tokens.len();
            self.tokens.entry(message.token.clone()).or_insert(Token {
                number,
                task,
                since: now,
            });
        }
    }

    /// When the attempt with this value began.
    pub(super) fn began(&self, value: &str) -> Nanos {
        self.tokens.get(value).map_or(0, |token| token.since)
    }

    /// Tokens are random; a trace that can be compared with another has numbers.
    pub(crate) fn describe(&self, message: &Message) -> String {
        let Message { verb, key, ttl, .. } = message;
        match self.tokens.get(&message.token) {
            Some(token) => format!("{verb:?} {key} t{} {ttl}", token.number),
            None => format!("{verb:?}"),
        }
    }
}

impl State {
    pub(crate) fn count(&mut self, what: &'static str) {
        *self.witness.tally.entry(what).or_default() += 1;
    }

    /// Notes a broken promise; the first one ends the run.
    pub(crate) fn fail(&mut self, what: String) {
        self.note(|| format!("VIOLATION: {what}"));
        if self.witness.violation.is_none() {
            self.witness.violation = Some(what);
        }
        self.is_over = true;
    }

    /// A promise that is given only while the assumptions of the algorithm hold.
    pub(super) fn require(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds && matches!(self.plan.kind, Kind::Sound | Kind::Fenced) {
            self.fail(what());
        }
    }

    /// A node has executed a command.
    pub(crate) fn executed(&mut self, node: usize, message: &Message, executed: &Executed) {
        if let Some(before) = &executed.before
            && *before != message.token
            && executed.after.as_ref() != Some(before)
        {
            let words = self.witness.describe(message);
            self.fail(format!("{words} touched another holder's key on n{node}"));
        }
        if matches!(message.verb, Verb::Set | Verb::Retake) {
            self.count_answer(&executed.reply);
        }
        if message.verb == Verb::Extend && executed.before.is_none() && executed.after.is_some() {
            self.count("a healed key");
        }
        match message.verb {
            Verb::Release => {
                let told = (node, message.token.clone());
                self.witness.released.insert(told);
            }
            Verb::Set | Verb::Retake => {
                let told = (node, message.token.clone());
                if self.witness.released.contains(&told) {
                    self.count("SET after its release");
                }
            }
            Verb::Inspect | Verb::Ask if executed.before != executed.after => {
                self.fail(format!("a look at {} changed it on n{node}", message.key));
            }
            Verb::Extend | Verb::Inspect | Verb::Ask | Verb::Ping => {}
        }
        self.check_claims();
    }

    /// Every valid guard's key is on a quorum of nodes, and stays there for as long as the guard says, unless nodes
    /// forget.
    fn check_claims(&mut self) {
        if self.plan.kind != Kind::Sound {
            return;
        }
        let now = self.now;
        for i in 0..self.witness.guards.len() {
            let claim = &self.witness.guards[i];
            if claim.until <= now {
                continue;
            }
            let key = key(claim.resource);
            let mut ends: Vec<Nanos> = self
                .nodes
                .iter_mut()
                .filter_map(|node| node.expiry(&key, &claim.token, now))
                .collect();
            ends.sort_unstable();
            let majority = self.plan.nodes / 2 + 1;
            let truth = ends.len().checked_sub(majority).map_or(now, |i| ends[i]);
            if truth < claim.until {
                let says = Duration::from_nanos(claim.until - now);
                let is = Duration::from_nanos(truth.saturating_sub(now));
                let (client, held) = (claim.client, ends.len());
                self.fail(format!(
                    "c{client} says that {key} is its for {says:?}, and it is for {is:?}: {held} nodes have its key"
                ));
            }
        }
    }

    /// Nobody else has the resource.
    fn check_exclusion(&mut self, id: u64) {
        let now = self.now;
        let Some(mine) = self.witness.guards.iter().find(|claim| claim.id == id) else {
            return;
        };
        let other =
            self.witness.guards.iter().find(|other| {
                other.id != id && other.resource == mine.resource && other.until > now
            });
        if let Some(other) = other.filter(|_| mine.until > now) {
            let (a, b, resource) = (mine.client, other.client, mine.resource);
            self.fail(format!("two holders: c{a} and c{b} both have r{resource}"));
        }
    }

    fn next_holder_after(&self, resource: usize, id: u64, since: Nanos) -> bool {
        self.witness.last[resource].is_some_and(|(last, at)| last != id && at > since)
    }

    /// Nothing was lost, everything has arrived, and all guards are given back: no key may be there, whatever its ttl.
    pub(crate) fn nothing_was_left_behind(&mut self) {
        if self.plan.lossless {
            for (node, key, token) in self.keys() {
                self.require(false, || {
                    format!("n{node} still has {key} {token} after every release")
                });
            }
        }
    }

    /// No key outlives its ttl.
    pub(crate) fn everything_has_expired(&mut self) {
        for (node, key, token) in self.keys() {
            self.fail(format!("n{node} still has {key} {token} after its ttl"));
        }
    }

    /// All keys there are: node, key and token.
    fn keys(&mut self) -> Vec<(usize, String, String)> {
        let mut keys = Vec::new();
        for resource in 0..self.plan.resources {
            for (i, node) in self.nodes.iter_mut().enumerate() {
                if let Some(token) = node.value(&key(resource), self.now) {
                    let number = self
                        .witness
                        .tokens
                        .get(&token)
                        .map_or(0, |token| token.number);
                    keys.push((i, key(resource), format!("t{number}")));
                }
            }
        }
        keys
    }
}

impl World {
    /// A guard was returned. Returns the number by which the witness knows it.
    pub(crate) fn acquired(&self, client: usize, resource: usize, guard: &LockGuard) -> u64 {
        let until = self.claimed_end(client, guard);
        let mut state = self.state();
        let now = state.now;
        state.witness.next += 1;
        state.witness.acquired += 1;
        let id = state.witness.next;
        let left = Duration::from_nanos(until.saturating_sub(now));
        let number = state
            .witness
            .tokens
            .get(guard.token())
            .map_or(0, |token| token.number);
        state.note(|| format!("c{client} HOLDS r{resource} t{number} for {left:?}"));
        if state.is_over {
            return id;
        }
        if until <= now {
            state.fail(format!(
                "c{client} was given r{resource} when it had expired"
            ));
        }
        state.witness.guards.push(Claim {
            id,
            client,
            resource,
            token: guard.token().to_owned(),
            since: now,
            until,
        });
        state.check_exclusion(id);
        state.check_claims();
        state.check_order(client, resource, guard);
        state.witness.last[resource] = Some((id, now));
        id
    }

    /// An extension has succeeded.
    pub(crate) fn extended(&self, id: u64, guard: &LockGuard) {
        let Some((client, resource, since, old)) = self.claim(id) else {
            return;
        };
        let until = self.claimed_end(client, guard);
        let mut state = self.state();
        let now = state.now;
        state.witness.extended += 1;
        state.note(|| {
            format!(
                "c{client} EXTENDED r{resource} to {:?}",
                Duration::from_nanos(until)
            )
        });
        let next = state.next_holder_after(resource, id, since);
        if old <= now {
            state.fail(format!(
                "c{client} revived its expired lease of r{resource}"
            ));
        }
        state.require(!next, || {
            format!(
                "c{client} revived its lease of r{resource}, which another client has had since"
            )
        });
        if until < old {
            state.fail(format!("c{client} shortened its lease of r{resource}"));
        }
        state.set_claim(id, until);
        state.check_exclusion(id);
        state.check_claims();
    }

    /// An extension has failed; the lock is as it was, or lost.
    pub(crate) fn not_extended(&self, id: u64, guard: &LockGuard) {
        let Some((client, resource, _, old)) = self.claim(id) else {
            return;
        };
        let until = self.claimed_end(client, guard);
        let mut state = self.state();
        let has_ended = old <= state.now;
        state.require(until <= old, || {
            format!("c{client} failed to extend r{resource} and has it for longer")
        });
        // A majority keeps the keys of a lease that lasts, so no answers can show that it is lost, unless nodes forget.
        let forgets = state.plan.kind == Kind::Fenced;
        state.require(until == old || has_ended || forgets, || {
            format!("c{client} was told that r{resource} is lost while its lease lasted")
        });
        state.set_claim(id, until);
        state.check_claims();
    }

    /// The guard is about to be given back, and claims nothing from now on.
    pub(crate) fn gives_back(&self, id: u64) -> Returned {
        let mut state = self.state();
        let now = state.now;
        let guards = &mut state.witness.guards;
        let returned = guards
            .iter()
            .position(|claim| claim.id == id)
            .map(|i| guards.remove(i));
        let claim = returned.map(|claim| {
            let (client, resource) = (claim.client, claim.resource);
            state.note(|| format!("c{client} gives r{resource} back"));
            let is_disputed = state.next_holder_after(resource, id, claim.since);
            (client, resource, is_disputed, claim.until)
        });
        Returned { claim, at: now }
    }

    /// `unlock` has said that the lock was held up to then.
    pub(crate) fn unlocked(&self, returned: &Returned) {
        if let Some((client, resource, is_disputed, _)) = returned.claim {
            self.state().require(!is_disputed, || {
                format!("c{client} was told that it had r{resource} up to {:?}, and another had it before", returned.at)
            });
        }
    }

    /// `unlock` has said that the lock was lost.
    pub(crate) fn lost(&self, returned: &Returned) {
        if let Some((client, resource, _, until)) = returned.claim {
            let mut state = self.state();
            let has_ended = until <= state.now;
            let forgets = state.plan.kind == Kind::Fenced;
            state.require(has_ended || forgets, || {
                format!("c{client} gave r{resource} back and was told that it was lost while its lease lasted")
            });
        }
    }

    /// No key of the task that is running is on any node, unless a guard of its is out.
    pub(crate) fn nothing_is_left(&self) {
        let mut state = self.state();
        let (task, client) = (state.task(), state.client());
        for resource in 0..state.plan.resources {
            for node in 0..state.plan.nodes {
                let now = state.now;
                let Some(value) = state.nodes[node].value(&key(resource), now) else {
                    continue;
                };
                let witness = &state.witness;
                let is_held = witness.guards.iter().any(|claim| claim.token == value);
                let is_its = witness
                    .tokens
                    .get(&value)
                    .is_some_and(|token| token.task == task);
                if is_its && !is_held {
                    state.fail(format!(
                        "c{client} left a key of r{resource} on n{node} in calm weather"
                    ));
                }
            }
        }
    }

    pub(crate) fn broken_promise(&self, what: String) {
        let mut state = self.state();
        if !state.is_over {
            state.fail(what);
        }
    }

    fn claim(&self, id: u64) -> Option<(usize, usize, Nanos, Nanos)> {
        let state = self.state();
        let claim = state.witness.guards.iter().find(|claim| claim.id == id)?;
        (!state.is_over).then_some((claim.client, claim.resource, claim.since, claim.until))
    }

    /// The true time until which the guard says that it is valid; zero when it says that it is not.
    fn claimed_end(&self, client: usize, guard: &LockGuard) -> Nanos {
        let remaining = self.as_witness(|| guard.remaining());
        if remaining.is_zero() {
            return 0;
        }
        let state = self.state();
        let clock = state.clients[client].clock;
        let shown = clock.shows(state.now);
        clock.when(shown + super::plan::nanos(remaining))
    }
}

/// A guard that was given back, and when.
pub(crate) struct Returned {
    /// The client, the resource, whether another has had it since, and until when it was valid.
    claim: Option<(usize, usize, bool, Nanos)>,
    at: Nanos,
}

impl State {
    fn set_claim(&mut self, id: u64, until: Nanos) {
        if let Some(claim) = self.witness.guards.iter_mut().find(|claim| claim.id == id) {
            claim.until = until;
        }
    }
}
