//! Reads replies from a stream of bytes, each by a deadline and of bounded length.

use std::io;
use std::net::TcpStream;
use std::ops::Range;

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
    /// Bytes that were received, and room for more.
    buffer: Vec<u8>,
    /// Where the bytes are in it that were not yet returned as a reply.
    unread: Range<usize>,
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
            buffer: vec![0; CHUNK],
            unread: 0..0,
            ready: None,
            longest_reply: LONGEST_REPLY,
            has_answered: false,
        }
    }

    /// Makes room for one read behind the unread bytes.
    fn make_room(&mut self) {
        if self.unread.start > 0 {
            self.buffer.copy_within(self.unread.clone(), 0);
            self.unread = 0..self.unread.len();
        }
        let is_long = self.longest_reply > LONGEST_REPLY;
        let chunk = if is_long { LONG_CHUNK } else { CHUNK };
        let end = self.unread.end.saturating_add(chunk);
        if self.buffer.len() < end {
            self.buffer.resize(end, 0);
        }
    }

    /// The next reply, or why there is none. Nothing as long as more of it has to come.
    fn next(&mut self) -> Option<Result<Reply, NodeError>> {
        if self.unread.is_empty() {
            return None;
        }
        let bytes = self.buffer.get(self.unread.clone());
        match resp::parse(bytes.unwrap_or_default()) {
            Ok((reply, length)) if length <= self.longest_reply => {
                self.has_answered = true;
                self.unread.start = self.unread.start.saturating_add(length);
                if self.unread.is_empty() {
                    // The buffer may be cut before the next read.
                    self.unread = 0..0;
                }
                Some(Ok(reply))
            }
            // Exact to the byte, so that the cut into packets does not decide what is too long.
            Err(NoReply::Unfinished) if self.unread.len() < self.longest_reply => None,
            Ok(_) | Err(NoReply::Unfinished) => {
                let kib = self.longest_reply / 1024;
                let got = format!("a reply of more than {kib} KiB");
                Some(Err(NodeError::protocol(got)))
            }
            Err(NoReply::Malformed) => Some(Err(NodeError::protocol(NO_REPLY))),
        }
    }

    /// Looks for a reply, and waits for it if there is an `until`.
    fn look(&mut self, until: Option<Timestamp>, deadline: Timestamp) -> bool {
        loop {
            if self.ready.is_none() {
                self.ready = self.next();
            }
            if self.ready.is_some() {
                return true;
            }
            self.make_room();
            let end = self.unread.end;
            let into = self.buffer.get_mut(end..).unwrap_or_default();
            let read = match until {
                Some(until) => self.stream.read(into, until, deadline),
                None => self.stream.read_now(into, deadline),
            };
            let error = match read {
                Ok(None) => return false,
                Ok(Some(0)) => io::ErrorKind::UnexpectedEof.into(),
                Ok(Some(count)) => {
                    self.unread.end = end.saturating_add(count);
                    continue;
                }
                Err(error) => error,
            };
            self.ready = Some(Err(self.broken(error)));
        }
    }

    fn broken(&self, error: io::Error) -> NodeError {
        if self.unread.is_empty() {
            let is_early = !self.has_answered && !is_timeout(&error);
            let when = self.stream.before_the_first_answer().filter(|_| is_early);
            let early = when.map(|when| io::Error::new(error.kind(), format!("{error}, {when}")));
            return closed(early.unwrap_or(error));
        }
        unless_late(error, |source| NodeError::Broken { source })
    }
}

impl<S: Stream> Transport for Connection<S> {
    fn send(&mut self, commands: &[u8], deadline: Timestamp) -> Result<(), NodeError> {
        self.stream.write(commands, deadline).map_err(closed)
    }

    fn allow_replies_up_to(&mut self, bytes: usize) {
        self.longest_reply = bytes;
        if self.unread.is_empty() && self.buffer.len() > bytes.max(CHUNK) {
            // The memory of a longer reply is given back.
            self.buffer.truncate(bytes.max(CHUNK));
            self.buffer.shrink_to_fit();
        }
    }

    fn wait_for_reply(&mut self, until: Timestamp, deadline: Timestamp) -> bool {
        self.look(Some(until), deadline)
    }

    fn has_reply(&mut self, _: Timestamp, deadline: Timestamp) -> bool {
        self.look(None, deadline)
    }

    fn recv(&mut self, deadline: Timestamp) -> Result<Reply, NodeError> {
        self.look(Some(deadline), deadline);
        self.ready.take().unwrap_or(Err(NodeError::silence()))
    }

    fn has_surplus(&self) -> bool {
        self.ready.is_some() || !self.unread.is_empty()
    }

    fn is_quiet(&mut self) -> bool {
        !self.has_surplus() && self.stream.is_quiet()
    }

    fn socket(&self) -> Option<&TcpStream> {
        self.stream.socket().filter(|_| !self.has_surplus())
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    use super::*;
    use crate::clock::Clock;
    use crate::wire::stream::Plain;

    #[test]
    fn a_short_reply_is_read_after_a_long_one_gave_its_memory_back() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let clock = Clock::system();
        let mut connection = Connection::over(Plain::over(ours.into(), &clock).unwrap());
        let deadline = clock.now().saturating_add(Duration::from_mins(1));
        let long = vec![b'x'; 3 * LONG_CHUNK];
        for (content, most) in [(&long[..], 4 * LONG_CHUNK), (b"short", LONGEST_REPLY)] {
            connection.allow_replies_up_to(most);
            let head = format!("${}\r\n", content.len());
            let reply = [head.as_bytes(), content, b"\r\n"].concat();
            server.write_all(&reply).unwrap();
            assert_eq!(
                connection.recv(deadline).unwrap(),
                Reply::Bulk(content.to_vec())
            );
        }
        assert!(connection.buffer.len() <= LONGEST_REPLY + CHUNK);
    }
}
