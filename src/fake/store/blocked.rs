//! The clients that block at a fake node until a bell rings (`BLPOP`).

use std::mem;
use std::time::Duration;

use super::interpreter::arguments;
use super::{Listener, Store};
use crate::wire::resp::Reply;

/// The bell and the time of a `BLPOP`, if the packed command is one.
fn listening(command: &[u8]) -> Option<(String, Duration)> {
    let words = arguments(command)?;
    let ["BLPOP", bell, seconds] = words.as_slice() else {
        return None;
    };
    let span = Duration::try_from_secs_f64(seconds.parse().ok()?).ok()?;
    Some(((*bell).to_owned(), span))
}

impl Store {
    /// Executes a packed command that came on a connection. None if its client listens from now on.
    pub(crate) fn serve(
        &mut self,
        connection: usize,
        command: &[u8],
        now: Duration,
    ) -> Option<Reply> {
        let reply = self.execute(command, now);
        if reply == Reply::Nil
            && let Some((bell, span)) = listening(command)
        {
            let until = now.saturating_add(span);
            self.listeners.push(Listener {
                connection,
                bell,
                until,
            });
            return None;
        }
        Some(reply)
    }

    /// The clients that the last command has woken. Each bell first wakes the client that has listened longest.
    pub(crate) fn woken(&mut self, now: Duration) -> Vec<(usize, Reply)> {
        let mut woken = Vec::new();
        if mem::take(&mut self.has_rung) {
            for listener in mem::take(&mut self.listeners) {
                let reply = self.command(&["BLPOP", &listener.bell, "0"], now);
                if reply == Reply::Nil {
                    self.listeners.push(listener);
                } else {
                    woken.push((listener.connection, reply));
                }
            }
        }
        woken
    }

    /// The clients whose time of listening is over.
    pub(crate) fn end_listening(&mut self, now: Duration) -> Vec<usize> {
        let ended = self.listeners.extract_if(.., |it| it.until <= now);
        ended.map(|listener| listener.connection).collect()
    }

    /// The client of this connection has gone.
    pub(crate) fn leave(&mut self, connection: usize) {
        self.listeners.retain(|it| it.connection != connection);
    }

    pub(crate) fn leave_all(&mut self) {
        self.listeners.clear();
    }

    /// Until when the client of this connection listens, on the node's own clock.
    pub(crate) fn listens_until(&self, connection: usize) -> Option<Duration> {
        let mut listeners = self.listeners.iter();
        let own = listeners.find(|it| it.connection == connection);
        own.map(|listener| listener.until)
    }
}
