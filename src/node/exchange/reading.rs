//! An exchange reads the replies to requests that were sent, and undoes those that get none.

use std::io;
use std::mem::take;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{Exchange, POLL_INTERVAL, State};
use crate::clock::Timestamp;
use crate::error::NodeError;
use crate::node::echo;
use crate::node::reply::Said;
use crate::node::request::{Answer, Asked, Trace};
use crate::node::slot::SUSPICIOUS_IDLE;
use crate::wire::resp::Reply;
use crate::wire::scripts;
use crate::wire::transport::closed;

impl Exchange<'_> {
    /// Reads the replies that come within `patience` from `now`, and answers the requests if no time is left.
    pub(in super::super) fn poll(&mut self, now: Timestamp, patience: Duration) {
        if self.state != State::Sent {
            return;
        }
        let mut is_there = self.has_come(now, patience);
        while is_there && !self.is_answered() {
            self.read();
            let deadline = self.step_deadline();
            is_there = self.slot.has_surplus() && self.slot.is_ready(now, deadline);
        }
        if !self.is_answered() && self.is_overdue() {
            self.fail_rest(&NodeError::TimedOut);
        }
        if self.is_answered() {
            self.end();
        }
    }

    /// Reads all replies.
    pub(in super::super) fn receive(&mut self) {
        while self.state == State::Sent {
            if let [asked] = self.all {
                self.receive_one(asked);
            } else {
                self.poll(self.node.now(), Duration::MAX);
            }
        }
    }

    /// Reads a reply to the only request. This takes one system call in most cases.
    fn receive_one(&mut self, asked: &Asked<'_>) {
        let mut is_wanted = true;
        if let Some(given_up) = asked.request.given_up() {
            while is_wanted && !self.has_come(self.node.now(), POLL_INTERVAL) && !self.is_overdue()
            {
                is_wanted = !given_up.load(Ordering::Acquire);
            }
        }
        if is_wanted {
            self.read();
        } else {
            // The connection is closed, because the reply is still to come.
            self.fail(0, &NodeError::TimedOut);
        }
        if self.is_answered() {
            self.end();
        }
    }

    /// Waits for a reply for no longer than `patience`. Returns whether it can be read without waiting.
    fn has_come(&mut self, now: Timestamp, patience: Duration) -> bool {
        let from = now.max(self.looked_until);
        let until = from.saturating_add(patience).min(self.deadline);
        let deadline = self.step_deadline();
        let has_come = self.slot.is_ready(until, deadline);
        if !has_come {
            // The next wait ends later than this one, also on a clock that stands still during the wait.
            self.looked_until = until;
        }
        has_come
    }

    /// Whether the deadline has passed, or the clock has ended because the manager is gone.
    fn is_overdue(&self) -> bool {
        self.looked_until >= self.deadline || self.node.clock.has_ended()
    }

    /// Reads the next reply.
    fn read(&mut self) {
        let deadline = self.step_deadline();
        match self.slot.recv(deadline) {
            Ok(reply) => self.take_reply(reply),
            Err(error) => self.broke(error),
        }
    }

    /// The place of the oldest request without a reply.
    fn oldest(&self) -> Option<usize> {
        let mut in_order = self.answers.iter().enumerate().skip(self.next);
        let first = in_order.find(|(_, answer)| answer.is_none());
        let first = first.map(|(place, _)| place);
        first.or_else(|| self.sent_again.front().copied())
    }

    /// Takes a reply for the oldest request without one.
    fn take_reply(&mut self, reply: Reply) {
        debug_assert!(self.undos.is_empty(), "an undo is the last that is sent");
        let Some(place) = self.oldest() else {
            return;
        };
        let Some(asked) = self.all.get(place) else {
            return;
        };
        let count = asked.request.packed.count();
        let reply = if count == 1 {
            reply
        } else {
            self.parts.push(reply);
            if self.parts.len() < count {
                return;
            }
            Reply::Array(take(&mut self.parts))
        };
        if place < self.next {
            self.sent_again.pop_front();
        } else {
            self.next = place.saturating_add(1);
        }
        if self.missing_scripts > 0 && scripts::is_missing(&reply) {
            return self.call_by_text(place, asked);
        }
        self.accept(place, asked, reply);
    }

    fn call_by_text(&mut self, place: usize, asked: &Asked<'_>) {
        self.missing_scripts = self.missing_scripts.saturating_sub(1);
        match self.send_script_again(asked.request) {
            Ok(()) => self.sent_again.push_back(place),
            Err(error) => self.fail_rest(&error),
        }
    }

    /// Answers a request with its reply, if the rule of the request accepts it.
    fn accept(&mut self, place: usize, asked: &Asked<'_>, mut reply: Reply) {
        let has_error = echo::has_error(&reply);
        if has_error {
            reply = echo::without_echo(&reply, &asked.request.packed);
        }
        let Some(said) = asked.request.read(&reply) else {
            // Nothing that comes on this connection can be trusted any more.
            self.slot.distrust();
            return self.fail_rest(&NodeError::protocol(echo::kind(&reply)));
        };
        if has_error && self.idle.is_none() {
            // A server that has enough clients says so and closes. In the pool, the connection would look as if the
            // server had been restarted, and cost the others that still work.
            self.slot.use_no_more();
        }
        self.tell(place, None);
        let answer = self.answer_of(Ok(said), Trace::Possible);
        self.answer(place, answer);
    }

    /// The connection has broken, or a reply on it.
    fn broke(&mut self, mut error: NodeError) {
        while error.is_closed() && !self.is_turned_away() {
            self.tell_gate(Some(&error));
            self.first_failure
                .get_or_insert_with(|| Box::new(error.clone()));
            let was_warm = self.idle.is_some();
            if was_warm {
                self.node.retire(self.generation);
            }
            for place in self.places() {
                let asked = self.all.get(place);
                let repetitions = asked.map_or(0, |asked| asked.request.repetitions());
                if !was_warm && self.repetitions >= repetitions {
                    self.fail(place, &error);
                }
            }
            if self.is_answered() {
                return;
            }
            self.repetitions = self.repetitions.saturating_add(1);
            // No undo was sent on the old connection: it would have been the last thing that is.
            self.next = 0;
            self.sent_again.clear();
            self.parts.clear();
            match self.send_again() {
                Ok(()) => return,
                Err(next) => error = next,
            }
        }
        self.fail_rest(&error);
    }

    /// Answers all requests that have no answer.
    fn fail_rest(&mut self, error: &NodeError) {
        for place in self.places() {
            self.fail(place, error);
        }
    }

    /// Answers a request that gets no reply, and undoes it.
    fn fail(&mut self, place: usize, error: &NodeError) {
        self.tell(place, Some(error));
        if error.is_silence() {
            self.distrust_others(place);
        }
        let trace = if error.is_broken() {
            Trace::Possible
        } else {
            self.undo(place)
        };
        let answer = self.answer_of(Err(error.clone()), trace);
        self.answer(place, answer);
    }

    /// Sends the undo of a request whose outcome is unknown, if it has one. It goes on the same connection: on another one it could
    /// arrive first, and the key would stay. The connection must not be used again then.
    fn undo(&mut self, place: usize) -> Trace {
        let Some(undo) = self.all.get(place).and_then(|asked| asked.request.undo()) else {
            return Trace::Possible;
        };
        if self.undos.is_empty() {
            // Nobody waits for the reply, so the text goes along in case that the server lacks the script.
            self.slot.forget_scripts();
        }
        if self.slot.send(&undo, self.deadline).is_err() {
            return Trace::Possible;
        }
        self.undos.push(undo);
        Trace::Undone
    }

    fn answer_of(&self, result: Result<Said, NodeError>, trace: Trace) -> Answer {
        Answer {
            first_failure: self.first_failure.clone(),
            idle: self.idle,
            ..Answer::new(result, trace, self.node.now())
        }
    }

    /// A connection that was idle is silent. Perhaps it was forgotten on the way, and then those that were idle with it were, too.
    fn distrust_others(&self, place: usize) {
        let was_idle = self.idle.is_some_and(|idle| idle >= SUSPICIOUS_IDLE);
        let asked = self.all.get(place).filter(|_| was_idle);
        if asked.is_some_and(|asked| !self.excuses_time_out(asked.request)) {
            self.node.retire(self.generation);
        }
    }

    /// Gives up the connection, but not the undos on it.
    pub(super) fn leave(&mut self) {
        let undos = take(&mut self.undos);
        if undos.is_empty() {
            return;
        }
        match self.slot.take() {
            Some(closing) => self.node.close_behind(closing, undos),
            None => undos
                .into_iter()
                .for_each(|undo| self.node.owe(undo, self.node.now(), Duration::MAX)),
        }
    }
}

impl Drop for Exchange<'_> {
    /// After a panic, requests are left without an answer. Those with an undo are undone and answered; the others are asked
    /// again by their threads.
    fn drop(&mut self) {
        if self.state != State::Sent {
            return;
        }
        for place in self.places() {
            let asked = self.all.get(place);
            if asked.is_some_and(|asked| asked.request.is_undone()) {
                let trace = self.undo(place);
                let error = closed(io::ErrorKind::ConnectionAborted);
                let answer = self.answer_of(Err(error), trace);
                self.answer(place, answer);
            }
        }
        self.leave();
    }
}
