//! A slot of the pool that is checked out for an exchange: connects, sends, sends again and undoes, all by deadlines.

use std::borrow::Cow;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use super::exchange::{Answer, Call, News};
use super::gate::Passage;
use super::request::{Patience, Request};
use super::slot::{Readiness, SlotInUse};
use super::{Node, Trace};
use crate::clock::Timestamp;
use crate::error::NodeError;
use crate::spans::NodeSpan;
use crate::wire::pack::Packed;

/// A slot in use. Dropping it puts the slot back, without the connection if a reply is still to come.
pub(super) struct Checkout<'x> {
    pub(super) call: Call<'x>,
    pub(super) slot: SlotInUse,
    /// The generation of the connection in the slot, or of the node if there is none.
    pub(super) generation: u64,
    /// When the slot was checked out. The time between that and sending was spent on other nodes, and does not count for
    /// this one.
    since: Timestamp,
    /// When the requests were sent first.
    pub(super) sent_at: Timestamp,
    /// For how long the connection was idle before that. None if it was made for the requests.
    pub(super) idle: Option<Duration>,
    /// Whether a write of several requests has begun. If it fails, some of them may have been sent as a whole.
    may_be_sent: bool,
    /// Whether the node has answered one of the requests.
    has_answered: bool,
    pub(super) passage: Passage<'x>,
    /// One for each request.
    pub(super) spans: Vec<NodeSpan>,
}

/// How often a wait checks whether the request was given up.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(20);

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnectionAge {
    /// Made for an earlier request. The server may have closed it meanwhile.
    Warm,
    /// Made for this request.
    Fresh,
}

impl<'x> Checkout<'x> {
    pub(super) fn new(call: Call<'x>, mut slot: SlotInUse, since: Timestamp) -> Self {
        let node = call.node;
        if call
            .all
            .iter()
            .any(|asked| asked.request.needs_new_connection)
        {
            slot.close();
        }
        let generation = node.generation();
        let spans = call.all.iter();
        Self {
            spans: spans
                .map(|asked| NodeSpan::new(&node.name, asked.caller))
                .collect(),
            call,
            slot,
            generation,
            since,
            sent_at: since,
            idle: None,
            may_be_sent: false,
            has_answered: false,
            passage: Passage::default(),
        }
    }

    /// Closes a connection that must not be used again.
    pub(super) fn check(&mut self) {
        if self.slot.check(self.generation, self.since) == Readiness::Closed {
            self.node().retire(self.generation);
        }
    }

    /// The socket of a connection that may be used again if the socket has nothing to read.
    pub(super) fn socket(&self) -> Option<&TcpStream> {
        self.slot
            .socket()
            .filter(|_| self.slot.is_current(self.generation, self.since))
    }

    pub(super) fn node(&self) -> &'x Node {
        self.call.node
    }

    /// Sends the requests.
    pub(super) fn send(&mut self) -> Result<ConnectionAge, NodeError> {
        for (span, asked) in self.spans.iter().zip(self.call.all) {
            span.command(asked.request.packed.name());
        }
        self.sent_at = self.node().now();
        if !self.slot.is_open() {
            self.connect()?;
            self.send_all(Request::first)?;
            return Ok(ConnectionAge::Fresh);
        }
        self.idle = Some(self.slot.note_use(self.sent_at));
        match self.send_all(Request::first) {
            Err(error) if error.is_closed() => {
                self.node().retire(self.generation);
                self.send_again()?;
                Ok(ConnectionAge::Fresh)
            }
            sent => sent.map(|()| ConnectionAge::Warm),
        }
    }

    /// Sends the requests that have no answer on a new connection, in their form for that case.
    pub(super) fn send_again(&mut self) -> Result<(), NodeError> {
        self.connect()?;
        let now = self.node().now();
        self.send_all(|request| request.again(now))
    }

    fn connect(&mut self) -> Result<(), NodeError> {
        self.slot.close();
        self.idle = None;
        // This may take as long as a node timeout.
        self.call.pacer.is_late();
        self.pass_gate()?;
        self.generation = self.node().generation();
        let deadline = self.step_deadline();
        let transport = self.node().connector.connect(deadline)?;
        let now = self.node().now();
        self.slot.open(transport, self.generation, now);
        Ok(())
    }

    /// Sends the requests that have no answer, in one write.
    fn send_all(
        &mut self,
        packed: impl Fn(&'x Request<'x>) -> Cow<'x, Packed>,
    ) -> Result<(), NodeError> {
        let deadline = self.step_deadline();
        if let [asked] = self.call.all {
            return self.slot.send(&packed(asked.request), deadline);
        }
        let all = self.call.unanswered();
        let all: Vec<_> = all.map(|(_, asked)| packed(asked.request)).collect();
        self.may_be_sent = true;
        self.slot.send_all(&all, deadline)
    }

    /// Sends the text of a script that the server has forgotten. The same connection is safe: the request was not executed.
    pub(super) fn send_script_again(&mut self, request: &Request<'_>) -> Result<(), NodeError> {
        self.slot.forget_scripts();
        let again = request.again(self.node().now());
        let deadline = self.deadline(request);
        self.slot.send(&again, deadline)
    }

    /// When the time for a request is over.
    pub(super) fn deadline(&self, request: &Request<'_>) -> Timestamp {
        let timeout = self.node().timeout;
        match request.patience() {
            Patience::Once => {
                let lost = self.sent_at.saturating_since(self.since);
                self.call.began.saturating_add(lost).saturating_add(timeout)
            }
            Patience::Repeated(_) => self.sent_at.saturating_add(timeout),
            Patience::Long(span) => self.sent_at.saturating_add(span),
        }
    }

    /// When the time for the last of the requests without an answer is over.
    pub(super) fn last_deadline(&self) -> Timestamp {
        let deadlines = self.call.unanswered();
        let deadlines = deadlines.map(|(_, asked)| self.deadline(asked.request));
        deadlines.max().unwrap_or(self.sent_at)
    }

    /// When the time for the first of them is over.
    pub(super) fn next_deadline(&self) -> Timestamp {
        let deadlines = self.call.unanswered();
        let deadlines = deadlines.map(|(_, asked)| self.deadline(asked.request));
        deadlines.min().unwrap_or(self.sent_at)
    }

    /// The deadline of every step but the wait for the first byte of a reply. For a request that can be given up, it is no
    /// later than a node timeout from now.
    pub(super) fn step_deadline(&self) -> Timestamp {
        let last = self.last_deadline();
        let mut all = self.call.all.iter();
        if !all.any(|asked| asked.request.given_up().is_some()) {
            return last;
        }
        let span = self.node().timeout.saturating_add(POLL_INTERVAL);
        self.node().now().saturating_add(span).min(last)
    }

    /// Answers every request that has no answer, because connecting or sending has failed.
    pub(super) fn fail_all(mut self, error: &NodeError) -> Vec<News> {
        let places: Vec<usize> = self.call.unanswered().map(|(place, _)| place).collect();
        let now = self.node().now();
        for place in places {
            self.tell(place, Some(error));
            let answer = Answer {
                server: self.server(),
                trace: if self.may_be_sent {
                    Trace::Possible
                } else {
                    Trace::None
                },
                ..Answer::failed(error.clone(), self.elapsed(place, now), now)
            };
            self.call.answer(place, answer);
        }
        self.call.news
    }

    /// The time since the thread began to ask, without what was spent on other nodes between the choice of a connection and
    /// sending.
    pub(super) fn elapsed(&self, place: usize, now: Timestamp) -> Duration {
        let since = self.call.asked(place).map(|asked| asked.since);
        let lost = self.sent_at.saturating_since(self.since);
        let span = now.saturating_since(since.unwrap_or(self.since));
        span.saturating_sub(lost)
    }

    /// Reports the result of a request to its span, to the other connections and to the breaker.
    pub(super) fn tell(&mut self, place: usize, error: Option<&NodeError>) {
        self.tell_gate(error);
        let (Some(asked), Some(span)) = (self.call.asked(place), self.spans.get(place)) else {
            return;
        };
        let (node, is_about_health) = (self.node(), asked.request.is_about_health());
        let Some(error) = error else {
            self.has_answered = true;
            span.answered();
            if !is_about_health && node.answered() {
                self.call.news.push(News::Closed(Arc::clone(&node.name)));
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
            self.call.news.push(News::Opened(name, error.clone()));
        }
    }

    /// Whether a time-out says little about the node, so that the breaker is not told. A node that has answered the request
    /// before this one is only slow.
    pub(super) fn excuses_time_out(&self, request: &Request<'_>) -> bool {
        match request.patience() {
            _ if self.has_answered => true,
            Patience::Once => {
                let waited = self.since.saturating_since(self.call.began);
                waited.saturating_mul(4) > self.node().timeout
            }
            Patience::Repeated(_) => false,
            Patience::Long(_) => true,
        }
    }

    /// Undoes a request whose outcome is unknown. Returns the undo if it was sent. It goes on the same connection: on another one
    /// it could arrive first, and the key would stay. The connection must not be used again then.
    pub(super) fn undo<'r>(&mut self, request: &'r Request<'_>) -> Option<&'r Packed> {
        let undo = request.undo()?;
        let deadline = self.last_deadline();
        self.slot.send(undo, deadline).ok().map(|()| undo)
    }

    /// The run id of the server, if it is known.
    pub(super) fn server(&self) -> Option<Arc<str>> {
        self.slot.run_id().cloned()
    }
}

#[cfg(test)]
mod tests;
