//! One attempt to take a lock: its token, its keys and its time to live, packed once for all nodes.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::command::{self, Times};
use crate::claim::Claim;
use crate::clock::Timestamp;
use crate::fencing::FENCE_IDLE;
use crate::wire::pack::Packed;

/// An attempt, which is shared by all requests for it. Its repetition on another connection and its undo are packed when they are
/// needed.
pub(crate) struct Attempt {
    pub(crate) packed: Packed,
    pub(crate) claim: Claim,
    ttl: Duration,
    times: Times,
    pub(super) purpose: Purpose,
}

/// What an attempt is for.
#[derive(Clone, Copy)]
pub(crate) enum Purpose {
    /// A caller asks for the lock.
    Lock,
    /// The lock is tried, and nobody asks for it again. So the undo leaves nothing for longer than the lock lasts.
    Trial,
    /// A holder sets the keys of its lock again, on nodes that lack one at least. The other keys of the lock get the same time to
    /// live. A reader that has the lock does not heed a writer that waits for its end.
    Heal {
        /// Until when new connections have to be made; a node timeout in any case.
        connect_by: Timestamp,
    },
}

impl Attempt {
    pub(crate) fn new(claim: Claim, ttl: Duration, purpose: Purpose) -> Arc<Self> {
        let has_one_key = !claim.resource.is_read() && claim.resource.names().len() == 1;
        let times = match purpose {
            Purpose::Heal { .. } if !has_one_key => Times::Heal,
            Purpose::Lock | Purpose::Trial | Purpose::Heal { .. } => Times::First,
        };
        Arc::new(Self {
            packed: command::take(&claim, ttl, times),
            claim,
            ttl,
            times,
            purpose,
        })
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
        // A counter that ends too early breaks the order of tokens, but nobody asks for a lock of a trial again.
        let idle = match self.purpose {
            Purpose::Lock | Purpose::Heal { .. } => FENCE_IDLE,
            Purpose::Trial => self.ttl,
        };
        command::undo(&self.claim, idle)
    }
}

impl fmt::Debug for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.claim.fmt(f)
    }
}
