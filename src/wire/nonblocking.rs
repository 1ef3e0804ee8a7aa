//! Waits and reads by a deadline that holds to the millisecond, which the sockets of std can't.

use std::io;
use std::iter::once;
use std::net::TcpStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::AsFd;
use smallvec::SmallVec;

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
        if wait_for_one(once(stream), PollFlags::IN, left.min(SLICE))?.is_some() {
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

/// Waits until one of these sockets is ready, for no longer than this span. Returns its place.
pub(super) fn wait_for_one<'s, S: AsFd + 's>(
    sockets: impl Iterator<Item = &'s S>,
    flags: PollFlags,
    span: Duration,
) -> io::Result<Option<usize>> {
    let span = Timespec::try_from(span).unwrap_or_default();
    let asked = sockets.map(|socket| PollFd::new(socket, flags));
    let mut asked: SmallVec<[PollFd<'_>; 5]> = asked.collect();
    match poll(&mut asked, Some(&span)) {
        Ok(_) => Ok(asked.iter().position(|one| !one.revents().is_empty())),
        Err(rustix::io::Errno::INTR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Whether none of these sockets has something to read, or is at its end. Asks for all of them at once.
pub(crate) fn are_quiet(sockets: &[&TcpStream]) -> bool {
    let mut asked: SmallVec<[PollFd<'_>; 5]> = SmallVec::new();
    for socket in sockets {
        asked.push(PollFd::new(*socket, PollFlags::IN));
    }
    matches!(
        poll(&mut asked, Some(&Timespec::default())),
        Ok(0) | Err(rustix::io::Errno::INTR)
    )
}

/// Reads what is there, without waiting.
#[cfg(unix)]
pub(super) fn read(stream: &TcpStream, bytes: &mut [u8]) -> io::Result<usize> {
    let (n, _) = rustix::net::recv(stream, bytes, rustix::net::RecvFlags::DONTWAIT)?;
    Ok(n)
}

#[cfg(not(unix))]
pub(super) fn read(mut stream: &TcpStream, bytes: &mut [u8]) -> io::Result<usize> {
    if are_quiet(&[stream]) {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    io::Read::read(&mut stream, bytes)
}
