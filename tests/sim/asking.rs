//! Who asks, and who sends for others. A thread may send what others of its client ask for, and every promise is judged by
//! who asked.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use redlatch_history::Why;

use super::access::Access;
use super::clocks::{MILLI, Nanos};
use super::history::why;
use super::plan::nanos;
use super::wire::{Message, Verb};
use super::world::{State, World};
use crate::guard::LockGuard;
use crate::{Error, quorum};

/// What a call has come to; none where the thread has panicked in the middle.
pub(super) type Asked = Option<Result<LockGuard, Error>>;

impl State {
    /// The running task begins to ask for a lock with this token.
    pub(super) fn asks_with(&mut self, token: String) {
        let task = self.task();
        self.tasks[task].is_leader = false;
        self.witness.made_by.insert(token, task);
    }

    /// The running task writes these commands. All of them get through, or the first ones.
    pub(super) fn writes(&mut self, id: usize, messages: &[Message]) {
        let (client, node) = {
            let connection = &self.network.connections[id];
            (connection.client, connection.node)
        };
        for message in messages {
            let token = self.witness.tokens.get(&message.token);
            if message.asks() && token.is_some_and(|token| token.is_returned || token.is_extended) {
                let told = (node, message.token.clone());
                self.witness.healed.insert(told);
            }
        }
        let open = self.network.open[node].iter();
        let mut others = open.map(|other| &self.network.connections[*other]);
        if others.any(|other| other.client == client && !other.unread.is_empty()) {
            self.count("two connections to a node at once");
        }
        if messages.len() > 1 {
            self.count("several at once");
        }
        self.counts_leaders(messages);
    }

    fn counts_leaders(&mut self, messages: &[Message]) {
        let owners = messages
            .iter()
            .filter(|message| message.asks() || message.releases().is_some());
        let owners: HashSet<usize> = owners
            .filter_map(|message| {
                let maker = self.witness.made_by.get(&message.token);
                let token = self.witness.tokens.get(&message.token);
                token.map(|token| token.task).or(maker.copied())
            })
            .collect();
        let task = self.task();
        let is_leader = owners.iter().any(|owner| *owner != task);
        self.tasks[task].is_leader = is_leader;
        if is_leader {
            self.count(if self.is_in_background() {
                "led from the background"
            } else {
                "led for others"
            });
        }
        if owners.len() > 2 {
            self.count("several threads in one write");
        }
    }

    /// A command is on its way to a node, or lost.
    pub(super) fn sent(&mut self, node: usize, message: &Message) {
        self.witness.sent(self.task(), self.now, message);
        if message.verb == Verb::Extend {
            if let Some(token) = self.witness.tokens.get_mut(&message.token) {
                token.is_extended = true;
            }
            let guards = self.witness.guards.iter_mut();
            for claim in guards.filter(|claim| claim.token == message.token) {
                claim.asks.get_or_insert(self.now);
            }
        }
        let is_of_a_heal = self.may_be_of_a_heal(node, message);
        // An undo from before the guard was returned goes again where its connection broke.
        let released = message.releases().filter(|_| message.verb != Verb::Rest);
        let told = released.map(|token| (node, token.clone()));
        let is_repeated = told.is_some_and(|told| !self.witness.undone.insert(told));
        self.sends_for_a_rest(message, is_of_a_heal || is_repeated);
    }

    /// Whether a background thread may release what it has set again on a node while the guard ended. It releases nothing
    /// else, and not on other nodes.
    fn may_be_of_a_heal(&self, node: usize, message: &Message) -> bool {
        let Some(token) = message.releases() else {
            return false;
        };
        let told = (node, token.clone());
        self.is_keeping(self.client()) && self.witness.healed.contains(&told)
    }

    /// A guard is returned to the task that asked for its lock. Returns when the attempt began that got it.
    pub(super) fn begins(
        &mut self,
        (client, on): (usize, &Access),
        guard: &LockGuard,
        ttl: Duration,
    ) -> Nanos {
        let value = guard.token();
        let clock = self.clients[client].clock;
        let deadline = guard.watch().deadline().as_nanos();
        // The nodes count whole milliseconds.
        let whole = Duration::from_millis(nanos(ttl) / MILLI);
        let validity = nanos(whole.saturating_sub(quorum::drift(whole, 0.01)));
        if deadline > clock.shows(self.now) + validity && !self.is_over {
            self.fail(format!("c{client} has {on} for longer than it asked for"));
        }
        let task = self.task();
        self.witness.is_returned(value, task);
        if self.witness.was_passed(value) {
            self.count("passed to the next thread");
        }
        self.witness.began(value)
    }
}

impl World {
    /// Calls for a lock. The witness knows of the call until it ends.
    pub(super) fn while_asking(
        &self,
        on: &Access,
        ttl: Duration,
        call: impl FnOnce() -> Asked,
    ) -> Asked {
        let mut state = self.state();
        let task = state.task();
        state.records_call(on, Some(nanos(ttl)), None);
        if let Some(resource) = on.only() {
            let key = state.plan.key(resource);
            state.witness.asking.insert(task, key);
        }
        drop(state);
        let result = call();
        let mut state = self.state();
        state.witness.asking.remove(&task);
        match &result {
            Some(Ok(_)) => {}
            Some(Err(error)) => state.records_failure(why(error)),
            None => state.records_failure(Why::Unknown),
        }
        result
    }

    /// Makes a call that may panic in the middle. None if it did.
    pub(super) fn despite_death<T>(&self, call: impl FnOnce() -> T) -> Option<T> {
        let may_die = |is_so| {
            let mut state = self.state();
            let task = state.task();
            state.tasks[task].may_die = is_so;
        };
        may_die(true);
        let result = catch_unwind(AssertUnwindSafe(call));
        may_die(false);
        result.ok()
    }

    /// Perhaps panics, where the plan has that and the thread survives it.
    pub(super) fn may_die(&self) {
        let mut state = self.state();
        let (task, chance) = (state.task(), state.plan.crowds.unwrap_or(0));
        if !state.tasks[task].may_die || state.is_over || !state.is_unlucky(chance) {
            return;
        }
        // A second panic while a thread unwinds would abort.
        state.tasks[task].may_die = false;
        let client = state.client();
        state.note(|| format!("c{client} panics"));
        state.count("a panic in the middle of a call");
        if state.tasks[task].is_leader {
            state.count("a panic of a leader");
        }
        drop(state);
        resume_unwind(Box::new("in the plan"));
    }
}
