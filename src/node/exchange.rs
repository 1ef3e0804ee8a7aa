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
//! | `Idle` | the requests are sent: on the open connection in the slot, or on a new one if there is none or the server has closed it | `Sent` |
//! | `Idle` | the gate of the node is shut ([`super::gate`]), connecting fails, or sending fails in another way | `Ended`. The node has executed nothing, unless a write of several requests was cut: some of them may have gone as a whole |
//! | `Sent` | a reply, or the last of those to one request | `Sent`, and the oldest request without an answer has it |
//! | `Sent` | the server lacks a script: the request is sent again on the same connection, with the text | `Sent` |
//! | `Sent` | the connection is closed: requests without an answer that were sent on an earlier connection, or have repetitions left, are sent again on a new one; the others are answered | `Sent` |
//! | `Sent` | the deadline, the end of the clock, nobody wants the answer any more, or anything else goes wrong | `Ended`: all requests without an answer get it, with their undos behind them where the connection is still open |
//! | `Sent` | all requests are answered | `Ended` |
//! | `Sent` | a panic | those with an undo are undone and answered; the others are left to their threads |
//! | `NoSlot`, `Idle` | a panic | all are left to their threads |
//!
//! Each step changes an exchange that is in its state, and does nothing to any other. This file has the first states and the end;
//! `sending` and `reading` have what is between.

use std::collections::VecDeque;
use std::mem::take;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use super::Node;
use super::gate::Passage;
use super::pacer::Pacer;
use super::request::{Answer, Asked, Patience, Request};
use super::slot::{Readiness, SlotInUse};
use crate::clock::Timestamp;
use crate::error::NodeError;
use crate::log_lines;
use crate::spans::NodeSpan;
use crate::wire::pack::Packed;
use crate::wire::resp::Reply;

mod reading;
mod sending;

/// How often a wait checks whether the request was given up.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    NoSlot,
    Idle,
    Sent,
    Ended,
}

/// One exchange with one node. See the table above.
pub(super) struct Exchange<'x> {
    node: &'x Node,
    all: &'x [Asked<'x>],
    /// As many as requests; `None` until the request is answered.
    answers: &'x mut [Option<Answer>],
    /// Has the lane, which is given back before a connection is made.
    pacer: &'x Pacer<'x>,
    state: State,
    /// An empty slot beside the pool until there is one. At check-in, the pool closes a connection with replies to come.
    slot: SlotInUse,
    /// The generation of the connection in the slot, or of the node if there is none.
    generation: u64,
    /// When the first of its steps began. The time of a request that is sent once counts from then.
    began: Timestamp,
    /// When there was a slot. The time between that and sending was spent on other nodes, and does not count for this one.
    since: Timestamp,
    /// When the requests were sent first.
    sent_at: Timestamp,
    /// When the time for those without an answer is over.
    deadline: Timestamp,
    /// For how long the connection was idle before. None if it was made for the requests.
    idle: Option<Duration>,
    /// Whether a write of several requests has begun. If it fails, some of them may have been sent as a whole.
    may_be_sent: bool,
    /// Whether the node has answered one of the requests.
    has_answered: bool,
    passage: Passage<'x>,
    /// One for each request.
    spans: SmallVec<[NodeSpan; 1]>,
    /// The requests from this place on have their replies in their order.
    next: usize,
    /// Requests before it that were sent again with the text of a script. Their replies come last, in this order.
    sent_again: VecDeque<usize>,
    /// The replies that have come to the oldest request, which has several commands.
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
    news: Vec<News>,
}

/// What the log will say of a node. It is told last, because the program's logger may panic, or take long.
pub(super) enum News {
    Opened(Arc<str>, NodeError),
    Closed(Arc<str>),
}

impl<'x> Exchange<'x> {
    /// Takes a slot that is free now, if there is one. Its connection has to be checked.
    pub(super) fn begin(
        node: &'x Node,
        all: &'x [Asked<'x>],
        answers: &'x mut [Option<Answer>],
        pacer: &'x Pacer<'x>,
    ) -> Self {
        let began = pacer.started;
        let mut exchange = Self {
            node,
            all,
            answers,
            pacer,
            state: State::NoSlot,
            slot: SlotInUse::default(),
            generation: 0,
            began,
            since: began,
            sent_at: began,
            deadline: began,
            idle: None,
            may_be_sent: false,
            has_answered: false,
            passage: Passage::default(),
            spans: SmallVec::new(),
            next: 0,
            sent_again: VecDeque::new(),
            parts: Vec::new(),
            looked_until: began,
            repetitions: 0,
            first_failure: None,
            undos: Vec::new(),
            missing_scripts: all.len(),
            news: Vec::new(),
        };
        exchange.take_slot();
        exchange
    }

    fn take_slot(&mut self) {
        if let Some(slot) = self.node.pool.try_get() {
            self.set_slot(SlotInUse::Pooled(slot), self.began);
        }
    }

    fn set_slot(&mut self, slot: SlotInUse, now: Timestamp) {
        self.slot = slot;
        if self.requests().any(|request| request.needs_new_connection) {
            self.slot.close();
        }
        self.generation = self.node.generation();
        self.since = now;
        self.sent_at = now;
        let node = &self.node.name;
        let spans = self.all.iter();
        self.spans = spans
            .map(|asked| NodeSpan::new(node, asked.caller))
            .collect();
        self.state = State::Idle;
    }

    /// Takes a slot that is free now, if there is none yet.
    pub(super) fn try_slot(&mut self) {
        if self.has_no_slot() {
            self.began = self.node.now();
            self.take_slot();
            self.check();
        }
    }

    /// Waits for a slot for half of the node timeout; the other half is for the node.
    pub(super) fn wait_for_slot(&mut self) {
        if !self.has_no_slot() {
            return;
        }
        self.began = self.node.now();
        let half = self.node.timeout.checked_div(2).unwrap_or_default();
        let slot = self.node.pool.get_timeout(half);
        let now = self.node.now();
        if let Ok(slot) = slot {
            self.set_slot(SlotInUse::Pooled(slot), now);
            return self.check();
        }
        for (asked, answer) in self.all.iter().zip(self.answers.iter_mut()) {
            if !asked.request.insists() {
                let elapsed = now.saturating_since(asked.since);
                *answer = Some(Answer::failed(NodeError::PoolExhausted, elapsed, now));
            }
        }
        if self.is_answered() {
            self.state = State::Ended;
        } else {
            self.set_slot(SlotInUse::default(), now);
        }
    }

    /// Closes a connection that must not be used again.
    pub(super) fn check(&mut self) {
        let is_idle = self.is_idle();
        if is_idle && self.slot.check(self.generation, self.since) == Readiness::Closed {
            self.node.retire(self.generation);
        }
    }

    /// The socket of a connection that may be used again if the socket has nothing to read.
    pub(super) fn socket(&self) -> Option<&TcpStream> {
        let socket = self.slot.socket();
        socket.filter(|_| self.is_idle() && self.slot.is_current(self.generation, self.since))
    }

    /// Whether the requests can be sent.
    pub(super) fn is_idle(&self) -> bool {
        self.state == State::Idle
    }

    pub(super) fn has_no_slot(&self) -> bool {
        self.state == State::NoSlot
    }

    /// Whether the exchange has a slot, and has not ended.
    pub(super) fn is_under_way(&self) -> bool {
        matches!(self.state, State::Idle | State::Sent)
    }

    /// Whether the requests can be sent without connecting.
    pub(super) fn is_warm(&self) -> bool {
        self.is_idle() && self.slot.is_open()
    }

    /// The slot goes back to its pool.
    fn end(&mut self) {
        self.leave();
        // They end with their own node, also if another one of the round hangs.
        self.spans.clear();
        self.slot = SlotInUse::default();
        self.state = State::Ended;
    }

    /// What the log has to be told.
    pub(super) fn news(&mut self) -> Vec<News> {
        take(&mut self.news)
    }

    fn requests(&self) -> impl Iterator<Item = &'x Request<'x>> {
        self.all.iter().map(|asked| asked.request)
    }

    fn is_answered(&self) -> bool {
        self.answers.iter().all(Option::is_some)
    }

    /// The requests that are not answered, with their places.
    fn unanswered(&self) -> impl Iterator<Item = (usize, &'x Asked<'x>)> {
        let all = self.all.iter().zip(&*self.answers).enumerate();
        all.filter_map(|(place, (asked, answer))| answer.is_none().then_some((place, asked)))
    }

    /// The same places, to answer the requests by.
    fn places(&self) -> SmallVec<[usize; 4]> {
        self.unanswered().map(|(place, _)| place).collect()
    }

    /// When the time for a request is over.
    fn deadline_of(&self, request: &Request<'_>) -> Timestamp {
        let timeout = self.node.timeout;
        match request.patience() {
            Patience::Once => {
                let lost = self.sent_at.saturating_since(self.since);
                self.began.saturating_add(lost).saturating_add(timeout)
            }
            Patience::Repeated(_) => self.sent_at.saturating_add(timeout),
            Patience::Long(span) => self.sent_at.saturating_add(span),
        }
    }

    /// When the time for the last of the requests without an answer is over.
    fn last_deadline(&self) -> Timestamp {
        let deadlines = self.unanswered();
        let deadlines = deadlines.map(|(_, asked)| self.deadline_of(asked.request));
        deadlines.max().unwrap_or(self.sent_at)
    }

    /// The deadline of every step but the wait for the first byte of a reply. For a request that can be given up, it is no
    /// later than a node timeout from now.
    fn step_deadline(&self) -> Timestamp {
        // A request that can be given up goes alone.
        let [Asked { request, .. }] = self.all else {
            return self.deadline;
        };
        if request.given_up().is_none() {
            return self.deadline;
        }
        let span = self.node.timeout.saturating_add(POLL_INTERVAL);
        let soon = self.node.now().saturating_add(span);
        soon.min(self.deadline)
    }

    /// Answers a request. The time counts since its thread began to ask, without what was spent on other nodes between the choice
    /// of a connection and sending.
    fn answer(&mut self, place: usize, answer: Answer) {
        let lost = self.sent_at.saturating_since(self.since);
        let since = self.all.get(place).map_or(self.since, |asked| asked.since);
        let span = answer.at.saturating_since(since);
        if let Some(room) = self.answers.get_mut(place) {
            *room = Some(Answer {
                elapsed: span.saturating_sub(lost),
                server: self.slot.run_id().cloned(),
                ..answer
            });
        }
    }

    /// Reports the result of a request to its span, to the other connections and to the breaker.
    fn tell(&mut self, place: usize, error: Option<&NodeError>) {
        self.tell_gate(error);
        let (Some(asked), Some(span)) = (self.all.get(place), self.spans.get(place)) else {
            return;
        };
        let (node, is_about_health) = (self.node, asked.request.is_about_health());
        let Some(error) = error else {
            self.has_answered = true;
            span.answered();
            if !is_about_health && node.answered() {
                self.news.push(News::Closed(Arc::clone(&node.name)));
            }
            return;
        };
        span.failed(error);
        if self.is_turned_away() {
            return;
        }
        if error.is_broken() {
            node.retire(self.generation);
        }
        let is_excused = (is_about_health && matches!(error, NodeError::Protocol { .. }))
            || (error.is_silence() && self.excuses_time_out(asked.request));
        if !is_excused && node.note(error) {
            let name = Arc::clone(&node.name);
            self.news.push(News::Opened(name, error.clone()));
        }
    }

    /// Whether a time-out says little about the node, so that the breaker is not told. A node that has answered the request
    /// before this one is only slow.
    fn excuses_time_out(&self, request: &Request<'_>) -> bool {
        match request.patience() {
            _ if self.has_answered => true,
            Patience::Once => {
                let waited = self.since.saturating_since(self.began);
                waited.saturating_mul(4) > self.node.timeout
            }
            Patience::Repeated(_) => false,
            Patience::Long(_) => true,
        }
    }
}

impl News {
    pub(super) fn tell(self) {
        match self {
            Self::Opened(node, error) => log_lines::node_opened(&node, &error),
            Self::Closed(node) => log_lines::node_closed(&node),
        }
    }
}

#[cfg(test)]
mod tests;
