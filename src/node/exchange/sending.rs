//! An exchange connects and sends, all by its deadline.

use std::borrow::Cow;

use smallvec::SmallVec;

use super::{Exchange, POLL_INTERVAL, State};
use crate::clock::Timestamp;
use crate::error::NodeError;
use crate::node::connection::OpenConnection;
use crate::node::gate::{Manner, Passage};
use crate::node::request::Request;
use crate::wire::pack::Packed;

impl<'x> Exchange<'x> {
    /// Sends the requests, and connects if need be.
    pub(in super::super) fn send(&mut self) {
        if self.state != State::Idle {
            return;
        }
        for one in &self.requests {
            if let Some(span) = &one.span {
                span.command(one.request.packed.name);
            }
        }
        self.sent_at = self.node.now();
        self.deadline = self.last_deadline();
        let mut sent = self.send_first();
        if self.idle.is_some() && sent.as_ref().is_err_and(NodeError::is_closed) {
            self.node.retire(self.generation);
            sent = self.send_again();
        }
        if let Err(error) = sent {
            self.fail_rest(&error);
            self.end();
        }
    }

    fn send_first(&mut self) -> Result<(), NodeError> {
        match &mut self.connection {
            Some(connection) => self.idle = Some(connection.note_use(self.sent_at)),
            None => self.connect()?,
        }
        self.send_all(|request| Cow::Borrowed(request.packed))
    }

    /// Sends the requests that have no answer on a new connection, in their form for that case.
    pub(super) fn send_again(&mut self) -> Result<(), NodeError> {
        self.connect()?;
        let now = self.node.now();
        self.send_all(|request| request.again(now))
    }

    /// When the time for the last of the requests is over.
    fn last_deadline(&self) -> Timestamp {
        let timeout = self.node.timeout;
        let time_for = |request: Request<'_>| match request.verb.long_wait() {
            Some(patience) => patience,
            None if request.verb.repetitions() > 0 => timeout,
            None => timeout.saturating_sub(self.waited),
        };
        let longest = self.open_requests().map(time_for).max();
        self.sent_at.saturating_add(longest.unwrap_or_default())
    }

    /// The deadline of every step but the wait for the first byte of a reply. For a request that can be given up, it is no
    /// later than a node timeout from now.
    pub(super) fn step_deadline(&self) -> Timestamp {
        if !self.open_requests().any(|it| it.verb.given_up().is_some()) {
            return self.deadline;
        }
        let span = self.node.timeout.saturating_add(POLL_INTERVAL);
        let soon = self.node.now().saturating_add(span);
        soon.min(self.deadline)
    }

    fn connect(&mut self) -> Result<(), NodeError> {
        (self.connection, self.idle) = (None, None);
        // This may take as long as a node timeout.
        self.lane.give_back(None);
        self.pass_gate()?;
        self.generation = self.node.generation();
        let deadline = self.step_deadline();
        let transport = self.node.connector.connect(deadline)?;
        let now = self.node.now();
        let connection = OpenConnection::new(transport, self.generation, now);
        self.connection = Some(Box::new(connection));
        Ok(())
    }

    /// Sends the requests that have no answer, in one write.
    fn send_all(
        &mut self,
        packed: impl Fn(Request<'x>) -> Cow<'x, Packed>,
    ) -> Result<(), NodeError> {
        let unanswered = self.unanswered().into_iter();
        self.due = unanswered.map(|(place, _)| place).collect();
        let commands: SmallVec<[_; 1]> = self.open_requests().map(packed).collect();
        // Also if the write is cut: of several requests, some may have arrived.
        self.state = State::Sent;
        let deadline = self.step_deadline();
        self.write(&commands, deadline)
    }

    /// Waits at the gate of the node until a connection may be made, or returns why none can be made.
    fn pass_gate(&mut self) -> Result<(), NodeError> {
        let (node, deadline) = (self.node, self.deadline);
        // A node in this process costs nothing, and its clock may stand still.
        if !node.connector.is_remote() {
            return Ok(());
        }
        // The most insistent request decides.
        let manner = self.open_requests().map(|request| request.verb.manner());
        let manner = manner.max().unwrap_or(Manner::Asks);
        let now = node.now();
        let half = deadline.saturating_since(now).checked_div(2);
        let own_try = now.saturating_add(half.unwrap_or_default());
        let own_try = Some(own_try).filter(|_| self.passage != Passage::Known);
        self.passage = Passage::Shut;
        self.passage = node.gate.enter(manner, own_try, deadline, &node.clock)?;
        Ok(())
    }

    /// Tells the gate what has become of a new connection: it has failed, or a request has its reply. A server that has said
    /// who it is takes connections, whatever it makes of the request.
    pub(super) fn tell_gate(&mut self, error: Option<&NodeError>) {
        let Passage::New(number) = self.passage else {
            return;
        };
        self.passage = Passage::Known;
        let connection = self.connection.as_ref();
        // A server that has too many clients answers so, and closes.
        let refused = connection.and_then(|it| it.refusal());
        let is_known = connection.is_some_and(|it| it.run_id().is_some());
        let gate = &self.node.gate;
        match error.or(refused.as_ref()).filter(|_| !is_known) {
            Some(failure) => gate.failed(number, failure, self.node.now()),
            None => gate.open(),
        }
    }
}
