//! What is asked of a node, and the rules that go with it: how it is said again, and what it does to a node not to answer.

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

/// How requests differ. What they have in common is in [`exchange`](super::exchange).
#[derive(Clone, Copy)]
pub(super) enum Kind<'a> {
    /// Asks for a vote. It must not be executed twice, so it is said again in another form, and what nobody answers is undone.
    Acquire {
        command: Command<'a>,
        ttl: Duration,
        undo: &'a Packed,
    },
    /// Extends or releases: a node that has our key must hear of it, also when all connections of the pool are in use.
    Insistent,
    /// Looks at keys, or at the marker of a node.
    Inspect,
    /// Asks what the server says of itself. A server that answers may have its writes paused, so the answer does not mean
    /// that it is of use to locks; nor does an answer that can't be read mean the contrary.
    Health,
    /// Looks for a moment, on behalf of who waits or of the breaker.
    Brief,
    /// Blocks until a lock is released, or until a time. Its silence is no fault of the node.
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
    /// One node timeout, the wait for a slot included. When a good part of it was gone before the node was asked, no answer
    /// in time says little about the node.
    Once,
    /// One node timeout from the moment when it is sent; and so many more connections where also one that was made for the
    /// request breaks.
    Repeated(u32),
    /// So much from the moment when it is sent. No answer in time says nothing about the node.
    Long(Duration),
}

/// A connection that breaks again and again is not worth more.
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
            Kind::Insistent | Kind::Inspect | Kind::Health | Kind::Brief => {
                Cow::Borrowed(self.packed)
            }
        }
    }

    /// What takes back a command whose outcome is unknown.
    pub(super) fn undo(&self) -> Option<&Packed> {
        if let Kind::Acquire { undo, .. } = self.kind {
            Some(undo)
        } else {
            None
        }
    }

    /// Whether it gets a connection beside the pool when none of the pool comes free.
    pub(super) fn insists(&self) -> bool {
        matches!(self.kind, Kind::Insistent)
    }

    pub(super) fn patience(&self) -> Patience {
        match self.kind {
            Kind::Acquire { .. } | Kind::Brief => Patience::Once,
            Kind::Insistent | Kind::Inspect | Kind::Health => Patience::Repeated(REPETITIONS),
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

    /// Whether the answer says nothing about what the node is to locks.
    pub(super) fn is_about_health(&self) -> bool {
        matches!(self.kind, Kind::Health)
    }
}
