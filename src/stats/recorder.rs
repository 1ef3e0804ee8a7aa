//! The counters behind `Stats`: atomic numbers, and a histogram behind a mutex. The names and the descriptions that
//! monitoring systems get are here, and nowhere else.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hdrhistogram::Histogram;
use parking_lot::Mutex;

use super::facade::{Export, FigureKind};
use super::{NodeStats, Stats};
use crate::error::Vote;

/// A number that only grows.
#[derive(Debug)]
pub(crate) struct Counter {
    value: AtomicU64,
    export: Export,
}

impl Counter {
    fn new(name: &str, text: &'static str, labels: &[(&'static str, &str)]) -> Self {
        Self {
            value: AtomicU64::new(0),
            export: Export::new(FigureKind::Counter, name, text, labels),
        }
    }

    /// Has a gauge change with this counter.
    fn changing(self, gauge: &Export, by: f64) -> Self {
        let export = self.export.changing(gauge, by);
        Self { export, ..self }
    }

    pub(crate) fn count(&self) {
        self.value.fetch_add(1, Ordering::Relaxed);
        self.export.count();
    }

    fn get(&self) -> u64 {
        self.value.load(Ordering::Relaxed)
    }
}

/// The counters of a manager. [`Stats`] says what each of them is.
#[derive(Debug)]
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

impl Default for Recorder {
    fn default() -> Self {
        let held = Export::new(FigureKind::Gauge, "held", "Locks that are held now.", &[]);
        let counter = |name, text| Counter::new(name, text, &[]);
        let begun = |name, text| counter(name, text).changing(&held, 1.0);
        let ended = |name, text| counter(name, text).changing(&held, -1.0);
        let failed = |reason| {
            let text = "Calls that did not get the lock.";
            Counter::new("failed_calls", text, &[("reason", reason)])
        };
        Self {
            attempts: counter("attempts", "Rounds over the nodes for a lock."),
            acquired: begun("acquired", "Calls that got the lock."),
            contended: counter("contended", "Calls that met another holder."),
            queued: counter(
                "queued",
                "Calls that waited for another thread of this process.",
            ),
            woken: counter("woken", "Waits that the release of another process ended."),
            failed_held: failed("held"),
            failed_unavailable: failed("unavailable"),
            failed_too_slow: failed("too_slow"),
            adopted: begun("adopted", "Locks that were taken over as a lease."),
            extended: counter("extended", "Extensions by a call that succeeded."),
            renewed: counter("renewed", "Renewals in the background that succeeded."),
            healed: counter(
                "healed",
                "Keys that were set again on a node that had none.",
            ),
            failed_renewals: counter("failed_renewals", "Renewals in the background that failed."),
            released: ended("released", "Locks that were given back."),
            unconfirmed: ended(
                "unconfirmed",
                "Locks that were given back, without a majority to confirm it.",
            ),
            passed_on: ended("passed_on", "Locks that were passed on as a lease."),
            lost: ended("lost", "Locks that were lost before their end."),
            waits: Waits::default(),
        }
    }
}

impl Recorder {
    /// The counters up to now, with those of the nodes.
    pub(crate) fn snapshot(&self, nodes: Vec<NodeStats>, waits: Option<Histogram<u64>>) -> Stats {
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
#[derive(Debug)]
pub(crate) struct NodeRecorder {
    granted: Counter,
    refused: Counter,
    failed: Counter,
    pub(crate) opened: Counter,
    pub(crate) closed: Counter,
}

impl NodeRecorder {
    pub(crate) fn new(node: &str) -> Self {
        let counter = |name, text| Counter::new(name, text, &[("node", node)]);
        let votes = |vote| {
            let text = "What the node said to attempts; failed is no answer in time, or an error.";
            Counter::new("node_votes", text, &[("node", node), ("vote", vote)])
        };
        Self {
            granted: votes("granted"),
            refused: votes("refused"),
            failed: votes("failed"),
            opened: counter(
                "node_left_out",
                "How often the node failed and was left out from then on.",
            ),
            closed: counter("node_back", "How often the node answered again after that."),
        }
    }

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
            let waits = Waits::default();
            waits.record(Duration::from_micros(micros));
            let recorder = Recorder {
                waits,
                ..Recorder::default()
            };
            let stats = recorder.snapshot(Vec::new(), recorder.waits.snapshot());
            let wait = Duration::from_micros(micros);
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
