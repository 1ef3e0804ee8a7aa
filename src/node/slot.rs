//! What the r2d2 pool of a node holds: slots that a connection may be in, and never a stale one.

use std::borrow::Cow;
use std::convert::Infallible;
use std::ops::{Deref, DerefMut};
use std::ptr;
use std::sync::Arc;

use crate::wire::resp::Reply;
use r2d2::{ManageConnection, PooledConnection};

use super::command::Packed;
use super::identity::{self, Introduction};
use super::script::Script;
use crate::clock::Timestamp;
use crate::error::NodeError;
use crate::wire::transport::Transport;

/// A place for one connection. r2d2 makes it empty and without I/O; the thread that checks it out connects.
#[derive(Default)]
pub(crate) struct Slot {
    connection: Option<Box<Connection>>,
}

struct Connection {
    transport: Box<dyn Transport>,
    /// Commands that were sent and whose replies were not read.
    in_flight: u32,
    /// The node's generation when it was opened.
    generation: u64,
    /// Whether the first reply is still to come, in which the server says who it is.
    is_asked: bool,
    /// What tells the server from others, if it has said that. It may be gone by now, and another be in its place behind the
    /// same connection: nothing that is sent depends on it.
    run_id: Option<Arc<str>>,
    /// What the server answered to the question who it is, if it was an error.
    refusal: Option<Reply>,
    /// Those that were sent on it, and are called by their digests from then on.
    scripts: Vec<&'static Script>,
    /// What went wrong when the answer to that question was read, until someone is told.
    fault: Option<NodeError>,
    /// A receive failed: the next bytes would belong to a command that nobody waits for any more.
    spent: bool,
}

impl Slot {
    /// Whether a usable connection of this generation is in the slot; closes any other.
    pub(crate) fn check(&mut self, generation: u64) -> Readiness {
        let Some(connection) = &mut self.connection else {
            return Readiness::Empty;
        };
        if connection.generation != generation {
            self.close();
            return Readiness::Empty;
        }
        if connection.transport.is_quiet() {
            return Readiness::Ready;
        }
        self.close();
        Readiness::Closed
    }

    /// Takes a new connection in, and asks who is at the other end. The answer is read before the first reply: a server that
    /// hangs must get what is sent next all the same.
    pub(crate) fn open(
        &mut self,
        transport: Box<dyn Transport>,
        generation: u64,
        deadline: Timestamp,
    ) -> Result<(), NodeError> {
        let connection = self.connection.insert(Box::new(Connection {
            transport,
            in_flight: 0,
            generation,
            is_asked: true,
            run_id: None,
            refusal: None,
            scripts: Vec::new(),
            fault: None,
            spent: false,
        }));
        connection
            .send(&identity::question(), deadline)
            .inspect_err(|_| self.close())
    }

    /// Makes sure that no reply is read from this connection any more; an undo may still be sent.
    pub(crate) fn distrust(&mut self) {
        if let Some(connection) = &mut self.connection {
            connection.spent = true;
        }
    }

    pub(crate) fn close(&mut self) {
        self.connection = None;
    }

    /// The run id of the server at the other end, where it is known.
    pub(crate) fn run_id(&self) -> Option<&Arc<str>> {
        self.connection.as_ref()?.run_id.as_ref()
    }

    /// Sends a command. After an error the connection is closed: what is in the stream is unknown.
    pub(crate) fn send(&mut self, command: &Packed, deadline: Timestamp) -> Result<(), NodeError> {
        let connection = self.connection.as_mut().ok_or_else(no_connection)?;
        connection
            .send(command, deadline)
            .inspect_err(|_| self.close())
    }

    /// Sends all scripts in full again, because the server has forgotten them, or must not be asked whether it has.
    pub(crate) fn forget_scripts(&mut self) {
        if let Some(connection) = &mut self.connection {
            connection.scripts.clear();
        }
    }

    /// Waits until `until` at most for something to receive; returns whether there is something.
    /// What has begun to come is read by `deadline`, where it is no reply to a command.
    pub(crate) fn is_ready(&mut self, until: Timestamp, deadline: Timestamp) -> bool {
        self.connection
            .as_mut()
            .is_some_and(|connection| connection.is_ready(until, deadline))
    }

    /// Receives the replies to the oldest commands; as an array, if they are several.
    pub(crate) fn recv_all(
        &mut self,
        count: usize,
        deadline: Timestamp,
    ) -> Result<Reply, NodeError> {
        if count == 1 {
            return self.recv(deadline);
        }
        let replies = (0..count).map(|_| self.recv(deadline));
        replies.collect::<Result<_, _>>().map(Reply::Array)
    }

    /// Receives the reply to the oldest command. After an error nothing is read from this connection again, but an
    /// undo may still be sent behind the command.
    pub(crate) fn recv(&mut self, deadline: Timestamp) -> Result<Reply, NodeError> {
        let connection = self.connection.as_mut().ok_or_else(no_connection)?;
        if let Some(fault) = connection.fault.take() {
            return Err(fault);
        }
        if connection.spent {
            return Err(no_connection());
        }
        connection.reply(deadline)
    }
}

impl Connection {
    fn send(&mut self, command: &Packed, deadline: Timestamp) -> Result<(), NodeError> {
        let scripts = &mut self.scripts;
        let first = bytes_for(command, scripts);
        self.in_flight = self.in_flight.saturating_add(1);
        if command.others().is_empty() {
            return self.transport.send(&first, deadline);
        }
        let mut all = vec![first];
        for other in command.others() {
            all.push(bytes_for(other, scripts));
            self.in_flight = self.in_flight.saturating_add(1);
        }
        self.transport.send_all(&all, deadline)
    }

    /// Reads the answer to the question that was sent first on this connection.
    fn hear_introduction(&mut self, deadline: Timestamp) -> Result<(), NodeError> {
        if !std::mem::take(&mut self.is_asked) {
            return Ok(());
        }
        let reply = self.recv(deadline)?;
        match Introduction::read(&reply) {
            Introduction::RunId(run_id) => self.run_id = Some(run_id),
            Introduction::Unknown => self.refusal = Some(reply).filter(is_refusal),
            Introduction::Cluster => {
                self.spent = true;
                return Err(NodeError::InCluster);
            }
        }
        Ok(())
    }

    fn is_ready(&mut self, until: Timestamp, deadline: Timestamp) -> bool {
        if !self.transport.is_ready(until) {
            return false;
        }
        // What has come may be no more than the first answer. What goes wrong with it is told to who reads the next.
        let is_first = self.is_asked;
        if is_first {
            self.fault = self.hear_introduction(deadline).err();
        }
        !is_first || self.fault.is_some() || self.transport.is_ready(until)
    }

    fn reply(&mut self, deadline: Timestamp) -> Result<Reply, NodeError> {
        self.hear_introduction(deadline)?;
        match (self.recv(deadline), self.refusal.take()) {
            // A server that takes nobody in says so once, and closes.
            (Err(error), Some(refusal)) if error.is_closed() => Ok(refusal),
            (reply, _) => reply,
        }
    }

    fn recv(&mut self, deadline: Timestamp) -> Result<Reply, NodeError> {
        let reply = self
            .transport
            .recv(deadline)
            .inspect_err(|_| self.spent = true)?;
        self.in_flight = self.in_flight.saturating_sub(1);
        if self.in_flight == 0 && self.transport.has_surplus() {
            self.spent = true;
            return Err(NodeError::protocol("more than the reply to what was sent"));
        }
        Ok(reply)
    }
}

/// What is sent for a command, given the scripts that the server was sent before.
fn bytes_for<'c>(command: &'c Packed, scripts: &mut Vec<&'static Script>) -> Cow<'c, [u8]> {
    match command.script() {
        Some(script) if scripts.iter().any(|known| ptr::eq(*known, script)) => command.short(),
        Some(script) => {
            scripts.push(script);
            command.in_full()
        }
        None => command.in_full(),
    }
}

/// Whether it is an error that may be the server's last word. One that only forbids the question is not.
fn is_refusal(reply: &Reply) -> bool {
    matches!(reply, Reply::Error(error) if error.code != "NOPERM")
}

fn no_connection() -> NodeError {
    NodeError::protocol("none, the connection is closed")
}

/// What [`Slot::check`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Readiness {
    /// A connection that can be used.
    Ready,
    /// No connection.
    Empty,
    /// The server had closed the connection, or had sent what nobody asked for; it is gone now.
    Closed,
}

/// Where the slot of a call is from.
pub(super) enum Place {
    Pooled(PooledConnection<Slots>),
    /// Beside the pool, and gone with the call.
    Own(Slot),
}

impl Deref for Place {
    type Target = Slot;

    fn deref(&self) -> &Slot {
        match self {
            Self::Pooled(slot) => slot,
            Self::Own(slot) => slot,
        }
    }
}

impl DerefMut for Place {
    fn deref_mut(&mut self) -> &mut Slot {
        match self {
            Self::Pooled(slot) => slot,
            Self::Own(slot) => slot,
        }
    }
}

/// Makes empty slots for r2d2.
#[derive(Debug)]
pub(crate) struct Slots;

impl ManageConnection for Slots {
    type Connection = Slot;
    type Error = Infallible;

    fn connect(&self) -> Result<Slot, Infallible> {
        Ok(Slot::default())
    }

    fn is_valid(&self, _: &mut Slot) -> Result<(), Infallible> {
        Ok(())
    }

    /// Called at check-in. A connection with a reply outstanding would hand it to the next user as the answer to
    /// another command, so it goes; the slot itself stays good for another connection.
    fn has_broken(&self, slot: &mut Slot) -> bool {
        if slot
            .connection
            .as_ref()
            .is_some_and(|connection| connection.in_flight > 0 || connection.spent)
        {
            slot.close();
        }
        false
    }
}

#[cfg(test)]
mod tests;
