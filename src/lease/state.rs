//! The state of one held lock, which its guard, its watches and the background threads share: until when it is valid,
//! and how it was lost.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

// With a path, because the model includes this file under another name.
#[path = "state/extended.rs"]
mod extended;
#[path = "state/healer.rs"]
pub(crate) mod healer;
#[path = "state/inner.rs"]
mod inner;
#[path = "state/record.rs"]
mod record;
#[path = "state/standing.rs"]
pub(crate) mod standing;

use self::inner::Inner;
pub(crate) use self::inner::{Hook, Renewal};
use self::standing::Standings;
use super::nap;
use super::sync::{AtomicU64, Mutex, MutexGuard};
use crate::claim::Claim;
use crate::clock::Timestamp;
use crate::cluster::Owner;
use crate::error::{Error, LossCause};

/// How long before the end of the validity a loss is reported, so that the program knows in time.
const NOTICE: Duration = Duration::from_millis(1);

/// How often a waiting thread in the child of a fork looks at the clock: nobody wakes it.
const FORKED_NAP: Duration = Duration::from_millis(20);

/// The state of a lock that was acquired or adopted. A program may hold many, so it is small.
pub(crate) struct LeaseState {
    pub(crate) claim: Claim,
    owner: Arc<Owner>,
    /// Before the first send of the attempt that got it.
    since: Timestamp,
    /// When the validity ends, in nanoseconds; zero once the lock is known to be lost.
    deadline: AtomicU64,
    state: Mutex<Inner>,
}

/// A lock at the moment when its guard ended it.
pub(crate) struct Ended {
    /// How the lock was lost before that, if it was.
    pub(crate) loss: Option<LossCause>,
    /// When the validity would have ended; long ago if the lock was lost.
    pub(crate) deadline: Timestamp,
    /// How the lock is lost if its validity ends before a majority has released it.
    pub(crate) expiry: LossCause,
    /// What each node may have of the lock, in the canonical order.
    pub(crate) standings: Standings,
    /// The caller drops them last: the drop of what they own may take time, or panic.
    pub(crate) hooks: Vec<Hook>,
}

impl LeaseState {
    pub(crate) fn new(
        owner: &Arc<Owner>,
        claim: Claim,
        standings: Standings,
        (since, deadline): (Timestamp, Timestamp),
    ) -> Self {
        Self {
            claim,
            owner: Arc::clone(owner),
            since,
            deadline: AtomicU64::new(deadline.as_nanos()),
            state: Mutex::new(Inner::new(standings)),
        }
    }

    /// The name of the lock in messages.
    pub(crate) fn name(&self) -> &Arc<str> {
        &self.claim.resource.name
    }

    /// Before the first send of the attempt that got it.
    pub(crate) fn since(&self) -> Timestamp {
        self.since
    }

    pub(crate) fn remaining(&self) -> Duration {
        self.deadline().saturating_since(self.owner.clock.now())
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        let now = self.owner.clock.now();
        if now < self.deadline() {
            return Ok(());
        }
        match self.loss_at(now) {
            Some(cause) => Err(self.lost_error(cause)),
            // It was extended since the deadline was read.
            None => Ok(()),
        }
    }

    /// Waits for `timeout` at most; returns how the lock was lost, if it was.
    pub(crate) fn wait_lost(&self, timeout: Duration) -> Option<LossCause> {
        let clock = &self.owner.clock;
        let end = clock.now().checked_add(timeout);
        loop {
            let now = clock.now();
            if let Some(cause) = self.loss_soon(now) {
                return Some(cause);
            }
            if end.is_some_and(|end| now >= end) {
                return None;
            }
            if self.owner.is_forked() {
                clock.sleep(FORKED_NAP);
                continue;
            }
            let mut state = self.state.lock();
            if !state.is_lost() {
                let notice = self.loss_notice_at();
                let until = end.map_or(notice, |end| end.min(notice));
                let changed = state.changed();
                nap(clock, &changed, &mut state, until);
            }
        }
    }

    /// When the lock has been held for `limit`.
    pub(crate) fn held_for(&self, limit: Duration) -> Option<Timestamp> {
        self.since.checked_add(limit)
    }

    /// Sets the keep-alive of the lock.
    pub(crate) fn keep(&self, renewal: Renewal) {
        self.renew_as(&mut self.state.lock(), renewal);
    }

    /// With `max_hold`, the validity ends no later than that.
    fn renew_as(&self, state: &mut MutexGuard<'_, Inner>, renewal: Renewal) {
        state.make_rare().renewal = Some(renewal);
        if let Some(until) = renewal.until {
            self.deadline.fetch_min(until.as_nanos(), Ordering::AcqRel);
        }
        // The end may have changed, so threads that wait for it look again.
        state.notify_all();
    }

    /// When `max_hold` is reached, if there is one.
    pub(crate) fn limit(&self) -> Option<Timestamp> {
        let renewal = self.state.lock().renewal();
        renewal.and_then(|renewal| renewal.until)
    }

    /// The keep-alive of the lock, if it has one and `max_hold` leaves time for a renewal.
    pub(crate) fn renewal(&self) -> Option<Renewal> {
        let renewal = self.state.lock().renewal()?;
        let is_at_the_limit = renewal.until.is_some_and(|until| self.deadline() >= until);
        (!is_at_the_limit).then_some(renewal)
    }

    /// Whether there are hooks to call on a loss.
    pub(crate) fn has_hooks(&self) -> bool {
        let state = self.state.lock();
        state.rare().is_some_and(|rare| !rare.hooks.is_empty())
    }

    /// Whether a loss is known.
    pub(crate) fn is_lost(&self) -> bool {
        self.state.lock().is_lost()
    }

    /// Adds a hook to call when the lock is lost.
    pub(crate) fn on_lost(&self, hook: Hook) {
        self.state.lock().make_rare().hooks.push(hook);
    }

    /// Takes the next hook to call. After the guard has ended the lock, there is none.
    pub(crate) fn next_hook(&self) -> Option<Hook> {
        let mut state = self.state.lock();
        let hooks = &mut state.rare_mut()?.hooks;
        (!hooks.is_empty()).then(|| hooks.remove(0))
    }

    /// When the loss is reported at the latest: shortly before the validity ends.
    pub(crate) fn loss_notice_at(&self) -> Timestamp {
        self.deadline().saturating_sub(NOTICE)
    }

    /// Ends the lock, because its guard releases it or turns it into a lease.
    pub(crate) fn end(&self) -> Ended {
        let now = self.owner.clock.now();
        // All in one step under the mutex. A loss that a renewal finds before is seen here; a loss found later concerns
        // no guard any more.
        let mut state = self.state.lock();
        self.note_end(&mut state, now, Duration::ZERO);
        let (loss, deadline) = (state.loss(), self.deadline());
        let expiry = self.end_cause(&mut state);
        state.has_ended = true;
        self.close(&mut state);
        Ended {
            loss,
            deadline,
            expiry,
            standings: state.standings.clone(),
            hooks: state.take_hooks(),
        }
    }

    pub(crate) fn deadline(&self) -> Timestamp {
        Timestamp::from_nanos(self.deadline.load(Ordering::Acquire))
    }

    /// How the lock was lost, if it was by `now`.
    pub(crate) fn loss_at(&self, now: Timestamp) -> Option<LossCause> {
        self.loss_by(now, Duration::ZERO)
    }

    /// As [`Self::loss_at`], but shortly before the end of the validity already: for waits and hooks.
    pub(crate) fn loss_soon(&self, now: Timestamp) -> Option<LossCause> {
        self.loss_by(now, NOTICE)
    }

    /// How the lock was lost. It counts as lost, from then on, as soon as no more than `notice` of the validity is
    /// left.
    fn loss_by(&self, now: Timestamp, notice: Duration) -> Option<LossCause> {
        if self.owner.is_forked() {
            let is_over = self.deadline().saturating_since(now) <= notice;
            if is_over {
                // Once lost, a lock stays lost, as in the parent.
                self.deadline.store(0, Ordering::Release);
            }
            return is_over.then(|| LossCause::Expired { nodes: Vec::new() });
        }
        let mut state = self.state.lock();
        self.note_end(&mut state, now, notice);
        state.loss()
    }

    /// Loses the lock if no more than `notice` of the validity is left.
    fn note_end(&self, state: &mut MutexGuard<'_, Inner>, now: Timestamp, notice: Duration) {
        if !state.is_lost() && self.deadline().saturating_since(now) <= notice {
            let cause = self.end_cause(state);
            // Nobody here needs the error; the next call returns the cause.
            let _told = self.lose(state, cause);
        }
    }

    /// Why the validity has ended.
    fn end_cause(&self, state: &mut MutexGuard<'_, Inner>) -> LossCause {
        let nodes = state.take_failed().into_vec();
        let until = state.renewal().and_then(|renewal| renewal.until);
        if until.is_some_and(|until| self.deadline() >= until) {
            LossCause::MaxHold { nodes }
        } else if nodes.is_empty() {
            LossCause::Expired { nodes }
        } else {
            LossCause::Unreachable { nodes }
        }
    }

    fn lose(&self, state: &mut MutexGuard<'_, Inner>, cause: LossCause) -> Error {
        state.make_rare().loss = Some(cause.clone());
        self.close(state);
        self.tell_loss(state, &cause);
        self.lost_error(cause)
    }

    /// From now on the lock is not held. The cause is known already.
    fn close(&self, state: &mut MutexGuard<'_, Inner>) {
        if let Some(rare) = state.rare_mut() {
            rare.renewal = None;
        }
        self.deadline.store(0, Ordering::Release);
        state.notify_all();
    }

    /// The error for a caller.
    pub(crate) fn lost_error(&self, cause: LossCause) -> Error {
        let resource = Arc::clone(self.name());
        Error::Lost { resource, cause }
    }
}
