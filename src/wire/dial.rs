//! Connects to whichever address of a host answers first, by a deadline.
//!
//! Behind some addresses nobody answers, such as the IPv6 address of a host on a network without IPv6. Such an address must not
//! take the time of the others. So each address has a head start, and then the next one is tried beside it. RFC 8305 ("Happy
//! Eyeballs") describes this. It takes no thread.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use rustix::event::PollFlags;
use rustix::io::Errno;
use socket2::{SockAddr, Socket};

use super::nonblocking::{SLICE, remaining, wait_for_one};
use super::transport::is_timeout;
use crate::clock::{Clock, Timestamp};

/// The longest head start. Where the deadline is near, it is a fair share of the time.
const HEAD_START: Duration = Duration::from_millis(250);

/// The most connections that are being made at once. Beyond that, the oldest is given up.
const MOST_AT_ONCE: usize = 16;

/// Connects to the first of these addresses that answers by the deadline. Returns the socket, and its address.
pub(super) fn first_of(
    addresses: &[SocketAddr],
    open: &dyn Fn(&SockAddr) -> io::Result<Socket>,
    clock: &Clock,
    deadline: Timestamp,
) -> io::Result<(Socket, SocketAddr)> {
    let mut to_try = addresses.iter();
    let mut pending: Vec<(Socket, SocketAddr)> = Vec::new();
    let no_address = "the host name has no address";
    let mut failure = io::Error::new(io::ErrorKind::NotFound, no_address);
    let mut next_at = clock.now();
    loop {
        let (left, now) = (remaining(clock, deadline)?, clock.now());
        if (pending.is_empty() || now >= next_at)
            && let Some(address) = to_try.next()
        {
            next_at = now.saturating_add(head_start(left, to_try.len()));
            let its = SockAddr::from(*address);
            match open(&its).and_then(|socket| begin(socket, &its)) {
                Ok(socket) => pending.push((socket, *address)),
                Err(error) => failure = error,
            }
            if pending.len() > MOST_AT_ONCE {
                pending.remove(0);
            }
        }
        if pending.is_empty() {
            match to_try.len() {
                0 => return Err(failure),
                _ => continue,
            }
        }
        // WSAPoll does not tell of a connection that failed before Windows 10 2004.
        if cfg!(windows) {
            let error_of = |(place, (socket, _)): (usize, &(Socket, SocketAddr))| {
                Some((place, socket.take_error().ok()??))
            };
            if let Some((place, error)) = pending.iter().enumerate().find_map(error_of) {
                pending.remove(place);
                (failure, next_at) = (error, now);
                continue;
            }
        }
        let until_next = match to_try.len() {
            0 => left,
            _ => next_at.saturating_since(now),
        };
        let sockets = pending.iter().map(|(socket, _)| socket);
        let span = left.min(until_next).min(SLICE);
        if let Some(ready) = wait_for_one(sockets, PollFlags::OUT, span)? {
            let (socket, address) = pending.remove(ready);
            match socket.take_error()? {
                None => {
                    socket.set_nonblocking(false)?;
                    return Ok((socket, address));
                }
                Some(error) => (failure, next_at) = (error, now),
            }
        }
    }
}

/// For how long an address is tried alone, with so much time left for it and so many others.
fn head_start(left: Duration, others: usize) -> Duration {
    let shares = u32::try_from(others.saturating_add(1)).unwrap_or(u32::MAX);
    let share = left.checked_div(shares).unwrap_or_default();
    share.min(HEAD_START)
}

/// Begins to connect, without waiting.
fn begin(socket: Socket, address: &SockAddr) -> io::Result<Socket> {
    socket.set_nonblocking(true)?;
    let begun = socket.connect(address);
    match begun.as_ref().map_err(Errno::from_io_error) {
        Ok(()) | Err(Some(Errno::INPROGRESS | Errno::INTR)) => Ok(socket),
        Err(Some(Errno::WOULDBLOCK)) if cfg!(windows) => Ok(socket),
        Err(_) => begun.map(|()| socket),
    }
}

/// Connects to a socket of this system. Where its queue is full, it waits for room.
pub(super) fn local(
    socket: Socket,
    path: &Path,
    clock: &Clock,
    deadline: Timestamp,
) -> io::Result<Socket> {
    let address = SockAddr::unix(path)?;
    loop {
        // A time below a microsecond would be rounded to none, which is for ever.
        let span = remaining(clock, deadline)?.clamp(Duration::from_millis(1), SLICE);
        socket.set_write_timeout(Some(span))?;
        match socket.connect(&address) {
            Err(error) if is_timeout(&error) || error.kind() == io::ErrorKind::Interrupted => {}
            connected => return connected.map(|()| socket),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::net::{Ipv4Addr, TcpListener};

    use redlatch_testing::{BlackHole, within};
    use socket2::{Domain, Type};

    use super::*;

    /// Only a hang takes this long.
    const BOUND: Duration = Duration::from_secs(60);

    fn tcp(_: &SockAddr) -> io::Result<Socket> {
        Socket::new(Domain::IPV4, Type::STREAM, None)
    }

    fn address(name: &str) -> SocketAddr {
        name.parse().unwrap()
    }

    /// A port that takes connections, one that refuses them, and one that does neither.
    struct Ports {
        open: TcpListener,
        closed: SocketAddr,
        hole: BlackHole,
    }

    impl Ports {
        fn new() -> Self {
            let closed = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            closed.bind(&address("127.0.0.1:0").into()).unwrap();
            Self {
                open: TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap(),
                closed: closed.local_addr().unwrap().as_socket().unwrap(),
                hole: BlackHole::open(),
            }
        }

        /// The address that was connected to, of these: `o` is open, `c` closed and `h` a hole.
        fn dial(&self, kinds: &str, timeout: Duration) -> io::Result<SocketAddr> {
            let addresses: Vec<SocketAddr> = kinds
                .chars()
                .map(|kind| match kind {
                    'o' => self.open.local_addr().unwrap(),
                    'c' => self.closed,
                    _ => address(&self.hole.name()),
                })
                .collect();
            let connected = within(BOUND, move || {
                let clock = Clock::system();
                let deadline = clock.now().saturating_add(timeout);
                first_of(&addresses, &tcp, &clock, deadline)
            });
            connected.map(|(socket, address)| {
                assert_eq!(socket.nonblocking().ok(), Some(false));
                address
            })
        }
    }

    #[test]
    fn an_address_behind_which_nobody_answers_hides_none_behind_it() {
        let ports = Ports::new();
        let many = "h".repeat(MOST_AT_ONCE + 1) + "o";
        let open = ports.open.local_addr().unwrap();
        for kinds in ["o", "oo", "co", "hho", "chco", "hoh", &*many] {
            assert_eq!(ports.dial(kinds, BOUND).unwrap(), open, "{kinds}");
        }
        // Where none answers, the deadline ends it.
        let short = Duration::from_millis(50);
        for (kinds, timeout, kind) in [
            ("", BOUND, ErrorKind::NotFound),
            ("ccc", BOUND, ErrorKind::ConnectionRefused),
            ("h", short, ErrorKind::TimedOut),
            ("hch", short, ErrorKind::TimedOut),
            ("chc", short, ErrorKind::TimedOut),
        ] {
            let error = ports.dial(kinds, timeout).unwrap_err();
            assert_eq!(error.kind(), kind, "{kinds}");
        }
    }

    #[test]
    fn the_time_is_shared_among_the_addresses() {
        let ms = Duration::from_millis;
        for (left, others, share) in [
            (ms(50), 1, ms(25)),
            (ms(30), 2, ms(10)),
            (ms(0), 3, ms(0)),
            (Duration::from_secs(5), 1, HEAD_START),
            (Duration::from_secs(5), 99, ms(50)),
        ] {
            assert_eq!(head_start(left, others), share);
        }
    }

    #[test]
    fn the_end_of_the_manager_ends_it() {
        let hole = BlackHole::open();
        let addresses = [address(&hole.name()), address(&hole.name())];
        let clock = Clock::system();
        let deadline = clock.now().saturating_add(BOUND * 10);
        clock.end();
        let connected = within(BOUND, move || first_of(&addresses, &tcp, &clock, deadline));
        assert_eq!(connected.unwrap_err().kind(), ErrorKind::TimedOut);
    }
}
