//! A plain connection over TCP or a Unix socket, every step of it bounded by a deadline.
//!
//! `redis::Connection` bounds single reads, so that a server that sends a byte now and then holds its caller for ever,
//! and connects to Unix sockets without a bound. Here the bytes are read by a deadline and go to `redis::Parser`, but for
//! the usual replies.

use std::borrow::Cow;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use redis::{ErrorKind, RedisError, Value};
use socket2::{SockAddr, Socket as RawSocket};

use super::nonblocking;
use super::transport::{Fault, NO_REPLY, Transport, is_timeout};
use crate::clock::{Clock, Timestamp};
use crate::error::NodeError;

/// No reply of this protocol comes near it; a server that sends more has lost its way.
pub(super) const LONGEST_REPLY: usize = 4 * 1024;

/// What is answered where all is well, or to one of several who want a lock. The parser clears a buffer of many times the size
/// for each reply.
const USUAL: [(&[u8], Value); 3] = [
    (b"+OK\r\n", Value::Okay),
    (b":1\r\n", Value::Int(1)),
    (b"$-1\r\n", Value::Nil),
];

const TOO_LONG: &str = "a reply of more than 4 KiB";

/// How much later than it was set a socket's own timeout may come: the kernel rounds it up to its ticks.
const ROUNDING: Duration = Duration::from_millis(20);

/// How long a blocking read lasts before it looks whether anyone is still interested.
const LONGEST_BLOCKING: Duration = Duration::from_millis(40);

/// What the steps before the read may take of the time for a command.
const SLACK: Duration = Duration::from_millis(2);

/// How often a write to a full socket looks at the clock.
const WRITE_SLICE: Duration = Duration::from_millis(4);

pub(crate) struct Socket {
    reader: Reader,
    parser: redis::Parser,
}

impl Socket {
    /// Connects by the deadline. `timeout` is the usual time for a command.
    pub(crate) fn connect(
        raw: RawSocket,
        address: &SockAddr,
        clock: &Clock,
        timeout: Duration,
        deadline: Timestamp,
    ) -> io::Result<Self> {
        nonblocking::connect(&raw, address, clock, deadline)?;
        Self::over(raw, clock, timeout, deadline)
    }

    /// Takes a socket that is connected.
    pub(super) fn over(
        raw: RawSocket,
        clock: &Clock,
        timeout: Duration,
        deadline: Timestamp,
    ) -> io::Result<Self> {
        raw.set_write_timeout(Some(WRITE_SLICE))?;
        let blocking = timeout
            .checked_sub(ROUNDING.saturating_add(SLACK))
            .filter(|blocking| !blocking.is_zero())
            .map(|blocking| blocking.min(LONGEST_BLOCKING));
        raw.set_read_timeout(blocking)?;
        Ok(Self {
            reader: Reader {
                stream: raw.into(),
                clock: clock.clone(),
                blocking,
                deadline,
                taken: 0,
                bytes: Box::new([0; 1024]),
                start: 0,
                end: 0,
            },
            parser: redis::Parser::new(),
        })
    }
}

impl Transport for Socket {
    fn send(&mut self, command: &[u8], deadline: Timestamp) -> Result<(), Fault> {
        let mut rest = command;
        while !rest.is_empty() {
            match self.reader.stream.write(rest) {
                Ok(n) => rest = rest.get(n..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_timeout(&error) => {
                    if self.reader.clock.now() >= deadline {
                        return Err(Fault::TimedOut);
                    }
                }
                Err(error) => return Err(Fault::Closed(Arc::new(error))),
            }
        }
        Ok(())
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

    fn is_quiet(&self) -> bool {
        let mut byte = [0];
        let peeked = nonblocking::peek(&self.reader.stream, &mut byte);
        !self.has_surplus() && peeked.is_err_and(|error| is_timeout(&error))
    }
}

/// Hands bytes to the parser, line by line, so that it never takes any beyond the end of a reply.
struct Reader {
    /// Any connected stream socket; for Unix sockets, too, this type only sends, receives and sets timeouts.
    stream: TcpStream,
    clock: Clock,
    /// The timeout of a blocking read, if there is one.
    blocking: Option<Duration>,
    deadline: Timestamp,
    /// How much of the present reply the parser has been given.
    taken: usize,
    /// Bytes that were read from the socket and that the parser has not seen: `bytes[start..end]`.
    bytes: Box<[u8; 1024]>,
    start: usize,
    end: usize,
}

impl Read for Reader {
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

impl Reader {
    /// What was read from the socket and not taken yet; waits for it if there is nothing.
    fn ready(&mut self) -> io::Result<&[u8]> {
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
            self.end = self.fill()?;
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

    /// Waits until `until` at most for something to read; what is there is read at once.
    fn is_ready(&mut self, until: Timestamp) -> bool {
        match nonblocking::read(&self.stream, self.bytes.as_mut_slice()) {
            Ok(n) => {
                (self.start, self.end) = (0, n);
                true
            }
            Err(error) if is_timeout(&error) => {
                nonblocking::wait_until_readable(&self.stream, &self.clock, until).unwrap_or(true)
            }
            // It is for the read that follows to report.
            Err(_) => true,
        }
    }

    /// Reads what the socket has, waiting for it until the deadline; what is already there is read even after it.
    ///
    /// A blocking read is one system call, but ends late; so it is for the first part of the time, and the rest is waited
    /// for exactly.
    fn fill(&mut self) -> io::Result<usize> {
        loop {
            let remaining = self.deadline.saturating_since(self.clock.now());
            let is_long = |blocking: Duration| blocking.saturating_add(ROUNDING) <= remaining;
            let read = if self.blocking.is_some_and(is_long) && !self.clock.has_ended() {
                self.stream.read(self.bytes.as_mut_slice())
            } else if nonblocking::wait_until_readable(&self.stream, &self.clock, self.deadline)? {
                nonblocking::read(&self.stream, self.bytes.as_mut_slice())
            } else {
                return Err(io::ErrorKind::TimedOut.into());
            };
            match read {
                Err(error) if is_timeout(&error) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => return read,
            }
        }
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
