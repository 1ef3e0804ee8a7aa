//! The receipt of an undo, which tells whether the undo can still delete a key.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::clock::Timestamp;
use crate::sync::AtomicBool;
use crate::wire::pack::Packed;

/// What is known of an undo. The connection with the undo on it and the lock share the receipt.
///
/// An undo is *answered* once every command on its connection has a reply, and none of them is an error. The server executes the
/// commands of a connection in order, so it has executed the command and the undo behind it, and no copy of either is under way.
/// An undo that is repeated on another connection, or given up, is never answered.
#[derive(Debug, Clone)]
pub(crate) struct Receipt(Arc<Undoing>);

#[derive(Debug)]
struct Undoing {
    sent_at: Timestamp,
    is_answered: AtomicBool,
}

impl Receipt {
    fn of_undo(sent_at: Timestamp) -> Self {
        let is_answered = AtomicBool::new(false);
        Self(Arc::new(Undoing {
            sent_at,
            is_answered,
        }))
    }

    /// The receipt of an undo that another guard of the lock may have sent. Nobody here hears of its answer.
    pub(crate) fn of_another_guard() -> Self {
        Self::of_undo(Timestamp::from_nanos(0))
    }

    pub(crate) fn is_answered(&self) -> bool {
        self.0.is_answered.load(Ordering::Acquire)
    }

    /// When the undo had been sent.
    pub(crate) fn sent_at(&self) -> Timestamp {
        self.0.sent_at
    }
}

#[cfg(test)]
impl Receipt {
    /// The receipt of an undo that was sent then, and is answered.
    pub(crate) fn answered(sent_at: Timestamp) -> Self {
        let receipt = Self::of_undo(sent_at);
        receipt.0.is_answered.store(true, Ordering::Release);
        receipt
    }
}

/// An undo that was sent behind its command.
pub(super) struct Undo {
    pub(super) command: Packed,
    receipt: Receipt,
}

impl Undo {
    pub(super) fn sent(command: Packed, at: Timestamp) -> Self {
        let receipt = Receipt::of_undo(at);
        Self { command, receipt }
    }

    /// Every command on the connection of the undo was answered, none with an error.
    pub(super) fn was_answered(self) {
        self.receipt.0.is_answered.store(true, Ordering::Release);
    }

    pub(super) fn receipt(&self) -> Receipt {
        self.receipt.clone()
    }
}
