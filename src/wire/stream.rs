//! Bytes over TCP or a Unix socket, every step bounded by a deadline.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use socket2::{SockAddr, Socket};

use super::nonblocking;
use super::transport::is_timeout;
use crate::clock::{Clock, Timestamp};

/// How much later than it was set a socket's own timeout may come: the kernel rounds it up to its ticks.
const ROUNDING: Duration = Duration::from_millis(20);

/// How often a blocking read checks whether the clock has ended.
const LONGEST_BLOCKING: Duration = Duration::from_millis(40);

/// The part of the time for a command that the steps before the read may take.
const SLACK: Duration = Duration::from_millis(2);

/// How often a write to a full socket looks at the clock.
const WRITE_SLICE: Duration = Duration::from_millis(4);

/// A connected stream of bytes. A read of zero bytes is its end.
pub(crate) trait Stream: Send {
    /// Writes all of it, by the deadline.
    fn write(&mut self, bytes: &[u8], deadline: Timestamp) -> io::Result<()>;

    /// Reads what has come, and waits for it until the deadline. Reads what is already there even after the deadline.
    fn read(&mut self, into: &mut [u8], deadline: Timestamp) -> io::Result<usize>;

    /// Reads what has come, and waits for it until `until`. `None` means that nothing has come.
    fn poll(&mut self, into: &mut [u8], until: Timestamp) -> io::Result<Option<usize>>;

    /// Whether the idle stream is open and nothing has come that was not asked for.
    fn is_quiet(&mut self) -> bool;
}

/// A socket without encryption.
pub(crate) struct Plain {
    /// A connected stream socket, also of Unix: only methods that suit both are called.
    stream: TcpStream,
    pub(super) clock: Clock,
    /// The timeout of a blocking read, if there is one.
    blocking: Option<Duration>,
}

impl Plain {
    /// Connects by the deadline. `timeout` is the usual time for a command.
    pub(super) fn connect(
        socket: Socket,
        address: &SockAddr,
        clock: &Clock,
        timeout: Duration,
        deadline: Timestamp,
    ) -> io::Result<Self> {
        nonblocking::connect(&socket, address, clock, deadline)?;
        Self::over(socket, clock, timeout)
    }

    /// Takes a socket that is connected.
    pub(crate) fn over(socket: Socket, clock: &Clock, timeout: Duration) -> io::Result<Self> {
        socket.set_write_timeout(Some(WRITE_SLICE))?;
        let blocking = timeout
            .checked_sub(ROUNDING.saturating_add(SLACK))
            .filter(|blocking| !blocking.is_zero())
            .map(|blocking| blocking.min(LONGEST_BLOCKING));
        socket.set_read_timeout(blocking)?;
        Ok(Self {
            stream: socket.into(),
            clock: clock.clone(),
            blocking,
        })
    }

    /// Reads what is there, without waiting.
    pub(super) fn read_now(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match nonblocking::read(&self.stream, into) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }

    /// Waits until `until` at most; returns whether there is something to read.
    pub(super) fn wait_until_readable(&self, until: Timestamp) -> io::Result<bool> {
        nonblocking::wait_until_readable(&self.stream, &self.clock, until)
    }
}

impl Stream for Plain {
    fn write(&mut self, bytes: &[u8], deadline: Timestamp) -> io::Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            match self.stream.write(rest) {
                Ok(n) => rest = rest.get(n..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_timeout(&error) => {
                    if self.clock.now() >= deadline {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// A blocking read takes one system call, but its timeout ends late. So the last part of the time is waited for with
    /// `poll`, which ends in time.
    fn read(&mut self, into: &mut [u8], deadline: Timestamp) -> io::Result<usize> {
        loop {
            let remaining = deadline.saturating_since(self.clock.now());
            let is_long = |blocking: Duration| blocking.saturating_add(ROUNDING) <= remaining;
            let read = if self.blocking.is_some_and(is_long) && !self.clock.has_ended() {
                self.stream.read(into)
            } else if self.wait_until_readable(deadline)? {
                self.read_now(into)
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

    fn poll(&mut self, into: &mut [u8], until: Timestamp) -> io::Result<Option<usize>> {
        loop {
            match self.read_now(into) {
                Err(error) if is_timeout(&error) => {
                    if !self.wait_until_readable(until)? {
                        return Ok(None);
                    }
                }
                read => return read.map(Some),
            }
        }
    }

    fn is_quiet(&mut self) -> bool {
        let peeked = nonblocking::peek(&self.stream, &mut [0]);
        peeked.is_err_and(|error| is_timeout(&error))
    }
}
