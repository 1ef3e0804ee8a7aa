//! Pure: how often, and for how long, a lock passes from thread to thread of one manager without a release.
//!
//! After lock cohorting: Dice, Marathe and Shavit, "Lock Cohorting", 2012.

use std::time::Duration;

use crate::clock::Timestamp;

/// The largest number of times. With the fenced protocol, one token is reserved for each, and the last is ahead of the
/// clock by as many microseconds.
pub(crate) const MOST_TIMES: u32 = 1000;

/// How often a lock is passed on from thread to thread before it is released once, so that clients which only poll can get it.
pub(crate) const MOST_PASSES: u32 = 15;

/// The bounds that the builder was given.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Allowance {
    pub(crate) times: u32,
    pub(crate) time: Duration,
}

/// What is left of the allowance for one lock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cohort {
    times: u32,
    /// From then on, the lock is released instead.
    until: Timestamp,
}

impl Allowance {
    /// The allowance of a lock that was acquired at `since`.
    pub(crate) fn begin(self, since: Timestamp) -> Cohort {
        Cohort {
            times: self.times,
            until: since.saturating_add(self.time),
        }
    }
}

impl Cohort {
    /// What is left after a hand-over now; none if the lock may not be handed over.
    pub(crate) fn next(self, now: Timestamp) -> Option<Self> {
        let times = self.times.checked_sub(1)?;
        (now < self.until).then_some(Self { times, ..self })
    }
}

/// Whether enough validity remains for a thread that requested this much.
pub(crate) fn is_enough(remaining: Duration, requested: Duration) -> bool {
    !remaining.is_zero() && remaining.saturating_mul(2) >= requested
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_nanos(0).saturating_add(Duration::from_millis(millis))
    }

    #[test]
    fn a_lock_is_handed_over_so_often_and_no_more() {
        let (times, time) = (2, Duration::from_millis(100));
        let cohort = Allowance { times, time }.begin(at(0));
        let second = cohort.next(at(1)).unwrap();
        let third = second.next(at(1)).unwrap();
        assert!(third.next(at(1)).is_none());
    }

    #[test]
    fn and_for_so_long_and_no_longer() {
        let (times, time) = (1000, Duration::from_millis(100));
        let cohort = Allowance { times, time }.begin(at(50));
        assert!(cohort.next(at(149)).is_some());
        assert!(cohort.next(at(150)).is_none());
        // The time counts from the beginning, and not from the last time.
        let later = cohort.next(at(149)).unwrap();
        assert!(later.next(at(150)).is_none());
    }

    #[test]
    fn half_of_what_is_wished_is_enough() {
        let ms = Duration::from_millis;
        assert!(is_enough(ms(500), ms(1000)));
        assert!(!is_enough(ms(499), ms(1000)));
        assert!(is_enough(ms(5000), ms(1000)));
        assert!(!is_enough(Duration::ZERO, Duration::ZERO));
    }
}
