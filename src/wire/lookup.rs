//! Name lookup by a deadline, which the system's resolver does not have.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;

use scheduled_thread_pool::ScheduledThreadPool;

use crate::clock::{Clock, Timestamp};
use crate::sync::{Condvar, Mutex};

/// Looks up one host on another thread, and keeps the last answer for a time when the resolver is slow.
pub(crate) struct Resolver {
    host: String,
    port: u16,
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
    /// Why the last lookup failed, if it did.
    error: Option<(io::ErrorKind, String)>,
}

impl Resolver {
    pub(crate) fn new(
        host: &str,
        port: u16,
        clock: &Clock,
        thread: &Arc<ScheduledThreadPool>,
    ) -> Self {
        Self {
            host: host.to_owned(),
            port,
            clock: clock.clone(),
            thread: Arc::clone(thread),
            shared: Arc::default(),
        }
    }

    /// Returns the addresses of the host. Known addresses are returned if a lookup takes half of the time until the
    /// deadline, because the other half is needed for connecting.
    pub(crate) fn resolve(&self, deadline: Timestamp) -> io::Result<Vec<SocketAddr>> {
        let now = self.clock.now();
        let half = deadline.saturating_since(now).checked_div(2);
        let half = now.saturating_add(half.unwrap_or_default());

        let mut state = self.shared.state.lock();
        let before = state.ended;
        if !state.busy {
            state.busy = true;
            self.look_up();
        }
        let until = if state.known.is_empty() {
            deadline
        } else {
            half
        };
        while state.ended == before && self.clock.now() < until && !self.clock.has_ended() {
            self.clock.wait(&self.shared.answered, &mut state, until);
        }
        match &state.error {
            _ if !state.known.is_empty() => Ok(state.known.clone()),
            Some((kind, text)) if state.ended != before => Err(io::Error::new(*kind, text.clone())),
            _ => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    fn look_up(&self) {
        let shared = Arc::clone(&self.shared);
        let (host, port) = (self.host.clone(), self.port);
        self.thread.execute(move || {
            let answer = (host.as_str(), port).to_socket_addrs();
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
