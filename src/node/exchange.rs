//! One exchange: requests to one node and their replies, on one connection, by one deadline.
//!
//! Most exchanges have one request. Those that threads make at the same time go in one write ([`super::round`]), and each
//! rule below holds for each request. The deadline of several is that of the most patient one.
//!
//! The states of an exchange, and what leads from one to the next:
//!
//! | state | event | next state |
//! |---|---|---|
//! | `NoSlot` | a slot of the pool is free | `Idle` |
//! | `NoSlot` | none comes free within half of the node timeout | `Idle` on a slot beside the pool, for the requests that insist; the others are answered. `Ended` if none insists |
//! | `Idle` | the gate of the node is shut ([`super::gate`]), or connecting fails | `Ended`. The node has executed nothing |
//! | `Idle` | the requests are written: on the open connection in the slot, or on a new one if there is none or the server has closed it | `Sent` |
//! | `Sent` | the write is cut | `Ended`. Some of the requests may have gone as a whole |
//! | `Sent` | a reply, or the last of those to one request | `Sent`, and the oldest request without an answer has it |
//! | `Sent` | the server lacks a script: the request is sent again on the same connection, with the text | `Sent` |
//! | `Sent` | the connection is closed: requests without an answer that were sent on an earlier connection, or have repetitions left, are sent again on a new one; the others are answered | `Sent` |
//! | `Sent` | the deadline, the end of the clock, nobody wants the answer any more, or anything else goes wrong | `Ended`: all requests without an answer get it, with their undos behind them where the connection is still open |
//! | `Sent` | all requests are answered | `Ended` |
//! | any but `Ended` | a panic | `Ended`: those without an answer fail. Those that were sent and have an undo are undone; the others are asked again by their threads |
//!
//! Each step changes an exchange that is in its state, and does nothing to any other. This file has the first states and the end;
//! `sending` and `reading` have what is between.

use std::iter::once;
use std::net::TcpStream;
use std::ops::Range;
use std::time::Duration;

use smallvec::SmallVec;

use super::Node;
use super::connection::{OpenConnection, no_connection};
use super::gate::Passage;
use super::key_report::{Again, KeyReport};
use super::lanes::Lane;
use super::pool::Slot;
use super::request::{Batch, Request, SUSPICIOUS_IDLE};
use super::undo::{Leftover, Undo};
use crate::clock::Timestamp;
use crate::error::NodeError;
use crate::log_lines;
use crate::spans::{self, NodeSpan};
use crate::wire::pack::Packed;

mod reading;
mod sending;

/// How often a wait checks whether the request was given up.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    NoSlot,
    Idle,
    Sent,
    Ended,
}

/// One exchange with one node. See the table above.
pub(super) struct Exchange<'x> {
    pub(super) node: &'x Node,
    batch: &'x Batch<'x>,
    requests: SmallVec<[Pending<'x>; 1]>,
    /// How many requests have no answer.
    open: usize,
    /// It is given back before a connection is made.
    lane: &'x Lane<'x>,
    pub(super) state: State,
    /// None on a connection beside the pool.
    slot: Option<Slot>,
    connection: Option<Box<OpenConnection>>,
    /// The generation of the connection, or of the node if there is none.
    generation: u64,
    /// How long the wait for a slot was.
    waited: Duration,
    /// When the requests were sent first, later by the time that connecting took.
    answers_since: Timestamp,
    /// When there was a slot. The time between that and sending was spent on other nodes, and does not count for this one.
    since: Timestamp,
    /// When the requests were sent first.
    sent_at: Timestamp,
    /// When the time for those without an answer is over.
    deadline: Timestamp,
    /// For how long the connection was idle before. None if it was made for the requests.
    idle: Option<Duration>,
    passage: Passage,
    /// The indexes of the requests whose replies are still to come on this connection, in the order of the replies.
    due: Range<usize>,
    /// The indexes of the requests that were sent again. Their replies come after those.
    late: Vec<usize>,
    /// The end of the last wait for a reply.
    looked_until: Timestamp,
    /// When the replies that are read now have come.
    at: Option<Timestamp>,
    /// How often requests were sent again because the connection was closed.
    repetitions: u32,
    first_failure: Option<Box<NodeError>>,
    /// The undos that were sent on this connection. Nobody waits for their replies.
    undos: Vec<Undo>,
    /// What the log has to be told: that the breaker has opened because of an error, or has closed.
    news: Vec<Option<NodeError>>,
}

/// A request at this node, and its answer when there is one.
struct Pending<'x> {
    request: &'x Request,
    /// While there is a slot: one for all requests of a thread, which come one behind the other.
    span: Option<NodeSpan>,
    /// Whether it was sent again with the text of its script.
    has_text: bool,
    report: Option<KeyReport>,
}

impl<'x> Exchange<'x> {
    #[inline]
    pub(super) fn new(node: &'x Node, batch: &'x Batch<'x>, lane: &'x Lane<'x>) -> Self {
        let began = lane.began;
        let open = batch.requests.len();
        Self {
            node,
            batch,
            requests: SmallVec::new(),
            open,
            lane,
            state: State::NoSlot,
            slot: None,
            connection: None,
            generation: 0,
            waited: Duration::ZERO,
            answers_since: began,
            since: began,
            sent_at: began,
            deadline: began,
            idle: None,
            passage: Passage::Earlier,
            due: 0..0,
            late: Vec::new(),
            looked_until: began,
            at: None,
            repetitions: 0,
            first_failure: None,
            undos: Vec::new(),
            news: Vec::new(),
        }
    }

    pub(super) fn take_slot(&mut self, now: Timestamp) {
        if self.requests.is_empty() {
            self.requests.reserve(self.open);
            for request in self.batch.requests {
                let (span, has_text, report) = (None, false, None);
                self.requests.push(Pending {
                    request,
                    span,
                    has_text,
                    report,
                });
            }
        }
        if let Some(slot) = self.node.pool.try_get() {
            self.set_slot(Some(slot), now);
        }
    }

    fn set_slot(&mut self, mut slot: Option<Slot>, now: Timestamp) {
        self.connection = slot.as_mut().and_then(|slot| slot.take());
        self.slot = slot;
        self.generation = self.node.generation();
        (self.since, self.sent_at) = (now, now);
        if spans::ARE_ON {
            for one in &mut self.requests {
                let caller = one.request.caller.as_ref();
                one.span = caller.map(|caller| NodeSpan::new(&self.node.name, caller));
            }
        }
        self.state = State::Idle;
    }

    /// Takes a slot that is free now, if there is none yet.
    pub(super) fn try_slot(&mut self) {
        if self.state == State::NoSlot {
            self.take_slot(self.node.now());
            self.check();
        }
    }

    /// Waits for a slot for half of the node timeout; the other half is for the node.
    pub(super) fn wait_for_slot(&mut self) {
        let began = self.node.now();
        let half = self.node.timeout.checked_div(2).unwrap_or_default();
        let slot = self.node.pool.get_within(half);
        let now = self.node.now();
        self.waited = now.saturating_since(began);
        for (index, request) in self.unanswered() {
            if slot.is_none() && !request.verb.insists() {
                self.leave(index, NodeError::PoolExhausted);
            }
        }
        if self.is_answered() {
            self.state = State::Ended;
        } else {
            self.set_slot(slot, now);
            self.check();
        }
    }

    /// Closes a connection that must not be used again.
    pub(super) fn check(&mut self) {
        let Some(mut connection) = self.connection.take() else {
            return;
        };
        if connection.is_current(self.generation, self.since) {
            if connection.transport.is_quiet() {
                self.connection = Some(connection);
            } else {
                self.node.retire(self.generation);
            }
        }
    }

    /// Whether the requests can be sent without connecting.
    pub(super) fn is_warm(&self) -> bool {
        self.connection.is_some()
    }

    /// The socket of a connection that may be used again if the socket has nothing to read.
    pub(super) fn socket(&self) -> Option<&TcpStream> {
        let connection = self.connection.as_ref();
        let current = connection.filter(|it| it.is_current(self.generation, self.since));
        current?.transport.socket()
    }

    /// Takes the report on the request with this index. There is none if the thread that sends has panicked.
    pub(super) fn take_report(&mut self, index: usize) -> KeyReport {
        let one = self.requests.get_mut(index);
        let report = one.and_then(|one| one.report.take());
        report.unwrap_or_else(|| KeyReport::lost(self.lane.began))
    }

    pub(super) fn tell_log(&self) {
        for news in &self.news {
            match news {
                Some(error) => log_lines::node_opened(&self.node.name, error),
                None => log_lines::node_closed(&self.node.name),
            }
        }
    }

    fn is_answered(&self) -> bool {
        self.open == 0
    }

    /// The requests that are not answered, with their indexes.
    fn unanswered(&self) -> SmallVec<[(usize, &'x Request); 1]> {
        let all = self.requests.iter().enumerate();
        let unanswered = all.filter(|(_, one)| one.report.is_none());
        unanswered
            .map(|(index, one)| (index, one.request))
            .collect()
    }

    /// The requests that are not answered.
    fn open_requests(&self) -> impl Iterator<Item = &'x Request> {
        let unanswered = self.requests.iter().filter(|one| one.report.is_none());
        unanswered.map(|one| one.request)
    }

    /// Sends on the connection, by the deadline of a step. After an error or a panic the connection is closed: a command may have
    /// been cut.
    fn write(
        &mut self,
        send: impl FnOnce(&mut OpenConnection, Timestamp) -> Result<(), NodeError>,
    ) -> Result<(), NodeError> {
        let deadline = self.step_deadline();
        let mut connection = self.connection.take().ok_or_else(no_connection)?;
        send(&mut connection, deadline)?;
        self.connection = Some(connection);
        Ok(())
    }

    /// Sends a command on the connection, with the text of its script.
    fn write_in_full(&mut self, command: &Packed) -> Result<(), NodeError> {
        self.write(|open, by| {
            open.scripts.clear();
            open.send(once(command), by)
        })
    }

    /// Answers a request. The time counts since its thread began to ask, without what was spent on other nodes between the choice
    /// of a connection and sending.
    fn answer(&mut self, index: usize, mut report: KeyReport, leftover: Leftover) {
        let at = self.at.unwrap_or_else(|| self.node.now());
        let Some(one) = self.requests.get_mut(index) else {
            return;
        };
        let (request, is_sent) = (one.request, self.state == State::Sent);
        (report.at, report.leftover) = (at, leftover);
        report.since = request.since.later_by(self.since, self.sent_at);
        report.server = self.connection.as_ref().and_then(|it| it.run_id().cloned());
        if let Some(failure) = &self.first_failure {
            report.rare().first_failure = Some(NodeError::clone(failure));
        }
        if report.has_replied {
            if request.verb.long_wait().is_none() {
                self.node.pace.answer.note(self.answers_since, at);
            }
        } else if report.vote.failure().is_some_and(NodeError::is_silence)
            && self.node.connector.is_remote()
            && let Some(idle) = self.idle.filter(|_| is_sent)
            && let Some(least) = request.verb.asked_again_after()
            && idle >= least
        {
            report.rare().again = Again::OnNewerThan(self.generation);
        }
        self.open = self.open.saturating_sub(usize::from(one.report.is_none()));
        one.report = Some(report);
    }

    /// Reports the result of a request to its span, to the other connections and to the breaker.
    fn tell(&mut self, index: usize, error: Option<&NodeError>) {
        self.tell_gate(error);
        let Some(Pending { request, span, .. }) = self.requests.get(index) else {
            return;
        };
        let (node, verb) = (self.node, &request.verb);
        let Some(error) = error else {
            span.iter().for_each(NodeSpan::answered);
            if !verb.is_about_health() && node.close_breaker() {
                self.news.push(None);
            }
            return;
        };
        if let Some(span) = span {
            span.failed(error);
        }
        // The error of another thread, which has told all who have to know it.
        if self.passage == Passage::Shut {
            return;
        }
        // A time-out that came late, or from a node that has answered the request before this one, says little about the node.
        let is_late = self.waited.saturating_mul(4) > node.timeout;
        let mut reports = self.requests.iter().filter_map(|one| one.report.as_ref());
        let is_excused = if error.is_silence() {
            reports.any(|report| report.has_replied)
                || verb.long_wait().is_some()
                || (verb.repetitions() == 0 && is_late)
        } else {
            verb.is_about_health() && matches!(error, NodeError::Protocol { .. })
        };
        // Where a connection that was idle is silent, it was perhaps forgotten on the way, and those that were idle with it, too.
        let is_suspicious = error.is_silence() && !is_excused && self.long_idle().is_some();
        if error.is_broken() || is_suspicious {
            node.retire(self.generation);
        }
        if !is_excused && node.open_breaker(error) {
            self.news.push(Some(error.clone()));
        }
    }

    /// For how long the connection had been idle before the requests were sent on it, if that was long.
    fn long_idle(&self) -> Option<Duration> {
        let idle = self.idle.filter(|_| self.state == State::Sent);
        idle.filter(|idle| *idle >= SUSPICIOUS_IDLE)
    }

    /// The slot goes back to its pool, with the connection if that may be used again.
    fn end(&mut self) {
        self.keep_undos();
        if spans::ARE_ON {
            // Each span ends with its own node, even if another node of the round hangs.
            self.requests.iter_mut().for_each(|one| one.span = None);
        }
        let connection = self.connection.take().filter(|it| it.is_idle());
        if let Some(slot) = self.slot.take() {
            self.node.pool.give_back(slot, connection);
        }
        self.state = State::Ended;
    }
}

#[cfg(test)]
mod tests;
