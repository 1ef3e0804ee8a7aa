//! Reads replies from a stream of bytes, each by a deadline and of bounded length.

use std::borrow::Cow;
use std::io;
use std::net::TcpStream;
use std::sync::Arc;

use super::pack::LONGEST_REPLY;
use super::resp::{Incoming, Reply};
use super::stream::Stream;
use super::transport::{NO_REPLY, Transport, closed, is_timeout};
use crate::clock::Timestamp;
use crate::error::NodeError;

/// The most bytes of one read.
const CHUNK: usize = 1024;

/// One connection to a server.
pub(crate) struct Connection<S> {
    stream: S,
    /// Bytes that were received and not yet returned as a reply.
    bytes: Vec<u8>,
    /// The reply at their beginning.
    incoming: Incoming,
    /// An error that `is_ready` has met. The next read returns it.
    failed: Option<io::Error>,
    /// The most bytes in a reply.
    longest_reply: usize,
}

impl<S: Stream> Connection<S> {
    pub(crate) fn over(stream: S) -> Self {
        Self {
            stream,
            bytes: Vec::with_capacity(CHUNK),
            incoming: Incoming::default(),
            failed: None,
            longest_reply: LONGEST_REPLY,
        }
    }

    /// Reads more of a reply.
    fn read(&mut self, deadline: Timestamp) -> Result<(), NodeError> {
        let mut chunk = [0; CHUNK];
        let read = match self.failed.take() {
            Some(error) => Err(error),
            None => self.stream.read(&mut chunk, deadline),
        };
        match read {
            Ok(0) => Err(self.broken(io::ErrorKind::UnexpectedEof.into())),
            Ok(n) => {
                self.bytes
                    .extend_from_slice(chunk.get(..n).unwrap_or_default());
                Ok(())
            }
            Err(error) if is_timeout(&error) => Err(NodeError::TimedOut),
            Err(error) => Err(self.broken(error)),
        }
    }

    fn broken(&self, error: io::Error) -> NodeError {
        if self.bytes.is_empty() {
            closed(error)
        } else {
            let source = Arc::new(error);
            NodeError::Broken { source }
        }
    }
}

impl<S: Stream> Transport for Connection<S> {
    fn send(&mut self, command: &[u8], deadline: Timestamp) -> Result<(), NodeError> {
        let written = self.stream.write(command, deadline);
        written.map_err(|error| {
            if is_timeout(&error) {
                NodeError::TimedOut
            } else {
                closed(error)
            }
        })
    }

    fn send_all(
        &mut self,
        commands: &[Cow<'_, [u8]>],
        deadline: Timestamp,
    ) -> Result<(), NodeError> {
        self.send(&commands.concat(), deadline)
    }

    fn allow_replies_up_to(&mut self, bytes: usize) {
        self.longest_reply = bytes;
        if self.bytes.is_empty() {
            // What a longer reply took is not kept.
            self.bytes.shrink_to(bytes);
        }
    }

    fn is_ready(&mut self, until: Timestamp, deadline: Timestamp) -> bool {
        if self.has_surplus() || self.failed.is_some() {
            return true;
        }
        let mut chunk = [0; CHUNK];
        match self.stream.poll(&mut chunk, until, deadline) {
            // No bytes mean the end of the stream, which the next read reports.
            Ok(Some(n)) => {
                self.bytes
                    .extend_from_slice(chunk.get(..n).unwrap_or_default());
            }
            Ok(None) => return false,
            Err(error) => self.failed = Some(error),
        }
        true
    }

    fn recv(&mut self, deadline: Timestamp) -> Result<Reply, NodeError> {
        loop {
            match self.incoming.parse(&self.bytes) {
                Ok(Some((reply, length))) if length <= self.longest_reply => {
                    self.bytes.drain(..length);
                    return Ok(reply);
                }
                // Exact to the byte, so that the cut into packets does not decide what is too long.
                Ok(None) if self.bytes.len() < self.longest_reply => self.read(deadline)?,
                Ok(_) => {
                    let kib = self.longest_reply / 1024;
                    return Err(NodeError::protocol(format!(
                        "a reply of more than {kib} KiB"
                    )));
                }
                Err(_) => return Err(NodeError::protocol(NO_REPLY)),
            }
        }
    }

    fn has_surplus(&self) -> bool {
        !self.bytes.is_empty()
    }

    fn is_quiet(&mut self) -> bool {
        !self.has_surplus() && self.failed.is_none() && self.stream.is_quiet()
    }

    fn socket(&self) -> Option<&TcpStream> {
        let is_known = !self.has_surplus() && self.failed.is_none();
        self.stream.socket().filter(|_| is_known)
    }
}
