//! Bytes over TCP or a Unix socket, every step bounded by a deadline.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use socket2::Socket;

use super::nonblocking;
use super::transport::is_timeout;
use crate::clock::{Clock, Timestamp};
use crate::error::ENDED_PLAIN;

/// How much later than it was set a socket's own timeout may come: the kernel rounds it up to its ticks.
const ROUNDING: Duration = Duration::from_millis(20);

/// How long a blocking read waits.
const BLOCKING: Duration = Duration::from_millis(4);

/// How often a write to a full socket looks at the clock.
const WRITE_SLICE: Duration = Duration::from_millis(4);

/// How many reads may bring something after their deadline, from one write to the next. They take in the longest reply, if it
/// was there in time. A server that goes on sending is not listened to for longer.
const MOST_LATE_READS: u32 = 256;

/// A connected stream of bytes. A read of zero bytes is its end.
pub(crate) trait Stream: Send {
    /// Writes all of it, by the deadline.
    fn write(&mut self, bytes: &[u8], deadline: Timestamp) -> io::Result<()>;

    /// Reads what has come, and waits for it until `until`, or for a little longer where that costs less, but never beyond the
    /// deadline. `None` means that nothing has come. Reads what is already there even after the deadline, but not without end.
    fn read(
        &mut self,
        into: &mut [u8],
        until: Timestamp,
        deadline: Timestamp,
    ) -> io::Result<Option<usize>>;

    /// Reads what is there now, without a look at the clock, unless the server sends without end.
    fn read_now(&mut self, into: &mut [u8], deadline: Timestamp) -> io::Result<Option<usize>> {
        self.read(into, Timestamp::from_nanos(0), deadline)
    }

    /// Whether the idle stream is open and nothing has come that was not asked for.
    fn is_quiet(&mut self) -> bool {
        let socket = self.socket();
        socket.is_some_and(|socket| nonblocking::are_quiet(&[socket]))
    }

    /// Returns the message if the other end closes the stream before its first answer, because the port may expect another kind of
    /// stream. Returns None if the port can't.
    fn before_the_first_answer(&self) -> Option<&'static str>;

    /// The socket of a stream that is quiet if the socket has nothing to read.
    fn socket(&self) -> Option<&TcpStream> {
        None
    }
}

/// A socket without encryption.
pub(crate) struct Plain {
    /// A connected stream socket, also of Unix: only methods that suit both are called.
    stream: TcpStream,
    pub(super) clock: Clock,
    /// How many reads there were after their deadline since the last write.
    late_reads: u32,
    /// How many reads there were without a look at the clock since the last write.
    quick_reads: u32,
}

impl Plain {
    /// Takes a socket that is connected.
    pub(crate) fn over(socket: Socket, clock: &Clock) -> io::Result<Self> {
        socket.set_write_timeout(Some(WRITE_SLICE))?;
        socket.set_read_timeout(Some(BLOCKING))?;
        Ok(Self {
            stream: socket.into(),
            clock: clock.clone(),
            late_reads: 0,
            quick_reads: 0,
        })
    }

    /// Whether there is time for a blocking read. It takes one system call, but ends late.
    fn may_block(&self, now: Timestamp, deadline: Timestamp) -> bool {
        let latest = now.saturating_add(BLOCKING).saturating_add(ROUNDING);
        latest <= deadline && !self.clock.has_ended()
    }
}

impl Stream for Plain {
    fn write(&mut self, bytes: &[u8], deadline: Timestamp) -> io::Result<()> {
        (self.late_reads, self.quick_reads) = (0, 0);
        let mut rest = bytes;
        while !rest.is_empty() {
            match self.stream.write(rest) {
                Ok(n) => rest = rest.get(n..).unwrap_or_default(),
                Err(error) if !is_nothing(&error) => return Err(error),
                Err(_) if self.clock.now() < deadline => {}
                Err(_) => return Err(io::ErrorKind::TimedOut.into()),
            }
        }
        Ok(())
    }

    fn read(
        &mut self,
        into: &mut [u8],
        until: Timestamp,
        deadline: Timestamp,
    ) -> io::Result<Option<usize>> {
        let now = self.clock.now();
        if now >= deadline && self.late_reads >= MOST_LATE_READS {
            return Ok(None);
        }
        if now < until && self.may_block(now, deadline) {
            match self.stream.read(into) {
                Err(error) if is_nothing(&error) => {}
                read => return read.map(Some),
            }
        }
        // The last part of the time is waited for with `poll`, which ends in time.
        loop {
            match nonblocking::read(&self.stream, into) {
                Err(error) if is_nothing(&error) => {
                    if !nonblocking::wait_until_readable(&self.stream, &self.clock, until)? {
                        return Ok(None);
                    }
                }
                read => {
                    let is_late = now >= deadline && read.is_ok();
                    self.late_reads = self.late_reads.saturating_add(is_late.into());
                    return read.map(Some);
                }
            }
        }
    }

    fn before_the_first_answer(&self) -> Option<&'static str> {
        // A Unix socket has no such address.
        self.stream.local_addr().ok().map(|_| ENDED_PLAIN)
    }

    fn read_now(&mut self, into: &mut [u8], deadline: Timestamp) -> io::Result<Option<usize>> {
        if self.quick_reads >= MOST_LATE_READS && self.clock.now() >= deadline {
            return Ok(None);
        }
        match nonblocking::read(&self.stream, into) {
            Err(error) if is_nothing(&error) => Ok(None),
            read => {
                self.quick_reads = self.quick_reads.saturating_add(1);
                read.map(Some)
            }
        }
    }

    fn socket(&self) -> Option<&TcpStream> {
        Some(&self.stream)
    }
}

/// Whether nothing could be read or written yet.
fn is_nothing(error: &io::Error) -> bool {
    is_timeout(error) || error.kind() == io::ErrorKind::Interrupted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_the_deadline_so_much_is_read_and_no_more_until_the_next_command() {
        let (mut peer, ours) = std::os::unix::net::UnixStream::pair().unwrap();
        let clock = Clock::system();
        let mut stream =
            Plain::over(Socket::from(std::os::fd::OwnedFd::from(ours)), &clock).unwrap();
        peer.write_all(&[b'x'; 8 * 1024]).unwrap();
        let (mut byte, passed) = ([0], clock.now());
        let mut read = |deadline| stream.read(&mut byte, deadline, deadline).unwrap();
        let in_time = passed.saturating_add(Duration::from_mins(1));
        for _ in 0..2 * MOST_LATE_READS {
            assert_eq!(read(in_time), Some(1));
        }
        for _ in 0..MOST_LATE_READS {
            assert_eq!(read(passed), Some(1));
        }
        assert_eq!(read(passed), None);
        assert_eq!(read(in_time), Some(1));
        stream.write(b"PING", in_time).unwrap();
        assert_eq!(stream.read(&mut byte, passed, passed).unwrap(), Some(1));
    }
}
