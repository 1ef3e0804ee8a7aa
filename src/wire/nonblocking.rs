//! Connects, waits and reads by a deadline that holds to the millisecond, which the sockets of std can't.

use std::io;
use std::net::TcpStream;
use std::time::Duration;

use socket2::{SockAddr, Socket};

use crate::clock::{Clock, Timestamp};

/// How often a wait checks whether the clock has ended.
pub(super) const SLICE: Duration = Duration::from_millis(20);

/// Connects by the deadline, and leaves the socket in blocking mode. `longest` is the timeout of the socket for writes, and how
/// late it may come. On Linux it holds for connecting as well. Where there is time for it, the socket blocks: this takes one
/// system call in place of eight.
#[cfg(unix)]
pub(crate) fn connect(
    socket: &Socket,
    address: &SockAddr,
    clock: &Clock,
    deadline: Timestamp,
    longest: Duration,
) -> io::Result<()> {
    use rustix::event::PollFlags;
    use rustix::io::Errno;

    /// The pause before another try when the queue of a Unix socket is full, because no event tells when it has room.
    const QUEUE_IS_FULL: Duration = Duration::from_millis(1);

    let is_bounded = cfg!(any(target_os = "linux", target_os = "android"));
    let mut is_blocking = true;
    loop {
        let remaining = remaining(clock, deadline)?;
        if is_blocking && !(is_bounded && longest <= remaining) {
            socket.set_nonblocking(true)?;
            is_blocking = false;
        }
        match socket
            .connect(address)
            .map_err(|error| (Errno::from_io_error(&error), error))
        {
            Ok(()) | Err((Some(Errno::ISCONN), _)) if is_blocking => return Ok(()),
            Ok(()) | Err((Some(Errno::ISCONN), _)) => return socket.set_nonblocking(false),
            Err((Some(Errno::INPROGRESS | Errno::ALREADY | Errno::INTR), _)) => {
                if wait_for(socket, PollFlags::OUT, remaining.min(SLICE))?
                    && let Some(error) = socket.take_error()?
                {
                    return Err(error);
                }
            }
            Err((Some(Errno::AGAIN), _)) => clock.sleep(remaining.min(QUEUE_IS_FULL)),
            Err((_, error)) => return Err(error),
        }
    }
}

#[cfg(not(unix))]
pub(crate) fn connect(
    socket: &Socket,
    address: &SockAddr,
    clock: &Clock,
    deadline: Timestamp,
    _longest: Duration,
) -> io::Result<()> {
    socket.connect_timeout(address, remaining(clock, deadline)?)
}

/// Waits until the deadline at most for something to read. Returns whether there is something, also after the deadline.
pub(crate) fn wait_until_readable(
    stream: &TcpStream,
    clock: &Clock,
    deadline: Timestamp,
) -> io::Result<bool> {
    loop {
        let left = deadline.saturating_since(clock.now());
        if is_readable(stream, left.min(SLICE))? {
            return Ok(true);
        }
        if left.is_zero() || clock.has_ended() {
            return Ok(false);
        }
    }
}

/// The time until the deadline. An error if it has passed, or the clock has ended.
pub(super) fn remaining(clock: &Clock, deadline: Timestamp) -> io::Result<Duration> {
    let remaining = deadline.saturating_since(clock.now());
    if remaining.is_zero() || clock.has_ended() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    Ok(remaining)
}

#[cfg(unix)]
fn is_readable(stream: &TcpStream, wait: Duration) -> io::Result<bool> {
    wait_for(stream, rustix::event::PollFlags::IN, wait)
}

#[cfg(unix)]
fn wait_for(
    socket: &impl rustix::fd::AsFd,
    flags: rustix::event::PollFlags,
    wait: Duration,
) -> io::Result<bool> {
    use rustix::event::{PollFd, Timespec, poll};

    let wait = Timespec::try_from(wait).map_err(io::Error::other)?;
    match poll(&mut [PollFd::new(socket, flags)], Some(&wait)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Whether none of these sockets has something to read, or is at its end. Asks for all of them at once.
#[cfg(unix)]
pub(crate) fn are_quiet<'s>(sockets: impl Iterator<Item = &'s TcpStream>) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use smallvec::SmallVec;

    let mut asked: SmallVec<[PollFd<'_>; 5]> = sockets
        .map(|socket| PollFd::new(socket, PollFlags::IN))
        .collect();
    let now = Timespec::default();
    matches!(poll(&mut asked, Some(&now)), Ok(0))
}

#[cfg(not(unix))]
pub(crate) fn are_quiet<'s>(_: impl Iterator<Item = &'s TcpStream>) -> bool {
    false
}

/// Reads what is there, without waiting.
#[cfg(unix)]
pub(crate) fn read(stream: &TcpStream, bytes: &mut [u8]) -> io::Result<usize> {
    let (n, _) = rustix::net::recv(stream, bytes, rustix::net::RecvFlags::DONTWAIT)?;
    Ok(n)
}

/// Copies what is there, without waiting, and leaves it there.
#[cfg(unix)]
pub(crate) fn peek(stream: &TcpStream, bytes: &mut [u8]) -> io::Result<usize> {
    let flags = rustix::net::RecvFlags::DONTWAIT | rustix::net::RecvFlags::PEEK;
    let (n, _) = rustix::net::recv(stream, bytes, flags)?;
    Ok(n)
}

#[cfg(not(unix))]
fn is_readable(stream: &TcpStream, wait: Duration) -> io::Result<bool> {
    // A timeout of zero is an error.
    stream.set_read_timeout(Some(wait.max(Duration::from_millis(1))))?;
    match stream.peek(&mut [0]) {
        Ok(_) => Ok(true),
        Err(error) if super::transport::is_timeout(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(not(unix))]
pub(crate) fn read(stream: &TcpStream, bytes: &mut [u8]) -> io::Result<usize> {
    use std::io::Read;

    stream.set_nonblocking(true)?;
    let read = (&mut &*stream).read(bytes);
    stream.set_nonblocking(false)?;
    read
}

#[cfg(not(unix))]
pub(crate) fn peek(stream: &TcpStream, bytes: &mut [u8]) -> io::Result<usize> {
    stream.set_nonblocking(true)?;
    let peeked = stream.peek(bytes);
    stream.set_nonblocking(false)?;
    peeked
}
