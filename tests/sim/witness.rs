//! The witness: knows the truth, and compares every claim with it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use super::claims::Claim;
use super::clocks::Nanos;
use super::contents::Own;
use super::hooks::Hook;
use super::node::Executed;
use super::resting::Rests;
use super::wire::{Message, Verb};
use super::world::{State, World};
use crate::wire::resp::Reply;

#[derive(Default)]
pub(crate) struct Witness {
    /// The guards that are out, whether their leases have ended or not.
    pub(super) guards: Vec<Claim>,
    pub(super) next: u64,
    /// The hooks for losses.
    pub(super) hooks: Vec<Hook>,
    /// The claims whose clients were told of a loss, and what `unlock` said of them.
    pub(super) told: HashMap<u64, &'static str>,
    pub(super) unlocked: HashMap<u64, &'static str>,
    /// The tokens of the leases that nobody has adopted.
    pub(super) handed: HashSet<String>,
    /// The locks that are to rest.
    pub(super) rests: Rests,
    /// The key that each task is asking for, where a lock can be passed to it.
    pub(super) asking: HashMap<usize, String>,
    pub(super) tokens: HashMap<String, Token>,
    /// The attempts of readers that were told that a writer waits.
    pub(super) held_back: HashSet<String>,
    /// The task that asked for a lock with this token; another one may have sent it.
    pub(super) made_by: HashMap<String, usize>,
    /// The tokens that were sent again to each node, to heal their locks.
    pub(super) healed: HashSet<(usize, String)>,
    /// The nodes that were told to release an attempt, with its token.
    pub(super) undone: HashSet<(usize, String)>,
    /// The tokens that each node was told to release.
    released: HashSet<(usize, String)>,
    /// When the lock was given back last, where all want one.
    pub(super) freed: Nanos,
    pub(crate) violation: Option<String>,
    /// How often each thing has happened that does not happen by itself.
    pub(crate) tally: Tally,
}

pub(crate) type Tally = BTreeMap<&'static str, u64>;

pub(super) struct Token {
    number: usize,
    /// The task that made the attempt, or had its lock last.
    pub(super) task: usize,
    /// Whether a guard with it was returned.
    pub(super) is_returned: bool,
    /// Whether its lock was extended, perhaps before a thread that stops returned its guard.
    pub(super) is_extended: bool,
    /// Whether another thread has made the attempt, for the thread that gets the lock.
    is_passed: bool,
    /// When it was first sent.
    since: Nanos,
}

/// The name of a resource, and its key.
pub(crate) fn key(resource: usize) -> String {
    format!("r{resource}")
}

impl Witness {
    pub(crate) fn sent(&mut self, task: usize, now: Nanos, message: &Message) {
        *self.tally.entry("commands").or_default() += 1;
        // It comes first where the SET could not be sent at all, because the connection was closed.
        let is_first = message.verb == Verb::Retake && !self.tokens.contains_key(&message.token);
        if matches!(message.verb, Verb::Set | Verb::Pass) || is_first {
            self.asks(task, now, &message.token);
        }
        if message.verb == Verb::Pass
            && let Some(token) = self.tokens.get_mut(&message.token)
        {
            token.is_passed = true;
        }
        if message.verb == Verb::Look {
            *self.tally.entry("looked while waiting").or_default() += 1;
        }
    }

    fn asks(&mut self, sender: usize, now: Nanos, value: &str) {
        if self.tokens.contains_key(value) {
            return;
        }
        let token = Token {
            number: self.tokens.len(),
            task: self.made_by.get(value).copied().unwrap_or(sender),
            is_returned: false,
            is_extended: false,
            is_passed: false,
            since: now,
        };
        self.tokens.insert(value.to_owned(), token);
    }

    /// Its number in the trace.
    pub(super) fn number(&self, value: &str) -> usize {
        self.tokens.get(value).map_or(0, |token| token.number)
    }

    /// When the attempt with this value began.
    pub(super) fn began(&self, value: &str) -> Nanos {
        self.tokens.get(value).map_or(0, |token| token.since)
    }

    /// A guard with this value is returned to a task.
    pub(super) fn is_returned(&mut self, value: &str, task: usize) {
        if let Some(token) = self.tokens.get_mut(value) {
            (token.task, token.is_returned) = (task, true);
        }
    }

    /// Whether another thread has asked for it.
    pub(super) fn was_passed(&self, value: &str) -> bool {
        self.tokens.get(value).is_some_and(|token| token.is_passed)
    }

    /// Whether a guard has the lock with this value.
    fn is_out(&self, value: &str) -> bool {
        self.guards.iter().any(|claim| claim.token == value)
    }

    /// Whether the lock with this value is on its way to another thread that asks for it.
    fn is_on_its_way(&self, value: &str, key: &str, task: usize) -> bool {
        let token = self.tokens.get(value);
        let is_passed = token.is_some_and(|token| token.is_passed && !token.is_returned);
        let mut asking = self.asking.iter();
        is_passed && asking.any(|(other, of)| *other != task && of == key)
    }

    /// Tokens are random; a trace that can be compared with another has numbers.
    pub(crate) fn describe(&self, message: &Message) -> String {
        let Message { verb, ttl, .. } = message;
        let key = message.keys.join("+");
        match self.tokens.get(&message.token) {
            Some(token) => format!("{verb:?} {key} t{} {ttl}", token.number),
            None => format!("{verb:?}"),
        }
    }

    /// A reply, with the number of the token in place of a value that a script returned.
    pub(crate) fn told(&self, reply: &Reply) -> String {
        match reply {
            Reply::Bulk(bytes) => {
                let value = String::from_utf8_lossy(bytes);
                let token = value.get(..40).and_then(|token| self.tokens.get(token));
                token.map_or_else(|| value.to_string(), |token| format!("t{}", token.number))
            }
            Reply::Array(parts) => {
                let parts: Vec<String> = parts.iter().map(|part| self.told(part)).collect();
                format!("[{}]", parts.join(", "))
            }
            Reply::Int(number) => number.to_string(),
            Reply::Nil | Reply::Okay | Reply::Text(_) | Reply::Error(_) => format!("{reply:?}"),
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
        if !holds && self.plan.kind.is_sound() {
            self.fail(what());
        }
    }

    /// A node has executed a command.
    pub(crate) fn executed(&mut self, node: usize, message: &Message, executed: &Executed) {
        let own = Own {
            token: &message.token,
            ends: message.releases().map(String::as_str),
        };
        let mut changes = executed.before.iter().zip(&executed.after);
        if let Some(what) = changes.find_map(|(before, after)| after.wrong_since(before, own)) {
            let words = self.witness.describe(message);
            self.fail(format!("{words} {what} on n{node}"));
        }
        if message.asks() {
            self.count_answer(&executed.reply);
        }
        let mut changes = executed.before.iter().zip(&executed.after);
        let is_new =
            changes.any(|(before, after)| !before.has(&message.token) && after.has(&message.token));
        if message.verb == Verb::Extend && is_new {
            self.count("a healed key");
        }
        if message.asks() && is_new && self.witness.is_out(&message.token) {
            self.count("a key set again");
        }
        let has_all = executed.after.iter().all(|after| after.has(&message.token));
        if message.asks() && is_new && !has_all {
            let words = self.witness.describe(message);
            self.fail(format!("{words} set some keys and not all on n{node}"));
        }
        if message.verb == Verb::Rest {
            self.lets_rest(node, message, executed);
        }
        let told = (node, message.token.clone());
        if message.asks() && self.witness.released.contains(&told) {
            self.count("SET after its release");
        }
        if let Some(token) = message.releases() {
            self.witness.released.insert((node, token.clone()));
        }
        let is_look = matches!(message.verb, Verb::Inspect | Verb::Look | Verb::Ask);
        if is_look && executed.before != executed.after {
            let keys = message.keys.join("+");
            self.fail(format!("a look at {keys} changed it on n{node}"));
        }
        self.check_claims();
    }

    /// Every valid guard's key is on a quorum of nodes, and stays there for as long as the guard says. With the fenced
    /// protocol, those nodes count as well that have forgotten it since it was asked for.
    pub(super) fn check_claims(&mut self) {
        if !self.plan.kind.is_sound() {
            return;
        }
        let now = self.now;
        for i in 0..self.witness.guards.len() {
            let claim = &self.witness.guards[i];
            if claim.until <= now {
                continue;
            }
            let keys = claim.on.keys(&self.plan);
            // On each node, when the first key of several goes, if all are there.
            let nodes = self.nodes.iter_mut();
            let may_forget = !self.plan.kind.nodes_remember();
            let asked = claim.asked;
            let mut ends: Vec<Nanos> = nodes
                .filter_map(|node| {
                    if may_forget && node.forgot.is_some_and(|forgot| forgot >= asked) {
                        return Some(Nanos::MAX);
                    }
                    let ends = keys.iter().map(|key| node.expiry(key, &claim.token, now));
                    ends.min_by_key(|end| end.unwrap_or(0)).flatten()
                })
                .collect();
            ends.sort_unstable();
            let majority = self.plan.nodes / 2 + 1;
            let truth = ends.len().checked_sub(majority).map_or(now, |i| ends[i]);
            if truth < claim.until {
                let says = Duration::from_nanos(claim.until - now);
                let is = Duration::from_nanos(truth.saturating_sub(now));
                let (client, held) = (claim.client, ends.len());
                let key = keys.join("+");
                self.fail(format!(
                    "c{client} says that {key} is its for {says:?}, and it is for {is:?}: {held} nodes have its key"
                ));
            }
        }
    }

    /// Nothing was lost, everything has arrived, and all guards are given back: no key may be there, whatever its ttl,
    /// unless it was handed on and nobody has taken it.
    pub(crate) fn nothing_was_left_behind(&mut self) {
        if self.plan.lossless {
            for (node, key, token) in self.keys() {
                if self.witness.handed.contains(&token) || self.may_rest(&token) {
                    continue;
                }
                let number = self.witness.number(&token);
                self.require(false, || {
                    format!("n{node} still has {key} t{number} after every release")
                });
            }
        }
    }

    /// No key outlives its ttl.
    pub(crate) fn everything_has_expired(&mut self) {
        for (node, key, token) in self.keys() {
            let number = self.witness.number(&token);
            self.fail(format!("n{node} still has {key} t{number} after its ttl"));
        }
    }

    /// All keys there are: node, key and token.
    fn keys(&mut self) -> Vec<(usize, String, String)> {
        let mut keys = Vec::new();
        for resource in 0..self.plan.resources {
            for (i, node) in self.nodes.iter_mut().enumerate() {
                let key = self.plan.key(resource);
                for entry in node.contents(&key, self.now).entries() {
                    keys.push((i, key.clone(), entry.token.clone()));
                }
            }
        }
        keys
    }
}

impl World {
    /// No key of the task that is running is on any node, unless a guard of its is out.
    pub(crate) fn nothing_is_left(&self) {
        let mut state = self.state();
        let (task, client) = (state.task(), state.client());
        let keys = state.keys();
        let witness = &state.witness;
        let left = keys.iter().find(|(_, key, value)| {
            let token = witness.tokens.get(value);
            let is_its = token.is_some_and(|token| token.task == task);
            is_its && !witness.is_out(value) && !witness.is_on_its_way(value, key, task)
        });
        if let Some((node, key, _)) = left {
            let why = format!("c{client} left a key of {key} on n{node} in calm weather");
            state.fail(why);
        }
    }
}
