//! The plain path beside raw TCP, compared with the ratios of the baseline, a file that is checked in.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::thread::available_parallelism;
use std::time::Duration;

use redlatch::{Fanout, LockManager};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region};

use crate::busy::Busy;
use crate::locker::{Locker, Redlatch};
use crate::pairs::{Crew, Pairs, Side, float, take_turns};

/// How much worse than the baseline a figure may be.
const TOLERANCE: f64 = 1.25;

/// Noise can make a figure that much worse, but hardly three times in a row.
const TRIES: usize = 3;

/// How long a turn is.
const SPAN: Duration = Duration::from_millis(40);

/// How much is measured.
#[derive(Clone, Copy)]
pub(crate) struct Effort {
    /// How often each side has its turn.
    pub(crate) turns: usize,
    /// The pairs whose allocations are counted.
    pub(crate) pairs: usize,
}

/// Threads with locks of their own; raw TCP asks the nodes in the same order.
struct Case {
    name: &'static str,
    threads: usize,
    fanout: Fanout,
}

const CASES: [Case; 6] = [
    Case::new("1 thread, sequential", 1, Fanout::Sequential),
    Case::new("1 thread, overlapped", 1, Fanout::Overlapped),
    Case::new("2 threads, overlapped", 2, Fanout::Overlapped),
    Case::new("4 threads, overlapped", 4, Fanout::Overlapped),
    Case::new("8 threads, overlapped", 8, Fanout::Overlapped),
    Case::new("64 threads, overlapped", 64, Fanout::Overlapped),
];

const ALLOCATIONS: [(&str, Fanout); 2] = [
    ("allocations, sequential", Fanout::Sequential),
    ("allocations, overlapped", Fanout::Overlapped),
];

/// Prints what this build reaches; returns whether nothing is worse than the baseline allows.
pub(crate) fn compare(urls: &[String], effort: Effort) -> bool {
    let baseline = Baseline::read();
    println!("{}baseline  quotient", Case::HEAD);
    let is_met = measure(urls, effort, |name, figure| baseline.is_met(name, figure));
    baseline.verdict(is_met)
}

/// Measures the figures anew and writes the file.
pub(crate) fn renew(urls: &[String], effort: Effort) {
    println!("{}", Case::HEAD);
    let mut lines = vec![format!("processors: {}\n", processors())];
    measure(urls, effort, |name, figure| {
        println!();
        lines.push(format!("{name}: {figure:.2}\n"));
        true
    });
    std::fs::write(path(), lines.concat()).unwrap();
}

/// Measures each figure, again if it is no good. Returns whether all are good that are judged.
fn measure(urls: &[String], effort: Effort, mut is_good: impl FnMut(&str, f64) -> bool) -> bool {
    let _busy = Busy::start();
    let mut all_good = true;
    for case in &CASES {
        let sides = case.sides(urls);
        let tries = if case.is_crowd() { 1 } else { TRIES };
        let mut figures = (0..tries).map(|_| case.measure(&sides, effort.turns));
        all_good &= figures.any(|figure| is_good(case.name, figure)) || case.is_crowd();
    }
    for (name, fanout) in ALLOCATIONS {
        all_good &= is_good(name, allocations(name, fanout, urls, effort.pairs));
    }
    all_good
}

impl Case {
    const HEAD: &str = "a pair on 5 nodes         raw [µs]  redlatch  processor     ratio  ";

    const fn new(name: &'static str, threads: usize, fanout: Fanout) -> Self {
        Self {
            name,
            threads,
            fanout,
        }
    }

    /// Whether the ratio depends on how many processors are free, so that it is shown and not judged.
    fn is_crowd(&self) -> bool {
        self.threads > 2
    }

    /// Raw TCP and this crate.
    fn sides(&self, urls: &[String]) -> [Side; 2] {
        let (threads, span) = (self.threads, SPAN);
        let crew = Crew { threads, span };
        let ours = crew.side(vec![Box::new(manager(urls, self.fanout))]);
        [crew.raw_side(urls, self.fanout), ours]
    }

    /// Prints a line, without its end, and returns the ratio: the time of a pair here, of the time by raw TCP.
    fn measure(&self, sides: &[Side; 2], turns: usize) -> f64 {
        let pairs = take_turns(sides, turns);
        let [raw, ours] = &pairs;
        let ratio = if self.threads < 8 {
            let ratios = raw.rates.iter().zip(&ours.rates);
            let mut ratios: Vec<f64> = ratios.map(|(raw, ours)| raw / ours).collect();
            ratios.sort_by(f64::total_cmp);
            ratios[turns / 2]
        } else {
            // The turns of a crowd are fast or slow, by how the system schedules it, and a median is one or the other.
            raw.per_second() / ours.per_second()
        };
        let [raw_time, time] = [raw, ours].map(|pairs: &Pairs| 1e6 / pairs.per_second());
        let (name, processor) = (self.name, ours.processor_each());
        print!("{name:<24}{raw_time:>10.1}{time:>10.1}{processor:>11.1}{ratio:>10.2}");
        ratio
    }
}

/// Prints a line, without its end, and returns how often a pair of one thread allocates.
fn allocations(name: &str, fanout: Fanout, urls: &[String], pairs: usize) -> f64 {
    let manager = manager(urls, fanout);
    let hold = || assert!(manager.hold("bench:counted", &mut || {}), "it is free");
    // The first pairs connect and let buffers grow.
    (0..pairs / 10).for_each(|_| hold());
    let region = Region::new(&INSTRUMENTED_SYSTEM);
    (0..pairs).for_each(|_| hold());
    let each = float(region.change().allocations) / float(pairs);
    print!("{name:<55}{each:>10.2}");
    each
}

/// A stall of the machine is not to be taken for the failure of a node, which would be left out for a while.
fn manager(urls: &[String], fanout: Fanout) -> Redlatch {
    let builder = LockManager::builder().nodes(urls).fanout(fanout);
    let manager = builder.node_timeout(Duration::from_secs(5)).build();
    Redlatch(manager.unwrap())
}

/// A name and a figure on each line.
struct Baseline(String);

impl Baseline {
    fn read() -> Self {
        Self(std::fs::read_to_string(path()).unwrap())
    }

    fn figure<T: FromStr>(&self, name: &str) -> T {
        let line = |line: &str| line.strip_prefix(name)?.strip_prefix(": ")?.parse().ok();
        let figure = self.0.lines().find_map(line);
        figure.expect("a figure is missing: renew the baseline")
    }

    /// Prints the end of a line.
    fn is_met(&self, name: &str, figure: f64) -> bool {
        let baseline: f64 = self.figure(name);
        let quotient = figure / baseline;
        let is_met = quotient <= TOLERANCE;
        let remark = if is_met { "" } else { "  worse" };
        println!("{baseline:>10.2}{quotient:>10.2}{remark}");
        is_met
    }

    fn verdict(&self, is_met: bool) -> bool {
        let (here, there): (_, usize) = (processors(), self.figure("processors"));
        if is_met {
            println!("no figure of one or two threads is beyond {TOLERANCE} x of the baseline");
        } else if here == there {
            println!(
                "slower than the baseline. If that is meant: cargo bench --bench lock -- --new-baseline"
            );
        } else {
            println!("not judged: the baseline is of {there} processors, and these are {here}");
        }
        is_met || here != there
    }
}

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/lock/baseline.txt")
}

fn processors() -> usize {
    available_parallelism().unwrap().get()
}
