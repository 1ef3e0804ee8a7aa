//! What a guard that ends leaves to the next thread of its manager: the lock itself, or the result of asking for it again.

use super::{LockGuard, Shared};
use crate::contend::cancel::Patience;
use crate::contend::handover::is_enough;
use crate::contend::queue::{First, Turn};
use crate::error::Error;
use crate::holder::Label;
use crate::lease::state::Ended;
use crate::node::release::Released;
use crate::protocol::Won;
use crate::protocol::acquire::Asked;
use crate::protocol::pass::pass;
use crate::quorum::Term;

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
    /// The lock, or the result of asking for it.
    TheLock,
    /// Its turn alone: it wants other resources as well.
    TheTurn,
}

/// What a thread gets from the thread before it.
pub(crate) enum Received {
    /// The lock, which was not released.
    HandedOver(LockGuard),
    /// The result of its first attempt, which rode with the release.
    Passed(Result<LockGuard, Error>),
    /// Nothing: its first attempt was called off, because the release has woken another client.
    CalledOff,
    /// Nothing: it is a reader, and one before it in the line has got the lock.
    GoAhead,
}

impl LockGuard {
    /// Hands the lock to the next waiting thread of this manager, if that is allowed and enough validity remains.
    /// Returns whether it did.
    pub(super) fn hand_over(&self, turn: Option<&Turn<Self>>, ended: &Ended) -> bool {
        let now = self.shared.cluster().clock.now();
        let cohort = self.extras.as_ref().and_then(|extras| extras.cohort);
        let cohort = cohort.and_then(|cohort| cohort.next(now));
        let (Some((turn, first)), Some(cohort)) = (next_thread(turn), cohort) else {
            return false;
        };
        let demand = first.demand();
        // The key keeps its value, so another label would not be that of the holder.
        let label = demand.label.as_ref().map(Label::as_str);
        let is_same = self.lease.value.label() == label;
        let validity = demand.term.validity;
        if !is_same || !is_enough(ended.deadline.saturating_since(now), validity) {
            return false;
        }
        // The next guard is valid for no longer than its thread asked for.
        let deadline = ended.deadline.min(now.saturating_add(validity));
        let won = Won {
            lease: self.lease.successor(&ended.standings, now, deadline),
            votes: self.votes.clone(),
            // The next thread has its own, if it asked for one.
            rests_until: None,
            cohort: Some(cohort),
        };
        let mut next = Self::new(&self.shared, won);
        // After so many threads it is released.
        next.passes = 0;
        let given = turn.give_to(&first, Received::HandedOver(next));
        given.map_err(Received::disown).is_ok()
    }

    /// Releases the lock and asks for it for the next waiting thread of this manager, unless another client may be waiting
    /// for it. Returns the result of the release.
    pub(super) fn pass(&self, turn: Option<&Turn<Self>>, ended: &Ended) -> Option<Released> {
        let cluster = self.shared.cluster();
        let passes = self.passes.checked_sub(1)?;
        let (turn, first) = next_thread(turn)?;
        let keys = cluster.keys_of(self.resource(), self.lease.subject());
        let key = keys.first();
        if self.shared.courtesy.is_contended(key) {
            return None;
        }
        let demand = first.demand();
        if demand.patience.left(&cluster.clock).is_zero() {
            return None;
        }
        let asked = Asked {
            resource: &self.lease.resource,
            subject: self.lease.subject(),
            keys: &keys,
            term: demand.term,
            label: demand.label.as_ref(),
        };
        let held = (&*self.lease, &*ended.standings);
        let result = pass(cluster, held, asked, self.shared.handover).ok()?;
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

impl Received {
    /// Lets go of the lock that was handed over, which its former holder keeps.
    fn disown(self) {
        if let Self::HandedOver(mut guard) = self {
            guard.must_release = false;
        }
    }
}

impl Shared {
    /// Remembers what the release of a lock says of other clients that wait for it. `key` is that of the lock, or of the
    /// semaphore.
    pub(super) fn note_release(&self, key: &str, has_woken: bool) {
        let now = self.cluster().clock.now();
        self.courtesy.note_release(key, has_woken, now);
    }
}
