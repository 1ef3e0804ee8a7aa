//! A connection on which nothing is asked any more, and whose last commands have to be executed.
//!
//! A server reads 16 KiB of a connection at a time. If it finds the connection closed when it answers them, it drops the rest.
//! So a connection with an undo on it stays open until all that was sent is answered.

use super::{OpenConnection, Slot};
use crate::clock::Timestamp;
use crate::wire::resp::Reply;

/// A connection that is closed when the server has answered everything on it.
pub(crate) struct Closing {
    connection: Box<OpenConnection>,
    has_refused: bool,
}

/// How far a server has come with what was sent to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// It has answered everything.
    Done,
    /// Replies are still to come.
    Waits,
    /// No more replies will come, or one is an error. Not all may have been executed.
    Broken,
}

impl Slot {
    /// Takes the connection out of the slot, if there is one.
    pub(crate) fn take(&mut self) -> Option<Closing> {
        let mut connection = self.connection.take()?;
        connection.transport.stop_asking();
        Some(Closing {
            connection,
            has_refused: false,
        })
    }
}

impl Closing {
    /// Reads the replies that are there, without waiting.
    pub(crate) fn read(&mut self, now: Timestamp) -> Progress {
        let connection = &mut self.connection;
        while connection.in_flight > 0 {
            if !connection.transport.is_ready(now, now) {
                return Progress::Waits;
            }
            match connection.transport.recv(now) {
                Ok(reply) => {
                    self.has_refused |= matches!(reply, Reply::Error(_));
                    connection.in_flight = connection.in_flight.saturating_sub(1);
                }
                Err(error) if error.is_silence() => return Progress::Waits,
                Err(_) => return Progress::Broken,
            }
        }
        if self.has_refused {
            Progress::Broken
        } else {
            Progress::Done
        }
    }
}
