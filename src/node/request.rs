//! A request to a node: a packed command, and the rules for repeating it, waiting for it and undoing it.

use std::borrow::Cow;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::command::{self, Command};
use crate::clock::Timestamp;
use crate::wire::pack::Packed;

/// A packed command, or several of one kind, and its rules.
#[derive(Clone, Copy)]
pub(super) struct Request<'a> {
    pub(super) packed: &'a Packed,
    pub(super) kind: Kind<'a>,
}

/// The rules of a request by what it is for.
#[derive(Clone, Copy)]
pub(super) enum Kind<'a> {
    /// Asks for a vote. A second `SET` would find the first, so a repetition has another form. A request without a reply is
    /// undone.
    Acquire {
        command: Command<'a>,
        ttl: Duration,
        undo: &'a Packed,
    },
    /// Extends or releases. A node that has our key must get it, also when all connections of the pool are in use.
    Insistent,
    /// Releases a lock and asks for it again. As with `Insistent`, a node that has our key must get it. Without a reply, what
    /// it asked for is undone. It has one form, because a repetition knows its own key.
    Pass { undo: &'a Packed },
    /// Looks at keys, or at the marker of a node.
    Inspect,
    /// Asks the server about itself. The breaker hears of neither answers nor malformed replies: a server that answers may
    /// have its writes paused, and one with an unknown reply may still give locks.
    Health,
    /// A short command of a client that waits for a lock, or of the breaker. It is sent once.
    Brief,
    /// Blocks until a lock is released, or until a time. No reply is no fault of the node.
    Listen {
        key: &'a str,
        until: Timestamp,
        patience: Duration,
        /// Set when nobody wants the answer any more.
        given_up: Option<&'a AtomicBool>,
    },
}

/// How long an exchange may take, and how often the request is sent.
pub(super) enum Patience {
    /// One node timeout, the wait for a slot included. If that wait took more than a quarter of it, a time-out says little
    /// about the node.
    Once,
    /// One node timeout after sending, and this number of further connections if one that was made for the request breaks.
    Repeated(u32),
    /// This long after sending. A time-out says nothing about the node.
    Long(Duration),
}

/// A request whose connections break more often than this is given up.
const REPETITIONS: u32 = 3;

impl<'a> Request<'a> {
    pub(super) fn new(packed: &'a Packed, kind: Kind<'a>) -> Self {
        Self { packed, kind }
    }
}

impl Request<'_> {
    /// The command for another connection, when the first one broke before it answered.
    pub(super) fn again(&self, now: Timestamp) -> Cow<'_, Packed> {
        match &self.kind {
            Kind::Acquire { command, ttl, .. } => Cow::Owned(command.retake(*ttl)),
            Kind::Listen { key, until, .. } => {
                Cow::Owned(command::listen(key, until.saturating_since(now)))
            }
            Kind::Insistent | Kind::Pass { .. } | Kind::Inspect | Kind::Health | Kind::Brief => {
                Cow::Borrowed(self.packed)
            }
        }
    }

    /// The command that undoes the request if its outcome is unknown.
    pub(super) fn undo(&self) -> Option<&Packed> {
        if let Kind::Acquire { undo, .. } | Kind::Pass { undo } = self.kind {
            Some(undo)
        } else {
            None
        }
    }

    /// Whether the request gets a connection beside the pool when the pool has none in time.
    pub(super) fn insists(&self) -> bool {
        matches!(self.kind, Kind::Insistent | Kind::Pass { .. })
    }

    pub(super) fn patience(&self) -> Patience {
        match self.kind {
            Kind::Acquire { .. } | Kind::Brief => Patience::Once,
            Kind::Insistent | Kind::Pass { .. } | Kind::Inspect | Kind::Health => {
                Patience::Repeated(REPETITIONS)
            }
            Kind::Listen { patience, .. } => Patience::Long(patience),
        }
    }

    /// What is set when nobody wants the answer any more, if that may come.
    pub(super) fn given_up(&self) -> Option<&AtomicBool> {
        if let Kind::Listen { given_up, .. } = self.kind {
            given_up
        } else {
            None
        }
    }

    /// Whether the answer says nothing about the node as a place for locks.
    pub(super) fn is_about_health(&self) -> bool {
        matches!(self.kind, Kind::Health)
    }
}
