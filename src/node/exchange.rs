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
//! Each step changes an exchange that is in its state, and does nothing to any other. `slots` has the first
//! states and the end, and `sending` and `reading` have what is between.

use std::borrow::Cow;
use std::mem::take;
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use r2d2::PooledConnection;
use smallvec::SmallVec;

use super::Node;
use super::answer::{Answer, Trace};
use super::connection::{OpenConnection, Slots, no_connection};
use super::gate::Passage;
use super::lanes::Lane;
use super::reply::Said;
use super::request::{Asked, Request};
use crate::clock::Timestamp;
use crate::error::NodeError;
use crate::log_lines;
use crate::spans::NodeSpan;
use crate::wire::pack::Packed;

mod reading;
mod sending;
mod slots;

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
    requests: SmallVec<[Pending<'x>; 1]>,
    /// It is given back before a connection is made.
    lane: &'x Lane<'x>,
    state: State,
    /// None on a connection beside the pool.
    slot: Option<PooledConnection<Slots>>,
    connection: Option<Box<OpenConnection>>,
    /// The generation of the connection, or of the node if there is none.
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
    passage: Passage,
    /// The places of the requests whose replies come on this connection, in the order of these.
    due: SmallVec<[usize; 4]>,
    /// How many of these replies have come.
    replies: usize,
    /// The end of the last wait for a reply.
    looked_until: Timestamp,
    /// How often requests were sent again because the connection was closed.
    repetitions: u32,
    first_failure: Option<Box<NodeError>>,
    /// The undos that were sent on this connection. Nobody waits for their replies.
    undos: Vec<Packed>,
    news: Vec<News>,
}

/// A request, and its answer when there is one.
struct Pending<'x> {
    asked: Asked<'x>,
    /// While there is a slot: one for all requests of a thread, which come one behind the other.
    span: Option<NodeSpan>,
    /// Whether it was sent again with the text of its script.
    has_text: bool,
    answer: Option<Answer>,
}

/// What the log will say of a node: that its breaker has opened because of this error, or has closed.
pub(super) struct News(Arc<str>, Option<NodeError>);

impl<'x> Exchange<'x> {
    /// Takes a slot that is free now, if there is one. Its connection has to be checked.
    pub(super) fn begin(node: &'x Node, all: &[Asked<'x>], lane: &'x Lane<'x>) -> Self {
        let began = lane.began;
        let pending = |asked: &Asked<'x>| Pending {
            asked: *asked,
            span: None,
            has_text: false,
            answer: None,
        };
        let mut exchange = Self {
            node,
            requests: all.iter().map(pending).collect(),
            lane,
            state: State::NoSlot,
            slot: None,
            connection: None,
            generation: 0,
            began,
            since: began,
            sent_at: began,
            deadline: began,
            idle: None,
            may_be_sent: false,
            has_answered: false,
            passage: Passage::Earlier,
            due: SmallVec::new(),
            replies: 0,
            looked_until: began,
            repetitions: 0,
            first_failure: None,
            undos: Vec::new(),
            news: Vec::new(),
        };
        exchange.take_slot();
        exchange
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
        self.is_idle() && self.connection.is_some()
    }

    pub(super) fn now(&self) -> Timestamp {
        self.node.now()
    }

    pub(super) fn is_with(&self, node: &Node) -> bool {
        ptr::eq(self.node, node)
    }

    /// The answer to the request at this place.
    pub(super) fn take_answer(&mut self, place: usize) -> Option<Answer> {
        self.requests.get_mut(place)?.answer.take()
    }

    /// What the log has to be told. It is told last, because the program's logger may panic, or take long.
    pub(super) fn news(&mut self) -> Vec<News> {
        take(&mut self.news)
    }

    fn request(&self, place: usize) -> Option<&'x Request<'x>> {
        self.requests.get(place).map(|one| one.asked.request)
    }

    /// The request, if it is the only one.
    fn only_request(&self) -> Option<&'x Request<'x>> {
        self.request(0).filter(|_| self.requests.len() == 1)
    }

    fn is_answered(&self) -> bool {
        self.requests.iter().all(|one| one.answer.is_some())
    }

    /// The places of the requests that are not answered.
    fn unanswered(&self) -> SmallVec<[usize; 4]> {
        let all = self.requests.iter().enumerate();
        let unanswered = all.filter(|(_, one)| one.answer.is_none());
        unanswered.map(|(place, _)| place).collect()
    }

    /// The requests that are not answered.
    fn open_requests(&self) -> impl Iterator<Item = &'x Request<'x>> {
        let unanswered = self.requests.iter().filter(|one| one.answer.is_none());
        unanswered.map(|one| one.asked.request)
    }

    /// When the time for the last of the requests without an answer is over.
    fn last_deadline(&self) -> Timestamp {
        let timeout = self.node.timeout;
        let deadline_of = |request: &Request<'_>| match request.long_wait() {
            Some(span) => self.sent_at.saturating_add(span),
            None if request.conduct().repetitions > 0 => self.sent_at.saturating_add(timeout),
            None => {
                let lost = self.sent_at.saturating_since(self.since);
                self.began.saturating_add(lost).saturating_add(timeout)
            }
        };
        let deadlines = self.open_requests().map(deadline_of);
        deadlines.max().unwrap_or(self.sent_at)
    }

    /// The deadline of every step but the wait for the first byte of a reply. For a request that can be given up, it is no
    /// later than a node timeout from now.
    fn step_deadline(&self) -> Timestamp {
        // A request that can be given up goes alone.
        if self.only_request().and_then(Request::given_up).is_none() {
            return self.deadline;
        }
        let span = self.node.timeout.saturating_add(POLL_INTERVAL);
        let soon = self.node.now().saturating_add(span);
        soon.min(self.deadline)
    }

    /// Sends commands in one write. After an error the connection is closed.
    fn write(
        &mut self,
        commands: &[Cow<'_, Packed>],
        deadline: Timestamp,
    ) -> Result<(), NodeError> {
        let connection = self.connection.as_mut().ok_or_else(no_connection)?;
        let sent = connection.send(commands, deadline);
        if sent.is_err() {
            self.connection = None;
        }
        sent
    }

    /// Answers a request. The time counts since its thread began to ask, without what was spent on other nodes between the choice
    /// of a connection and sending.
    fn answer(&mut self, place: usize, result: Result<Said, NodeError>, trace: Trace) {
        let (at, was_sent) = (self.node.now(), self.state == State::Sent);
        let lost = self.sent_at.saturating_since(self.since);
        let Some(one) = self.requests.get_mut(place) else {
            return;
        };
        let span = at.saturating_since(one.asked.since);
        let connection = self.connection.as_ref();
        one.answer = Some(Answer {
            result,
            elapsed: span.saturating_sub(lost),
            at,
            server: connection.and_then(|it| it.run_id().cloned()),
            trace,
            first_failure: self.first_failure.clone(),
            idle: self.idle.filter(|_| was_sent),
        });
    }

    /// Reports the result of a request to its span, to the other connections and to the breaker.
    fn tell(&mut self, place: usize, error: Option<&NodeError>) {
        self.tell_gate(error);
        let Some(Pending { asked, span, .. }) = self.requests.get(place) else {
            return;
        };
        let request = asked.request;
        let (node, is_about_health) = (self.node, request.is_about_health());
        let Some(error) = error else {
            self.has_answered = true;
            span.iter().for_each(NodeSpan::answered);
            if !is_about_health && node.answered() {
                self.news.push(News(Arc::clone(&node.name), None));
            }
            return;
        };
        if let Some(span) = span {
            span.failed(error);
        }
        if self.is_turned_away() {
            return;
        }
        if error.is_broken() {
            node.retire(self.generation);
        }
        let is_excused = (is_about_health && matches!(error, NodeError::Protocol { .. }))
            || (error.is_silence() && self.excuses_time_out(request));
        if !is_excused && node.note(error) {
            let name = Arc::clone(&node.name);
            self.news.push(News(name, Some(error.clone())));
        }
    }

    /// Whether a time-out says little about the node, so that the breaker is not told. A node that has answered the request
    /// before this one is only slow.
    fn excuses_time_out(&self, request: &Request<'_>) -> bool {
        let waited = self.since.saturating_since(self.began);
        let is_late = waited.saturating_mul(4) > self.node.timeout;
        self.has_answered
            || request.long_wait().is_some()
            || (request.conduct().repetitions == 0 && is_late)
    }
}

impl News {
    pub(super) fn tell(self) {
        let Self(node, error) = self;
        match error {
            Some(error) => log_lines::node_opened(&node, &error),
            None => log_lines::node_closed(&node),
        }
    }
}

#[cfg(test)]
mod tests;
