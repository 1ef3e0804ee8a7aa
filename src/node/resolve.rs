//! Host names to addresses, by a deadline: the system's resolver has none.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::clock::{Clock, Timers, Timestamp};

/// Looks one host up, on the timer thread, and remembers the last answer for when the resolver is slow.
pub(crate) struct Resolver {
    host: String,
    port: u16,
    clock: Clock,
    timers: Timers,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    answered: Condvar,
}

#[derive(Default)]
struct State {
    /// A lookup is under way.
    busy: bool,
    /// How many lookups have ended.
    ended: u64,
    /// The last good answer.
    known: Vec<SocketAddr>,
    /// Why the last lookup failed, if it did.
    error: Option<(io::ErrorKind, String)>,
}

impl Resolver {
    pub(crate) fn new(host: &str, port: u16, clock: &Clock, timers: &Timers) -> Self {
        Self {
            host: host.to_owned(),
            port,
            clock: clock.clone(),
            timers: timers.clone(),
            shared: Arc::default(),
        }
    }

    /// Returns the host's addresses: fresh ones, or when those don't come by the deadline the last known ones.
    pub(crate) fn resolve(&self, deadline: Timestamp) -> io::Result<Vec<SocketAddr>> {
        if let Ok(ip) = self.host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(ip, self.port)]);
        }
        let mut state = self.shared.state.lock();
        let before = state.ended;
        if !state.busy {
            state.busy = true;
            self.look_up();
        }
        while state.ended == before && self.clock.now() < deadline {
            self.clock.wait(&self.shared.answered, &mut state, deadline);
        }
        match &state.error {
            Some((kind, text)) => Err(io::Error::new(*kind, text.clone())),
            None if state.ended == before && state.known.is_empty() => {
                Err(io::ErrorKind::TimedOut.into())
            }
            None => Ok(state.known.clone()),
        }
    }

    fn look_up(&self) {
        let shared = Arc::clone(&self.shared);
        let (host, port) = (self.host.clone(), self.port);
        self.timers.after(Duration::ZERO, move || {
            let answer = (host.as_str(), port).to_socket_addrs();
            let mut state = shared.state.lock();
            state.busy = false;
            state.ended = state.ended.wrapping_add(1);
            match answer {
                Ok(addresses) => {
                    state.known = addresses.collect();
                    state.error = None;
                }
                Err(error) => {
                    state.known.clear();
                    state.error = Some((error.kind(), format!("name lookup: {error}")));
                }
            }
            shared.answered.notify_all();
        });
    }
}
