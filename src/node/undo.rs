//! An undo: the release of a key that a command without an answer may have set. This table has all its ends.
//!
//! | what has become of the command | its undo | what the lock knows of the node |
//! |---|---|---|
//! | the node was not sent all of it | is dropped, because there is nothing to undo | [`Leftover::None`] |
//! | it is answered | is dropped, because the lock releases what it has | [`Leftover::Possible`] |
//! | it is not answered, and the connection takes nothing more | is dropped, because the release of the lock reaches the node, from the retry queue if need be | [`Leftover::Possible`] |
//! | it is not answered, and the connection takes the undo | is written behind it | [`Leftover::Undone`] |
//! | … the connection has a reply to everything on it, and no error | is over ([`End::Answered`]) | the receipt is answered |
//! | … replies are still to come | stays with its connection ([`End::Open`]) | |
//! | … the connection has ended, has brought an error, or is silent for a second at a node that answers otherwise | goes to the retry queue ([`End::Again`]) | the receipt is never answered |
//! | … … the queue has an answer, or has repeated it for a minute, or is full (8,192 releases, 8 MiB) | is over, or is dropped | |
//!
//! The undo goes on the connection of its command: on another one it could arrive first, and the key would stay. Nothing is asked on
//! this connection any more. It stays open: a server reads 16 KiB of a connection at a time, and drops the rest if it finds the
//! connection closed when it answers.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::connection::{OpenConnection, Wait};
use super::pace::Pace;
use crate::clock::Timestamp;
use crate::sync::AtomicBool;
use crate::wire::pack::Packed;
use crate::wire::resp::Reply;

/// What a request may have left on a node.
#[derive(Debug, Clone)]
pub(crate) enum Leftover {
    /// Nothing, now or later: the node was not asked, or no whole request has reached it.
    None,
    /// The node may have executed the request, so an acquire has to be released.
    Possible,
    /// An undo was sent behind the request. The node may execute both, at any later time before the undo is answered.
    Undone(Arc<Receipt>),
}

/// What is known of an undo that was written. The connection with the undo on it and the lock share the receipt.
///
/// An undo is *answered* once every command on its connection has a reply, and none of them is an error. The server executes the
/// commands of a connection in order, so it has executed the command and the undo behind it, and no copy of either is under way.
/// An undo that is repeated on another connection, or given up, is never answered.
#[derive(Debug)]
pub(crate) struct Receipt {
    pub(crate) sent_at: Timestamp,
    is_answered: AtomicBool,
}

impl Receipt {
    pub(super) fn new(sent_at: Timestamp) -> Arc<Self> {
        let is_answered = AtomicBool::new(false);
        Arc::new(Self {
            sent_at,
            is_answered,
        })
    }

    fn note_answer(&self) {
        self.is_answered.store(true, Ordering::Release);
    }

    /// The receipt of an undo that another guard of the lock may have sent. Nobody here hears of its answer.
    pub(crate) fn of_another_guard() -> Arc<Self> {
        Self::new(Timestamp::from_nanos(0))
    }

    /// The receipt of an undo that was sent at this time, and is answered.
    #[cfg(test)]
    pub(crate) fn answered(sent_at: Timestamp) -> Arc<Self> {
        let receipt = Self::new(sent_at);
        receipt.note_answer();
        receipt
    }

    pub(crate) fn is_answered(&self) -> bool {
        self.is_answered.load(Ordering::Acquire)
    }
}

/// An undo that was written behind its command.
pub(super) struct Undo {
    pub(super) command: Packed,
    pub(super) receipt: Arc<Receipt>,
}

/// Undos that were written, with their connection. Nobody waits for their replies.
pub(super) struct Behind {
    /// None if it has ended.
    pub(super) connection: Option<Box<OpenConnection>>,
    pub(super) undos: Vec<Undo>,
    pub(super) since: Timestamp,
    /// Whether a reply was an error. Then a command or an undo may not have been executed.
    pub(super) has_refused: bool,
}

/// What has become of undos that were written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// Every command on the connection has a reply, and none is an error.
    Answered,
    /// Replies are still to come.
    Open,
    /// The undos have to go again, on another connection.
    Again,
}

impl Behind {
    /// Reads the replies that are there, without waiting. The undos go again if none has come for `patience`.
    pub(super) fn read(&mut self, now: Timestamp, patience: Duration, pace: &Pace) -> End {
        let is_patient = now.saturating_since(self.since) < patience;
        let Some(connection) = &mut self.connection else {
            return End::Again;
        };
        connection.transport.stop_asking();
        while connection.awaited() > 0 {
            let is_late_answer = connection.awaited() > self.undos.len();
            match connection.recv(Wait::Until(now), now) {
                Some(Ok(reply)) => self.has_refused |= matches!(reply, Reply::Error(_)),
                Some(Err(error)) if error.is_silence() && is_patient => return End::Open,
                Some(Err(_)) | None => return End::Again,
            }
            if is_late_answer {
                pace.answer.note(connection.used_at(), now);
            }
        }
        if self.has_refused {
            return End::Again;
        }
        // Do not count the undos as answered after a reply that made no sense, because the number of replies then proves nothing.
        for undo in self.undos.iter().filter(|_| !connection.is_used_up) {
            undo.receipt.note_answer();
        }
        End::Answered
    }
}
