//! Samples, their percentiles, and the printed table.

use std::path::Path;
use std::time::Duration;

use redlatch_testing::now;

/// Prints rows as they come and counts the targets.
#[derive(Default)]
pub(crate) struct Table {
    section: String,
    met: usize,
    missed: Vec<String>,
    /// What was printed, by the name of the part of the benchmark.
    parts: Vec<(&'static str, String)>,
}

impl Table {
    /// What is printed from now on belongs to this part of the benchmark.
    pub(crate) fn part(&mut self, name: &'static str) {
        self.parts.push((name, String::new()));
    }

    /// Puts the parts into the page, each between the marks with its name; those that the page does not have are left out.
    pub(crate) fn write(&self) {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/benchmarks.md");
        let mut text = std::fs::read_to_string(&page).unwrap();
        for (name, lines) in &self.parts {
            let mark = format!("<!-- output: {name} -->\n");
            let Some((before, rest)) = text.split_once(&mark) else {
                continue;
            };
            let (_, after) = rest.split_once("<!-- end -->").unwrap();
            let lines = lines.trim_matches('\n');
            text = format!("{before}{mark}\n```text\n{lines}\n```\n\n<!-- end -->{after}");
        }
        std::fs::write(page, text).unwrap();
    }

    fn line(&mut self, line: &str) {
        println!("{line}");
        if let Some((_, lines)) = self.parts.last_mut() {
            lines.push_str(line);
            lines.push('\n');
        }
    }

    /// A line without figures.
    pub(crate) fn remark(&mut self, text: &str) {
        self.line(&format!("  {text}"));
    }

    /// Begins a section; `columns` names the three figures of its rows.
    pub(crate) fn section(&mut self, title: &str, columns: [&str; 3]) {
        let [a, b, c] = columns;
        let head = format!("\n{title:<48} {a:>8} {b:>8} {c:>8}   ratio (by tenths)    target");
        self.line(&head);
        self.line(&"-".repeat(114));
        title.clone_into(&mut self.section);
    }

    pub(crate) fn row(&mut self, row: Row) {
        let Row {
            label,
            figures: [a, b, c],
            ratio,
            target,
            met,
        } = row;
        let verdict = match met {
            None => "",
            Some(true) => "met",
            Some(false) => "MISSED",
        };
        let line =
            format!("  {label:<46} {a:>8} {b:>8} {c:>8}   {ratio:<20} {target:<10} {verdict}");
        self.line(line.trim_end());
        match met {
            None => {}
            Some(true) => self.met += 1,
            Some(false) => self.missed.push(format!("{}: {label}", self.section)),
        }
    }

    pub(crate) fn summary(&mut self, elapsed: Duration) {
        let targets = self.met + self.missed.len();
        let summary = format!("\n{} of {targets} targets met, in {elapsed:.0?}", self.met);
        self.line(&summary);
        for missed in std::mem::take(&mut self.missed) {
            self.line(&format!("  missed: {missed}"));
        }
    }
}

/// One line: three figures, how they compare, and what was aimed at.
pub(crate) struct Row {
    label: String,
    figures: [String; 3],
    ratio: String,
    target: String,
    met: Option<bool>,
}

impl Row {
    pub(crate) fn new(label: impl Into<String>, figures: [String; 3]) -> Self {
        Self {
            label: label.into(),
            figures,
            ratio: String::new(),
            target: String::new(),
            met: None,
        }
    }

    /// A ratio that has no target.
    pub(crate) fn ratio(mut self, ratio: f64) -> Self {
        self.ratio = format!("{ratio:.2}x");
        self
    }

    /// Compares the medians of samples that were taken in turn. How much the ratio differs from one tenth of the run to
    /// another tells noise from a difference; a short run has tenths without a sample, which tell nothing.
    pub(crate) fn ratio_of(mut self, samples: &Samples, baseline: &Samples, at_most: f64) -> Self {
        let ratio = samples.against(baseline);
        let tenths = (0..10).map(|n| [samples.tenth(n), baseline.tenth(n)]);
        let (low, high) = tenths
            .filter(|pair| pair.iter().all(|tenth| tenth.len() > 0))
            .map(|[tenth, beside]| tenth.against(&beside))
            .fold((ratio, ratio), |(low, high), tenth| {
                (low.min(tenth), high.max(tenth))
            });
        self.ratio = format!("{ratio:.2}x ({low:.2}-{high:.2})");
        self.at_most(ratio, at_most, &format!("{at_most:.2}x"))
    }

    /// A `value` that should be at most `target`, which is written as `name`.
    pub(crate) fn at_most(mut self, value: f64, target: f64, name: &str) -> Self {
        self.target = format!("<= {name}");
        self.met = Some(value <= target);
        self
    }

    /// A `value` that should be at least `target`, which is written as `name`.
    pub(crate) fn at_least(mut self, value: f64, target: f64, name: &str) -> Self {
        self.target = format!(">= {name}");
        self.met = Some(value >= target);
        self
    }
}

/// Times of one thing that was done many times, in that order.
#[derive(Default)]
pub(crate) struct Samples(Vec<Duration>);

impl Samples {
    /// Does the work and keeps the time that it took.
    pub(crate) fn time<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let started = now();
        let result = work();
        self.0.push(now() - started);
        result
    }

    /// Keeps a time that was taken elsewhere.
    pub(crate) fn push(&mut self, time: Duration) {
        self.0.push(time);
    }

    /// Keeps what another thread or process has measured.
    pub(crate) fn append(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Duration> {
        self.0.iter().copied()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The smallest sample that is not below `percent` percent of them all: the smallest for 0, the largest for 100.
    pub(crate) fn percentile(&self, percent: usize) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let rank = (sorted.len() * percent).div_ceil(100);
        sorted[rank.saturating_sub(1)]
    }

    /// p50, p90 and p99 in microseconds.
    pub(crate) fn micros(&self) -> [String; 3] {
        [50, 90, 99].map(|percent| format!("{:.1}", 1e6 * self.percentile(percent).as_secs_f64()))
    }

    /// The smallest, the middle and the largest in milliseconds.
    pub(crate) fn millis(&self) -> [String; 3] {
        [0, 50, 100].map(|percent| format!("{:.2}", 1e3 * self.percentile(percent).as_secs_f64()))
    }

    /// The ratio of the medians.
    pub(crate) fn against(&self, baseline: &Self) -> f64 {
        self.percentile(50).as_secs_f64() / baseline.percentile(50).as_secs_f64()
    }

    /// One of ten consecutive parts.
    fn tenth(&self, n: usize) -> Self {
        let bound = |n| self.0.len() * n / 10;
        Self(self.0[bound(n)..bound(n + 1)].to_vec())
    }
}
