//! An exchange reads the replies to requests that were sent.

use std::io;
use std::iter::once;
use std::mem::{replace, take};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{Exchange, POLL_INTERVAL, State};
use crate::clock::Timestamp;
use crate::error::NodeError;
use crate::node::connection::{Wait, no_connection};
use crate::node::gate::Passage;
use crate::node::key_report::{Again, KeyReport};
use crate::node::reply::{hide_echo, kind, read};
use crate::node::undo::{Leftover, Receipt, Undo};
use crate::wire::pack::Packed;
use crate::wire::resp::Reply;
use crate::wire::scripts;
use crate::wire::transport::closed;

impl Exchange<'_> {
    /// Reads the replies that come within `patience` from `now`, and answers the requests if no time is left.
    pub(in super::super) fn poll(&mut self, now: &mut Timestamp, patience: Duration) {
        let given_up = self.batch.given_up;
        let is_given_up = given_up.is_some_and(|flag| flag.load(Ordering::Acquire));
        let patience = given_up.map_or(patience, |_| patience.min(POLL_INTERVAL));
        let from = (*now).max(self.looked_until);
        let waits = !patience.is_zero();
        self.at = Some(self.node.clock.now_or(*now)).filter(|_| !waits);
        let until = from.saturating_add(patience).min(self.deadline);
        let wait = if waits { Wait::Until } else { Wait::Not };
        if is_given_up || !self.read(wait(until)) {
            // The next wait ends later than this one, also on a clock that stands still during the wait.
            self.looked_until = until;
        } else {
            while self.has_surplus() && self.read(Wait::Not(*now)) {}
        }
        *now = self.at.unwrap_or_else(|| self.node.now());
        self.at = None;
        // The clock ends when the manager is gone. The connection is closed then, because the reply is still to come.
        if is_given_up || self.node.clock.has_ended() {
            self.fail_rest(&NodeError::silence());
        }
        if self.is_answered() {
            self.end();
        }
    }

    /// Whether bytes of further replies have come.
    fn has_surplus(&self) -> bool {
        let connection = self.connection.as_ref().filter(|_| !self.is_answered());
        connection.is_some_and(|it| it.transport.has_surplus())
    }

    /// Reads the next reply, to the oldest request without one, if it comes in time. Returns whether it was there.
    fn read(&mut self, wait: Wait) -> bool {
        debug_assert!(self.undos.is_empty(), "an undo is the last that is sent");
        let deadline = self.step_deadline();
        let reply = match &mut self.connection {
            Some(connection) => connection.recv(wait, deadline),
            None => Some(Err(no_connection())),
        };
        if let Wait::Until(_) = wait {
            self.at = Some(self.node.now());
        }
        match reply {
            Some(Ok(reply)) => {
                let is_late = self.due.is_empty() && !self.late.is_empty();
                let late = || is_late.then(|| self.late.remove(0));
                if let Some(index) = self.due.next().or_else(late) {
                    self.take_reply(index, reply);
                }
            }
            Some(Err(error)) => self.broke(error),
            None => return false,
        }
        true
    }

    /// Answers a request with its reply, if that is one to its verb. Where the server lacks the script, sends the text once.
    fn take_reply(&mut self, index: usize, mut reply: Reply) {
        let Some(one) = self.requests.get_mut(index) else {
            return;
        };
        let request = one.request;
        if scripts::is_missing(&reply) && !replace(&mut one.has_text, true) {
            // The same connection is safe: the request was not executed.
            return match self.write_in_full(&request.again(self.node.now())) {
                Ok(()) => self.late.push(index),
                Err(error) => self.fail_rest(&error),
            };
        }
        let has_error = hide_echo(&mut reply, &request.packed);
        let report = read(&request.verb, &request.packed, &reply, &self.node.clock);
        if let Some(connection) = &mut self.connection {
            // Nothing that comes behind such a reply can be trusted.
            // A server that has enough clients says so and closes. In the pool, the connection would look as if the
            // server had been restarted, and cost the others that still work.
            connection.is_used_up |= report.is_none() || has_error && self.idle.is_none();
        }
        let Some(report) = report else {
            return self.fail_rest(&NodeError::protocol(kind(&reply)));
        };
        self.tell(index, None);
        self.answer(index, report, Leftover::Possible);
    }

    /// The connection has broken, or a reply on it.
    fn broke(&mut self, mut error: NodeError) {
        loop {
            self.tell_gate(Some(&error));
            if error.is_broken() {
                self.connection = None;
            }
            if let Some(connection) = self.connection.as_mut().filter(|_| !error.is_silence()) {
                // Which later reply answers which command is unknown.
                connection.is_used_up = true;
            }
            if !error.is_closed() || self.passage == Passage::Shut {
                return self.fail_rest(&error);
            }
            self.first_failure
                .get_or_insert_with(|| Box::new(error.clone()));
            let was_warm = self.idle.is_some();
            if was_warm {
                self.node.retire(self.generation);
            }
            for (index, request) in self.unanswered() {
                if !was_warm && self.repetitions >= request.verb.repetitions() {
                    self.fail(index, &error);
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
    }

    /// Answers all requests that have no answer.
    pub(super) fn fail_rest(&mut self, error: &NodeError) {
        for (index, _) in self.unanswered() {
            self.fail(index, error);
        }
    }

    fn fail(&mut self, index: usize, error: &NodeError) {
        let error = if let NodeError::TimedOut { option: None, .. } = error {
            let idle = self.long_idle();
            let idle = idle.filter(|_| self.node.connector.is_remote());
            self.node.silence(idle)
        } else {
            error.clone()
        };
        self.tell(index, Some(&error));
        self.leave(index, error);
    }

    /// Answers a request that gets no reply. What becomes of its undo is in the table of [`crate::node::undo`].
    pub(super) fn leave(&mut self, index: usize, error: NodeError) {
        let request = self.requests.get(index).map(|one| one.request);
        let leftover = match (self.state, request.and_then(|it| it.verb.attempt())) {
            (State::Sent, Some(attempt)) => self.write_undo(attempt.undo()),
            (State::Sent, None) => Leftover::Possible,
            (State::NoSlot | State::Idle | State::Ended, _) => Leftover::None,
        };
        self.answer(index, KeyReport::failed(error), leftover);
    }

    /// Writes an undo behind its command, if the connection takes it.
    fn write_undo(&mut self, command: Packed) -> Leftover {
        let sent = if self.undos.is_empty() {
            // Nobody waits for the reply, so the text goes along in case that the server lacks the script.
            self.write_in_full(&command)
        } else {
            self.write(|open, by| open.send(once(&command), by))
        };
        if sent.is_err() {
            return Leftover::Possible;
        }
        let receipt = Receipt::new(self.node.now());
        let leftover = Leftover::Undone(Arc::clone(&receipt));
        self.undos.push(Undo { command, receipt });
        leftover
    }

    /// Gives up a connection with undos on it, but not the undos.
    pub(super) fn keep_undos(&mut self) {
        let undos = take(&mut self.undos);
        if !undos.is_empty() {
            self.node.keep_undos(self.connection.take(), undos);
        }
    }

    /// After a panic, the requests without an answer fail. Those that are not undone are asked again by their own threads.
    pub(in super::super) fn abandon(&mut self) {
        if self.state == State::Ended {
            return;
        }
        for (index, request) in self.unanswered() {
            self.leave(index, closed(io::ErrorKind::ConnectionAborted));
            let is_undone = self.state == State::Sent && request.verb.attempt().is_some();
            let one = self.requests.get_mut(index).filter(|_| !is_undone);
            if let Some(report) = one.and_then(|one| one.report.as_mut()) {
                report.rare().again = Again::Left;
            }
        }
        self.keep_undos();
        self.connection = None;
        self.end();
    }
}
