//! The clients that block at a fake node until a bell rings (`BLPOP`).

use std::time::Duration;

use super::store::{Store, arguments};
use crate::wire::resp::Reply;

/// The clients that listen, in the order in which they came.
#[derive(Default)]
pub(crate) struct Blocked(Vec<Listener>);

struct Listener {
    connection: usize,
    bell: String,
    /// On the node's own clock.
    until: Duration,
}

/// The bell and the time of a `BLPOP`, if the packed command is one.
fn listening(command: &[u8]) -> Option<(String, Duration)> {
    let words = arguments(command)?;
    let ["BLPOP", bell, seconds] = words.as_slice() else {
        return None;
    };
    let span = Duration::try_from_secs_f64(seconds.parse().ok()?).ok()?;
    Some(((*bell).to_owned(), span))
}

impl Blocked {
    /// Executes a packed command. None if its client listens from now on.
    pub(crate) fn execute(
        &mut self,
        store: &mut Store,
        (connection, command): (usize, &[u8]),
        now: Duration,
    ) -> Option<Reply> {
        let reply = store.execute(command, now);
        if reply == Reply::Nil
            && let Some((bell, span)) = listening(command)
        {
            self.0.push(Listener {
                connection,
                bell,
                until: now.saturating_add(span),
            });
            return None;
        }
        Some(reply)
    }

    /// The clients that the last command has woken. Each bell first wakes the client that has listened longest.
    pub(crate) fn woken(&mut self, store: &mut Store, now: Duration) -> Vec<(usize, Reply)> {
        let mut woken = Vec::new();
        if store.has_rung() {
            self.0.retain(|listener| {
                let reply = store.take_from(&listener.bell, now);
                let goes_on = reply == Reply::Nil;
                if !goes_on {
                    woken.push((listener.connection, reply));
                }
                goes_on
            });
        }
        woken
    }

    /// The clients whose time of listening is over.
    pub(crate) fn end(&mut self, now: Duration) -> Vec<usize> {
        let ended = self.0.extract_if(.., |listener| listener.until <= now);
        ended.map(|listener| listener.connection).collect()
    }

    /// The client of this connection has gone.
    pub(crate) fn leave(&mut self, connection: usize) {
        self.0.retain(|listener| listener.connection != connection);
    }

    /// Until when the client of this connection listens, on the node's own clock.
    pub(crate) fn until(&self, connection: usize) -> Option<Duration> {
        let mut listeners = self.0.iter();
        let own = listeners.find(|listener| listener.connection == connection);
        own.map(|listener| listener.until)
    }

    /// All connections have ended.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}
