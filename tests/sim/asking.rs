//! Who asks, who sends for others, and what nodes answer. A thread may send what others of its client ask for, and every promise
//! is judged by who asked.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::prelude::*;
use super::wish::why;
use super::witness::Token;
use crate::guard::LockGuard;
use crate::quorum;

/// What a call has come to; none where the thread has panicked in the middle.
pub(super) type Asked = Option<Result<LockGuard, Error>>;

impl State {
    /// The running task writes these commands. All of them get through, or the first ones.
    pub(super) fn writes(&mut self, id: usize, messages: &[Message]) {
        let connection = &self.network.connections[id];
        let (client, node) = (connection.client, connection.node);
        for message in messages.iter().filter(|message| message.asks()) {
            let token = self.witness.tokens.get(&message.token);
            if token.is_some_and(|token| token.is_returned || token.is_extended) {
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
        let of_locks = messages.iter();
        let of_locks = of_locks.filter(|it| it.asks() || it.releases().is_some());
        let owners = of_locks.filter_map(|message| {
            let token = self.witness.tokens.get(&message.token);
            let maker = self.witness.made_by.get(&message.token);
            token.map(|token| token.task).or(maker.copied())
        });
        let owners: HashSet<usize> = owners.collect();
        let task = self.task;
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

    pub(super) fn sent(&mut self, node: usize, message: &Message) {
        if message.verb == Verb::Look {
            self.count("looked while waiting");
        }
        // A repetition comes first where the SET could not be sent at all, because the connection was closed.
        if message.asks() {
            let (task, number) = (self.task, self.witness.tokens.len());
            let tokens = &mut self.witness.tokens;
            let maker = self.witness.made_by.get(&message.token);
            let token = tokens.entry(message.token.clone()).or_insert(Token {
                number,
                task: maker.copied().unwrap_or(task),
                is_returned: false,
                is_extended: false,
                is_passed: false,
                since: self.now,
            });
            token.is_passed |= message.verb == Verb::Pass;
        }
        if message.verb == Verb::Extend {
            if let Some(token) = self.witness.tokens.get_mut(&message.token) {
                token.is_extended = true;
            }
            let guards = self.witness.guards.iter_mut();
            for claim in guards.filter(|claim| claim.token == message.token) {
                claim.asks.get_or_insert(self.now);
            }
        }
        let told = message.releases().map(|token| (node, token.clone()));
        // A background thread may release what it has set again on a node while the guard ended. It releases nothing else, and
        // not on other nodes.
        let mut may_release = told.as_ref().is_some_and(|told| {
            self.is_keeping(self.client()) && self.witness.healed.contains(told)
        });
        // An undo from before the guard was returned goes again where its connection broke.
        if let Some(told) = told.filter(|_| message.verb != Verb::Rest) {
            may_release |= !self.witness.undone.insert(told);
        }
        self.sends_for_a_rest(message, may_release);
    }

    /// A guard is returned to the task that asked for its lock. Returns when the attempt began that got it.
    pub(super) fn begins(
        &mut self,
        (client, on): (usize, &On),
        guard: &LockGuard,
        ttl: Duration,
    ) -> Nanos {
        let clock = self.clients[client].clock;
        let deadline = guard.watch().deadline().as_nanos();
        // The nodes count whole milliseconds.
        let whole = Duration::from_millis(nanos(ttl) / MILLI);
        let validity = nanos(whole.saturating_sub(quorum::drift(whole, 0.01)));
        if deadline > clock.shows(self.now) + validity {
            self.fail(format!(
                "P2: c{client} has {on} for longer than it asked for"
            ));
        }
        if self.witness.held_back.contains(guard.token()) {
            self.fail(format!(
                "P17: c{client} has {on}, and a node told it that a writer waits"
            ));
        }
        let task = self.task;
        let token = self.witness.tokens.get_mut(guard.token());
        let Some(token) = token else { return 0 };
        (token.task, token.is_returned) = (task, true);
        let (is_passed, since) = (token.is_passed, token.since);
        if is_passed {
            self.count("passed to the next thread");
        }
        since
    }

    /// Notes what a node of the fenced protocol has said, beside yes and no.
    pub(super) fn count_answer(&mut self, reply: &Reply) {
        let Reply::Array(items) = reply else {
            return;
        };
        if let [_, asked @ Reply::Array(_)] = items.as_slice() {
            // The token of a pass.
            return self.count_answer(asked);
        }
        let Some(Reply::Bulk(word)) = items.first() else {
            return;
        };
        match word.as_slice() {
            b"STALE" => self.count("a larger token"),
            // A node is asked with a token which is too far ahead. Where most of them refuse it, the client gets no lock.
            b"SKEW" if self.plan.is_beyond => self.count("a token too far ahead"),
            b"CLOSED" => self.count("abstained"),
            _ => {
                let word = String::from_utf8_lossy(word);
                self.fail(format!("a node says {word}"));
            }
        }
    }

    /// A client has read the reply to an attempt. Where a writer waits, new readers are held back.
    pub(super) fn is_answered(&mut self, asked: Option<String>, reply: Option<&Reply>) {
        let (Some(token), Some(Reply::Array(items))) = (asked, reply) else {
            return;
        };
        if let [Reply::Int(_), Reply::Int(-1)] = items.as_slice() {
            self.count("a reader is held back for a writer");
            self.witness.held_back.insert(token);
        }
    }
}

impl World {
    /// Calls for a lock. The witness knows of the call until it ends, and demands that it ends within its time.
    pub(super) fn while_asking(&self, on: &On, wish: &Wish, call: impl FnOnce() -> Asked) -> Asked {
        let mut state = self.state();
        let (task, client, began) = (state.task, state.client(), state.now);
        state.records_call(on, Some(nanos(wish.ttl)), None);
        // Only a lock on one resource goes from thread to thread.
        if let ([resource], false) = (on.places.as_slice(), on.is_read()) {
            let key = state.plan.key(*resource);
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
        let timeout = match wish.waits {
            Waits::For(timeout) => timeout,
            Waits::Once | Waits::AsUsual => Duration::ZERO,
        };
        let still = state.clients[client].stood_still_in(&(began..state.now));
        let allowed = nanos(timeout) + state.plan.lateness(timeout) + still;
        let took = state.now - began;
        if took > allowed {
            state.fail(format!(
                "P18: c{client} asked for {on} for {took} ns, and was to have an answer within {allowed} ns"
            ));
        }
        result
    }

    /// Makes a call that may panic in the middle. None if it did.
    pub(super) fn despite_death<T>(&self, call: impl FnOnce() -> T) -> Option<T> {
        let may_die = |is_so| {
            let mut state = self.state();
            let task = state.task;
            state.tasks[task].may_die = is_so;
        };
        may_die(true);
        let result = catch_unwind(AssertUnwindSafe(call));
        may_die(false);
        result.ok()
    }

    pub(super) fn may_die(&self) {
        let mut state = self.state();
        let (task, chance) = (state.task, state.plan.crowds.unwrap_or(0));
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
