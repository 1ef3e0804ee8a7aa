//! The witness: knows the truth, and compares every claim with it.

use std::collections::BTreeMap;

use super::claims::Claim;
use super::contents::Own;
use super::hooks::Hook;
use super::node::Executed;
use super::prelude::*;
use super::resting::Rest;
use crate::wire::scripts::is_missing;

#[derive(Default)]
pub(super) struct Witness {
    /// The guards that are out, whether their leases have ended or not.
    pub(super) guards: Vec<Claim>,
    pub(super) next: u64,
    pub(super) hooks: Vec<Hook>,
    /// What clients were told first of how their claims have ended.
    pub(super) told: HashMap<u64, &'static str>,
    /// The tokens of the leases that nobody has adopted.
    pub(super) handed: HashSet<String>,
    /// The locks that are to rest, by the tokens of their last guards.
    pub(super) rests: HashMap<String, Rest>,
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
    pub(super) violation: Option<String>,
    /// How often each thing has happened that does not happen by itself.
    pub(super) tally: Tally,
}

pub(super) type Tally = BTreeMap<&'static str, u64>;

pub(super) struct Token {
    pub(super) number: usize,
    /// The task that made the attempt, or had its lock last.
    pub(super) task: usize,
    pub(super) is_returned: bool,
    /// Whether its lock was extended, perhaps before a thread that stops returned its guard.
    pub(super) is_extended: bool,
    /// Whether another thread has made the attempt, for the thread that gets the lock.
    pub(super) is_passed: bool,
    /// When it was first sent.
    pub(super) since: Nanos,
}

/// The name of a resource, and its key.
pub(super) fn key(resource: usize) -> String {
    format!("r{resource}")
}

impl Witness {
    /// Its number in the trace, and in the history.
    pub(super) fn number(&self, token: &str) -> usize {
        self.tokens.get(token).map_or(0, |token| token.number)
    }

    pub(super) fn began(&self, token: &str) -> Nanos {
        self.tokens.get(token).map_or(0, |token| token.since)
    }

    /// Whether a guard has the lock with this value.
    fn is_out(&self, value: &str) -> bool {
        self.guards.iter().any(|claim| claim.token == value)
    }

    /// Tokens are random; a trace that can be compared with another has numbers.
    pub(super) fn describe(&self, message: &Message) -> String {
        let Message { verb, ttl, .. } = message;
        let key = message.keys.join("+");
        match self.tokens.get(&message.token) {
            Some(token) => format!("{verb:?} {key} t{} {ttl}", token.number),
            None => format!("{verb:?}"),
        }
    }

    /// A reply, with the number of the token in place of a value that a script returned.
    pub(super) fn told(&self, reply: &Reply) -> String {
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
    pub(super) fn count(&mut self, what: &'static str) {
        *self.witness.tally.entry(what).or_default() += 1;
    }

    /// Notes a broken promise, with its number in docs/safety.md where it has one. The first one ends the run; what comes later
    /// comes of it.
    pub(super) fn fail(&mut self, what: String) {
        if !self.is_over {
            self.fail_at_any_time(what);
        }
    }

    pub(super) fn fail_at_any_time(&mut self, what: String) {
        self.note(|| format!("VIOLATION: {what}"));
        self.witness.violation.get_or_insert(what);
        self.is_over = true;
    }

    /// A promise that is given only while the assumptions of the algorithm hold.
    pub(super) fn require(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds && self.plan.kind.is_sound() {
            self.fail(what());
        }
    }

    pub(super) fn majority(&self) -> usize {
        self.plan.nodes / 2 + 1
    }

    /// A node has executed a command.
    pub(super) fn executed(&mut self, node: usize, message: &Message, executed: &Executed) {
        let own = Own {
            token: &message.token,
            ends: message.releases().map(String::as_str),
        };
        let words = |state: &Self| state.witness.describe(message);
        let changes = || executed.before.iter().zip(&executed.after);
        if let Some(what) = changes().find_map(|(before, after)| after.wrong_since(before, own)) {
            self.fail(format!("P5: {} {what} on n{node}", words(self)));
        }
        let token = &message.token;
        let is_new = changes().any(|(before, after)| !before.has(token) && after.has(token));
        if message.verb == Verb::Extend && is_new {
            self.count("a healed key");
        }
        let told = (node, token.clone());
        if message.asks() {
            self.count_answer(&executed.reply);
            if is_new && self.witness.is_out(token) {
                self.count("a key set again");
                if self.witness.undone.contains(&told) {
                    self.count("a key set again behind an undo");
                }
            }
            if is_new && !executed.after.iter().all(|after| after.has(token)) {
                let words = words(self);
                self.fail(format!("P15: {words} set some keys and not all on n{node}"));
            }
            if self.witness.released.contains(&told) {
                self.count("SET after its release");
            }
        }
        if message.verb == Verb::Rest {
            self.lets_rest(node, message, executed);
        }
        if let Some(token) = message.releases() {
            self.witness.released.insert((node, token.clone()));
        }
        let is_look = matches!(message.verb, Verb::Inspect | Verb::Look | Verb::Ask);
        if is_look && executed.before != executed.after {
            let keys = message.keys.join("+");
            self.fail(format!("P5: a look at {keys} changed it on n{node}"));
        }
        // A node without the script has executed nothing. It gets the text next.
        if !is_missing(&executed.reply) {
            self.begins_its_quarantine(node, message);
        }
        self.check_claims();
    }

    /// A node that may have forgotten locks abstains for a time, which begins with the first command of a fenced client that holds
    /// a lock or wants one. Otherwise it would not vote in the calm that follows.
    fn begins_its_quarantine(&mut self, node: usize, message: &Message) {
        let is_of_lock = message.asks() || matches!(message.verb, Verb::Extend | Verb::Look);
        let Some(rules) = self.plan.rules().filter(|_| is_of_lock) else {
            return;
        };
        let config = rules.config.as_bytes();
        let mut parts = message.bytes.windows(config.len());
        if parts.any(|part| part == config) && !self.nodes[node].has_its_marker(&rules, self.now) {
            let words = self.witness.describe(message);
            self.fail(format!("P9: {words} began no quarantine on n{node}"));
        }
    }

    /// Every valid guard's key is on a quorum of nodes, and stays there for as long as the guard says. With the fenced
    /// protocol, those nodes count as well that have forgotten it since it was asked for.
    pub(super) fn check_claims(&mut self) {
        if !self.plan.kind.is_sound() {
            return;
        }
        let now = self.now;
        let may_forget = !self.plan.kind.nodes_remember();
        for i in 0..self.witness.guards.len() {
            let claim = &self.witness.guards[i];
            if claim.until <= now {
                continue;
            }
            let keys = self.plan.keys(&claim.on);
            // On each node, when the first key of several goes, if all are there.
            let ends = self.nodes.iter_mut().filter_map(|node| {
                if may_forget && node.forgot.is_some_and(|forgot| forgot >= claim.asked) {
                    return Some(Nanos::MAX);
                }
                let ends = keys.iter().map(|key| node.expiry(key, &claim.token, now));
                ends.min_by_key(|end| end.unwrap_or(0)).flatten()
            });
            let mut ends: Vec<Nanos> = ends.collect();
            ends.sort_unstable();
            let most = ends.len().checked_sub(self.plan.nodes / 2 + 1);
            let truth = most.map_or(now, |i| ends[i]);
            // The keys of a lock with a margin outlast it.
            let clock = self.clients[claim.client].clock;
            let until = clock.when(clock.shows(claim.until) + claim.margin);
            if truth < until {
                let says = Duration::from_nanos(until - now);
                let is = Duration::from_nanos(truth.saturating_sub(now));
                let (client, held, key) = (claim.client, ends.len(), keys.join("+"));
                self.fail(format!(
                    "P2: c{client} says that {key} is its for {says:?}, and it is for {is:?}: {held} nodes have its key"
                ));
            }
        }
    }

    /// Nothing was lost, everything has arrived, and all guards are given back: no key may be there, whatever its ttl,
    /// unless it was handed on and nobody has taken it.
    pub(super) fn nothing_was_left_behind(&mut self) {
        if !self.plan.lossless {
            return;
        }
        for (node, key, token) in self.keys() {
            if self.witness.handed.contains(&token) || self.may_rest(&token) {
                continue;
            }
            let number = self.witness.number(&token);
            self.require(false, || {
                format!("P7: n{node} still has {key} t{number} after every release")
            });
        }
    }

    pub(super) fn everything_has_expired(&mut self) {
        for (node, key, token) in self.keys() {
            let number = self.witness.number(&token);
            self.fail(format!(
                "P7: n{node} still has {key} t{number} after its ttl"
            ));
        }
    }

    fn keys(&mut self) -> Vec<(usize, String, String)> {
        let mut keys = Vec::new();
        for resource in 0..self.plan.resources {
            let key = self.plan.key(resource);
            for (i, node) in self.nodes.iter_mut().enumerate() {
                for entry in node.contents(&key, self.now).entries() {
                    keys.push((i, key.clone(), entry.token.clone()));
                }
            }
        }
        keys
    }
}

impl World {
    pub(super) fn fail(&self, what: String) {
        self.state().fail(what);
    }

    /// No key of the task that is running is on any node, unless a guard of its is out.
    pub(super) fn nothing_is_left(&self) {
        let mut state = self.state();
        let (task, client) = (state.task, state.client());
        let keys = state.keys();
        let witness = &state.witness;
        let left = keys.iter().find(|(_, key, value)| {
            let Some(token) = witness.tokens.get(value).filter(|token| token.task == task) else {
                return false;
            };
            // It may be on its way to another thread that asks for it.
            let mut asking = witness.asking.iter();
            let is_on_its_way = token.is_passed
                && !token.is_returned
                && asking.any(|(other, of)| *other != task && of == key);
            !witness.is_out(value) && !is_on_its_way
        });
        if let Some((node, key, _)) = left {
            let why = format!("P7: c{client} left a key of {key} on n{node} in calm weather");
            state.fail(why);
        }
    }
}
