//! `Stats` as OpenMetrics text, which Prometheus scrapes and the node exporter reads from a file.

use std::fmt::{self, Formatter};
use std::time::Duration;

use hdrhistogram::Histogram;

use super::{NodeStats, Stats, WaitTimes};

/// The upper bounds of the buckets of the wait times, in microseconds: from an uncontended lock to a job that waits for
/// another one.
const BOUNDS_US: [u64; 17] = [
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    30_000_000,
    60_000_000,
    300_000_000,
    1_800_000_000,
];

/// A counter without labels: its name, its help, and where it is.
type Counter = (&'static str, &'static str, fn(&Stats) -> u64);

const COUNTERS: &[Counter] = &[
    ("attempts", "Rounds over the nodes for a lock.", |stats| {
        stats.attempts
    }),
    ("acquired", "Calls that got the lock.", |stats| {
        stats.acquired
    }),
    ("contended", "Calls that met another holder.", |stats| {
        stats.contended
    }),
    (
        "queued",
        "Calls that waited behind another thread of this process.",
        |stats| stats.queued,
    ),
    (
        "woken",
        "Waits that the release of another process ended.",
        |stats| stats.woken,
    ),
    (
        "adopted",
        "Locks that were taken over as a lease.",
        |stats| stats.adopted,
    ),
    (
        "extended",
        "Extensions by a call that succeeded.",
        |stats| stats.extended,
    ),
    (
        "renewed",
        "Renewals in the background that succeeded.",
        |stats| stats.renewed,
    ),
    (
        "healed",
        "Keys that an extension or a renewal set again on a node that had none.",
        |stats| stats.healed,
    ),
    (
        "failed_renewals",
        "Renewals in the background that failed.",
        |stats| stats.failed_renewals,
    ),
    ("released", "Locks that were given back.", |stats| {
        stats.released
    }),
    (
        "unconfirmed",
        "Locks that were given back, and no majority has confirmed it.",
        |stats| stats.unconfirmed,
    ),
    (
        "passed_on",
        "Locks that were passed on as a lease.",
        |stats| stats.passed_on,
    ),
    ("lost", "Locks that were lost before their end.", |stats| {
        stats.lost
    }),
];

/// Prints [`Stats`] as OpenMetrics text. Made by [`Stats::open_metrics`].
#[derive(Debug, Clone, Copy)]
pub struct OpenMetrics<'a> {
    stats: &'a Stats,
    resource: Option<&'a str>,
}

impl Stats {
    /// Returns the counters, the number of guards and the wait times as OpenMetrics text, from the first `# TYPE` line
    /// to `# EOF`.
    ///
    /// A handler for `/metrics` sends it with the content type
    /// `application/openmetrics-text; version=1.0.0; charset=utf-8`. The text keeps to what the older Prometheus text
    /// format (`text/plain; version=0.0.4`) allows as well. A reader of that format sees the counters without their type,
    /// because it expects `_total` in the `# TYPE` line, where OpenMetrics forbids it; the values are the same.
    ///
    /// The names and labels are a promise; `docs/operations.md` lists them. Wait times are a histogram in seconds. A wait
    /// that is up to 1 % longer than the bound of a bucket may count in that bucket.
    ///
    /// ```
    /// use redlatch::{LockManager, fake::FakeNode};
    /// use std::time::Duration;
    ///
    /// let manager = LockManager::builder().fakes(&FakeNode::cluster(3)).build()?;
    /// let guard = manager.lock("invoices", Duration::from_secs(10))?;
    /// let text = manager.stats().open_metrics().to_string();
    /// assert!(text.contains("\nredlatch_acquired_total 1\n"));
    /// assert!(text.contains("\nredlatch_held 1\n"));
    /// # guard.unlock()?;
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn open_metrics(&self) -> OpenMetrics<'_> {
        OpenMetrics {
            stats: self,
            resource: None,
        }
    }
}

impl<'a> OpenMetrics<'a> {
    /// Adds the label `resource` with this value to every sample.
    ///
    /// It keeps the samples of several programs apart where they come together, such as in the folder of the node
    /// exporter's textfile collector.
    ///
    /// ```
    /// # let nodes = redlatch::fake::FakeNode::cluster(3);
    /// # let manager = redlatch::LockManager::builder().fakes(&nodes).build()?;
    /// let text = manager.stats().open_metrics().resource("billing").to_string();
    /// assert!(text.contains("\nredlatch_acquired_total{resource=\"billing\"} 0\n"));
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    #[must_use]
    pub fn resource(mut self, resource: &'a str) -> Self {
        self.resource = Some(resource);
        self
    }

    /// The lines that name a metric and say what it is.
    fn describe(f: &mut Formatter<'_>, metric: &str, kind: &str, help: &str) -> fmt::Result {
        writeln!(f, "# TYPE redlatch_{metric} {kind}")?;
        if metric.ends_with("_seconds") {
            writeln!(f, "# UNIT redlatch_{metric} seconds")?;
        }
        writeln!(f, "# HELP redlatch_{metric} {help}")
    }

    fn sample(
        &self,
        f: &mut Formatter<'_>,
        name: &str,
        labels: &[(&str, &str)],
        value: impl fmt::Display,
    ) -> fmt::Result {
        write!(f, "redlatch_{name}")?;
        let resource = self.resource.map(|resource| ("resource", resource));
        let mut opening = '{';
        for (label, text) in resource.iter().chain(labels) {
            write!(f, "{opening}{label}=\"{}\"", Escaped(text))?;
            opening = ',';
        }
        let closing = if opening == ',' { "}" } else { "" };
        writeln!(f, "{closing} {value}")
    }

    /// A counter with one sample for each set of labels.
    fn counter<'l>(
        &self,
        f: &mut Formatter<'_>,
        metric: &str,
        help: &str,
        samples: impl IntoIterator<Item = (Vec<(&'l str, &'l str)>, u64)>,
    ) -> fmt::Result {
        Self::describe(f, metric, "counter", help)?;
        let name = [metric, "_total"].concat();
        for (labels, value) in samples {
            self.sample(f, &name, &labels, value)?;
        }
        Ok(())
    }

    fn calls(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (metric, help, count) in COUNTERS {
            self.counter(f, metric, help, [(Vec::new(), count(self.stats))])?;
        }
        let failures = [
            ("held", self.stats.failed_held),
            ("unavailable", self.stats.failed_unavailable),
            ("too_slow", self.stats.failed_too_slow),
        ];
        let failures = failures.map(|(reason, count)| (vec![("reason", reason)], count));
        self.counter(
            f,
            "failed_calls",
            "Calls that did not get the lock.",
            failures,
        )?;
        Self::describe(f, "held", "gauge", "Locks that are held now.")?;
        self.sample(f, "held", &[], self.stats.held())
    }

    fn wait_times(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let waits = &self.stats.waits;
        let help = "How long the calls took that got the lock.";
        Self::describe(f, "wait_seconds", "histogram", help)?;
        for bound in BOUNDS_US {
            let le = format!("{:?}", Duration::from_micros(bound).as_secs_f64());
            let count = waits.within(bound);
            self.sample(f, "wait_seconds_bucket", &[("le", &le)], count)?;
        }
        self.sample(f, "wait_seconds_bucket", &[("le", "+Inf")], waits.count())?;
        self.sample(f, "wait_seconds_sum", &[], waits.sum().as_secs_f64())?;
        self.sample(f, "wait_seconds_count", &[], waits.count())
    }

    fn nodes(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let nodes = &self.stats.nodes;
        let named: Vec<(String, &NodeStats)> = names(nodes).into_iter().zip(nodes).collect();
        let votes = named.iter().flat_map(|(name, node)| {
            let NodeStats {
                granted,
                refused,
                failed,
                ..
            } = node;
            let votes = [
                ("granted", granted),
                ("refused", refused),
                ("failed", failed),
            ];
            votes.map(|(vote, count)| (vec![("node", name.as_str()), ("vote", vote)], *count))
        });
        let help = "What the node said to attempts; failed is no answer in time, or an error.";
        self.counter(f, "node_votes", help, votes)?;
        let of_node = |count: fn(&NodeStats) -> u64| {
            let samples = named.iter();
            samples.map(move |(name, node)| (vec![("node", name.as_str())], count(node)))
        };
        let help = "How often the node failed and was left out from then on.";
        self.counter(f, "node_left_out", help, of_node(|node| node.opened))?;
        let help = "How often the node answered again after that.";
        self.counter(f, "node_back", help, of_node(|node| node.closed))
    }
}

impl fmt::Display for OpenMetrics<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.calls(f)?;
        self.wait_times(f)?;
        self.nodes(f)?;
        f.write_str("# EOF\n")
    }
}

impl WaitTimes {
    /// How many calls took so many microseconds at most.
    fn within(&self, micros: u64) -> u64 {
        let count = |histogram: &Histogram<u64>| histogram.count_between(0, micros);
        self.histogram.as_ref().map_or(0, count)
    }

    /// How long all calls took. It is a sum of whole microseconds, because a counter must never shrink, not even by a
    /// rounding.
    fn sum(&self) -> Duration {
        let sum = |histogram: &Histogram<u64>| {
            histogram.iter_recorded().fold(0_u64, |sum, step| {
                let micros = histogram.median_equivalent(step.value_iterated_to());
                sum.saturating_add(micros.saturating_mul(step.count_at_value()))
            })
        };
        Duration::from_micros(self.histogram.as_ref().map_or(0, sum))
    }
}

/// The names of the nodes, each made unique: the paths of two sockets may differ only in what can't be shown.
fn names(nodes: &[NodeStats]) -> Vec<String> {
    let mut names: Vec<String> = Vec::with_capacity(nodes.len());
    for node in nodes {
        let mut name = node.node.to_string();
        while names.contains(&name) {
            name.push('\'');
        }
        names.push(name);
    }
    names
}

/// The value of a label, between its quotes.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character {
                '\\' => f.write_str("\\\\")?,
                '"' => f.write_str("\\\"")?,
                '\n' => f.write_str("\\n")?,
                _ => write!(f, "{character}")?,
            }
        }
        Ok(())
    }
}
