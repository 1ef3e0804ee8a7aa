//! The clients that block at a fake node until a bell rings (`BLPOP`).

use std::collections::VecDeque;
use std::time::Duration;

use super::store::Store;
use crate::wire::resp::{self, Reply};

/// The clients that listen, in the order in which they came. `C` tells their connections apart.
pub(crate) struct Blocked<C> {
    listeners: VecDeque<Listener<C>>,
}

struct Listener<C> {
    connection: C,
    bell: String,
    /// On the node's own clock.
    until: Duration,
}

/// The bell and the time of a `BLPOP`, if the packed command is one.
fn listening(command: &[u8]) -> Option<(String, Duration)> {
    let is_pop = command.starts_with(b"*3\r\n$5\r\nBLPOP\r\n");
    let words = is_pop.then(|| resp::words(command)).flatten()?;
    let [_, bell, seconds] = words.as_slice() else {
        return None;
    };
    let seconds = str::from_utf8(seconds).ok()?.parse().ok()?;
    let span = Duration::try_from_secs_f64(seconds).ok()?;
    Some((str::from_utf8(bell).ok()?.to_owned(), span))
}

impl<C: Copy + Eq> Blocked<C> {
    /// Executes a packed command. None if its client listens from now on.
    pub(crate) fn execute(
        &mut self,
        store: &mut Store,
        (connection, command): (C, &[u8]),
        now: Duration,
    ) -> Option<Reply> {
        let Some((bell, span)) = listening(command) else {
            return Some(store.execute(command, now));
        };
        let taken = store.takes_from(&bell, now);
        if taken.is_none() {
            let until = now.saturating_add(span);
            self.listeners.push_back(Listener {
                connection,
                bell,
                until,
            });
        }
        taken
    }

    /// The clients that the last command has woken. Each bell first wakes the client that has listened longest.
    pub(crate) fn woken(&mut self, store: &mut Store, now: Duration) -> Vec<(C, Reply)> {
        let mut woken = Vec::new();
        if store.has_rung() {
            self.listeners.retain(|listener| {
                let taken = store.takes_from(&listener.bell, now);
                let goes_on = taken.is_none();
                woken.extend(taken.map(|reply| (listener.connection, reply)));
                goes_on
            });
        }
        woken
    }

    /// The clients whose time of listening is over.
    pub(crate) fn end(&mut self, now: Duration) -> Vec<C> {
        let mut ended = Vec::new();
        self.listeners.retain(|listener| {
            let goes_on = listener.until > now;
            if !goes_on {
                ended.push(listener.connection);
            }
            goes_on
        });
        ended
    }

    /// The client of this connection has gone.
    pub(crate) fn leave(&mut self, connection: C) {
        self.listeners
            .retain(|listener| listener.connection != connection);
    }

    /// Until when the client of this connection listens, on the node's own clock.
    pub(crate) fn until(&self, connection: C) -> Option<Duration> {
        let mut listeners = self.listeners.iter();
        let own = listeners.find(|listener| listener.connection == connection);
        own.map(|listener| listener.until)
    }

    /// All connections have ended.
    pub(crate) fn clear(&mut self) {
        self.listeners.clear();
    }
}

impl<C> Default for Blocked<C> {
    fn default() -> Self {
        Self {
            listeners: VecDeque::new(),
        }
    }
}
