//! The counters behind `Stats`: atomic numbers, and a histogram behind a mutex.

#![cfg_attr(not(test), expect(clippy::disallowed_types, reason = "only counted"))]

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hdrhistogram::Histogram;
use parking_lot::Mutex;

use super::facade::{Export, FigureKind};

/// A number that only grows.
#[derive(Debug)]
pub(crate) struct Counter {
    value: AtomicU64,
    export: Export,
    /// The gauge of the locks that are held, and by how much it changes.
    held: Option<(Export, f64)>,
}

impl Counter {
    pub(super) fn new(
        name: &str,
        text: &'static str,
        labels: &[(&'static str, &str)],
        held: Option<f64>,
    ) -> Self {
        let gauge = || Export::new(FigureKind::Gauge, "held", "Locks that are held now.", &[]);
        Self {
            value: AtomicU64::new(0),
            export: Export::new(FigureKind::Counter, name, text, labels),
            held: held.map(|by| (gauge(), by)),
        }
    }

    pub(crate) fn count(&self) {
        self.value.fetch_add(1, Ordering::Relaxed);
        self.export.count();
        if let Some((gauge, by)) = &self.held {
            gauge.change(*by);
        }
    }

    pub(super) fn get(&self) -> u64 {
        self.value.load(Ordering::Relaxed)
    }
}

/// Longer waits count as this long, in microseconds: an hour.
const LONGEST_US: u64 = 3_600_000_000;

/// Significant decimal digits of a recorded wait.
const DIGITS: u8 = 2;

/// How long calls took. The histogram is only allocated for the first.
#[derive(Debug)]
pub(crate) struct Waits {
    histogram: Mutex<Option<Histogram<u64>>>,
    export: Export,
}

impl Default for Waits {
    fn default() -> Self {
        let text = "How long the calls took that got the lock.";
        Self {
            histogram: Mutex::default(),
            export: Export::new(FigureKind::Times, "wait", text, &[]),
        }
    }
}

impl Waits {
    pub(crate) fn record(&self, wait: Duration) {
        let micros = u64::try_from(wait.as_micros()).unwrap_or(u64::MAX);
        {
            let mut histogram = self.histogram.lock();
            if histogram.is_none() {
                *histogram = Histogram::new_with_bounds(1, LONGEST_US, DIGITS).ok();
            }
            if let Some(histogram) = histogram.as_mut() {
                histogram.saturating_record(micros);
            }
        }
        self.export.record(wait);
    }

    pub(crate) fn snapshot(&self) -> Option<Histogram<u64>> {
        self.histogram.lock().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Recorder;
    use super::*;

    #[test]
    fn an_hour_is_the_longest_and_nothing_is_kept_before_the_first() {
        let waits = Waits::default();
        assert!(waits.histogram.lock().is_none());
        waits.record(Duration::ZERO);
        waits.record(Duration::MAX);
        let times = waits.snapshot().unwrap();
        assert_eq!((times.len(), times.min()), (2, 0));
        assert!((LONGEST_US..=LONGEST_US / 100 * 101).contains(&times.max()));
    }

    #[test]
    fn every_wait_is_kept_within_one_percent() {
        let mut micros = 1_u64;
        while micros < LONGEST_US {
            let recorder = Recorder::new(&[]);
            let wait = Duration::from_micros(micros);
            recorder.waits.record(wait);
            let stats = recorder.snapshot(Vec::new(), recorder.waits.snapshot());
            let (kept, mean) = (stats.wait_quantile(1.0), stats.wait_mean());
            assert!(
                kept >= wait && kept <= wait + wait / 100,
                "{wait:?} {kept:?}"
            );
            assert!(mean.abs_diff(wait) <= wait / 100, "{wait:?} {mean:?}");
            micros = micros * 21 / 20 + 1;
        }
    }

    #[test]
    fn a_histogram_takes_as_many_bytes_as_the_page_says() {
        let histogram = Histogram::<u64>::new_with_bounds(1, LONGEST_US, DIGITS).unwrap();
        assert_eq!(histogram.distinct_values() * size_of::<u64>(), 26_624);
    }
}
