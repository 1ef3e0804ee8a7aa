//! What a guard that ends leaves to the next thread of its manager: the result of asking for the lock again.

use super::{LockGuard, Shared};
use crate::contend::cancel::Patience;
use crate::contend::queue::{First, Turn};
use crate::error::Error;
use crate::holder::Label;
use crate::lease::state::Ended;
use crate::node::release::Released;
use crate::protocol::acquire::Asked;
use crate::protocol::pass::pass;
use crate::quorum::Term;

/// How often a lock is passed on from thread to thread before it is released once, so that clients which only poll can get it.
pub(super) const MOST_PASSES: u32 = 15;

/// What a waiting thread asks for.
pub(crate) struct Demand {
    pub(crate) term: Term,
    pub(crate) label: Option<Label>,
    pub(crate) patience: Patience,
    pub(crate) takes: Takes,
}

/// What a waiting thread can take from the thread before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Takes {
    /// The result of asking for the lock.
    TheLock,
    /// Its turn alone: it wants other resources as well.
    TheTurn,
}

/// What a thread gets from the thread before it.
pub(crate) enum Received {
    /// The result of its first attempt, which rode with the release.
    Passed(Result<LockGuard, Error>),
    /// Nothing: its first attempt was called off, because the release has woken another client.
    CalledOff,
    /// Nothing: it is a reader, and one before it in the line has got the lock.
    GoAhead,
}

impl LockGuard {
    /// Releases the lock and asks for it for the next waiting thread of this manager, unless another client may be waiting
    /// for it. Returns the result of the release.
    pub(super) fn pass(&self, turn: Option<&Turn<Self>>, ended: &Ended) -> Option<Released> {
        let cluster = self.shared.cluster();
        let passes = self.passes.checked_sub(1)?;
        let (turn, first) = next_thread(turn)?;
        let resource = &self.lease.claim.resource;
        let key = resource.key();
        if self.shared.courtesy.is_contended(key) {
            return None;
        }
        let demand = first.demand();
        if demand.patience.left(&cluster.clock).is_zero() {
            return None;
        }
        let asked = Asked {
            resource,
            term: demand.term,
            label: demand.label.as_ref(),
        };
        let held = (&self.lease.claim, &*ended.standings);
        let result = pass(cluster, held, asked).ok()?;
        self.shared.note_release(key, result.released.woken.any());
        let received = match result.next {
            Some(next) => Received::Passed(next.map(|won| {
                let mut guard = Self::new(&self.shared, won);
                guard.passes = passes;
                guard
            })),
            None => Received::CalledOff,
        };
        // If the thread has left, the drop of its guard releases the lock.
        drop(turn.give_to(&first, received));
        Some(result.released)
    }
}

/// The first of the threads that wait for the end of this turn, if it can take more than that.
fn next_thread(turn: Option<&Turn<LockGuard>>) -> Option<(&Turn<LockGuard>, First<LockGuard>)> {
    let turn = turn?;
    let first = turn.first()?;
    (first.demand().takes == Takes::TheLock).then_some((turn, first))
}

impl Shared {
    /// Remembers what the release of a lock says of other clients that wait for it. `key` is that of the lock, or of the
    /// semaphore.
    pub(super) fn note_release(&self, key: &str, has_woken: bool) {
        let now = self.cluster().clock.now();
        self.courtesy.note_release(key, has_woken, now);
    }
}
