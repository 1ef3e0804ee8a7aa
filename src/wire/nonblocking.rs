//! Waits and reads by a deadline that holds to the millisecond, which the sockets of std can't.

use std::io;
use std::net::TcpStream;
use std::time::Duration;

use crate::clock::{Clock, Timestamp};

/// How often a wait checks whether the clock has ended.
pub(super) const SLICE: Duration = Duration::from_millis(20);

/// Waits until the deadline at most for something to read. Returns whether there is something, also after the deadline.
pub(super) fn wait_until_readable(
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
fn is_readable(stream: &TcpStream, span: Duration) -> io::Result<bool> {
    let ready = wait_for_one(std::iter::once(stream), rustix::event::PollFlags::IN, span);
    ready.map(|ready| ready.is_some())
}

/// Waits until one of these sockets is ready, for no longer than this span. Returns its place.
#[cfg(unix)]
pub(super) fn wait_for_one<'s, S: rustix::fd::AsFd + 's>(
    sockets: impl Iterator<Item = &'s S>,
    flags: rustix::event::PollFlags,
    span: Duration,
) -> io::Result<Option<usize>> {
    match poll(sockets, flags, span) {
        Err(rustix::io::Errno::INTR) => Ok(None),
        ready => Ok(ready?),
    }
}

#[cfg(unix)]
fn poll<'s, S: rustix::fd::AsFd + 's>(
    sockets: impl Iterator<Item = &'s S>,
    flags: rustix::event::PollFlags,
    span: Duration,
) -> rustix::io::Result<Option<usize>> {
    use rustix::event::{PollFd, Timespec, poll};
    use smallvec::SmallVec;

    let span = Timespec::try_from(span).unwrap_or_default();
    let asked = sockets.map(|socket| PollFd::new(socket, flags));
    let mut asked: SmallVec<[PollFd<'_>; 5]> = asked.collect();
    poll(&mut asked, Some(&span))?;
    Ok(asked.iter().position(|one| !one.revents().is_empty()))
}

/// Whether none of these sockets has something to read, or is at its end. Asks for all of them at once.
#[cfg(unix)]
pub(crate) fn are_quiet<'s>(sockets: impl Iterator<Item = &'s TcpStream>) -> bool {
    let ready = poll(sockets, rustix::event::PollFlags::IN, Duration::ZERO);
    matches!(ready, Ok(None))
}

#[cfg(not(unix))]
pub(crate) fn are_quiet<'s>(_: impl Iterator<Item = &'s TcpStream>) -> bool {
    false
}

/// Reads what is there, without waiting.
#[cfg(unix)]
pub(super) fn read(stream: &TcpStream, bytes: &mut [u8]) -> io::Result<usize> {
    let (n, _) = rustix::net::recv(stream, bytes, rustix::net::RecvFlags::DONTWAIT)?;
    Ok(n)
}

/// Copies what is there, without waiting, and leaves it there.
#[cfg(unix)]
pub(super) fn peek(stream: &TcpStream, bytes: &mut [u8]) -> io::Result<usize> {
    let flags = rustix::net::RecvFlags::DONTWAIT | rustix::net::RecvFlags::PEEK;
    let (n, _) = rustix::net::recv(stream, bytes, flags)?;
    Ok(n)
}

#[cfg(not(unix))]
fn is_readable(stream: &TcpStream, span: Duration) -> io::Result<bool> {
    // A timeout of zero is an error.
    stream.set_read_timeout(Some(span.max(Duration::from_millis(1))))?;
    match stream.peek(&mut [0]) {
        Ok(_) => Ok(true),
        Err(error) if super::transport::is_timeout(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(not(unix))]
pub(super) fn read(stream: &TcpStream, bytes: &mut [u8]) -> io::Result<usize> {
    use std::io::Read;

    stream.set_nonblocking(true)?;
    let read = (&mut &*stream).read(bytes);
    stream.set_nonblocking(false)?;
    read
}

#[cfg(not(unix))]
pub(super) fn peek(stream: &TcpStream, bytes: &mut [u8]) -> io::Result<usize> {
    stream.set_nonblocking(true)?;
    let peeked = stream.peek(bytes);
    stream.set_nonblocking(false)?;
    peeked
}
