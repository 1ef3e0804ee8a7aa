//! A lock that a worker holds, in all the ways that programs do.

use std::cell::Cell;
use std::ops::RangeInclusive;
use std::process::exit;
use std::time::Duration;

use fastrand::Rng;
use redlatch::{Error, KeepAlive, LockGuard};
use redlatch_history::{Call, Says, Span, Way, What, Why};
use redlatch_testing::pause;

use crate::ask::why;
use crate::claim::{self, clock, drift, nanos};
use crate::event::Told;
use crate::hook::Hook;
use crate::on::On;
use crate::parcel::Parcel;
use crate::pipe::{Order, happened, order, tell};

/// How a worker ends that gives nothing back.
pub(crate) const ABRUPT: i32 = 3;

/// For how long a lock is held.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stay {
    /// 20 ms at most.
    AMoment,
    /// For a drawn time, at times beyond the lease.
    AnyTime,
}

/// A guard, and what is known of it.
pub(crate) struct Held {
    pub(crate) guard: LockGuard,
    pub(crate) call: Call,
    pub(crate) on: On,
    pub(crate) ttl_ms: u64,
    /// Until when it rests if it is given back before.
    pub(crate) rests_until: Option<u64>,
    /// Whether it is renewed in the background.
    pub(crate) is_kept: bool,
    /// When that ends at the latest, if it has a limit.
    pub(crate) ends_by: Option<u64>,
    pub(crate) hook: Option<Hook>,
    /// Whether it was seen to be lost.
    pub(crate) is_lost: Cell<bool>,
}

/// What follows when a lock was given back.
pub(crate) enum Left {
    Nothing,
    /// Nobody has it for this time.
    Rest(On, Option<u32>, (u64, u64)),
    /// The lock goes to another thread, or another worker.
    Lease(Parcel),
}

/// When a lock of this ttl that claims this was taken, at the earliest; and so until when it rests, at the least.
pub(crate) fn rest_of(claim: Option<Span>, ttl_ms: u64, at_least: Duration) -> Option<u64> {
    let taken = claim?.low + drift(ttl_ms) - ttl_ms * 1_000_000;
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
            ends_by: None,
            hook: None,
            is_lost: Cell::new(false),
        }
    }

    /// Lives with it; where it is extended, by a ttl in this range.
    pub(crate) fn live(&self, stay: Stay, range: &RangeInclusive<u64>, rng: &mut Rng) {
        let ttl_ms = self.ttl_ms;
        if stay == Stay::AMoment {
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
            370..373 if order() == Order::Run => exit(ABRUPT),
            373..500 => self.work(150, rng),
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
        let most = self.ends_by.map_or_else(|| rng.u64(2..=5), |_| 5);
        for times in 1..=most {
            let until = began + times * self.ttl_ms * 1_000_000;
            while clock() < until {
                if !self.look(rng) {
                    return;
                }
                pause(Duration::from_millis(rng.u64(1..=5)));
            }
            match times {
                1 => tell(&Told::Counted("locks kept for a ttl".to_owned())),
                2 => tell(&Told::Counted("locks kept for two ttls".to_owned())),
                _ => {}
            }
        }
    }

    /// Has a lock that was adopted renewed from now on.
    pub(crate) fn keep(&mut self, ttl_ms: u64) {
        let hold = self.call;
        let ttl = ttl_ms * 1_000_000;
        self.happened(clock(), What::Extends { hold, ttl });
        let unbounded = KeepAlive::unbounded();
        let result = self
            .guard
            .keep_alive(Duration::from_millis(ttl_ms), unbounded);
        // It may be renewed by now, so the clock is read last.
        let end = claim::of(&self.guard);
        let at = clock();
        if let Err(error) = result {
            return self.is_not_extended(at, &error);
        }
        (self.is_kept, self.ttl_ms) = (true, ttl_ms);
        self.happened(at, What::Extended { hold, end });
        self.happened(at, What::Keeps { hold });
    }

    fn happened(&self, at: u64, what: What) {
        match &self.hook {
            Some(hook) => hook.happened(at, what),
            None => happened(at, what),
        }
    }

    /// Looks whether it is valid. What it says of a moment between two readings of the clock is told as of the one at which
    /// it says less.
    fn look(&self, rng: &mut Rng) -> bool {
        let hold = self.call;
        let before = clock();
        let (at, says) = if rng.bool() {
            let is_valid = self.guard.check().is_ok();
            let after = clock();
            let claim = claim::of(&self.guard);
            claim::of_check(is_valid, (before, after), claim, clock())
        } else {
            let claim = claim::of(&self.guard);
            (claim.map_or_else(clock, |_| before), claim)
        };
        if says.is_none() {
            self.is_lost.set(true);
        }
        if self.is_kept && says.is_some_and(|says| says.low > self.longest()) {
            let text = format!("{} is kept for longer than it may be: {says:?}", self.on);
            tell(&Told::Wrong(text));
        }
        self.happened(at, What::Looks { hold, says });
        says.is_some()
    }

    /// Until when it may be valid if it is renewed now.
    fn longest(&self) -> u64 {
        let renewed = clock() + self.ttl_ms * 1_000_000 - drift(self.ttl_ms);
        self.ends_by.map_or(renewed, |by| by.min(renewed))
    }

    fn extend(&self, ttl_ms: u64) {
        let hold = self.call;
        let ttl = ttl_ms * 1_000_000;
        self.happened(clock(), What::Extends { hold, ttl });
        let result = self.guard.extend(Duration::from_millis(ttl_ms));
        let returned = clock();
        match result {
            Ok(()) => {
                let end = claim::of(&self.guard);
                self.happened(returned, What::Extended { hold, end });
            }
            Err(error) => self.is_not_extended(returned, &error),
        }
    }

    fn is_not_extended(&self, at: u64, error: &Error) {
        let (hold, why) = (self.call, why_of(error, &self.on, self.ends_by.is_some()));
        if why.is_loss() {
            self.is_lost.set(true);
        }
        self.happened(at, What::NotExtended { hold, why });
    }

    /// Gives the lock back, or hands it on.
    pub(crate) fn release(self, rng: &mut Rng) -> Left {
        let (hold, slot) = (self.call, self.guard.slot());
        let is_lease = rng.u32(0..8) == 0 && order() == Order::Run;
        let way = match rng.bool() {
            _ if is_lease => Way::HandOn,
            true => Way::Unlock,
            false => Way::Drop,
        };
        if let Some(hook) = self.hook.as_ref().filter(|_| self.is_lost.get()) {
            hook.wait();
        }
        self.happened(clock(), What::Releases { hold, way });
        if is_lease {
            let (on, ttl_ms) = (self.on, self.ttl_ms);
            let lease = self.guard.into_lease();
            let says = Says::Nothing;
            happened(clock(), What::Released { hold, says });
            return Left::Lease(Parcel { lease, on, ttl_ms });
        }
        if way == Way::Drop {
            drop(self.guard);
            let says = Says::Nothing;
            happened(clock(), What::Released { hold, says });
            return Left::Nothing;
        }
        let result = self.guard.unlock();
        let at = clock();
        let is_ok = result.is_ok();
        let says = match result {
            Ok(()) => Says::Okay,
            Err(error) => Says::Not(why_of(&error, &self.on, self.ends_by.is_some())),
        };
        happened(at, What::Released { hold, says });
        match self.rests_until {
            Some(until) if is_ok && at < until => Left::Rest(self.on, slot, (at, until)),
            _ => Left::Nothing,
        }
    }
}

/// Only a lock with a limit ends by its limit.
fn why_of(error: &Error, on: &On, has_limit: bool) -> Why {
    let why = why(error, on);
    if why == Why::Limited && !has_limit {
        tell(&Told::Wrong(format!(
            "{on} has no limit, and ended: {error}"
        )));
    }
    why
}
