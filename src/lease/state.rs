//! The state of one held lock, which its guard, its watches and the background threads share.
//!
//! Each part is a struct for one reason, and no other file reaches into its fields. All of them change under one mutex:
//!
//! | part | what it says | what changes it |
//! |---|---|---|
//! | `Validity` | when the program loses the lock | `apply`, `keep`; a loss and `end` close it |
//! | `KeptAlive` | how renewals keep the lock, and how the last one failed | `apply`, `keep`, `note_failed_renewal`; a loss and `end` close it |
//! | `Holdings` | what each node may have, and who may heal it | `apply`; an extension by `nodes` and `nodes_if_held` |
//! | `Hooks` | what the program has to hear | `hooks`, `note_wanted`, `call_hooks`; `end` takes them |
//! | the flags | how the lock ended, who knows that, and whether it is wanted | `lose`, `end`, `tell_loss`, `count_its_end`, `note_wanted` |
//!
//! `rounds` has the methods for what the nodes say: `apply` for an extension, `released` for a release.

use std::mem::take;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use smallvec::SmallVec;

// With a path, because the model includes this file under another name.
#[path = "state/holding.rs"]
pub(crate) mod holding;
#[path = "state/hooks.rs"]
mod hooks;
#[path = "state/rounds.rs"]
mod rounds;
#[path = "state/validity.rs"]
mod validity;

use self::holding::{Holding, Holdings};
use self::hooks::HookEvent;
pub(crate) use self::hooks::Hooks;
pub(crate) use self::validity::Renewal;
use self::validity::{KeptAlive, Validity};
use super::nap;
use super::sync::{self, Condvar, Mutex, MutexGuard};
use crate::callbacks::despite_panics;
use crate::claim::Claim;
use crate::clock::Timestamp;
use crate::cluster::Owner;
use crate::error::{Error, LossCause};
use crate::log_lines;
use crate::node::Leftover;

/// How long before the end of the validity a loss is reported, so that the program knows in time.
const NOTICE: Duration = Duration::from_millis(1);

/// How often a waiting thread in the child of a fork looks at the clock: nobody wakes it.
const FORKED_NAP: Duration = Duration::from_millis(20);

/// The state of a lock that was acquired or adopted. A program may hold many, so it is small.
pub(crate) struct LeaseState {
    pub(crate) claim: Claim,
    owner: Arc<Owner>,
    /// No other lock of the manager has it.
    pub(crate) number: u64,
    /// Before the first send of the attempt that got it.
    pub(crate) since: Timestamp,
    validity: Validity,
    state: Mutex<HeldState>,
    /// Where threads wait for a loss.
    changed: Condvar,
}

/// What changes under the mutex while a lock is held.
#[derive(Default)]
struct HeldState {
    nodes: Holdings,
    kept_alive: KeptAlive,
    hooks: Hooks,
    /// How the lock was lost before its guard ended it, if it was. It is never reset.
    loss: Option<Box<LossCause>>,
    has_ended: bool,
    /// Whether another client waited for the lock when the nodes were last asked.
    is_wanted: bool,
    /// Whether the end of the lock is to be counted: from when a program has it until that is done.
    is_counted: bool,
}

/// A lock at the moment when its guard ended it.
pub(crate) struct Ended {
    /// How the lock was lost before that, if it was.
    pub(crate) loss: Option<LossCause>,
    /// When the validity would have ended; long ago if the lock was lost.
    pub(crate) end: Timestamp,
    /// How the lock is lost if its validity ends before a majority has released it.
    expiry: LossCause,
    /// What each node may have of the lock, in the canonical order.
    pub(crate) nodes: SmallVec<[Holding; 5]>,
    /// The caller drops them last, because the drop of what they own may take time.
    pub(crate) hooks: Hooks,
}

impl HeldState {
    /// Why the lock is held no more, if so.
    fn loss(&self) -> Option<LossCause> {
        let loss = self.loss.as_deref().cloned();
        loss.or_else(|| self.has_ended.then_some(LossCause::Released))
    }

    fn is_lost(&self) -> bool {
        self.has_ended || self.loss.is_some()
    }
}

impl LeaseState {
    /// A lock that has left this on each node, in the canonical order, and is valid for this time, from before the first send of the
    /// attempt that got it.
    pub(crate) fn new(
        owner: &Arc<Owner>,
        claim: Claim,
        leftovers: impl Iterator<Item = Leftover>,
        valid: Range<Timestamp>,
    ) -> Self {
        let nodes = Holdings::new(leftovers);
        Self {
            claim,
            owner: Arc::clone(owner),
            number: owner.leases.fetch_add(1, Ordering::Relaxed),
            since: valid.start,
            validity: Validity::until(valid.end),
            state: Mutex::new(HeldState {
                nodes,
                ..HeldState::default()
            }),
            changed: Condvar::new(),
        }
    }

    /// A lock of which three nodes may have this, from the zero of the clock to `until`.
    #[cfg(test)]
    pub(crate) fn on(
        clock: &crate::clock::FakeClock,
        claim: Claim,
        leftovers: [Leftover; 3],
        until: Timestamp,
    ) -> Self {
        let valid = Timestamp::from_nanos(0)..until;
        let names = ["a", "b", "c"].map(Into::into).into();
        let owner = Owner::new(clock.clone().into(), names);
        // Of the same manager as others that are made so.
        let number = Arc::as_ptr(&owner).addr();
        owner
            .leases
            .store(number.try_into().unwrap(), Ordering::Relaxed);
        Self::new(&owner, claim, leftovers.into_iter(), valid)
    }

    /// The name of the lock in messages.
    pub(crate) fn name(&self) -> &Arc<str> {
        &self.claim.resource.name
    }

    /// Returns when the program loses the lock. This is long ago once the lock is known to be lost.
    pub(crate) fn deadline(&self) -> Timestamp {
        self.validity.deadline()
    }

    /// Returns when the validity ends. A majority keeps the keys until then. This is long ago once the lock is known to be lost.
    pub(crate) fn end_of_validity(&self) -> Timestamp {
        self.end_by(&self.state.lock())
    }

    fn end_by(&self, state: &HeldState) -> Timestamp {
        self.validity.end(state.kept_alive.renewal())
    }

    /// When the loss is reported at the latest: shortly before the deadline.
    pub(crate) fn loss_notice_at(&self) -> Timestamp {
        self.deadline().saturating_sub(NOTICE)
    }

    pub(crate) fn remaining(&self) -> Duration {
        self.deadline().saturating_since(self.owner.clock.now())
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        let now = self.owner.clock.now();
        if now < self.deadline() {
            return Ok(());
        }
        // If there is no loss, it was extended since the deadline was read.
        self.unless_lost(self.loss_by(now))
    }

    fn unless_lost(&self, loss: Option<LossCause>) -> Result<(), Error> {
        loss.map_or(Ok(()), |cause| Err(self.lost_error(cause)))
    }

    pub(crate) fn lost_error(&self, cause: LossCause) -> Error {
        let resource = Arc::clone(self.name());
        Error::Lost { resource, cause }
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
                nap(clock, &self.changed, &mut state, until);
            }
        }
    }

    /// Keeps the lock alive from now on.
    pub(crate) fn keep(&self, renewal: Renewal) {
        let mut state = self.state.lock();
        let end = self.end_by(&state);
        self.renew_until(&mut state, end, Some(renewal));
    }

    /// Sets the end of the validity. If there is a `renewal`, it replaces the keep-alive.
    fn renew_until(&self, state: &mut HeldState, end: Timestamp, renewal: Option<Renewal>) {
        if let Some(renewal) = renewal {
            state.kept_alive.begin(renewal);
            // The end may come earlier, so threads that wait for it look again.
            self.changed.notify_all();
        }
        self.validity.end_at(state.kept_alive.renewal(), end);
    }

    /// When `max_hold` is reached, if there is one.
    pub(crate) fn limit(&self) -> Option<Timestamp> {
        self.state.lock().kept_alive.renewal()?.until
    }

    /// The keep-alive of the lock, if it has one and `max_hold` leaves time for a renewal.
    pub(crate) fn renewal(&self) -> Option<Renewal> {
        let state = self.state.lock();
        let (renewal, end) = (state.kept_alive.renewal()?, self.end_by(&state));
        let is_at_the_limit = renewal.until.is_some_and(|until| end >= until);
        (!is_at_the_limit).then_some(renewal)
    }

    /// Asks or changes what the nodes may have.
    pub(crate) fn nodes<T>(&self, act: impl FnOnce(&mut Holdings) -> T) -> T {
        act(&mut self.state.lock().nodes)
    }

    /// As [`Self::nodes`], unless the lock is lost or has ended.
    pub(crate) fn nodes_if_held<T>(&self, act: impl FnOnce(&mut Holdings) -> T) -> Option<T> {
        let mut state = self.state.lock();
        (!state.is_lost()).then(|| act(&mut state.nodes))
    }

    /// Asks or changes the hooks, under the mutex.
    pub(crate) fn hooks<T>(&self, act: impl FnOnce(&mut Hooks) -> T) -> T {
        act(&mut self.state.lock().hooks)
    }

    /// When a hook is to be called: at once, or shortly before the validity ends.
    pub(crate) fn hooks_due_at(&self) -> Timestamp {
        if self.has_news() {
            return Timestamp::from_nanos(0);
        }
        self.loss_notice_at()
    }

    /// Whether hooks are to be called while the lock is held.
    pub(crate) fn has_news(&self) -> bool {
        self.hooks(|hooks| hooks.due_wishes()) > 0
    }

    /// Calls the hooks for a loss if there is one, and else those that are due because the lock is wanted. A hook that becomes due
    /// meanwhile is left to the next time, so that the hooks of other locks get their turn.
    pub(crate) fn call_hooks(&self, loss: Option<&LossCause>) {
        let (event, most) = match loss {
            Some(_) => (HookEvent::Loss, usize::MAX),
            None => (HookEvent::DueWish, self.hooks(|hooks| hooks.due_wishes())),
        };
        for _ in 0..most {
            // Without the mutex, because a hook may use this lock. After the guard has ended the lock, no hook is left.
            let Some(hook) = self.hooks(|hooks| hooks.take(event)) else {
                return;
            };
            // A hook that waits for other clients ignores the cause.
            let cause = loss.cloned().unwrap_or(LossCause::Released);
            despite_panics(|| (hook.call)(cause));
        }
    }

    /// Whether another client waited when the nodes were last asked.
    pub(crate) fn is_wanted(&self) -> bool {
        self.state.lock().is_wanted
    }

    /// Whether a loss is known, or the guard has ended the lock.
    pub(crate) fn is_lost(&self) -> bool {
        self.state.lock().is_lost()
    }

    /// Counts and logs the end of the lock from now on, because a program has it.
    pub(crate) fn count_its_end(&self) {
        let mut state = self.state.lock();
        state.is_counted = true;
        // It may have been lost before.
        if let Some(cause) = state.loss() {
            self.tell_loss(&mut state, &cause);
        }
    }

    /// Ends the lock, because its guard releases it or turns it into a lease.
    pub(crate) fn end(&self) -> Ended {
        let now = self.owner.clock.now();
        // All in one step under the mutex. A loss that a renewal finds before is seen here; a loss found later concerns
        // no guard any more.
        let mut state = self.state.lock();
        self.note_end(&mut state, now);
        let ended = Ended {
            loss: state.loss(),
            end: self.end_by(&state),
            expiry: self.take_cause_of_end(&mut state),
            nodes: state.nodes.nodes().clone(),
            hooks: take(&mut state.hooks),
        };
        state.has_ended = true;
        self.close(&mut state);
        ended
    }

    /// How the lock was lost, if it was by then. A lock whose deadline has passed is lost from this call on.
    pub(crate) fn loss_by(&self, now: Timestamp) -> Option<LossCause> {
        if self.owner.is_forked() {
            let is_over = self.deadline() <= now;
            if is_over {
                // Once lost, a lock stays lost, as in the parent.
                self.validity.close();
            }
            return is_over.then(|| LossCause::Expired { nodes: Vec::new() });
        }
        let mut state = self.state.lock();
        self.note_end(&mut state, now);
        state.loss()
    }

    /// Does the same as [`Self::loss_by`], but shortly before the deadline already. This is for waits and hooks.
    pub(crate) fn loss_soon(&self, now: Timestamp) -> Option<LossCause> {
        self.loss_by(now.saturating_add(NOTICE))
    }

    /// Loses the lock if its deadline is by then.
    fn note_end(&self, state: &mut MutexGuard<'_, HeldState>, now: Timestamp) {
        if !state.is_lost() && self.deadline() <= now {
            let cause = self.take_cause_of_end(state);
            self.lose(state, &cause);
        }
    }

    /// Why the deadline has passed. No renewal begins from then on.
    fn take_cause_of_end(&self, state: &mut HeldState) -> LossCause {
        let end = self.end_by(state);
        state.kept_alive.close(end)
    }

    fn lose(&self, state: &mut MutexGuard<'_, HeldState>, cause: &LossCause) {
        state.loss = Some(cause.clone().into());
        self.close(state);
        self.tell_loss(state, cause);
    }

    /// From now on the lock is not held. The cause is known already.
    fn close(&self, state: &mut HeldState) {
        state.kept_alive = KeptAlive::default();
        self.validity.close();
        state.is_wanted = false;
        self.changed.notify_all();
    }

    /// Counts and logs a loss, once.
    fn tell_loss(&self, state: &mut MutexGuard<'_, HeldState>, cause: &LossCause) {
        // A release is told later, when the nodes have answered.
        if !matches!(cause, LossCause::Released) && take(&mut state.is_counted) {
            // Without the mutex, because the program's logger may use this lock, and its recorder of metrics may be slow.
            MutexGuard::unlocked(state, || {
                self.owner.stats.lost.count();
                log_lines::lost(&self.claim.resource, cause);
            });
        }
    }
}
