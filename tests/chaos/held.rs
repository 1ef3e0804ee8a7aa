//! A lock that a worker holds, in all the ways that programs do.

use std::ops::RangeInclusive;
use std::process::exit;
use std::time::Duration;

use fastrand::Rng;
use redlatch::{Lease, LockGuard};
use redlatch_history::{Call, Says, Span, Way, What};
use redlatch_testing::pause;

use crate::ask::why;
use crate::claim::{self, clock, drift, nanos};
use crate::on::On;
use crate::pipe::{Order, happened, order};

/// How a worker ends that gives nothing back.
pub(crate) const ABRUPT: i32 = 3;

/// For how long a lock is held.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stay {
    /// 20 ms at most.
    AMoment,
    /// Shorter or longer, at times beyond the lease.
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
}

/// What is left of a lock that was given back.
pub(crate) enum Left {
    Nothing,
    /// Nobody has it for this time.
    Rest(On, Option<u32>, (u64, u64)),
    /// For another thread, with the ttl.
    Lease(Lease, On, u64),
}

/// When a lock of this ttl that claims this was taken, at the earliest; and so until when it rests, at the least.
pub(crate) fn rest_of(claim: Option<Span>, ttl_ms: u64, at_least: Duration) -> Option<u64> {
    let taken = claim?.low + drift(ttl_ms) - ttl_ms * 1_000_000;
    let at_least_ms = u64::try_from(at_least.as_millis()).unwrap();
    Some(taken + nanos(at_least) - drift(at_least_ms))
}

impl Held {
    /// Lives with it; where it is extended, by a ttl in this range.
    pub(crate) fn live(&self, stay: Stay, range: &RangeInclusive<u64>, rng: &mut Rng) {
        let ttl_ms = self.ttl_ms;
        if stay == Stay::AMoment {
            return self.work(20, rng);
        }
        match rng.u32(0..1_000) {
            // Far beyond the lease, and then the extension of what is no longer there.
            0..25 => {
                let beyond = Duration::from_millis(rng.u64(1..=200));
                pause(self.guard.remaining() + beyond);
                self.look(rng);
                self.extend(rng.u64(range.clone()));
            }
            25..300 => {
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

    /// Looks whether it is valid. What it says of a moment between two readings of the clock is told as of the one at which
    /// it says less.
    fn look(&self, rng: &mut Rng) -> bool {
        let hold = self.call;
        let before = clock();
        // What `check` says is what `remaining` says.
        let says = if rng.bool() {
            let is_valid = self.guard.check().is_ok();
            let after = clock();
            let claim = is_valid.then(|| claim::of(&self.guard)).flatten();
            if is_valid && claim.is_none() {
                // It ended meanwhile, which the next look tells.
                return false;
            }
            (claim, after)
        } else {
            (claim::of(&self.guard), clock())
        };
        let (says, after) = says;
        let at = if says.is_some() { before } else { after };
        happened(at, What::Looks { hold, says });
        says.is_some()
    }

    fn extend(&self, ttl_ms: u64) {
        let hold = self.call;
        let ttl = ttl_ms * 1_000_000;
        happened(clock(), What::Extends { hold, ttl });
        let result = self.guard.extend(Duration::from_millis(ttl_ms));
        let returned = clock();
        let what = match result {
            Ok(()) => What::Extended {
                hold,
                end: claim::of(&self.guard),
            },
            Err(error) => What::NotExtended {
                hold,
                why: why(&error, &self.on),
            },
        };
        happened(returned, what);
    }

    /// Gives it back, or on.
    pub(crate) fn release(self, rng: &mut Rng) -> Left {
        let (hold, slot) = (self.call, self.guard.slot());
        let is_lease = rng.u32(0..12) == 0 && order() == Order::Run;
        let way = match rng.bool() {
            _ if is_lease => Way::HandOn,
            true => Way::Unlock,
            false => Way::Drop,
        };
        happened(clock(), What::Releases { hold, way });
        if is_lease {
            let lease = self.guard.into_lease();
            let says = Says::Nothing;
            happened(clock(), What::Released { hold, says });
            return Left::Lease(lease, self.on, self.ttl_ms);
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
        let says = result.map_or_else(|error| Says::Not(why(&error, &self.on)), |()| Says::Okay);
        happened(at, What::Released { hold, says });
        match self.rests_until {
            Some(until) if is_ok && at < until => Left::Rest(self.on, slot, (at, until)),
            _ => Left::Nothing,
        }
    }
}
