//! Reads replies from a stream of bytes, each by a deadline and of bounded length.

use std::borrow::Cow;
use std::io;
use std::net::TcpStream;

use super::pack::LONGEST_REPLY;
use super::resp::{self, NoReply, Reply};
use super::stream::Stream;
use super::transport::{NO_REPLY, Transport, closed, is_timeout, unless_late};
use crate::clock::Timestamp;
use crate::error::NodeError;

/// The most bytes of one read, and of one where long replies are allowed: what has come is parsed from its beginning after
/// each read.
const CHUNK: usize = 1024;
const LONG_CHUNK: usize = 16 * 1024;

/// One connection to a server.
pub(crate) struct Connection<S> {
    stream: S,
    /// Bytes that were received and not yet returned as a reply.
    bytes: Vec<u8>,
    /// The next reply, or why there is none, if `wait_for_reply` has found it.
    ready: Option<Result<Reply, NodeError>>,
    /// The most bytes in a reply.
    longest_reply: usize,
    /// Whether the server has answered anything.
    has_answered: bool,
}

impl<S: Stream> Connection<S> {
    pub(crate) fn over(stream: S) -> Self {
        Self {
            stream,
            bytes: Vec::with_capacity(CHUNK),
            ready: None,
            longest_reply: LONGEST_REPLY,
            has_answered: false,
        }
    }

    /// The next reply, or why there is none. Nothing as long as more of it has to come.
    fn next(&mut self) -> Option<Result<Reply, NodeError>> {
        match resp::parse(&self.bytes) {
            Ok((reply, length)) if length <= self.longest_reply => {
                self.has_answered = true;
                self.bytes.drain(..length);
                Some(Ok(reply))
            }
            // Exact to the byte, so that the cut into packets does not decide what is too long.
            Err(NoReply::Unfinished) if self.bytes.len() < self.longest_reply => None,
            Ok(_) | Err(NoReply::Unfinished) => {
                let kib = self.longest_reply / 1024;
                let got = format!("a reply of more than {kib} KiB");
                Some(Err(NodeError::protocol(got)))
            }
            Err(NoReply::Malformed) => Some(Err(NodeError::protocol(NO_REPLY))),
        }
    }

    fn broken(&self, error: io::Error) -> NodeError {
        if self.bytes.is_empty() {
            let is_early = !self.has_answered && !is_timeout(&error);
            let when = self.stream.before_the_first_answer().filter(|_| is_early);
            return closed(match when {
                Some(when) => io::Error::new(error.kind(), format!("{error}, {when}")),
                None => error,
            });
        }
        unless_late(error, |source| NodeError::Broken { source })
    }
}

impl<S: Stream> Transport for Connection<S> {
    fn send(&mut self, commands: &[Cow<'_, [u8]>], deadline: Timestamp) -> Result<(), NodeError> {
        let written = match commands {
            [command] => self.stream.write(command, deadline),
            commands => self.stream.write(&commands.concat(), deadline),
        };
        written.map_err(closed)
    }

    fn allow_replies_up_to(&mut self, bytes: usize) {
        self.longest_reply = bytes;
        if self.bytes.is_empty() {
            // The memory of a longer reply is given back.
            self.bytes.shrink_to(bytes);
        }
    }

    fn wait_for_reply(&mut self, until: Timestamp, deadline: Timestamp) -> bool {
        let chunk = if self.longest_reply > LONGEST_REPLY {
            LONG_CHUNK
        } else {
            CHUNK
        };
        while self.ready.is_none() {
            self.ready = self.next();
            if self.ready.is_some() {
                break;
            }
            let begun = self.bytes.len();
            self.bytes.resize(begun.saturating_add(chunk), 0);
            let into = self.bytes.get_mut(begun..).unwrap_or_default();
            let read = self.stream.read(into, until, deadline);
            let count = read.as_ref().map_or(0, |read| read.unwrap_or_default());
            self.bytes.truncate(begun.saturating_add(count));
            match read {
                Ok(None) => return false,
                Ok(Some(0)) => {
                    let end = io::ErrorKind::UnexpectedEof.into();
                    self.ready = Some(Err(self.broken(end)));
                }
                Ok(Some(_)) => {}
                Err(error) => self.ready = Some(Err(self.broken(error))),
            }
        }
        true
    }

    fn recv(&mut self, deadline: Timestamp) -> Result<Reply, NodeError> {
        self.wait_for_reply(deadline, deadline);
        self.ready.take().unwrap_or(Err(NodeError::silence()))
    }

    fn has_surplus(&self) -> bool {
        self.ready.is_some() || !self.bytes.is_empty()
    }

    fn is_quiet(&mut self) -> bool {
        !self.has_surplus() && self.stream.is_quiet()
    }

    fn socket(&self) -> Option<&TcpStream> {
        self.stream.socket().filter(|_| !self.has_surplus())
    }
}
