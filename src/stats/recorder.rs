//! The counters behind `Stats`: atomic numbers, and a histogram behind a mutex.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hdrhistogram::Histogram;
use parking_lot::Mutex;

use super::{NodeStats, Stats, WaitTimes};
use crate::error::Vote;

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn count(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counters of a manager. [`Stats`] says what each of them is.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    pub(crate) attempts: Counter,
    pub(crate) acquired: Counter,
    pub(crate) contended: Counter,
    pub(crate) queued: Counter,
    pub(crate) woken: Counter,
    pub(crate) failed_held: Counter,
    pub(crate) failed_unavailable: Counter,
    pub(crate) failed_too_slow: Counter,
    pub(crate) adopted: Counter,
    pub(crate) extended: Counter,
    pub(crate) renewed: Counter,
    pub(crate) healed: Counter,
    pub(crate) failed_renewals: Counter,
    pub(crate) released: Counter,
    pub(crate) unconfirmed: Counter,
    pub(crate) passed_on: Counter,
    pub(crate) lost: Counter,
    pub(crate) waits: Waits,
}

impl Recorder {
    /// The counters up to now, with those of the nodes.
    pub(crate) fn snapshot(&self, nodes: Vec<NodeStats>, waits: WaitTimes) -> Stats {
        Stats {
            attempts: self.attempts.get(),
            acquired: self.acquired.get(),
            contended: self.contended.get(),
            queued: self.queued.get(),
            woken: self.woken.get(),
            failed_held: self.failed_held.get(),
            failed_unavailable: self.failed_unavailable.get(),
            failed_too_slow: self.failed_too_slow.get(),
            adopted: self.adopted.get(),
            extended: self.extended.get(),
            renewed: self.renewed.get(),
            healed: self.healed.get(),
            failed_renewals: self.failed_renewals.get(),
            released: self.released.get(),
            unconfirmed: self.unconfirmed.get(),
            passed_on: self.passed_on.get(),
            lost: self.lost.get(),
            nodes,
            waits,
        }
    }
}

/// The counters of a node. [`NodeStats`] says what each of them is.
#[derive(Debug, Default)]
pub(crate) struct NodeRecorder {
    granted: Counter,
    refused: Counter,
    failed: Counter,
    pub(crate) opened: Counter,
    pub(crate) closed: Counter,
}

impl NodeRecorder {
    /// Counts the node's vote on an attempt.
    pub(crate) fn voted(&self, vote: &Vote) {
        match vote {
            Vote::Granted => self.granted.count(),
            Vote::Held { .. }
            | Vote::Read { .. }
            | Vote::WriterWaits { .. }
            | Vote::Stale { .. }
            | Vote::Missing => self.refused.count(),
            Vote::Failed(error) if error.is_left_out() => {}
            Vote::Failed(_) => self.failed.count(),
            Vote::Released | Vote::NotAsked => {}
        }
    }

    pub(crate) fn snapshot(&self, node: &Arc<str>) -> NodeStats {
        NodeStats {
            node: Arc::clone(node),
            granted: self.granted.get(),
            refused: self.refused.get(),
            failed: self.failed.get(),
            opened: self.opened.get(),
            closed: self.closed.get(),
        }
    }
}

/// Longer waits count as this long, in microseconds: an hour.
const LONGEST_US: u64 = 3_600_000_000;

/// Significant decimal digits of a recorded wait.
const DIGITS: u8 = 2;

/// How long calls took. The histogram is only allocated for the first.
#[derive(Debug, Default)]
pub(crate) struct Waits(Mutex<Option<Histogram<u64>>>);

impl Waits {
    pub(crate) fn record(&self, wait: Duration) {
        let micros = u64::try_from(wait.as_micros()).unwrap_or(u64::MAX);
        let mut histogram = self.0.lock();
        if histogram.is_none() {
            *histogram = Histogram::new_with_bounds(1, LONGEST_US, DIGITS).ok();
        }
        if let Some(histogram) = histogram.as_mut() {
            histogram.saturating_record(micros);
        }
    }

    /// The wait times where they can't be read.
    pub(crate) fn unknown() -> WaitTimes {
        WaitTimes { histogram: None }
    }

    pub(crate) fn snapshot(&self) -> WaitTimes {
        WaitTimes {
            histogram: self.0.lock().clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_is_the_longest_and_nothing_is_kept_before_the_first() {
        let waits = Waits::default();
        assert!(waits.0.lock().is_none());
        assert_eq!(waits.snapshot().count(), 0);
        waits.record(Duration::ZERO);
        waits.record(Duration::MAX);
        let times = waits.snapshot();
        assert_eq!(times.count(), 2);
        assert_eq!(times.quantile(0.0), Duration::ZERO);
        let hour = Duration::from_hours(1);
        assert!(times.max() >= hour && times.max() <= hour + hour / 100);
    }

    #[test]
    fn every_wait_is_kept_within_one_percent() {
        let mut micros = 1_u64;
        while micros < LONGEST_US {
            let waits = Waits::default();
            waits.record(Duration::from_micros(micros));
            let wait = Duration::from_micros(micros);
            let (kept, mean) = (waits.snapshot().max(), waits.snapshot().mean());
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
