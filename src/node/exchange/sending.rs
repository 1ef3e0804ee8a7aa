//! An exchange connects and sends, all by its deadline.

use std::time::Duration;

use super::{Exchange, POLL_INTERVAL, State};
use crate::clock::Timestamp;
use crate::error::NodeError;
use crate::node::connection::OpenConnection;
use crate::node::gate::{Manner, Passage, Visit};
use crate::node::request::{Request, Verb};
use crate::spans;
use crate::wire::pack::Packed;

/// How long a node may take for a question about itself.
const PATIENCE_WITH_HEALTH: Duration = Duration::from_secs(1);

impl Exchange<'_> {
    /// Sends the requests, and connects if need be.
    pub(in super::super) fn send(&mut self) {
        if self.state != State::Idle {
            return;
        }
        if spans::ARE_ON {
            for one in &self.requests {
                let span = one.span.as_ref();
                span.inspect(|span| span.command(one.request.packed.name));
            }
        }
        // Each node has its own time, because a write may wait, or find that a new connection has to be made.
        self.sent_at = self.node.now();
        self.answers_since = self.sent_at;
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
        if self.open < self.requests.len() {
            return self.send_all(|request| request.packed.clone());
        }
        (self.due, self.state) = (0..self.open, State::Sent);
        let batch = self.batch;
        self.write(|open, by| open.send_batch(batch, by))
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
        let longest = match self.batch.long_wait {
            Some(patience) => patience,
            // A slow node may take longer, so that its pace can be told. A node that is known to hang may not.
            None if self.batch.is_about_health && self.node.known_silence().is_none() => {
                timeout.max(PATIENCE_WITH_HEALTH)
            }
            None if self.batch.has_repetitions => timeout,
            None => timeout.saturating_sub(self.waited),
        };
        self.sent_at.saturating_add(longest)
    }

    /// The deadline of every step but the wait for the first byte of a reply. For a request that can be given up, it is no
    /// later than a node timeout from now.
    pub(super) fn step_deadline(&self) -> Timestamp {
        if self.batch.given_up.is_none() {
            return self.deadline;
        }
        let span = self.node.timeout.saturating_add(POLL_INTERVAL);
        let soon = self.node.now().saturating_add(span);
        soon.min(self.deadline)
    }

    fn connect(&mut self) -> Result<(), NodeError> {
        (self.connection, self.idle, self.at) = (None, None, None);
        // This may take as long as a connect timeout.
        self.lane.give_back(None);
        self.pass_gate()?;
        self.generation = self.node.generation();
        let began = self.node.now();
        // A node that is known to hang gets no time of its own, but for the probe.
        let is_call = |request: &Request| !matches!(request.verb, Verb::Probe);
        let known = self.node.known_silence();
        let known = known.filter(|_| self.open_requests().any(is_call));
        let has_own_time = known.is_none() && self.batch.long_wait.is_none();
        let deadline = self.connect_deadline(began, known.is_some());
        let connected = self.node.connector.connect(deadline);
        let now = self.node.now();
        let took = now.saturating_since(began);
        self.answers_since = self.answers_since.saturating_add(took);
        let transport = connected.map_err(|error| match known {
            _ if !error.is_silence() => error,
            // That one had all its time.
            Some(known) => known,
            None => self.node.unconnected(&error),
        })?;
        self.node.pace.connection.note(began, now);
        if has_own_time {
            // The time for the command begins now.
            self.deadline = self.deadline.saturating_add(took);
        }
        let connection = OpenConnection::new(transport, self.generation, now);
        self.connection = Some(Box::new(connection));
        Ok(())
    }

    /// Until when the connection has to be made. One to a node that is known to hang gets no time beside that of the command.
    fn connect_deadline(&self, now: Timestamp, is_hanging: bool) -> Timestamp {
        let connecting = self.answers_since.saturating_since(self.sent_at);
        let left = self.node.connect_timeout.saturating_sub(connecting);
        let latest = now.saturating_add(left);
        if is_hanging {
            return latest.min(self.step_deadline());
        }
        // The time of a wait for another client is its own.
        if self.batch.long_wait.is_some() {
            return latest.min(self.deadline);
        }
        let hurry = self.open_requests().filter_map(|it| it.verb.connect_by());
        let least = now.saturating_add(self.node.timeout);
        hurry.min().map_or(latest, |by| latest.min(by.max(least)))
    }

    /// Sends the requests that have no answer, in one write.
    fn send_all(&mut self, packed: impl Fn(&Request) -> Packed) -> Result<(), NodeError> {
        let unanswered = self.unanswered();
        let (places, commands): (_, Vec<Packed>) = unanswered
            .into_iter()
            .map(|(index, request)| (index, packed(request)))
            .unzip();
        (self.due, self.late) = (0..0, places);
        // Also if the write is cut: of several requests, some may have arrived.
        self.state = State::Sent;
        self.write(|open, by| open.send(commands.iter(), by))
    }

    /// Waits at the gate of the node until a connection may be made, or returns why none can be made.
    fn pass_gate(&mut self) -> Result<(), NodeError> {
        let node = self.node;
        // A node in this process costs nothing, and its clock may stand still.
        if !node.connector.is_remote() {
            return Ok(());
        }
        // The most insistent request decides.
        let manner = self.open_requests().map(|request| request.verb.manner());
        let visit = Visit {
            manner: manner.max().unwrap_or(Manner::Asks),
            has_tried: self.passage == Passage::Known,
            since: node.now(),
            deadline: self.deadline,
        };
        self.passage = Passage::Shut;
        self.passage = Passage::New(node.gate.enter(&visit, &node.clock)?);
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
