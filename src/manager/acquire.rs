//! Waiting for other threads of the same manager.

use std::sync::Arc;
use std::time::Duration;

use super::LockManager;
use super::asking::Asking;
use crate::clock::{Clock, Timestamp};
use crate::error::{Error, NodeReport, Vote};
use crate::guard::LockGuard;
use crate::guard::held::Held;
use crate::keep_alive::KeepAlive;
use crate::node::Node;
use crate::queue::{Lines, Refusal, Tenant, Time, Turn};
use crate::sync::{Condvar, MutexGuard};

/// What one who has waited for other threads has got.
pub(super) enum Entered {
    /// The turn to ask the servers.
    First(Turn<LockManager>),
    /// The lock, from the thread before.
    Holder(LockGuard),
}

impl Tenant for LockManager {
    type Lock = Arc<Held>;
    type Guard = LockGuard;
    type Error = Error;
    /// The validity that is asked for.
    type Wish = Duration;

    fn end(lock: &Arc<Held>) -> Timestamp {
        lock.deadline()
    }
}

impl Time<LockManager> for Clock {
    fn now(&self) -> Timestamp {
        Self::now(self)
    }

    fn pause(
        &self,
        called: &Condvar,
        lines: &mut MutexGuard<'_, Lines<LockManager>>,
        until: Timestamp,
    ) {
        self.nap(called, lines, until);
    }
}

impl LockManager {
    /// Waits until no other thread of this manager has the lock or asks for it.
    pub(super) fn line_up(
        &self,
        resource: &Arc<str>,
        lease: (Duration, Duration),
        end: Option<Timestamp>,
        keep_alive: Option<KeepAlive>,
        asking: &mut Asking<'_>,
    ) -> Result<Entered, Error> {
        let queue = &self.shared.queue;
        if let Some(turn) = queue.step_in(resource) {
            return Ok(Entered::First(turn));
        }
        self.recorder().queued.count();
        let (_, validity) = lease;
        let (turn, guard) = match queue.enter(resource, validity, end, self.clock()) {
            Ok(entered) => entered,
            Err(refusal) => {
                let error = self.refused(refusal);
                asking.refused(&error);
                return Err(error);
            }
        };
        let Some(guard) = guard else {
            return Ok(Entered::First(turn));
        };
        if let Some(keep_alive) = keep_alive {
            guard.keep_from_the_beginning(lease, keep_alive);
        }
        if guard.remaining().is_zero() {
            // It has taken its time to come here. The guard gives the lock back.
            return Ok(Entered::First(turn));
        }
        self.recorder().handed_over.count();
        asking.acquired(&guard);
        Ok(Entered::Holder(guard.with_turn(Some(turn))))
    }

    /// Why a thread that has waited for others gets no lock.
    fn refused(&self, refusal: Refusal<Self>) -> Error {
        if let (None, Some(error)) = (refusal.lock, refusal.met) {
            return error;
        }
        // Nobody had to be asked.
        let unasked = |node: &Node| node.unasked(Vote::NotAsked).report;
        let nodes: Vec<NodeReport> = self.each().map(unasked).collect();
        Error::Held { nodes }
    }
}
