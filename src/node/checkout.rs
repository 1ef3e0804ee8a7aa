//! A slot of the pool that is checked out for one request: connects, sends, sends again and undoes, all by one deadline.

use std::sync::Arc;
use std::time::Duration;

use super::Node;
use super::request::{Patience, Request};
use super::slot::{Readiness, SlotInUse};
use crate::clock::Timestamp;
use crate::error::NodeError;
use crate::spans::NodeSpan;
use crate::wire::pack::Packed;
use crate::wire::resp::Reply;

/// A slot in use. Dropping it puts the slot back, without the connection if a reply is still to come.
pub(super) struct Checkout<'x> {
    pub(super) node: &'x Node,
    pub(super) request: &'x Request<'x>,
    pub(super) slot: SlotInUse,
    /// The generation of the connection in the slot, or of the node if there is none.
    pub(super) generation: u64,
    pub(super) started: Timestamp,
    /// When the slot was checked out. The time between that and sending was spent on other nodes, and does not count for
    /// this one.
    since: Timestamp,
    pub(super) deadline: Timestamp,
    /// Whether a time-out says little about the node, so that the breaker is not told.
    excuses_time_out: bool,
    /// How often the request may still be sent again when a connection made for it breaks.
    pub(super) repetitions: u32,
    pub(super) span: NodeSpan,
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
    pub(super) fn new(
        node: &'x Node,
        request: &'x Request<'x>,
        mut slot: SlotInUse,
        started: Timestamp,
    ) -> Self {
        let generation = node.generation();
        if slot.check(generation) == Readiness::Closed {
            node.retire(generation);
        }
        Self {
            node,
            request,
            slot,
            generation,
            started,
            since: node.now(),
            deadline: started,
            excuses_time_out: false,
            repetitions: 0,
            span: NodeSpan::new(&node.name),
        }
    }

    pub(super) fn send(&mut self) -> Result<ConnectionAge, NodeError> {
        self.span.command(self.request.packed.name());
        self.set_deadline();
        self.send_on_open_or_new().inspect_err(|error| {
            self.span.failed(error);
            self.note(error);
        })
    }

    fn set_deadline(&mut self) {
        let (now, timeout) = (self.node.now(), self.node.timeout);
        self.deadline = match self.request.patience() {
            Patience::Once => {
                let waited = self.since.saturating_since(self.started);
                self.excuses_time_out = waited.saturating_mul(4) > timeout;
                let lost = now.saturating_since(self.since);
                self.started = self.started.saturating_add(lost);
                self.started.saturating_add(timeout)
            }
            Patience::Repeated(times) => {
                self.repetitions = times;
                now.saturating_add(timeout)
            }
            Patience::Long(span) => {
                self.excuses_time_out = true;
                now.saturating_add(span)
            }
        };
    }

    fn send_on_open_or_new(&mut self) -> Result<ConnectionAge, NodeError> {
        if !self.slot.is_open() {
            self.connect_and_send(self.request.packed)?;
            return Ok(ConnectionAge::Fresh);
        }
        match self.slot.send(self.request.packed, self.deadline) {
            Err(error) if error.is_closed() => {
                self.node.retire(self.generation);
                self.send_again()?;
                Ok(ConnectionAge::Fresh)
            }
            sent => sent.map(|()| ConnectionAge::Warm),
        }
    }

    pub(super) fn send_again(&mut self) -> Result<(), NodeError> {
        self.connect_and_send(&self.request.again(self.node.now()))
    }

    fn connect_and_send(&mut self, packed: &Packed) -> Result<(), NodeError> {
        self.slot.close();
        self.generation = self.node.generation();
        let deadline = self.step_deadline();
        let transport = self.node.connector.connect(deadline)?;
        self.slot.open(transport, self.generation, deadline)?;
        self.slot.send(packed, deadline)
    }

    /// Tells the node's breaker.
    pub(super) fn note(&self, error: &NodeError) {
        if !(self.excuses_time_out && error.is_silence()) {
            self.node.note(error);
        }
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.node.now().saturating_since(self.started)
    }

    /// Sends the text of a script that the server has forgotten. The same connection is safe: nothing was executed yet.
    pub(super) fn send_script_again(&mut self) -> Result<(), NodeError> {
        self.slot.forget_scripts();
        let again = self.request.again(self.node.now());
        self.slot.send(&again, self.deadline)
    }

    /// The deadline of every step but the wait for the first byte of a reply. For a request that can be given up, it is no
    /// later than a node timeout from now.
    pub(super) fn step_deadline(&self) -> Timestamp {
        if self.request.given_up().is_none() {
            return self.deadline;
        }
        let span = self.node.timeout.saturating_add(POLL_INTERVAL);
        self.node.now().saturating_add(span).min(self.deadline)
    }

    pub(super) fn recv(&mut self) -> Result<Reply, NodeError> {
        let deadline = self.step_deadline();
        self.slot.recv_all(self.request.packed.count(), deadline)
    }

    /// Undoes a request whose outcome is unknown, and closes the connection. Returns whether the server will see the undo.
    /// The undo goes on the same connection: on another one it could arrive first, and the key would stay.
    pub(super) fn undo(&mut self, error: &NodeError) -> bool {
        let Some(undo) = self.request.undo() else {
            return false;
        };
        // The reply is never read, so the text goes along in case that the server lacks the script.
        self.slot.forget_scripts();
        let is_sent = !error.is_broken() && self.slot.send(undo, self.deadline).is_ok();
        self.slot.close();
        is_sent
    }

    /// The run id of the server, if it is known.
    pub(super) fn server(&self) -> Option<Arc<str>> {
        self.slot.run_id().cloned()
    }
}
