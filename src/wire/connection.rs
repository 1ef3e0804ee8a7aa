//! Replies from a stream of bytes, each by a deadline and of bounded length.
//!
//! `redis::Connection` bounds single reads, so that a server that sends a byte now and then holds its caller for ever.
//! Here the bytes are read by a deadline and go to `redis::Parser`, but for the usual replies.

use std::borrow::Cow;
use std::io::{self, Read};
use std::sync::Arc;

use redis::{ErrorKind, RedisError, Value};

use super::stream::Stream;
use super::transport::{Fault, NO_REPLY, Transport, is_timeout};
use crate::clock::Timestamp;
use crate::error::NodeError;

/// No reply of this protocol comes near it; a server that sends more has lost its way.
pub(crate) const LONGEST_REPLY: usize = 4 * 1024;

/// What is answered where all is well, or to one of several who want a lock. The parser clears a buffer of many times the size
/// for each reply.
const USUAL: [(&[u8], Value); 3] = [
    (b"+OK\r\n", Value::Okay),
    (b":1\r\n", Value::Int(1)),
    (b"$-1\r\n", Value::Nil),
];

const TOO_LONG: &str = "a reply of more than 4 KiB";

/// One connection to a server.
pub(crate) struct Connection<S> {
    reader: Reader<S>,
    parser: redis::Parser,
}

impl<S: Stream> Connection<S> {
    pub(crate) fn over(stream: S, deadline: Timestamp) -> Self {
        Self {
            reader: Reader {
                stream,
                deadline,
                taken: 0,
                bytes: Box::new([0; 1024]),
                start: 0,
                end: 0,
                failed: None,
            },
            parser: redis::Parser::new(),
        }
    }
}

impl<S: Stream> Transport for Connection<S> {
    fn send(&mut self, command: &[u8], deadline: Timestamp) -> Result<(), Fault> {
        let written = self.reader.stream.write(command, deadline);
        written.map_err(|error| {
            if is_timeout(&error) {
                Fault::TimedOut
            } else {
                Fault::Closed(Arc::new(error))
            }
        })
    }

    fn send_all(&mut self, commands: &[Cow<'_, [u8]>], deadline: Timestamp) -> Result<(), Fault> {
        self.send(&commands.concat(), deadline)
    }

    fn is_ready(&mut self, until: Timestamp) -> bool {
        self.has_surplus() || self.reader.is_ready(until)
    }

    fn recv(&mut self, deadline: Timestamp) -> Result<Value, Fault> {
        self.reader.deadline = deadline;
        self.reader.taken = 0;
        if let Some(reply) = self.reader.usual_reply()? {
            return Ok(reply);
        }
        let reply = self.parser.parse_value(&mut self.reader);
        let reply = reply.map_err(|error| fault(error, self.reader.taken))?;
        // The parser drops a byte that begins no reply, such as the first of "\n+OK", when a read ends there; and it
        // takes `: +01` for a number. Then not all of the bytes are in what it has made of them.
        if length(&reply).is_some_and(|length| length != self.reader.taken) {
            return Err(Fault::protocol(
                "a reply with bytes that don't belong there",
            ));
        }
        Ok(reply)
    }

    fn has_surplus(&self) -> bool {
        self.reader.start < self.reader.end
    }

    fn is_quiet(&mut self) -> bool {
        !self.has_surplus() && self.reader.failed.is_none() && self.reader.stream.is_quiet()
    }
}

/// Hands bytes to the parser, line by line, so that it never takes any beyond the end of a reply.
struct Reader<S> {
    stream: S,
    deadline: Timestamp,
    /// How much of the present reply the parser has been given.
    taken: usize,
    /// Bytes that were read from the stream and that the parser has not seen: `bytes[start..end]`.
    bytes: Box<[u8; 1024]>,
    start: usize,
    end: usize,
    /// What went wrong when it was only looked whether there is something to read: the next read says so.
    failed: Option<io::Error>,
}

impl<S: Stream> Read for Reader<S> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        // Before anything is waited for, and to the byte: how the reply was cut into packets must not decide.
        let allowed = LONGEST_REPLY.saturating_sub(self.taken);
        if allowed == 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, TOO_LONG));
        }
        let ready = self.ready()?;
        let line = ready.split_inclusive(|&byte| byte == b'\n').next();
        let n = line.unwrap_or_default().len().min(out.len()).min(allowed);
        for (to, from) in out.iter_mut().zip(ready.iter().take(n)) {
            *to = *from;
        }
        self.start = self.start.saturating_add(n);
        self.taken = self.taken.saturating_add(n);
        Ok(n)
    }
}

impl<S: Stream> Reader<S> {
    /// What was read from the socket and not taken yet; waits for it if there is nothing.
    fn ready(&mut self) -> io::Result<&[u8]> {
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
            if let Some(error) = self.failed.take() {
                return Err(error);
            }
            let bytes = self.bytes.as_mut_slice();
            self.end = self.stream.read(bytes, self.deadline)?;
        }
        Ok(self.bytes.get(self.start..self.end).unwrap_or_default())
    }

    /// Takes one of the usual replies, if that is what has come in one piece.
    fn usual_reply(&mut self) -> Result<Option<Value>, Fault> {
        let ready = self.ready().map_err(|error| fault(error.into(), 0))?;
        let Some((bytes, reply)) = USUAL.iter().find(|(bytes, _)| ready.starts_with(bytes)) else {
            return Ok(None);
        };
        self.start = self.start.saturating_add(bytes.len());
        Ok(Some(reply.clone()))
    }

    /// Waits until `until` at most for something to read, be it the end of the stream or an error.
    fn is_ready(&mut self, until: Timestamp) -> bool {
        if self.failed.is_some() {
            return true;
        }
        match self.stream.poll(self.bytes.as_mut_slice(), until) {
            Ok(Some(n)) => (self.start, self.end) = (0, n),
            Ok(None) => return false,
            Err(error) => self.failed = Some(error),
        }
        true
    }
}

/// How many bytes Redis writes for a reply, if it is of a type that it has for the commands of this crate.
fn length(reply: &Value) -> Option<usize> {
    const MARK_AND_END: usize = "+\r\n".len();
    let line = |text: usize| Some(text.saturating_add(MARK_AND_END));
    match reply {
        Value::Nil => line("-1".len()),
        Value::Okay => line("OK".len()),
        Value::SimpleString(text) => line(text.len()),
        Value::Int(number) => line(width(number.unsigned_abs(), number.is_negative())),
        Value::ServerError(error) => {
            let details = error
                .details()
                .map_or(0, |text| text.len().saturating_add(1));
            line(error.code().len().saturating_add(details))
        }
        Value::Array(items) => {
            let count = u64::try_from(items.len()).ok()?;
            items
                .iter()
                .try_fold(line(width(count, false))?, |sum, item| {
                    Some(sum.saturating_add(length(item)?))
                })
        }
        Value::BulkString(bytes) => {
            let count = u64::try_from(bytes.len()).ok()?;
            let text = line(width(count, false))?.saturating_add(bytes.len());
            Some(text.saturating_add("\r\n".len()))
        }
        Value::Map(_) | _ => None,
    }
}

/// How many characters a number has.
fn width(number: u64, is_negative: bool) -> usize {
    let more_digits = number.checked_ilog10().unwrap_or_default();
    let digits = usize::try_from(more_digits)
        .unwrap_or_default()
        .saturating_add(1);
    digits.saturating_add(usize::from(is_negative))
}

/// What an error of `redis::Parser` means, given how much of the reply had come.
fn fault(error: RedisError, taken: usize) -> Fault {
    if error.is_timeout() {
        return Fault::TimedOut;
    }
    if error.kind() == ErrorKind::Parse {
        // The parser's words have bytes of it, and so perhaps of a command that was repeated.
        return Fault::protocol(NO_REPLY);
    }
    if taken >= LONGEST_REPLY {
        return Fault::protocol(TOO_LONG);
    }
    let source = Arc::new(io::Error::other(error));
    if taken == 0 {
        Fault::Closed(source)
    } else {
        Fault::Error(NodeError::Broken { source })
    }
}
