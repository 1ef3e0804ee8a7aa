//! An open connection to a node, in or out of its slot in the r2d2 pool: what was sent, which replies are still to come, and when it must
//! not be used again.
//!
//! The server is asked first which process it is. Two names of one server have the same run id. A node of a Redis Cluster can't vote.
//! A process of Redis, Valkey or `KeyDB` has a `run_id`, 40 random characters, for as long as it lives. Dragonfly has a
//! `master_replid` instead. A server that gives neither is used all the same.

use std::mem;
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use super::command;
use super::request::Batch;
use crate::clock::Timestamp;
use crate::error::NodeError;
use crate::wire::pack::Packed;
use crate::wire::resp::{Reply, ServerError};
use crate::wire::scripts::Script;
use crate::wire::transport::{Transport, refusal};

/// A connection that has carried nothing for this long is not used again. What is between may have forgotten it without a word:
/// load balancers do after some minutes.
const LONGEST_IDLE: Duration = Duration::from_secs(60);

/// Longer than any known run id.
const LONGEST_RUN_ID: usize = 64;

pub(super) struct OpenConnection {
    pub(super) transport: Box<dyn Transport>,
    /// Commands that were sent and whose replies were not read.
    in_flight: usize,
    /// The most bytes of a reply to one of them.
    longest_reply: usize,
    /// The node's generation when it was opened.
    generation: u64,
    /// When something was sent on it last, or when it was opened.
    used_at: Timestamp,
    /// Whether no further request may be sent on it, also if every command has its reply.
    pub(super) is_used_up: bool,
    server: Server,
    /// The scripts whose text was sent on it. They are called by their digests from then on.
    pub(super) scripts: Vec<&'static Script>,
}

/// How long a reply is waited for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Wait {
    /// Not at all, now. The clock is not read.
    Not(Timestamp),
    Until(Timestamp),
}

/// What is known of the server at the other end. Behind a proxy, another process may have taken its place, so nothing that
/// is sent depends on this.
enum Server {
    /// The server is asked for its run id in the same write as the first command: a server that hangs must get the command all the
    /// same.
    ToBeAsked,
    /// The server was asked for its run id. The answer comes before any other reply.
    Asked,
    /// The run id, if the server has given one.
    Known(Option<Arc<str>>),
    /// The server answered with this error, and may close the connection next.
    Refused(Box<ServerError>),
}

impl OpenConnection {
    pub(super) fn new(transport: Box<dyn Transport>, generation: u64, now: Timestamp) -> Self {
        Self {
            transport,
            in_flight: 0,
            longest_reply: 0,
            generation,
            used_at: now,
            is_used_up: false,
            server: Server::ToBeAsked,
            scripts: Vec::new(),
        }
    }

    /// Whether it is of this generation and was not idle for too long.
    pub(super) fn is_current(&self, generation: u64, now: Timestamp) -> bool {
        self.generation == generation && now.saturating_since(self.used_at) < LONGEST_IDLE
    }

    /// Something is sent on the connection now. Returns for how long it was idle.
    pub(super) fn note_use(&mut self, now: Timestamp) -> Duration {
        let before = mem::replace(&mut self.used_at, now);
        now.saturating_since(before)
    }

    /// When its last requests were sent.
    pub(super) fn used_at(&self) -> Timestamp {
        self.used_at
    }

    /// How many replies are still to come.
    pub(super) fn awaited(&self) -> usize {
        self.in_flight
    }

    /// Whether the connection may be used again: every command has its reply.
    pub(super) fn is_idle(&self) -> bool {
        self.in_flight == 0 && !self.is_used_up
    }

    /// Whether the server was sent the text of this script on the connection.
    fn knows(&self, script: &'static Script) -> bool {
        self.scripts.iter().any(|known| ptr::eq(*known, script))
    }

    /// The run id of the server at the other end, if it is known.
    pub(super) fn run_id(&self) -> Option<&Arc<str>> {
        let Server::Known(run_id) = &self.server else {
            return None;
        };
        run_id.as_ref()
    }

    /// The error that has answered everything on this connection, if one has.
    pub(super) fn refusal(&self) -> Option<NodeError> {
        let Server::Refused(error) = &self.server else {
            return None;
        };
        Some(refusal(error))
    }

    /// Sends a whole batch. After an error the connection is of no use: what is in the stream is unknown.
    pub(super) fn send_batch(
        &mut self,
        batch: &Batch<'_>,
        deadline: Timestamp,
    ) -> Result<(), NodeError> {
        let are_known = || batch.scripts.iter().all(|script| self.knows(script));
        if matches!(self.server, Server::ToBeAsked) || !are_known() {
            let commands = batch.requests.iter().map(|request| &request.packed);
            return self.send(commands, deadline);
        }
        self.note_sent(batch.requests.len(), batch.longest_reply);
        self.transport.send(batch.joined(), deadline)
    }

    /// Sends commands in one write, with the text of the scripts that the server was not sent before. After an error the connection is
    /// of no use.
    pub(super) fn send<'c>(
        &mut self,
        commands: impl Iterator<Item = &'c Packed>,
        deadline: Timestamp,
    ) -> Result<(), NodeError> {
        let mut bytes = Vec::new();
        let (mut count, mut longest_reply) = (0_usize, 0);
        if matches!(self.server, Server::ToBeAsked) {
            self.server = Server::Asked;
            bytes.extend_from_slice(&command::introduce().bytes);
            count = 1;
        }
        for command in commands {
            longest_reply = longest_reply.max(command.longest_reply);
            count = count.saturating_add(1);
            match command.script {
                Some(script) if !self.knows(script) => {
                    self.scripts.push(script);
                    bytes.extend_from_slice(&command.in_full());
                }
                _ => bytes.extend_from_slice(&command.bytes),
            }
        }
        self.note_sent(count, longest_reply);
        self.transport.send(&bytes, deadline)
    }

    fn note_sent(&mut self, commands: usize, longest_reply: usize) {
        if self.in_flight == 0 {
            self.longest_reply = 0;
        }
        self.longest_reply = self.longest_reply.max(longest_reply);
        self.in_flight = self.in_flight.saturating_add(commands);
        self.transport.allow_replies_up_to(self.longest_reply);
    }

    /// Receives the reply to the oldest command, if it comes in time. Before the first one, the server says who it is. After an
    /// error, as when nothing has come by the deadline, what comes next answers nobody. An undo may still be sent behind the command.
    pub(super) fn recv(
        &mut self,
        wait: Wait,
        deadline: Timestamp,
    ) -> Option<Result<Reply, NodeError>> {
        let (is_there, end) = match wait {
            Wait::Until(until) => (self.transport.wait_for_reply(until, deadline), until),
            Wait::Not(now) => (self.transport.has_reply(now, deadline), now),
        };
        if !is_there {
            return (end >= deadline).then_some(Err(NodeError::silence()));
        }
        if let Server::Asked = self.server {
            return match self.read_introduction(deadline) {
                // So far, only the introduction may have come.
                Ok(()) => self.recv(wait, deadline),
                Err(error) => Some(Err(error)),
            };
        }
        let reply = self.next_reply(deadline);
        if let Server::Refused(last) = &self.server {
            match &reply {
                // A server with too many clients says so once, and closes. That answers all that was sent.
                Err(error) if error.is_closed() => {
                    let last = last.clone();
                    self.in_flight = self.in_flight.saturating_sub(1);
                    self.is_used_up = true;
                    return Some(Ok(Reply::Error(last)));
                }
                Ok(Reply::Error(_)) => {}
                _ => self.server = Server::Known(None),
            }
        }
        Some(reply)
    }

    /// Reads the reply to the first command on this connection, which asks for the run id.
    fn read_introduction(&mut self, deadline: Timestamp) -> Result<(), NodeError> {
        self.server = Server::Known(None);
        let reply = self.next_reply(deadline)?;
        if let Reply::Bulk(id) = &reply {
            self.server = Server::Known(run_id(id));
        } else if reply == Reply::Text("CLUSTER".into()) {
            return Err(NodeError::InCluster);
        } else if let Reply::Error(error) = reply
            && error.code != "NOPERM"
        {
            // After any other error than that the user may not ask, the server may close the connection.
            self.server = Server::Refused(error);
        }
        Ok(())
    }

    fn next_reply(&mut self, deadline: Timestamp) -> Result<Reply, NodeError> {
        let reply = self.transport.recv(deadline)?;
        self.in_flight = self.in_flight.saturating_sub(1);
        if self.in_flight == 0 && self.transport.has_surplus() {
            self.is_used_up = true;
            return Err(NodeError::protocol("more than the reply to what was sent"));
        }
        Ok(reply)
    }
}

fn run_id(id: &[u8]) -> Option<Arc<str>> {
    let is_id = (1..=LONGEST_RUN_ID).contains(&id.len());
    str::from_utf8(id).ok().filter(|_| is_id).map(Arc::from)
}

pub(super) fn no_connection() -> NodeError {
    NodeError::protocol("none, the connection is closed")
}

#[cfg(test)]
mod tests;
