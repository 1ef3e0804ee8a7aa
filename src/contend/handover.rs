//! Pure: how often, and for how long, a lock goes from thread to thread of one manager without going back to the servers.
//!
//! After lock cohorting: Dice, Marathe and Shavit, "Lock Cohorting", 2012.

use std::time::Duration;

use crate::clock::Timestamp;

/// The largest number of times. With the fenced protocol, the tokens that are set apart run ahead of the clock by so many
/// microseconds.
pub(crate) const MOST_TIMES: u32 = 1000;

/// What the builder allows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Allowance {
    pub(crate) times: u32,
    pub(crate) time: Duration,
}

/// What is left of it for one lock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cohort {
    times: u32,
    /// After that, the lock goes back to the servers.
    until: Timestamp,
}

impl Allowance {
    /// For a lock that was taken from the servers then.
    pub(crate) fn begin(self, since: Timestamp) -> Cohort {
        Cohort {
            times: self.times,
            until: since.saturating_add(self.time),
        }
    }
}

impl Cohort {
    /// What is left when the lock is handed over now; none if it may not be.
    pub(crate) fn next(self, now: Timestamp) -> Option<Self> {
        let times = self.times.checked_sub(1)?;
        (now < self.until).then_some(Self { times, ..self })
    }
}

/// Whether enough of the validity remains for one who asked for so much.
pub(crate) fn is_enough(remaining: Duration, wished: Duration) -> bool {
    !remaining.is_zero() && remaining.saturating_mul(2) >= wished
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
