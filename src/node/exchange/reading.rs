//! An exchange reads the replies to requests that were sent, and undoes those that get none.

use std::borrow::Cow;
use std::io;
use std::mem::take;
use std::slice;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{Exchange, POLL_INTERVAL, State};
use crate::clock::Timestamp;
use crate::error::NodeError;
use crate::node::answer::Trace;
use crate::node::connection::{Replies, SUSPICIOUS_IDLE, no_connection};
use crate::node::echo;
use crate::node::reply::Said;
use crate::node::request::Request;
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
            let connection = self.connection.as_ref();
            let has_more = connection.is_some_and(|it| it.transport.has_surplus());
            is_there = has_more && self.is_ready(now);
        }
        if !self.is_answered() && self.is_overdue() {
            self.fail_rest(&NodeError::TimedOut);
        }
        self.end_if_answered();
    }

    /// Reads all replies.
    pub(in super::super) fn receive(&mut self) {
        while self.state == State::Sent {
            let given_up = self.only_request().map(Request::given_up);
            match given_up {
                None => self.poll(self.node.now(), Duration::MAX),
                // This takes one system call in most cases.
                Some(None) => {
                    self.read();
                    self.end_if_answered();
                }
                // The connection is closed, because the reply is still to come.
                Some(Some(flag)) if flag.load(Ordering::Acquire) => {
                    self.fail(0, &NodeError::TimedOut);
                    self.end();
                }
                Some(Some(_)) => self.poll(self.node.now(), POLL_INTERVAL),
            }
        }
    }

    fn end_if_answered(&mut self) {
        if self.is_answered() {
            self.end();
        }
    }

    /// Waits for a reply for no longer than `patience`. Returns whether it can be read without waiting.
    fn has_come(&mut self, now: Timestamp, patience: Duration) -> bool {
        let from = now.max(self.looked_until);
        let until = from.saturating_add(patience).min(self.deadline);
        let has_come = self.is_ready(until);
        if !has_come {
            // The next wait ends later than this one, also on a clock that stands still during the wait.
            self.looked_until = until;
        }
        has_come
    }

    fn is_ready(&mut self, until: Timestamp) -> bool {
        let deadline = self.step_deadline();
        let connection = self.connection.as_mut();
        connection.is_some_and(|it| it.is_ready(until, deadline))
    }

    /// Whether the deadline has passed, or the clock has ended because the manager is gone.
    fn is_overdue(&self) -> bool {
        self.looked_until >= self.deadline || self.node.clock.has_ended()
    }

    /// Reads the next reply, to the oldest request without one.
    fn read(&mut self) {
        debug_assert!(self.undos.is_empty(), "an undo is the last that is sent");
        let deadline = self.step_deadline();
        let connection = self.connection.as_mut();
        let reply = connection.map_or_else(|| Err(no_connection()), |it| it.recv(deadline));
        match (reply, self.due.get(self.replies).copied()) {
            (Ok(reply), Some(place)) => {
                self.replies = self.replies.saturating_add(1);
                self.take_reply(place, reply);
            }
            (Ok(_), None) => {}
            (Err(error), _) => self.broke(error),
        }
    }

    /// Answers a request with its reply, if that is one to its verb. Where the server lacks the script, sends the text once.
    fn take_reply(&mut self, place: usize, mut reply: Reply) {
        let is_first = self.requests.iter().all(|one| !one.has_text);
        let Some(one) = self.requests.get_mut(place) else {
            return;
        };
        let request = one.asked.request;
        if scripts::is_missing(&reply) && !one.has_text {
            one.has_text = true;
            let is_forbidden = matches!(&reply, Reply::Error(error) if error.code == "NOPERM");
            if let Some(connection) = self
                .connection
                .as_mut()
                .filter(|_| is_first || is_forbidden)
            {
                // Where digests are allowed, the text of a script that is sent again is enough for all requests.
                connection.scripts.clear();
            }
            return match self.send_script_again(request) {
                Ok(()) => self.due.push(place),
                Err(error) => self.fail_rest(&error),
            };
        }
        let has_error = echo::has_error(&reply);
        if has_error {
            reply = echo::without_echo(&reply, &request.packed);
        }
        let said = Said::read(&request.verb, &request.packed, &reply, &self.node.clock);
        if let Some(connection) = &mut self.connection {
            if said.is_none() {
                // Nothing that comes on this connection can be trusted any more.
                connection.replies = Replies::OutOfOrder;
            } else if has_error && self.idle.is_none() {
                // A server that has enough clients says so and closes. In the pool, the connection would look as if the
                // server had been restarted, and cost the others that still work.
                connection.is_used_up = true;
            }
        }
        let Some(said) = said else {
            return self.fail_rest(&NodeError::protocol(echo::kind(&reply)));
        };
        self.tell(place, None);
        self.answer(place, Ok(said), Trace::Possible);
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
            for place in self.unanswered() {
                let request = self.request(place);
                let repetitions = request.map_or(0, |request| request.conduct().repetitions);
                if !was_warm && self.repetitions >= repetitions {
                    self.fail(place, &error);
                }
            }
            if self.is_answered() {
                return;
            }
            self.repetitions = self.repetitions.saturating_add(1);
            // No undo was sent on the old connection: it would have been the last thing that is.
            match self.send_again() {
                Ok(()) => return,
                Err(next) => error = next,
            }
        }
        self.fail_rest(&error);
    }

    /// Answers all requests that have no answer.
    pub(super) fn fail_rest(&mut self, error: &NodeError) {
        for place in self.unanswered() {
            self.fail(place, error);
        }
    }

    /// Answers a request that gets no reply, and undoes it if it was sent.
    fn fail(&mut self, place: usize, error: &NodeError) {
        self.tell(place, Some(error));
        let was_sent = self.state == State::Sent;
        let trace = if was_sent && !error.is_broken() {
            if error.is_silence() {
                self.distrust_others(place);
            }
            self.undo(place)
        } else if was_sent || self.may_be_sent {
            Trace::Possible
        } else {
            Trace::None
        };
        self.answer(place, Err(error.clone()), trace);
    }

    /// Sends the undo of a request whose outcome is unknown, if it has one. It goes on the same connection: on another one it could
    /// arrive first, and the key would stay. The connection must not be used again then.
    fn undo(&mut self, place: usize) -> Trace {
        let Some(repair) = self.request(place).and_then(Request::repair) else {
            return Trace::Possible;
        };
        if let Some(connection) = self.connection.as_mut().filter(|_| self.undos.is_empty()) {
            // Nobody waits for the reply, so the text goes along in case that the server lacks the script.
            connection.scripts.clear();
        }
        let undo = repair.undo();
        let sent = self.write(slice::from_ref(&Cow::Borrowed(&undo)), self.deadline);
        if sent.is_err() {
            return Trace::Possible;
        }
        self.undos.push(undo);
        Trace::Undone
    }

    /// A connection that was idle is silent. Perhaps it was forgotten on the way, and then those that were idle with it were, too.
    fn distrust_others(&self, place: usize) {
        let was_idle = self.idle.is_some_and(|idle| idle >= SUSPICIOUS_IDLE);
        let request = self.request(place).filter(|_| was_idle);
        if request.is_some_and(|request| !self.excuses_time_out(request)) {
            self.node.retire(self.generation);
        }
    }

    /// Gives up a connection with undos on it, but not the undos.
    pub(super) fn keep_undos(&mut self) {
        let undos = take(&mut self.undos);
        if undos.is_empty() {
            return;
        }
        match self.connection.take() {
            Some(connection) => self.node.close_behind(connection, undos),
            None => undos
                .into_iter()
                .for_each(|undo| self.node.owe(undo, self.node.now(), Duration::MAX)),
        }
    }

    /// After a panic, requests are left without an answer. Those with an undo are undone and answered; the others are asked
    /// again by their threads.
    pub(in super::super) fn abandon(&mut self) {
        if self.state != State::Sent {
            return;
        }
        for place in self.unanswered() {
            if self.request(place).and_then(Request::repair).is_some() {
                let trace = self.undo(place);
                let error = closed(io::ErrorKind::ConnectionAborted);
                self.answer(place, Err(error), trace);
            }
        }
        self.keep_undos();
        self.state = State::Ended;
    }
}
