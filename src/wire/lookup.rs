//! Name lookup by a deadline, which the system's resolver does not have.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;

use scheduled_thread_pool::ScheduledThreadPool;

use crate::clock::{Clock, Timestamp};
use crate::sync::{Condvar, Mutex};

/// Looks up one host on another thread, and keeps the last answer for a time when the resolver is slow.
pub(crate) struct Resolver {
    /// The host and its port.
    target: (String, u16),
    clock: Clock,
    thread: Arc<ScheduledThreadPool>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<Lookups>,
    answered: Condvar,
}

#[derive(Default)]
struct Lookups {
    /// A lookup is under way.
    busy: bool,
    /// How many lookups have ended.
    ended: u64,
    /// The last good answer.
    known: Vec<SocketAddr>,
    /// The address that was connected to last.
    last: Option<Last>,
    /// Why the last lookup failed, if it did.
    error: Option<(io::ErrorKind, String)>,
}

/// The address of a host that was connected to last.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Last {
    pub(crate) address: SocketAddr,
    /// Otherwise it took the connection, and then said nothing.
    pub(crate) has_worked: bool,
}

impl Last {
    /// The order in which the addresses are tried: the one that worked first, and the one that failed last. Families take turns,
    /// because often one of them as a whole does not work.
    fn order(last: Option<Self>, addresses: &[SocketAddr]) -> Vec<SocketAddr> {
        let is_last = |address: &SocketAddr| last.is_some_and(|last| last.address == *address);
        let has_worked = last.is_some_and(|last| last.has_worked);
        let worked = last.filter(|_| has_worked).map(|last| last.address);
        let first = worked.or(addresses.first().copied());
        let is_first =
            |address: &SocketAddr| first.is_some_and(|first| first.is_ipv6() == address.is_ipv6());
        let (ours, others): (Vec<_>, Vec<_>) = addresses.iter().copied().partition(is_first);
        let mut ordered = Vec::with_capacity(addresses.len());
        for place in 0..addresses.len() {
            ordered.extend(ours.get(place));
            ordered.extend(others.get(place));
        }
        ordered.sort_by_key(|address| is_last(address) != has_worked);
        ordered
    }
}

impl Resolver {
    pub(crate) fn new(
        host: &str,
        port: u16,
        clock: &Clock,
        thread: &Arc<ScheduledThreadPool>,
    ) -> Self {
        Self {
            target: (host.to_owned(), port),
            clock: clock.clone(),
            thread: Arc::clone(thread),
            shared: Arc::default(),
        }
    }

    /// Returns the addresses of the host, in the order in which they are tried. If the lookup takes half of the time until the
    /// deadline, returns the addresses of an earlier one, because the other half is needed for connecting.
    pub(crate) fn resolve(&self, deadline: Timestamp) -> io::Result<Vec<SocketAddr>> {
        let half = self.clock.now().half_way_to(deadline);

        let mut state = self.shared.state.lock();
        let before = state.ended;
        if !state.busy {
            state.busy = true;
            self.look_up();
        }
        let has_none = state.known.is_empty();
        let until = if has_none { deadline } else { half };
        while state.ended == before && self.clock.now() < until && !self.clock.has_ended() {
            self.clock.wait(&self.shared.answered, &mut state, until);
        }
        match &state.error {
            _ if !state.known.is_empty() => Ok(Last::order(state.last, &state.known)),
            Some((kind, text)) if state.ended != before => Err(io::Error::new(*kind, text.clone())),
            _ => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    /// Notes what came of the address that was connected to last.
    pub(crate) fn note(&self, last: Last) {
        self.shared.state.lock().last = Some(last);
    }

    fn look_up(&self) {
        let shared = Arc::clone(&self.shared);
        let target = self.target.clone();
        self.thread.execute(move || {
            let answer = target.to_socket_addrs();
            let mut state = shared.state.lock();
            state.busy = false;
            state.ended = state.ended.wrapping_add(1);
            match answer {
                Ok(addresses) => {
                    state.known = addresses.collect();
                    state.error = None;
                }
                // Known addresses stay: the resolver may be down while the server is not.
                Err(error) => {
                    state.error = Some((error.kind(), format!("name lookup: {error}")));
                }
            }
            shared.answered.notify_all();
        });
    }
}

#[cfg(test)]
impl Resolver {
    /// Has the addresses of a host that nobody can look up.
    pub(super) fn know(&self, addresses: &[SocketAddr]) {
        self.shared.state.lock().known = addresses.to_vec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `a` to `c` are of IPv4, `x` to `z` of IPv6.
    fn one(name: char) -> SocketAddr {
        let host = if name < 'x' { "10.0.0.1" } else { "[::1]" };
        format!("{host}:{}", u32::from(name)).parse().unwrap()
    }

    #[test]
    fn the_address_that_worked_is_first_and_its_family_before_the_other() {
        let last = |name, has_worked| {
            let address = one(name);
            Some(Last {
                address,
                has_worked,
            })
        };
        let (worked, failed) = (|name| last(name, true), |name| last(name, false));
        for (last, addresses, order) in [
            (None, "", ""),
            (None, "abc", "abc"),
            (None, "xyzab", "xaybz"),
            (None, "axby", "axby"),
            (worked('b'), "xyab", "baxy"),
            (worked('y'), "xyab", "yxab"),
            // It is no longer an address of the host.
            (worked('c'), "xyab", "axby"),
            (failed('x'), "xyab", "aybx"),
            (failed('a'), "a", "a"),
            (failed('c'), "xa", "xa"),
        ] {
            let all = |names: &str| names.chars().map(one).collect::<Vec<SocketAddr>>();
            let ordered = Last::order(last, &all(addresses));
            assert_eq!(ordered, all(order), "{last:?} {addresses}");
        }
    }
}
