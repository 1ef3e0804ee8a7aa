//! Requests that were sent on one connection, and whose replies were not all read yet. The states of an exchange are in a table
//! at the head of [`super::exchange`].

use std::collections::VecDeque;
use std::io;
use std::mem::take;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::checkout::{Checkout, ConnectionAge, POLL_INTERVAL};
use super::exchange::{Answer, Asked, News};
use super::reply::Said;
use super::slot::SUSPICIOUS_IDLE;
use super::{Trace, echo};
use crate::clock::Timestamp;
use crate::error::NodeError;
use crate::wire::pack::Packed;
use crate::wire::resp::Reply;
use crate::wire::scripts;
use crate::wire::transport::closed;

/// Requests that were sent.
pub(super) struct Sent<'x> {
    checkout: Checkout<'x>,
    age: ConnectionAge,
    /// The requests whose replies are to come, in their order.
    expected: Expected,
    /// The replies that have come to the first of them, which has several commands.
    parts: Vec<Reply>,
    /// The end of the last wait for a reply.
    looked_until: Timestamp,
    /// How often requests were sent again because the connection was closed.
    repetitions: u32,
    first_failure: Option<Box<NodeError>>,
    /// The undos that were sent on this connection. Nobody waits for their replies.
    undos: Vec<Packed>,
    /// How many more scripts may be sent again with their text.
    missing_scripts: usize,
}

/// The places of requests whose replies are to come.
struct Expected {
    /// First those from here on,
    next: usize,
    end: usize,
    /// and then these.
    others: VecDeque<usize>,
}

impl<'x> Sent<'x> {
    pub(super) fn new(checkout: Checkout<'x>, age: ConnectionAge) -> Self {
        let mut sent = Self {
            age,
            expected: Expected::all(checkout.call.all.len()),
            parts: Vec::new(),
            looked_until: checkout.call.began,
            repetitions: 0,
            first_failure: None,
            undos: Vec::new(),
            missing_scripts: checkout.call.all.len(),
            checkout,
        };
        if sent.checkout.call.unanswered().count() < sent.expected.end {
            sent.expect_the_unanswered();
        }
        sent
    }

    /// Reads the replies that come within `patience`, and answers the requests for which no time is left. Returns whether all
    /// are answered.
    pub(super) fn poll(&mut self, patience: Duration) -> bool {
        if self.has_come(patience) {
            self.read();
            while self.checkout.slot.has_surplus() && !self.is_over() {
                self.read();
            }
        }
        if !self.is_over() && self.is_overdue() {
            self.fail_the_overdue();
        }
        self.is_over()
    }

    fn fail_the_overdue(&mut self) {
        let (checkout, now) = (&self.checkout, self.looked_until);
        let has_ended = checkout.node().clock.has_ended();
        let unanswered = checkout.call.unanswered();
        let overdue =
            unanswered.filter(|(_, asked)| has_ended || now >= checkout.deadline(asked.request));
        let overdue: Vec<usize> = overdue.map(|(place, _)| place).collect();
        for place in overdue {
            self.fail(place, &NodeError::TimedOut);
        }
    }

    /// Reads all replies.
    pub(super) fn receive(&mut self) {
        while !self.is_over() {
            if let [asked] = self.checkout.call.all {
                self.receive_one(*asked);
            } else {
                self.poll(Duration::MAX);
            }
        }
    }

    /// Reads a reply to the only request. This takes one system call in most cases.
    fn receive_one(&mut self, asked: Asked<'_>) {
        if let Some(given_up) = asked.request.given_up() {
            while !self.has_come(POLL_INTERVAL) && !self.is_overdue() {
                if given_up.load(Ordering::Acquire) {
                    // The connection is closed, because the reply is still to come.
                    return self.fail(0, &NodeError::TimedOut);
                }
            }
        }
        self.read();
    }

    /// Ends the exchange. The slot goes back to its pool.
    pub(super) fn end(mut self) -> Vec<News> {
        take(&mut self.checkout.call.news)
    }

    fn is_over(&self) -> bool {
        self.checkout.call.is_answered()
    }

    /// Waits for a reply for no longer than `patience`. Returns whether it can be read without waiting.
    fn has_come(&mut self, patience: Duration) -> bool {
        let from = self.checkout.node().now().max(self.looked_until);
        let next = self.checkout.next_deadline();
        let until = from.saturating_add(patience).min(next);
        let deadline = self.checkout.step_deadline();
        let has_come = self.checkout.slot.is_ready(until, deadline);
        if !has_come {
            // The next wait ends later than this one, also on a clock that stands still during the wait.
            self.looked_until = until;
        }
        has_come
    }

    /// Whether the next deadline has passed, or the clock has ended because the manager is gone.
    fn is_overdue(&self) -> bool {
        let node = self.checkout.node();
        self.looked_until >= self.checkout.next_deadline() || node.clock.has_ended()
    }

    /// Reads the next reply.
    fn read(&mut self) {
        let deadline = self.checkout.step_deadline();
        match self.checkout.slot.recv(deadline) {
            Ok(reply) => self.take(reply),
            Err(error) => self.broke(error),
        }
    }

    /// Takes a reply for the oldest request without one.
    fn take(&mut self, reply: Reply) {
        let Some((place, asked)) = self.expected_now() else {
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
        self.expected.next();
        if self.checkout.call.has_answer(place) {
            // Its time was over. An undo was sent behind it.
            return;
        }
        if self.missing_scripts > 0 && scripts::is_missing(&reply) {
            return self.send_script_again(place, asked);
        }
        self.accept(place, asked, reply);
    }

    fn send_script_again(&mut self, place: usize, asked: Asked<'_>) {
        self.missing_scripts = self.missing_scripts.saturating_sub(1);
        match self.checkout.send_script_again(asked.request) {
            Ok(()) => self.expected.others.push_back(place),
            Err(error) => self.fail_rest(&error),
        }
    }

    /// Answers a request with its reply, if the rule of the request accepts it.
    fn accept(&mut self, place: usize, asked: Asked<'_>, mut reply: Reply) {
        let has_error = echo::has_error(&reply);
        if has_error {
            reply = echo::without_echo(&reply, &asked.request.packed);
        }
        let Some(said) = asked.request.read(&reply) else {
            // Nothing that comes on this connection can be trusted any more.
            self.checkout.slot.distrust();
            return self.fail_rest(&NodeError::protocol(echo::kind(&reply)));
        };
        if has_error && self.age == ConnectionAge::Fresh {
            // A server that has enough clients says so and closes. In the pool, the connection would look as if the
            // server had been restarted, and cost the others that still work.
            self.checkout.slot.use_no_more();
        }
        self.checkout.tell(place, None);
        self.answer(place, Ok(said), Trace::Possible);
    }

    /// The connection has broken, or a reply on it.
    fn broke(&mut self, mut error: NodeError) {
        while error.is_closed() && !self.checkout.is_turned_away() {
            self.checkout.tell_gate(Some(&error));
            self.first_failure
                .get_or_insert_with(|| Box::new(error.clone()));
            let was_warm = self.age == ConnectionAge::Warm;
            if was_warm {
                let checkout = &self.checkout;
                checkout.node().retire(checkout.generation);
            }
            let repetitions = self.repetitions;
            let is_given_up = |(place, asked): (usize, Asked<'_>)| {
                let may_be_sent = was_warm || repetitions < asked.request.repetitions();
                (!may_be_sent).then_some(place)
            };
            let given_up: Vec<usize> = {
                let unanswered = self.checkout.call.unanswered();
                unanswered.filter_map(is_given_up).collect()
            };
            for place in given_up {
                self.fail(place, &error);
            }
            if self.is_over() {
                return;
            }
            // What has become of them is not known, and the next connection will not tell.
            self.leave();
            self.repetitions = self.repetitions.saturating_add(1);
            self.age = ConnectionAge::Fresh;
            self.expect_the_unanswered();
            match self.checkout.send_again() {
                Ok(()) => return,
                Err(next) => error = next,
            }
        }
        self.fail_rest(&error);
    }

    fn expect_the_unanswered(&mut self) {
        self.parts.clear();
        let unanswered = self.checkout.call.unanswered();
        self.expected = Expected {
            next: 0,
            end: 0,
            others: unanswered.map(|(place, _)| place).collect(),
        };
    }

    fn expected_now(&self) -> Option<(usize, Asked<'x>)> {
        let place = self.expected.first()?;
        Some((place, *self.checkout.call.all.get(place)?))
    }

    /// Answers all requests that have no answer.
    fn fail_rest(&mut self, error: &NodeError) {
        let unanswered = self.checkout.call.unanswered();
        let places: Vec<usize> = unanswered.map(|(place, _)| place).collect();
        for place in places {
            self.fail(place, error);
        }
    }

    /// Answers a request that gets no reply, and undoes it.
    fn fail(&mut self, place: usize, error: &NodeError) {
        self.checkout.tell(place, Some(error));
        if error.is_silence() {
            self.distrust_others(place);
        }
        if error.is_broken() {
            return self.answer(place, Err(error.clone()), Trace::Possible);
        }
        self.undo(place, error);
    }

    /// Undoes a request on its own connection, and answers it.
    fn undo(&mut self, place: usize, error: &NodeError) {
        let asked = self.checkout.call.all.get(place);
        if self.undos.is_empty() {
            // Nobody waits for the reply, so the text goes along in case that the server lacks the script.
            self.checkout.slot.forget_scripts();
        }
        let undo = asked.and_then(|asked| self.checkout.undo(asked.request));
        let trace = if let Some(undo) = undo {
            self.undos.push(undo.clone());
            // Its reply comes behind all others, and answers nothing.
            self.expected.others.push_back(place);
            Trace::Undone
        } else {
            Trace::Possible
        };
        self.answer(place, Err(error.clone()), trace);
    }

    fn answer(&mut self, place: usize, result: Result<Said, NodeError>, trace: Trace) {
        let checkout = &mut self.checkout;
        let now = checkout.node().now();
        let answer = Answer {
            result,
            elapsed: checkout.elapsed(place, now),
            at: now,
            server: checkout.server(),
            trace,
            first_failure: self.first_failure.clone(),
            idle: checkout.idle,
        };
        checkout.call.answer(place, answer);
    }

    /// A connection that was idle is silent. Perhaps it was forgotten on the way, and then those that were idle with it were, too.
    fn distrust_others(&self, place: usize) {
        let checkout = &self.checkout;
        let asked = checkout.call.asked(place);
        let asked = asked.filter(|_| checkout.idle.is_some_and(|idle| idle >= SUSPICIOUS_IDLE));
        if asked.is_some_and(|asked| !checkout.excuses_time_out(asked.request)) {
            checkout.node().retire(checkout.generation);
        }
    }

    /// Gives up the connection, but not the undos on it.
    fn leave(&mut self) {
        let undos = take(&mut self.undos);
        if undos.is_empty() {
            return;
        }
        let node = self.checkout.node();
        match self.checkout.slot.take() {
            Some(closing) => node.close_behind(closing, undos),
            None => undos
                .into_iter()
                .for_each(|undo| node.owe(undo, node.now(), Duration::MAX)),
        }
    }
}

impl Drop for Sent<'_> {
    /// After a panic, requests are left without an answer. Those with an undo are undone and answered; the others are asked
    /// again by their threads.
    fn drop(&mut self) {
        let unanswered = self.checkout.call.unanswered();
        let to_undo = unanswered.filter(|(_, asked)| asked.request.undo().is_some());
        let to_undo: Vec<usize> = to_undo.map(|(place, _)| place).collect();
        for place in to_undo {
            let error = closed(io::ErrorKind::ConnectionAborted);
            self.undo(place, &error);
        }
        self.leave();
    }
}

impl Expected {
    fn all(end: usize) -> Self {
        let others = VecDeque::new();
        Self {
            next: 0,
            end,
            others,
        }
    }

    fn first(&self) -> Option<usize> {
        if self.next < self.end {
            Some(self.next)
        } else {
            self.others.front().copied()
        }
    }

    fn next(&mut self) {
        if self.next < self.end {
            self.next = self.next.saturating_add(1);
        } else {
            self.others.pop_front();
        }
    }
}

#[cfg(test)]
mod tests;
