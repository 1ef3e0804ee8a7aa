//! An exchange connects and sends, all by its deadline.

use std::borrow::Cow;
use std::slice;

use smallvec::SmallVec;

use super::{Exchange, State};
use crate::error::NodeError;
use crate::node::connection::OpenConnection;
use crate::node::gate::{Manner, Passage};
use crate::node::request::Request;
use crate::wire::pack::Packed;

impl<'x> Exchange<'x> {
    /// Sends the requests, and connects if need be.
    pub(in super::super) fn send(&mut self) {
        if !self.is_idle() {
            return;
        }
        for one in &self.requests {
            if let Some(span) = &one.span {
                span.command(one.asked.request.packed.name);
            }
        }
        self.sent_at = self.node.now();
        self.deadline = self.last_deadline();
        match self.send_first() {
            Ok(()) => self.state = State::Sent,
            Err(error) => {
                self.fail_rest(&error);
                self.end();
            }
        }
    }

    fn send_first(&mut self) -> Result<(), NodeError> {
        let Some(connection) = &mut self.connection else {
            self.connect()?;
            return self.send_all(|request| Cow::Borrowed(&*request.packed));
        };
        self.idle = Some(connection.note_use(self.sent_at));
        match self.send_all(|request| Cow::Borrowed(&*request.packed)) {
            Err(error) if error.is_closed() => {
                self.node.retire(self.generation);
                self.send_again()
            }
            sent => sent,
        }
    }

    /// Sends the requests that have no answer on a new connection, in their form for that case.
    pub(super) fn send_again(&mut self) -> Result<(), NodeError> {
        self.deadline = self.last_deadline();
        self.connect()?;
        let now = self.node.now();
        self.send_all(|request| request.again(now))
    }

    fn connect(&mut self) -> Result<(), NodeError> {
        self.connection = None;
        self.idle = None;
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
        packed: impl Fn(&'x Request<'x>) -> Cow<'x, Packed>,
    ) -> Result<(), NodeError> {
        self.due = self.unanswered();
        self.replies = 0;
        let commands: SmallVec<[_; 1]> = self.open_requests().map(packed).collect();
        self.may_be_sent = self.requests.len() > 1;
        let deadline = self.step_deadline();
        self.write(&commands, deadline)
    }

    /// Sends the text of a script that the server has forgotten. The same connection is safe: the request was not executed.
    pub(super) fn send_script_again(&mut self, request: &Request<'_>) -> Result<(), NodeError> {
        let again = request.again(self.node.now());
        self.write(slice::from_ref(&again), self.deadline)
    }

    /// Waits at the gate of the node until a connection may be made, or returns why none can be made.
    fn pass_gate(&mut self) -> Result<(), NodeError> {
        let node = self.node;
        // A node in this process costs nothing, and its clock may stand still.
        if !node.connector.is_remote() {
            return Ok(());
        }
        let manner = self.manner();
        self.passage = Passage::Shut;
        self.passage = node.gate.enter(manner, &node.clock)?;
        Ok(())
    }

    /// What the requests demand of the gate. The most insistent one decides.
    fn manner(&self) -> Manner {
        let all = || self.open_requests();
        if all().any(Request::is_about_health) {
            return Manner::Examines;
        }
        if all().any(|request| request.conduct().repetitions > 0) {
            let (now, deadline) = (self.node.now(), self.deadline);
            let half = deadline.saturating_since(now).checked_div(2);
            let own_try = now.saturating_add(half.unwrap_or_default());
            return Manner::Insists {
                own_try: Some(own_try).filter(|_| self.passage != Passage::Known),
                deadline,
            };
        }
        if all().any(|request| request.long_wait().is_some()) {
            return Manner::Listens;
        }
        Manner::Asks
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

    /// Whether the error is that of another thread, which has told all who have to know it.
    pub(super) fn is_turned_away(&self) -> bool {
        self.passage == Passage::Shut
    }
}
