//! The time of a run, and clocks that go too fast or too slow by it.

/// Nanoseconds. If nothing else is said, they are of the true time of the run.
pub(crate) type Nanos = u64;

pub(crate) const MICRO: Nanos = 1_000;
pub(crate) const MILLI: Nanos = 1_000_000;
pub(crate) const SECOND: Nanos = 1_000_000_000;

/// What all clocks show at the beginning of a run, but for those that are behind.
pub(crate) const BEGINNING: Nanos = 1_000 * SECOND;

/// A clock that started at some time and gains `rate` millionths.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clockwork {
    pub(crate) epoch: Nanos,
    rate: i64,
}

impl Clockwork {
    pub(crate) fn new(epoch: Nanos, rate: i64) -> Self {
        Self { epoch, rate }
    }

    /// What the clock shows at a true time.
    pub(crate) fn shows(&self, at: Nanos) -> Nanos {
        let gained = i128::from(at) * i128::from(self.rate) / 1_000_000;
        let shown = i128::from(self.epoch) + i128::from(at) + gained;
        u64::try_from(shown).unwrap()
    }

    /// The first true time at which the clock shows `reading` or more.
    pub(crate) fn when(&self, reading: Nanos) -> Nanos {
        let ahead = i128::from(reading.saturating_sub(self.epoch));
        let estimate = ahead * 1_000_000 / i128::from(1_000_000 + self.rate);
        let mut at = u64::try_from(estimate)
            .unwrap_or(Nanos::MAX)
            .saturating_sub(2);
        while self.shows(at) < reading {
            at += 1;
        }
        at
    }

    /// From now on it is behind by so much of what it would show if it had never been set.
    pub(crate) fn falls_behind(&mut self, by: Nanos) {
        self.epoch = BEGINNING - by;
    }
}

#[test]
fn a_clock_is_read_both_ways() {
    for rate in [-4_950, -1, 0, 1, 4_950] {
        let clock = Clockwork::new(7 * SECOND, rate);
        for at in [0, 1, 999, 12_345_678_901, 4_000 * SECOND] {
            let when = clock.when(clock.shows(at));
            assert!(
                when <= at && clock.shows(when) == clock.shows(at),
                "{rate} {at} {when}"
            );
        }
    }
}
