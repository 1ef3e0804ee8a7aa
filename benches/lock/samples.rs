//! Times of one thing that was done many times.

use std::time::Duration;

use redlatch_testing::now;

#[derive(Default)]
pub(crate) struct Samples(Vec<Duration>);

impl Samples {
    /// Does the work and keeps the time that it took.
    pub(crate) fn time<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let started = now();
        let result = work();
        self.push(now() - started);
        result
    }

    pub(crate) fn push(&mut self, time: Duration) {
        self.0.push(time);
    }

    pub(crate) fn append(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Duration> {
        self.0.iter().copied()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The smallest sample that is not below `percent` percent of all, in milliseconds: the smallest for 0, the largest for 100.
    pub(crate) fn percentile_ms(&self, percent: usize) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let rank = (sorted.len() * percent).div_ceil(100);
        1e3 * sorted[rank.saturating_sub(1)].as_secs_f64()
    }

    /// The ratio of the medians.
    pub(crate) fn against(&self, other: &Self) -> f64 {
        self.percentile_ms(50) / other.percentile_ms(50)
    }
}
