//! One command to one node: checkout, connect, write, read, all by one deadline.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::wire::resp::Reply;

use super::command::Packed;
use super::slot::{Place, Readiness, Slot};
use super::{Node, echo, script};
use crate::clock::Timestamp;
use crate::error::NodeError;
use crate::spans::NodeSpan;

/// A slot that is checked out for one command. Dropping it puts the slot back, without the connection if a reply is
/// outstanding.
pub(crate) struct Call<'n> {
    node: &'n Node,
    slot: Place,
    started: Timestamp,
    deadline: Timestamp,
    /// Up to when something to receive was waited for.
    looked_until: Timestamp,
    /// Since when nothing was done for the node, because others came first.
    idle_since: Option<Timestamp>,
    /// Its silence says little about the node: a good part of the time went by before that was asked, or it may take its
    /// time.
    excuses_silence: bool,
    /// Set when nobody wants the answer any more. Looked at only while a command blocks.
    given_up: Option<&'n AtomicBool>,
    stage: Stage,
    /// How many commands were sent in the one write.
    sent: usize,
    generation: u64,
    /// How often the command may still be sent again when a connection made for it breaks.
    repeats: u32,
    first_fault: Option<Box<NodeError>>,
    span: NodeSpan,
}

/// A connection that breaks again and again is not worth more.
const REPEATS: u32 = 3;

/// How often it is looked whether a command that blocks is given up.
const LOOK: Duration = Duration::from_millis(20);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// There is no connection yet.
    Cold,
    /// There is a connection of an earlier command, which the server may have closed meanwhile.
    Warm,
    /// The command was sent on a connection of an earlier one.
    SentWarm,
    /// The command was sent on a connection made for it.
    SentFresh,
}

impl<'n> Call<'n> {
    /// A call on a slot that comes free within half of the node timeout; the other half is for the node.
    pub(super) fn new(node: &'n Node) -> Result<Self, NodeError> {
        let started = node.clock.now();
        let half = node.timeout.checked_div(2).unwrap_or_default();
        let slot = node.pool.get_timeout(half);
        let slot = slot.map_err(|_| NodeError::PoolExhausted)?;
        Ok(Self::on(node, Place::Pooled(slot), started))
    }

    /// A call on a slot that is free now, if there is one.
    pub(super) fn at_once(node: &'n Node) -> Option<Self> {
        let started = node.clock.now();
        let slot = node.pool.try_get()?;
        Some(Self::on(node, Place::Pooled(slot), started))
    }

    /// A call that can't be refused: when no slot comes free, it makes a connection beside the pool.
    pub(super) fn insistent(node: &'n Node) -> Self {
        let started = node.clock.now();
        Self::new(node).unwrap_or_else(|_| Self::on(node, Place::Own(Slot::default()), started))
    }

    fn on(node: &'n Node, mut slot: Place, started: Timestamp) -> Self {
        let generation = node.generation();
        let stage = match slot.check(generation) {
            Readiness::Ready => Stage::Warm,
            Readiness::Empty => Stage::Cold,
            Readiness::Closed => {
                node.retire(generation);
                Stage::Cold
            }
        };
        let now = node.clock.now();
        let waited = now.saturating_since(started);
        Self {
            node,
            slot,
            started,
            deadline: started.saturating_add(node.timeout),
            looked_until: started,
            idle_since: Some(now),
            excuses_silence: waited.saturating_mul(4) > node.timeout,
            given_up: None,
            stage,
            sent: 0,
            generation,
            repeats: 0,
            first_fault: None,
            span: NodeSpan::new(&node.name),
        }
    }

    pub(super) fn node(&self) -> &'n Node {
        self.node
    }

    pub(super) fn is_warm(&self) -> bool {
        self.stage == Stage::Warm
    }

    pub(super) fn is_sent(&self) -> bool {
        matches!(self.stage, Stage::SentWarm | Stage::SentFresh)
    }

    /// Waits for the reply for no longer than `patience`; returns whether reading it is not going to wait.
    pub(super) fn is_ready(&mut self, patience: Duration) -> bool {
        let until = self.look_for(patience);
        let deadline = self.soon();
        self.slot.is_ready(until, deadline)
    }

    /// By when all is to be done but to wait for an answer: that takes a node timeout, also of a command that blocks.
    fn soon(&self) -> Timestamp {
        let Some(_) = self.given_up else {
            return self.deadline;
        };
        let span = self.node.timeout.saturating_add(LOOK);
        self.node
            .clock
            .now()
            .saturating_add(span)
            .min(self.deadline)
    }

    /// Until when to wait. Each time is later than the last, also where time stands still for whoever waits.
    fn look_for(&mut self, patience: Duration) -> Timestamp {
        let from = self.node.clock.now().max(self.looked_until);
        self.looked_until = from.saturating_add(patience).min(self.deadline);
        self.looked_until
    }

    /// Whether it was waited for up to the deadline, or nobody wants to know any more.
    pub(super) fn is_overdue(&self) -> bool {
        self.looked_until >= self.deadline || self.node.clock.has_ended()
    }

    /// Which server has been asked, where that is known.
    pub(super) fn server(&self) -> Option<Arc<str>> {
        self.slot.run_id().cloned()
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.node.clock.now().saturating_since(self.started)
    }

    /// Why the command had to be sent more than once, if it had.
    pub(super) fn first_fault(&self) -> Option<NodeError> {
        self.first_fault.as_deref().cloned()
    }

    /// Sends a command that does no harm when it is executed twice, and has a node timeout from now for it.
    pub(super) fn send_anew(
        &mut self,
        command: &Packed,
        again: &dyn Fn() -> Packed,
    ) -> Result<(), NodeError> {
        self.deadline = self.node.clock.now().saturating_add(self.node.timeout);
        self.excuses_silence = false;
        self.repeats = REPEATS;
        self.send(command, again)
    }

    /// Sends a command that blocks, and has `patience` from now for it, or until it is `given_up`. That it is not answered
    /// is not held against the node.
    pub(super) fn send_blocking(
        &mut self,
        command: &Packed,
        again: &dyn Fn() -> Packed,
        patience: Duration,
        given_up: Option<&'n AtomicBool>,
    ) -> Result<(), NodeError> {
        self.deadline = self.node.clock.now().saturating_add(patience);
        self.excuses_silence = true;
        self.given_up = given_up;
        self.send(command, again)
    }

    /// Goes on with the node. What was done for others meanwhile is not held against it.
    pub(super) fn resume(&mut self) {
        if let Some(since) = self.idle_since.take() {
            let lost = self.node.clock.now().saturating_since(since);
            self.started = self.started.saturating_add(lost);
            self.deadline = self.deadline.saturating_add(lost);
        }
    }

    /// Sends the command, connecting if need be; `again` is the command for a second connection, should the first one
    /// turn out to have been closed by the server while it was idle.
    pub(super) fn send(
        &mut self,
        command: &Packed,
        again: &dyn Fn() -> Packed,
    ) -> Result<(), NodeError> {
        self.span.command(command.name());
        self.try_send(command, again).inspect_err(|fault| {
            self.span.failed(fault);
            self.note(fault);
        })
    }

    fn try_send(&mut self, command: &Packed, again: &dyn Fn() -> Packed) -> Result<(), NodeError> {
        self.sent = command.others().len().saturating_add(1);
        match self.stage {
            Stage::Warm => {
                self.stage = Stage::SentWarm;
                match self.slot.send(command, self.deadline) {
                    Err(error) if error.is_closed() => self.send_fresh(&again()),
                    sent => sent,
                }
            }
            Stage::Cold | Stage::SentWarm | Stage::SentFresh => self.send_fresh(command),
        }
    }

    /// What this client's wall clock shows, in microseconds since the Unix epoch.
    pub(super) fn wall_micros(&self) -> u64 {
        self.node.clock.wall_micros()
    }

    /// As [`Self::receive`], and tells the node's breaker what came of it.
    pub(super) fn reply<T>(
        &mut self,
        again: &dyn Fn() -> Packed,
        read: impl Fn(&Reply) -> Option<T>,
    ) -> Result<T, NodeError> {
        let result = self.receive(again, read);
        match &result {
            Ok(_) => self.node.answered(),
            Err(fault) => self.note(fault),
        }
        result
    }

    /// As [`Self::reply`], for what is not about locks. That such a question is answered does not mean that the node is of
    /// use to them, because the writes of a server can be paused; nor does an answer that can't be read mean the contrary.
    pub(super) fn reply_aside<T>(
        &mut self,
        again: &dyn Fn() -> Packed,
        read: impl Fn(&Reply) -> Option<T>,
    ) -> Result<T, NodeError> {
        self.receive(again, read).inspect_err(|fault| {
            if !matches!(fault, NodeError::Protocol { .. }) {
                self.note(fault);
            }
        })
    }

    /// Receives the reply and reads it. When a connection of an earlier command broke before any byte of it came, the
    /// command is sent once more on a fresh one. A reply that `read` makes nothing of is a fault.
    fn receive<T>(
        &mut self,
        again: &dyn Fn() -> Packed,
        read: impl Fn(&Reply) -> Option<T>,
    ) -> Result<T, NodeError> {
        let mut reply = self.recv();
        while let Err(fault) = &reply
            && fault.is_closed()
            && (self.stage == Stage::SentWarm || self.repeats > 0)
        {
            self.repeats = self.repeats.saturating_sub(1);
            self.first_fault
                .get_or_insert_with(|| Box::new(fault.clone()));
            reply = self.send_fresh(&again()).and_then(|()| self.recv());
        }
        if reply.as_ref().is_ok_and(script::is_missing) {
            self.slot.forget_scripts();
            reply = self
                .slot
                .send(&again(), self.deadline)
                .and_then(|()| self.recv());
        }
        if self.stage == Stage::SentFresh && reply.as_ref().is_ok_and(has_error) {
            // A server that has enough clients says so and closes. In the pool, the connection would look as if the
            // server had been restarted, and cost the others that still work.
            self.slot.distrust();
        }
        let result = reply.and_then(|reply| self.read(&reply, again, read));
        match &result {
            Ok(_) => self.span.answered(),
            Err(fault) => {
                self.span.failed(fault);
                if fault.is_broken() {
                    self.node.retire(self.generation);
                }
            }
        }
        result
    }

    /// Receives the replies to what was sent in one write.
    fn recv(&mut self) -> Result<Reply, NodeError> {
        if let Some(given_up) = self.given_up {
            while !self.is_ready(LOOK) && !self.is_overdue() {
                if given_up.load(Ordering::Acquire) {
                    // The connection is closed, because the answer is still to come.
                    return Err(NodeError::TimedOut);
                }
            }
        }
        let deadline = self.soon();
        self.slot.recv_all(self.sent, deadline)
    }

    fn read<T>(
        &mut self,
        reply: &Reply,
        again: &dyn Fn() -> Packed,
        read: impl Fn(&Reply) -> Option<T>,
    ) -> Result<T, NodeError> {
        let result = if has_error(reply) {
            read(&echo::without_echo(reply, &again()))
        } else {
            read(reply)
        };
        result.ok_or_else(|| {
            // Nothing that comes on this connection can be trusted any more.
            self.slot.distrust();
            NodeError::protocol(echo::kind(reply))
        })
    }

    fn note(&self, fault: &NodeError) {
        if !(self.excuses_silence && fault.is_silence()) {
            self.node.note(fault);
        }
    }

    /// Sends what undoes a command whose outcome is unknown behind it, and closes the connection. Returns whether the
    /// server is going to see it.
    pub(super) fn undo(&mut self, command: &Packed, fault: &NodeError) -> bool {
        // Nobody is going to read whether the server has the script.
        self.slot.forget_scripts();
        let sent = !fault.is_broken() && self.slot.send(command, self.deadline).is_ok();
        self.slot.close();
        sent
    }

    /// Sends the command on a connection made for it, discarding all older ones if the server had closed the one in use.
    fn send_fresh(&mut self, command: &Packed) -> Result<(), NodeError> {
        if self.stage == Stage::SentWarm {
            self.node.retire(self.generation);
        }
        self.slot.close();
        self.stage = Stage::SentFresh;
        self.generation = self.node.generation();
        let deadline = self.soon();
        let transport = self.node.connector.connect(deadline)?;
        self.slot.open(transport, self.generation, deadline)?;
        self.slot.send(command, deadline)
    }
}

/// Whether a reply is an error, or one of several.
fn has_error(reply: &Reply) -> bool {
    match reply {
        Reply::Error(_) => true,
        Reply::Array(replies) => replies.iter().any(has_error),
        Reply::Nil | Reply::Okay | Reply::Text(_) | Reply::Int(_) | Reply::Bulk(_) => false,
    }
}
