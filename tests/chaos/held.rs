//! A lock that a worker holds, in all the ways that programs do.

use std::process::exit;
use std::time::Duration;

use fastrand::Rng;
use redlatch::LockGuard;
use redlatch_testing::pause;

use crate::event::{Claim, Event, clock, name};
use crate::pipe::{Order, order, tell};
use crate::plan::TTL_MS;

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

/// A guard and what it claimed when it was last looked at; no claim when that was over by then.
pub(crate) struct Held<'a> {
    pub(crate) guard: LockGuard,
    /// What it is told as.
    pub(crate) name: String,
    pub(crate) claim: Option<Claim>,
    pub(crate) rng: &'a mut Rng,
}

impl Held<'_> {
    pub(crate) fn live(&mut self, stay: Stay, ttl_ms: u64) {
        if stay == Stay::AMoment {
            return self.work(20);
        }
        match self.rng.u32(0..1_000) {
            // Far beyond the lease, and then the extension of what is no longer there.
            0..25 => {
                let beyond = Duration::from_millis(self.rng.u64(1..=200));
                pause(self.guard.remaining() + beyond);
                self.check();
                self.extend();
            }
            25..300 => {
                for _ in 0..self.rng.u32(1..=3) {
                    self.work(ttl_ms / 2);
                    self.extend();
                }
                // What the extensions promised is used.
                self.work(ttl_ms);
            }
            300..370 => self.work(ttl_ms),
            370..373 if order() == Order::Run => exit(ABRUPT),
            _ => self.work(20),
        }
    }

    /// Works for some time, as long as the lock is there.
    fn work(&mut self, most_ms: u64) {
        let mut left = self.rng.u64(0..=most_ms);
        while self.check() && left > 0 {
            let step = left.min(self.rng.u64(1..=5));
            pause(Duration::from_millis(step));
            left -= step;
        }
    }

    /// What `check` says has to fit what the guard claimed.
    fn check(&self) -> bool {
        let before = clock();
        let result = self.guard.check();
        let after = clock();
        let wrong = match (&result, self.claim) {
            (Ok(()), Some(claim)) => before > claim.high,
            (Ok(()), None) => true,
            (Err(_), Some(claim)) => after < claim.low,
            (Err(_), None) => false,
        };
        if wrong {
            tell(&Event::Wrong(format!(
                "check between {before} and {after} says {result:?} of {:?}, token {}",
                self.claim, self.name
            )));
        }
        result.is_ok()
    }

    fn extend(&mut self) {
        let ttl_ms = self.rng.u64(TTL_MS);
        let result = self.guard.extend(Duration::from_millis(ttl_ms));
        let returned = clock();
        let token = self.name.clone();
        let Err(error) = result else {
            self.claim = Claim::of(&self.guard);
            let claim = self.claim;
            return tell(&Event::Extended {
                token,
                ttl_ms,
                returned,
                claim,
            });
        };
        let why = name(&error).to_owned();
        if why.starts_with("lost") {
            self.claim = None;
        }
        tell(&Event::NotExtended {
            token,
            returned,
            why,
        });
    }

    pub(crate) fn release(self) {
        let token = self.name;
        let unlock = self.rng.bool();
        tell(&Event::Releasing {
            token: token.clone(),
            at: clock(),
        });
        if !unlock {
            return drop(self.guard);
        }
        let result = self.guard.unlock();
        let returned = clock();
        let outcome = result.as_ref().err().map_or("ok", name).to_owned();
        tell(&Event::Unlocked {
            token,
            returned,
            outcome,
        });
    }
}
