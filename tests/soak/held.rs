//! A lock that a worker holds, in all the ways that programs do.

use std::cell::Cell;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fastrand::Rng;
use redlatch::{Error, KeepAlive, Lease, LockGuard};
use redlatch_history::{Call, Nanos, On, Says, Span, What, Why};
use redlatch_testing::pause;

use crate::ask::why;
use crate::told::{Order, clock, counted, happened, nanos, order, wrong};
use crate::wish::why_lost;

/// A claim whose bounds are this near to each other is not read again.
const SHARP: Nanos = 1_000_000;
/// How often a thread that has seen a loss looks whether its hook was called. It counts looks and not time: a worker that is
/// stopped, or has no processor, does not look either.
const LOOKS: u32 = 2_000;

/// A guard, and what is known of it.
pub(crate) struct Held {
    pub(crate) guard: LockGuard,
    pub(crate) call: Call,
    pub(crate) on: On,
    pub(crate) ttl_ms: u64,
    /// Until when it rests if it is given back before.
    pub(crate) rests_until: Option<Nanos>,
    /// Whether it is renewed in the background, and only up to a limit.
    pub(crate) is_kept: bool,
    pub(crate) has_limit: bool,
    /// Whether its hook was called; none without a hook.
    hook: Option<Arc<AtomicBool>>,
    /// Whether it was seen to be lost.
    is_lost: Cell<bool>,
}

/// Until when the guard is valid; `None` when it no longer is.
///
/// The lease ends at one instant, and `remaining` is the way to it from some moment between a reading of the clock
/// before the call and one after it. So the reading before gives a lower bound and the one after an upper bound.
/// Where the process was held up in between, they are far apart, and it reads again.
pub(crate) fn end_of(guard: &LockGuard) -> Option<Span> {
    let (mut low, mut high) = (0, u64::MAX);
    for _ in 0..100 {
        let before = clock();
        let left = guard.remaining();
        let after = clock();
        if left.is_zero() {
            high = high.min(after);
            break;
        }
        low = low.max(before + nanos(left));
        high = high.min(after + nanos(left));
        if high - low <= SHARP {
            break;
        }
    }
    (low > 0).then_some(Span { low, high })
}

/// What a lease of this ttl is shorter by: 1 % and 2 ms.
fn drift(ttl_ms: u64) -> Nanos {
    ttl_ms * 10_000 + 2_000_000
}

/// When a lock of this ttl that ends then was taken, at the earliest; and so until when it rests, at the least.
pub(crate) fn rest_of(end: Option<Span>, ttl_ms: u64, at_least: Duration) -> Option<Nanos> {
    let taken = end?.low + drift(ttl_ms) - ttl_ms * 1_000_000;
    let at_least_ms = u64::try_from(at_least.as_millis()).unwrap();
    Some(taken + nanos(at_least) - drift(at_least_ms))
}

impl Held {
    pub(crate) fn new(guard: LockGuard, call: Call, on: On, ttl_ms: u64) -> Self {
        Self {
            guard,
            call,
            on,
            ttl_ms,
            rests_until: None,
            is_kept: false,
            has_limit: false,
            hook: None,
            is_lost: Cell::new(false),
        }
    }

    pub(crate) fn hook(&mut self) {
        let is_called = Arc::new(AtomicBool::new(false));
        self.hook = Some(Arc::clone(&is_called));
        self.happened(clock(), What::Hooks);
        let call = self.call;
        self.guard
            .on_lost(move |cause| {
                match why_lost(&cause) {
                    Why::Unknown => wrong("a hook was told that its lock was given back"),
                    why => happened(clock(), call, What::Lost(why)),
                }
                is_called.store(true, Ordering::SeqCst);
            })
            .unwrap();
    }

    /// Lives with it, for 20 ms at most when all is calm, and else for a drawn time, at times beyond the lease; where it is extended,
    /// by a ttl in this range.
    pub(crate) fn live(&self, range: &RangeInclusive<u64>, rng: &mut Rng) {
        let ttl_ms = self.ttl_ms;
        if order() != Order::Run {
            return self.work(20, rng);
        }
        if self.is_kept {
            return self.work_for_long(rng);
        }
        let has_hook = self.hook.is_some();
        match rng.u32(0..1_000) {
            // Far beyond the lease, and then the extension of what is no longer there.
            number if number < if has_hook { 250 } else { 25 } => {
                let beyond = Duration::from_millis(rng.u64(1..=200));
                pause(self.guard.remaining() + beyond);
                self.look(rng);
                self.extend(rng.u64(range.clone()));
            }
            0..300 => {
                for _ in 0..rng.u32(1..=3) {
                    self.work(ttl_ms / 2, rng);
                    self.extend(rng.u64(range.clone()));
                }
                // What the extensions promised is used.
                self.work(ttl_ms, rng);
            }
            300..370 => self.work(ttl_ms, rng),
            370..500 => self.work(150, rng),
            _ => self.work(20, rng),
        }
    }

    /// Works for some time, as long as the lock is there.
    fn work(&self, most_ms: u64, rng: &mut Rng) {
        let mut left = rng.u64(0..=most_ms);
        while self.look(rng) && left > 0 {
            let step = left.min(rng.u64(1..=5));
            pause(Duration::from_millis(step));
            left -= step;
        }
    }

    /// Works for two to five times the ttl, whatever happens to servers meanwhile.
    fn work_for_long(&self, rng: &mut Rng) {
        let began = clock();
        // A lock with a limit ends within this time.
        let most = if self.has_limit { 5 } else { rng.u64(2..=5) };
        for times in 1..=most {
            let until = began + times * self.ttl_ms * 1_000_000;
            while clock() < until {
                if !self.look(rng) {
                    return;
                }
                pause(Duration::from_millis(rng.u64(1..=5)));
            }
            if times == 1 {
                counted("locks kept for a ttl");
            }
        }
    }

    /// Has a lock that was adopted renewed from now on.
    pub(crate) fn keep(&mut self, ttl_ms: u64) {
        self.happened(clock(), What::Extends(ttl_ms * 1_000_000));
        let ttl = Duration::from_millis(ttl_ms);
        let result = self.guard.keep_alive(ttl, KeepAlive::unbounded());
        // It may be renewed by now, so the clock is read last.
        let end = end_of(&self.guard);
        let at = clock();
        if let Err(error) = result {
            return self.is_not_extended(at, &error);
        }
        (self.is_kept, self.ttl_ms) = (true, ttl_ms);
        self.happened(at, What::Extended(end));
        self.happened(at, What::Keeps);
    }

    fn happened(&self, at: Nanos, what: What) {
        happened(at, self.call, what);
    }

    /// Looks whether it is valid. What it says of a moment between two readings of the clock is told as of the one at which
    /// it says less.
    fn look(&self, rng: &mut Rng) -> bool {
        let before = clock();
        let (at, says) = if rng.bool() {
            self.check(before)
        } else {
            let end = end_of(&self.guard);
            (end.map_or_else(clock, |_| before), end)
        };
        if says.is_none() {
            self.is_lost.set(true);
        }
        self.happened(at, What::Looks(says));
        says.is_some()
    }

    /// What a check says, and when. A guard that says yes was valid at some time since it was asked, so its lease ends behind that.
    /// Where it is over when its end is read, it has ended since, or it was over before: then the judge finds that the guard has
    /// claimed too much. Wherever the process is stopped, this is never more than what the guard has said.
    fn check(&self, before: Nanos) -> (Nanos, Option<Span>) {
        if self.guard.check().is_err() {
            return (clock(), None);
        }
        let end = end_of(&self.guard);
        let least = Span {
            low: before + 1,
            high: clock().max(before + 1),
        };
        (before, Some(end.unwrap_or(least)))
    }

    fn extend(&self, ttl_ms: u64) {
        self.happened(clock(), What::Extends(ttl_ms * 1_000_000));
        let result = self.guard.extend(Duration::from_millis(ttl_ms));
        let returned = clock();
        match result {
            Ok(()) => self.happened(returned, What::Extended(end_of(&self.guard))),
            Err(error) => self.is_not_extended(returned, &error),
        }
    }

    fn is_not_extended(&self, at: Nanos, error: &Error) {
        let why = explained(error, &self.on, self.has_limit);
        if why.is_loss() {
            self.is_lost.set(true);
        }
        self.happened(at, What::NotExtended(why));
    }

    /// Gives the lock back, or makes a lease of it.
    pub(crate) fn release(self, rng: &mut Rng) -> Option<Lease> {
        if self.is_lost.get() {
            self.waits_for_its_hook();
        }
        self.happened(clock(), What::Releases);
        let call = self.call;
        let ends_silently = |call| happened(clock(), call, What::Released(Says::Nothing));
        if rng.u32(0..8) == 0 && order() == Order::Run {
            let lease = self.guard.into_lease();
            ends_silently(call);
            return Some(lease);
        }
        if rng.bool() {
            drop(self.guard);
            ends_silently(call);
            return None;
        }
        let Self { on, has_limit, .. } = self;
        let result = self.guard.unlock();
        let at = clock();
        let is_ok = result.is_ok();
        let says = result.map_or_else(
            |error| Says::Not(explained(&error, &on, has_limit)),
            |()| Says::Okay,
        );
        happened(at, call, What::Released(says));
        if let Some(until) = self.rests_until.filter(|until| is_ok && at < *until) {
            counted("locks that rested");
            happened(at, call, What::Rests(until));
        }
        None
    }

    /// Waits until the hook is called for a loss that was seen. If it is not called, the judge says so.
    fn waits_for_its_hook(&self) {
        let Some(is_called) = &self.hook else { return };
        for _ in 0..LOOKS {
            if is_called.load(Ordering::SeqCst) {
                return;
            }
            pause(Duration::from_millis(5));
        }
    }
}

/// Only a lock with a limit ends by its limit.
fn explained(error: &Error, on: &On, has_limit: bool) -> Why {
    let why = why(error, on);
    if why == Why::Limited && !has_limit {
        wrong(&format!("{on} has no limit, and ended: {error}"));
    }
    why
}
