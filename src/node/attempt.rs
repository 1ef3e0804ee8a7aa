//! An attempt to take a lock: its command, and what goes out for it where no reply comes.

use std::borrow::Cow;
use std::time::Duration;

use super::command::{self, Times};
use crate::claim::Claim;
use crate::fencing::FENCE_IDLE;
use crate::wire::pack::Packed;

/// One attempt, packed once for all nodes.
pub(crate) struct Attempt<'a> {
    pub(super) packed: Packed,
    pub(super) repair: Repair<'a>,
}

/// The same attempt again on another connection, or its undo. Packed when needed.
#[derive(Debug, Clone)]
pub(super) struct Repair<'a> {
    pub(super) claim: Cow<'a, Claim>,
    ttl: Duration,
    times: Times,
    /// For how long the undo lets a counter be kept.
    idle: Duration,
}

impl<'a> Attempt<'a> {
    pub(crate) fn new(claim: &'a Claim, ttl: Duration) -> Self {
        Self {
            packed: command::take(claim, ttl, Times::First),
            repair: Repair::new(claim, ttl),
        }
    }

    /// As [`Self::new`], for a node that has no key of a lock that is held; of several resources, that lacks one at least. There
    /// the others count as set, with this time to live. A reader that has the lock does not heed a writer that waits for its end.
    pub(crate) fn healing(claim: &'a Claim, ttl: Duration) -> Self {
        let mut attempt = Self::new(claim, ttl);
        if claim.resource.is_read() || claim.resource.keys.len() != 1 {
            attempt.packed = command::take(claim, ttl, Times::Heal);
            attempt.repair.times = Times::Heal;
        }
        attempt
    }

    /// As [`Self::new`], of a lock that nobody asks for again. Its undo leaves nothing for longer than the lock lasts.
    pub(crate) fn once(claim: &'a Claim, ttl: Duration) -> Self {
        let mut attempt = Self::new(claim, ttl);
        attempt.repair.idle = ttl;
        attempt
    }

    /// The command that releases the keys of the attempt.
    pub(crate) fn undo(&self) -> Packed {
        self.repair.undo()
    }
}

impl<'a> Repair<'a> {
    pub(super) fn new(claim: &'a Claim, ttl: Duration) -> Self {
        Self {
            claim: Cow::Borrowed(claim),
            ttl,
            times: Times::Again,
            idle: FENCE_IDLE,
        }
    }

    /// The same, for another thread.
    pub(super) fn for_others(&self) -> Repair<'static> {
        Repair {
            claim: Cow::Owned(Claim::clone(&self.claim)),
            ..*self
        }
    }

    pub(super) fn again(&self) -> Packed {
        command::take(&self.claim, self.ttl, self.times)
    }

    pub(super) fn undo(&self) -> Packed {
        command::undo(&self.claim, self.idle)
    }
}
