//! What the r2d2 pool of a node holds: slots, each with a connection or empty, and never with a stale connection.

use std::borrow::Cow;
use std::iter;
use std::mem;
use std::net::TcpStream;
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use super::command;
use super::identity::Introduction;
use crate::clock::Timestamp;
use crate::error::NodeError;
use crate::wire::pack::Packed;
use crate::wire::resp::Reply;
use crate::wire::scripts::Script;
use crate::wire::transport::Transport;

pub(super) mod closing;
mod pool;

pub(crate) use self::pool::{SlotInUse, Slots};

/// Room for one connection. r2d2 makes an empty slot, without I/O; the thread that checks the slot out connects.
#[derive(Default)]
pub(crate) struct Slot {
    connection: Option<Box<OpenConnection>>,
}

/// A connection that has carried nothing for this long and is silent then may have been forgotten on the way.
pub(super) const SUSPICIOUS_IDLE: Duration = Duration::from_secs(1);

/// A connection that has carried nothing for this long is not used again. What is between may have forgotten it without a word:
/// load balancers do after some minutes.
const LONGEST_IDLE: Duration = Duration::from_secs(60);

struct OpenConnection {
    transport: Box<dyn Transport>,
    /// Commands that were sent and whose replies were not read.
    in_flight: u32,
    /// The most bytes of a reply to one of them.
    longest_reply: usize,
    /// The node's generation when it was opened.
    generation: u64,
    /// When something was sent on it last, or when it was opened.
    used_at: Timestamp,
    /// Whether no further request may be sent on it.
    is_used_up: bool,
    server: Server,
    replies: Replies,
    /// The scripts whose text was sent on it. They are called by their digests from then on.
    scripts: Vec<&'static Script>,
}

/// What is known of the server at the other end. Behind a proxy, another process may have taken its place, so nothing that
/// is sent depends on this.
enum Server {
    /// The server is asked for its run id in the same write as the first command.
    ToBeAsked,
    /// The server was asked for its run id. The answer comes before any other reply.
    Asked,
    /// The run id, if the server has given one.
    Known(Option<Arc<str>>),
    /// The server answered with this error, and may close the connection next.
    Refused(Reply),
}

/// Whether the next reply belongs to the oldest command without one.
enum Replies {
    InOrder,
    /// A receive failed, and the next receive returns the error.
    Failed(NodeError),
    /// A receive failed. Nothing is read any more, because the next bytes would answer an abandoned command. An undo may
    /// still be sent.
    OutOfOrder,
}

impl Slot {
    /// Whether a usable connection of this generation is in the slot; closes any other.
    pub(crate) fn check(&mut self, generation: u64, now: Timestamp) -> Readiness {
        let Some(connection) = &mut self.connection else {
            return Readiness::Empty;
        };
        if !connection.is_current(generation, now) {
            self.close();
            return Readiness::Empty;
        }
        if connection.transport.is_quiet() {
            return Readiness::Ready;
        }
        self.close();
        Readiness::Closed
    }

    /// Takes in a new connection. The server is asked for its run id ahead of the first command, in the same write: a server
    /// that hangs must get the command all the same.
    pub(crate) fn open(&mut self, transport: Box<dyn Transport>, generation: u64, now: Timestamp) {
        self.connection = Some(Box::new(OpenConnection {
            transport,
            in_flight: 0,
            longest_reply: 0,
            generation,
            used_at: now,
            is_used_up: false,
            server: Server::ToBeAsked,
            replies: Replies::InOrder,
            scripts: Vec::new(),
        }));
    }

    /// Something is sent on the connection now. Returns for how long it was idle.
    pub(crate) fn note_use(&mut self, now: Timestamp) -> Duration {
        self.connection
            .as_mut()
            .map_or(Duration::ZERO, |connection| {
                let before = mem::replace(&mut connection.used_at, now);
                now.saturating_since(before)
            })
    }

    /// Lets no further request be sent on this connection. Replies may still be read.
    pub(crate) fn use_no_more(&mut self) {
        if let Some(connection) = &mut self.connection {
            connection.is_used_up = true;
        }
    }

    /// Lets no reply be read from this connection any more. An undo may still be sent.
    pub(crate) fn distrust(&mut self) {
        if let Some(connection) = &mut self.connection {
            connection.replies = Replies::OutOfOrder;
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.connection.is_some()
    }

    pub(crate) fn close(&mut self) {
        self.connection = None;
    }

    /// The run id of the server at the other end, if it is known.
    pub(crate) fn run_id(&self) -> Option<&Arc<str>> {
        match &self.connection.as_ref()?.server {
            Server::Known(run_id) => run_id.as_ref(),
            Server::ToBeAsked | Server::Asked | Server::Refused(_) => None,
        }
    }

    /// The error that has answered everything on this connection, if one has.
    pub(crate) fn refusal(&self) -> Option<&Reply> {
        match &self.connection.as_ref()?.server {
            Server::Refused(reply) => Some(reply),
            Server::ToBeAsked | Server::Asked | Server::Known(_) => None,
        }
    }

    /// The socket of an open connection that is quiet if the socket has nothing to read.
    pub(crate) fn socket(&self) -> Option<&TcpStream> {
        self.connection.as_ref()?.transport.socket()
    }

    /// Whether the connection, if there is one, is of this generation and was not idle for too long.
    pub(crate) fn is_current(&self, generation: u64, now: Timestamp) -> bool {
        let connection = self.connection.as_ref();
        connection.is_none_or(|connection| connection.is_current(generation, now))
    }

    /// Sends a command. After an error the connection is closed: what is in the stream is unknown.
    pub(crate) fn send(&mut self, command: &Packed, deadline: Timestamp) -> Result<(), NodeError> {
        let connection = self.connection.as_mut().ok_or_else(no_connection)?;
        connection
            .send(command, deadline)
            .inspect_err(|_| self.close())
    }

    /// Sends commands in one write.
    pub(crate) fn send_all(
        &mut self,
        commands: &[Cow<'_, Packed>],
        deadline: Timestamp,
    ) -> Result<(), NodeError> {
        let connection = self.connection.as_mut().ok_or_else(no_connection)?;
        connection
            .send_all(commands.iter().map(|command| &**command), deadline)
            .inspect_err(|_| self.close())
    }

    /// Whether a part of the next reply has come already.
    pub(crate) fn has_surplus(&self) -> bool {
        let connection = self.connection.as_ref();
        connection.is_some_and(|connection| connection.transport.has_surplus())
    }

    /// Lets the next call of each script carry its text again.
    pub(crate) fn forget_scripts(&mut self) {
        if let Some(connection) = &mut self.connection {
            connection.scripts.clear();
        }
    }

    /// Waits until `until` at most for a reply; returns whether there is something to receive. The introduction of the
    /// server is read on the way, by `deadline`.
    pub(crate) fn is_ready(&mut self, until: Timestamp, deadline: Timestamp) -> bool {
        self.connection
            .as_mut()
            .is_some_and(|connection| connection.is_ready(until, deadline))
    }

    /// Receives the reply to the oldest command. After an error nothing is read from this connection again, but an
    /// undo may still be sent behind the command.
    pub(crate) fn recv(&mut self, deadline: Timestamp) -> Result<Reply, NodeError> {
        let connection = self.connection.as_mut().ok_or_else(no_connection)?;
        match mem::replace(&mut connection.replies, Replies::OutOfOrder) {
            Replies::InOrder => {
                connection.replies = Replies::InOrder;
                connection.reply(deadline)
            }
            Replies::Failed(error) => Err(error),
            Replies::OutOfOrder => Err(no_connection()),
        }
    }
}

impl OpenConnection {
    fn is_current(&self, generation: u64, now: Timestamp) -> bool {
        self.generation == generation && now.saturating_since(self.used_at) < LONGEST_IDLE
    }

    fn send(&mut self, command: &Packed, deadline: Timestamp) -> Result<(), NodeError> {
        if !command.others().is_empty() || matches!(self.server, Server::ToBeAsked) {
            return self.send_all(iter::once(command), deadline);
        }
        let bytes = bytes_for(command, &mut self.scripts);
        self.longest_reply = self.longest_due().max(command.longest_reply());
        self.transport.allow_replies_up_to(self.longest_reply);
        self.in_flight = self.in_flight.saturating_add(1);
        self.transport.send(&bytes, deadline)
    }

    /// The most bytes of a reply that is still to come.
    fn longest_due(&self) -> usize {
        if self.in_flight > 0 {
            self.longest_reply
        } else {
            0
        }
    }

    fn send_all<'c>(
        &mut self,
        commands: impl Iterator<Item = &'c Packed>,
        deadline: Timestamp,
    ) -> Result<(), NodeError> {
        let is_new = matches!(self.server, Server::ToBeAsked);
        let introduction = is_new.then(command::introduce);
        let (mut all, mut longest) = (Vec::new(), self.longest_due());
        if let Some(introduction) = &introduction {
            self.server = Server::Asked;
            self.in_flight = self.in_flight.saturating_add(1);
            all.push(introduction.in_full());
        }
        for command in commands {
            for command in command.each() {
                longest = longest.max(command.longest_reply());
                all.push(bytes_for(command, &mut self.scripts));
                self.in_flight = self.in_flight.saturating_add(1);
            }
        }
        self.longest_reply = longest;
        self.transport.allow_replies_up_to(longest);
        self.transport.send_all(&all, deadline)
    }

    /// Reads the reply to the first command on this connection, which asks for the run id.
    fn read_introduction(&mut self, deadline: Timestamp) -> Result<(), NodeError> {
        if !matches!(self.server, Server::Asked) {
            return Ok(());
        }
        self.server = Server::Known(None);
        let reply = self.recv(deadline)?;
        match Introduction::read(&reply) {
            Introduction::RunId(run_id) => self.server = Server::Known(Some(run_id)),
            Introduction::Unknown if is_refusal(&reply) => self.server = Server::Refused(reply),
            Introduction::Unknown => {}
            Introduction::Cluster => {
                self.replies = Replies::OutOfOrder;
                return Err(NodeError::InCluster);
            }
        }
        Ok(())
    }

    fn is_ready(&mut self, until: Timestamp, deadline: Timestamp) -> bool {
        if !self.transport.is_ready(until, deadline) {
            return false;
        }
        if !matches!(self.server, Server::Asked) {
            return true;
        }
        // So far, only the introduction may have come. The next receive returns an error in it.
        if let Err(error) = self.read_introduction(deadline) {
            self.replies = Replies::Failed(error);
            return true;
        }
        self.transport.is_ready(until, deadline)
    }

    fn reply(&mut self, deadline: Timestamp) -> Result<Reply, NodeError> {
        self.read_introduction(deadline)?;
        let reply = self.recv(deadline);
        match (&reply, &self.server) {
            // A server with too many clients says so once, and closes. That answers all that was sent.
            (Err(error), Server::Refused(last)) if error.is_closed() => {
                self.in_flight = self.in_flight.saturating_sub(1);
                if self.in_flight > 0 {
                    self.replies = Replies::InOrder;
                }
                Ok(last.clone())
            }
            (Ok(Reply::Error(_)), Server::Refused(_)) => reply,
            (_, Server::Refused(_)) => {
                self.server = Server::Known(None);
                reply
            }
            _ => reply,
        }
    }

    fn recv(&mut self, deadline: Timestamp) -> Result<Reply, NodeError> {
        let reply = self.transport.recv(deadline);
        let reply = reply.inspect_err(|_| self.replies = Replies::OutOfOrder)?;
        self.in_flight = self.in_flight.saturating_sub(1);
        if self.in_flight == 0 && self.transport.has_surplus() {
            self.replies = Replies::OutOfOrder;
            return Err(NodeError::protocol("more than the reply to what was sent"));
        }
        Ok(reply)
    }

    /// Whether the connection may be used again: every command has its reply.
    fn is_idle(&self) -> bool {
        self.in_flight == 0 && !self.is_used_up && matches!(self.replies, Replies::InOrder)
    }
}

/// What is sent for a command, given the scripts that the server was sent before.
fn bytes_for<'c>(command: &'c Packed, scripts: &mut Vec<&'static Script>) -> Cow<'c, [u8]> {
    match command.script() {
        Some(script) if scripts.iter().any(|known| ptr::eq(*known, script)) => {
            Cow::Borrowed(command.short())
        }
        Some(script) => {
            scripts.push(script);
            command.in_full()
        }
        None => command.in_full(),
    }
}

/// Whether the server may close the connection after this error. `NOPERM` forbids only the introduction.
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
    /// The server had closed the connection, or had sent bytes that nobody asked for. The slot is empty now.
    Closed,
}

#[cfg(test)]
mod tests;
