//! What a guard, its watches and the background threads share of one lock: until when it is valid, and how it was lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64 as Sequence, Ordering};
use std::time::Duration;

// For the model as well, which has this file under another name.
#[path = "state/record.rs"]
mod record;

use super::sync::{AtomicU64, Condvar, Mutex, MutexGuard, nap};
use crate::clock::{Clock, Timestamp};
use crate::error::{Error, LossCause, NodeReport};
use crate::fencing::FencingToken;
use crate::quorum::Term;
use crate::stats::Recorder;
use crate::token::Token;
use crate::verdict::{self, Verdict};

/// What is called when a lock is lost.
pub(crate) type Hook = Box<dyn FnOnce(LossCause) + Send>;

/// How long before the end of the validity those who wait for a loss are told, so that they know by then.
const NOTICE: Duration = Duration::from_millis(1);

/// How often the child of a fork looks, to which nothing is told.
const FORKED_NAP: Duration = Duration::from_millis(20);

/// What tells a lock from all others.
#[derive(Clone, Copy)]
pub(crate) struct Tokens {
    /// The value of the key.
    pub(crate) token: Token,
    /// With the fenced protocol, the holder's token.
    pub(crate) fencing: Option<FencingToken>,
    /// What the nodes' counters have: the largest token of those to whom the lock may be handed over.
    pub(crate) claim: Option<FencingToken>,
}

/// How a lock is kept alive.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Renewal {
    /// What each renewal asks for.
    pub(crate) ttl: Duration,
    /// The end that `max_hold` sets.
    pub(crate) until: Option<Timestamp>,
}

/// A lock that was acquired or adopted.
pub(crate) struct LeaseState {
    /// Tells this lock from all others of the process.
    pub(crate) number: u64,
    pub(crate) resource: Arc<str>,
    pub(crate) tokens: Tokens,
    /// Where a key of this lock may be, in the order of the nodes.
    pub(crate) owed: Box<[bool]>,
    clock: Clock,
    /// The process that holds it.
    process: u32,
    /// Before the first send of the attempt that got it.
    since: Timestamp,
    /// When the validity ends, in nanoseconds; zero once the lock is known to be lost.
    deadline: AtomicU64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Why it is over, if it is. Nothing undoes that.
    loss: Option<LossCause>,
    renewal: Option<Renewal>,
    /// What the nodes said to the last renewal, if it failed.
    failed: Box<[NodeReport]>,
    hooks: Vec<Hook>,
    /// Where it is counted what becomes of the lock, once a program has it.
    recorder: Option<Arc<Recorder>>,
}

/// What a lock was when its guard gave it up.
pub(crate) struct Ended {
    /// How it was lost before, if it was.
    pub(crate) loss: Option<LossCause>,
    /// When the validity would have ended; long ago if the lock was lost.
    pub(crate) deadline: Timestamp,
    /// To be dropped when nothing is to be done any more: what they own may take its time, or panic.
    pub(crate) hooks: Vec<Hook>,
}

impl LeaseState {
    pub(crate) fn new(
        clock: &Clock,
        resource: &Arc<str>,
        tokens: Tokens,
        owed: Box<[bool]>,
        (since, deadline): (Timestamp, Timestamp),
    ) -> Self {
        static NUMBERS: Sequence = Sequence::new(0);
        Self {
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            resource: Arc::clone(resource),
            tokens,
            owed,
            clock: clock.clone(),
            process: std::process::id(),
            since,
            deadline: AtomicU64::new(deadline.as_nanos()),
            state: Mutex::new(State::default()),
            changed: Condvar::new(),
        }
    }

    /// The same lock for the next holder, who has it from now on until `deadline`.
    pub(crate) fn successor(&self, now: Timestamp, deadline: Timestamp) -> Self {
        let fencing = self.tokens.fencing.map(FencingToken::next);
        let tokens = Tokens {
            fencing,
            ..self.tokens
        };
        let times = (now, deadline);
        Self::new(
            &self.clock,
            &self.resource,
            tokens,
            self.owed.clone(),
            times,
        )
    }

    /// Before the first send of the attempt that got it.
    pub(crate) fn since(&self) -> Timestamp {
        self.since
    }

    pub(crate) fn remaining(&self) -> Duration {
        self.deadline().saturating_since(self.clock.now())
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        let now = self.clock.now();
        if now < self.deadline() {
            return Ok(());
        }
        match self.loss_at(now) {
            Some(cause) => Err(self.lost(cause)),
            // Extended just now.
            None => Ok(()),
        }
    }

    /// Waits for `timeout` at most; returns how the lock was lost, if it was.
    pub(crate) fn wait_lost(&self, timeout: Duration) -> Option<LossCause> {
        let end = self.clock.now().checked_add(timeout);
        loop {
            let now = self.clock.now();
            if let Some(cause) = self.loss_soon_after(now) {
                return Some(cause);
            }
            if end.is_some_and(|end| now >= end) {
                return None;
            }
            if self.is_forked() {
                self.clock.sleep(FORKED_NAP);
                continue;
            }
            let mut state = self.state.lock();
            if state.loss.is_none() {
                let told = self.told_at();
                let until = end.map_or(told, |end| end.min(told));
                nap(&self.clock, &self.changed, &mut state, until);
            }
        }
    }

    /// Takes in what the nodes said to an extension that `started` then, asked for this term, and whose last reply came by
    /// `now`. If it succeeds, the lock is renewed as `renewal` says from now on, if that says anything.
    pub(crate) fn extended(
        &self,
        started: Timestamp,
        term: Term,
        renewal: Option<Renewal>,
        nodes: Vec<NodeReport>,
        now: Timestamp,
    ) -> Result<(), Error> {
        let mut state = self.state.lock();
        if let Some(cause) = &state.loss {
            return Err(self.lost(cause.clone()));
        }
        if now >= self.deadline() {
            // The keys may be there, but in between they may not have been.
            let cause = self.cause_of_the_end(&mut state, nodes);
            return Err(self.lose(&mut state, cause));
        }
        match verdict::of_held(&nodes) {
            Verdict::Confirmed => {}
            Verdict::Lost => return Err(self.lose(&mut state, verdict::loss(nodes))),
            Verdict::Unknown => {
                return Err(Error::Unavailable {
                    resource: Arc::clone(&self.resource),
                    waited: now.saturating_since(started),
                    nodes,
                });
            }
        }
        let deadline = started.saturating_add(term.validity);
        if deadline <= now {
            let elapsed = now.saturating_since(started);
            return Err(Error::TooSlow {
                resource: Arc::clone(&self.resource),
                waited: elapsed,
                elapsed,
                nodes,
            });
        }
        let until = renewal.or(state.renewal).and_then(|renewal| renewal.until);
        let deadline = until.map_or(deadline, |until| deadline.min(until));
        self.deadline
            .fetch_max(deadline.as_nanos(), Ordering::AcqRel);
        state.failed = Box::default();
        if let Some(renewal) = renewal {
            self.renew_as(&mut state, renewal);
        }
        Ok(())
    }

    /// Notes what the nodes said to a renewal that failed.
    pub(crate) fn not_renewed(&self, nodes: &[NodeReport]) {
        self.state.lock().failed = nodes.into();
    }

    /// When so much time of holding is over.
    pub(crate) fn held_for(&self, limit: Duration) -> Option<Timestamp> {
        self.since.checked_add(limit)
    }

    /// Has it renewed as this says from now on.
    pub(crate) fn keep(&self, renewal: Renewal) {
        self.renew_as(&mut self.state.lock(), renewal);
    }

    /// With `max_hold`, it ends when that is reached, if it would last longer.
    fn renew_as(&self, state: &mut MutexGuard<'_, State>, renewal: Renewal) {
        state.renewal = Some(renewal);
        if let Some(until) = renewal.until {
            self.deadline.fetch_min(until.as_nanos(), Ordering::AcqRel);
        }
        // Those who wait may have another end to wait for.
        self.changed.notify_all();
    }

    /// When `max_hold` is reached, if there is one.
    pub(crate) fn limit(&self) -> Option<Timestamp> {
        let renewal = self.state.lock().renewal;
        renewal.and_then(|renewal| renewal.until)
    }

    /// How it is to be renewed; none when it is not, or when `max_hold` leaves nothing to renew.
    pub(crate) fn renewal(&self) -> Option<Renewal> {
        let renewal = self.state.lock().renewal?;
        let is_at_the_limit = renewal.until.is_some_and(|until| self.deadline() >= until);
        (!is_at_the_limit).then_some(renewal)
    }

    /// Whether somebody is to be told of a loss.
    pub(crate) fn has_hooks(&self) -> bool {
        !self.state.lock().hooks.is_empty()
    }

    /// Whether a loss is known.
    pub(crate) fn is_lost(&self) -> bool {
        self.state.lock().loss.is_some()
    }

    /// Has this called when the lock is lost.
    pub(crate) fn on_lost(&self, hook: Hook) {
        self.state.lock().hooks.push(hook);
    }

    /// A hook that is still to be called. There is none any more when the lock is given back.
    pub(crate) fn next_hook(&self) -> Option<Hook> {
        let mut state = self.state.lock();
        let is_any = !state.hooks.is_empty();
        is_any.then(|| state.hooks.remove(0))
    }

    /// When those who wait for a loss are told at the latest.
    pub(crate) fn told_at(&self) -> Timestamp {
        self.deadline().saturating_sub(NOTICE)
    }

    /// Ends it, because its guard gives it back.
    pub(crate) fn end(&self) -> Ended {
        let now = self.clock.now();
        // In one step: what a renewal finds before it is known here, and what it finds after it concerns no guard of this
        // lock. Whoever gets the lock handed over finds that with a renewal or an extension of its own.
        let mut state = self.state.lock();
        self.note_the_end(&mut state, now, Duration::ZERO);
        let (loss, deadline) = (state.loss.clone(), self.deadline());
        if loss.is_none() {
            // The error is for those who hold watches.
            let _told = self.lose(&mut state, LossCause::Released);
        }
        let hooks = std::mem::take(&mut state.hooks);
        Ended {
            loss,
            deadline,
            hooks,
        }
    }

    pub(crate) fn deadline(&self) -> Timestamp {
        Timestamp::from_nanos(self.deadline.load(Ordering::Acquire))
    }

    /// How it was lost, if it was by `now`.
    pub(crate) fn loss_at(&self, now: Timestamp) -> Option<LossCause> {
        self.loss_by(now, Duration::ZERO)
    }

    /// As [`Self::loss_at`], a little before the end: what those who wait for a loss are told.
    pub(crate) fn loss_soon_after(&self, now: Timestamp) -> Option<LossCause> {
        self.loss_by(now, NOTICE)
    }

    /// How it was lost; when no more than `notice` of the validity is left at the latest, and for ever then.
    fn loss_by(&self, now: Timestamp, notice: Duration) -> Option<LossCause> {
        if self.is_forked() {
            let is_over = self.deadline().saturating_since(now) <= notice;
            if is_over {
                // For ever, as in the parent.
                self.deadline.store(0, Ordering::Release);
            }
            return is_over.then(|| LossCause::Expired { nodes: Vec::new() });
        }
        let mut state = self.state.lock();
        self.note_the_end(&mut state, now, notice);
        state.loss.clone()
    }

    /// Loses the lock if no more than `notice` of the validity is left.
    fn note_the_end(&self, state: &mut MutexGuard<'_, State>, now: Timestamp, notice: Duration) {
        if state.loss.is_none() && self.deadline().saturating_since(now) <= notice {
            let cause = self.cause_of_the_end(state, Vec::new());
            // The error is for those who ask next.
            let _told = self.lose(state, cause);
        }
    }

    /// Why the validity has come to its end. The nodes are those of an extension that came too late.
    fn cause_of_the_end(
        &self,
        state: &mut MutexGuard<'_, State>,
        mut nodes: Vec<NodeReport>,
    ) -> LossCause {
        let failed = std::mem::take(&mut state.failed).into_vec();
        let has_failed = !failed.is_empty();
        if nodes.is_empty() {
            nodes = failed;
        }
        let until = state.renewal.and_then(|renewal| renewal.until);
        if until.is_some_and(|until| self.deadline() >= until) {
            LossCause::MaxHold { nodes }
        } else if has_failed {
            LossCause::Unreachable { nodes }
        } else {
            LossCause::Expired { nodes }
        }
    }

    /// Whether this is the child of a fork. There, a thread that it does not have may hold the lock of the state for ever.
    fn is_forked(&self) -> bool {
        std::process::id() != self.process
    }

    fn lose(&self, state: &mut MutexGuard<'_, State>, cause: LossCause) -> Error {
        state.loss = Some(cause.clone());
        state.renewal = None;
        self.deadline.store(0, Ordering::Release);
        self.changed.notify_all();
        self.tell_loss(state, &cause);
        self.lost(cause)
    }

    /// What a caller is told of a loss.
    pub(crate) fn lost(&self, cause: LossCause) -> Error {
        let resource = Arc::clone(&self.resource);
        Error::Lost { resource, cause }
    }
}
