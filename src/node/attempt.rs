//! One attempt to take a lock: its token, its keys and its time to live, packed once for all nodes.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::command::{self, Times};
use crate::claim::Claim;
use crate::clock::Timestamp;
use crate::fencing::FENCE_IDLE;
use crate::wire::pack::Packed;

/// An attempt, which all that is done for it shares. Its repetition on another connection and its undo are packed when they are needed.
pub(crate) struct Attempt {
    pub(crate) packed: Packed,
    pub(crate) claim: Claim,
    ttl: Duration,
    times: Times,
    /// For how long the undo lets a counter be kept.
    idle: Duration,
    /// Until when new connections have to be made, if the lock is in a hurry.
    pub(super) connect_by: Option<Timestamp>,
}

impl Attempt {
    pub(crate) fn new(claim: Claim, ttl: Duration) -> Arc<Self> {
        Arc::new(Self::of(claim, ttl, Times::First))
    }

    /// As [`Self::new`], for a node that has no key of a lock that is held; of several resources, that lacks one at least. There
    /// the others count as set, with this time to live. A reader that has the lock does not heed a writer that waits for its end.
    ///
    /// New connections have to be made by `connect_by`, or within a node timeout.
    pub(crate) fn healing(claim: Claim, ttl: Duration, connect_by: Timestamp) -> Arc<Self> {
        let is_one = !claim.resource.is_read() && claim.resource.names().len() == 1;
        let mut attempt = Self::of(claim, ttl, if is_one { Times::First } else { Times::Heal });
        attempt.connect_by = Some(connect_by);
        Arc::new(attempt)
    }

    /// As [`Self::new`], of a lock that nobody asks for again. Its undo leaves nothing for longer than the lock lasts.
    pub(crate) fn once(claim: Claim, ttl: Duration) -> Arc<Self> {
        let mut attempt = Self::of(claim, ttl, Times::First);
        attempt.idle = ttl;
        Arc::new(attempt)
    }

    fn of(claim: Claim, ttl: Duration, times: Times) -> Self {
        Self {
            packed: command::take(&claim, ttl, times),
            claim,
            ttl,
            times,
            idle: FENCE_IDLE,
            connect_by: None,
        }
    }

    pub(super) fn again(&self) -> Packed {
        let times = match self.times {
            Times::First | Times::Again => Times::Again,
            Times::Heal => Times::Heal,
        };
        command::take(&self.claim, self.ttl, times)
    }

    /// The command that releases the keys of the attempt.
    pub(crate) fn undo(&self) -> Packed {
        command::undo(&self.claim, self.idle)
    }
}

impl fmt::Debug for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.claim.fmt(f)
    }
}
