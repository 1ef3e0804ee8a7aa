//! What a run amounts to, in words, and whether it is good.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::process::ExitCode;

use crate::on::{Kind, Sharing};
use crate::options::Options;
use crate::plan::{Class, LONGEST_TTL_MS, RESOURCES, WORKERS};
use crate::witness::{Verdict, Witness};

/// How many violations are printed in full.
const MOST: usize = 10;

pub(crate) struct Report {
    pub(crate) faults: BTreeMap<Class, u32>,
    /// Episodes in which all servers were struck at once.
    pub(crate) all_at_once: usize,
    /// Workers that ended by themselves in the middle.
    pub(crate) abrupt: u32,
    pub(crate) groups: usize,
    /// How many keys were looked at during the run.
    pub(crate) samples: u64,
    pub(crate) leaked: Vec<String>,
    /// When the last fault had been repaired.
    pub(crate) calm: u64,
    pub(crate) witness: Witness,
}

impl Report {
    /// Prints it, and returns whether the run is as it has to be.
    pub(crate) fn tell(&self, options: &Options) -> ExitCode {
        let verdict = self.witness.verdict();
        let (slowest, stuck) = self.recovery();
        self.tell_counts(&verdict);
        for text in verdict.overlaps.iter().chain(&verdict.others).take(MOST) {
            println!("chaos: VIOLATION: {text}");
        }
        for text in &self.leaked {
            println!("chaos: LEAKED: {text}");
        }
        for text in &stuck {
            println!("chaos: NOT RECOVERED: {text}");
        }
        println!("{}", self.summary(options, &verdict, slowest));
        let overlapping = verdict.overlaps.len();
        if options.forget {
            return if overlapping > 0 {
                println!("chaos: servers forgot, and the witness saw it: {overlapping} overlaps");
                ExitCode::SUCCESS
            } else {
                println!("chaos: FAILED: servers forgot, and the witness saw nothing");
                ExitCode::FAILURE
            };
        }
        let vacuous = self.what_is_missing(options, &verdict);
        for text in &vacuous {
            println!("chaos: VACUOUS: {text}");
        }
        let is_good = overlapping == 0
            && [&verdict.others, &self.leaked, &stuck, &vacuous]
                .iter()
                .all(|list| list.is_empty());
        if is_good {
            return ExitCode::SUCCESS;
        }
        println!(
            "chaos: FAILED; the same faults again: --seconds {} --seed {}",
            options.length.as_secs(),
            options.seed
        );
        ExitCode::FAILURE
    }

    fn tell_counts(&self, verdict: &Verdict) {
        let counts = &self.witness.counts;
        for (what, count) in counts {
            println!("chaos: {count} {what}");
        }
        for kind in Kind::ALL {
            println!(
                "chaos: {} critical sections with {}",
                verdict.of(kind),
                kind.name()
            );
        }
        println!(
            "chaos: {} read locks that began while another reader had the resource",
            verdict.together
        );
        println!("chaos: {} keys seen by sampling", self.samples);
        println!(
            "chaos: {} guards that were over when they were looked at first",
            self.witness.late
        );
        if let Some(nanos) = verdict.closest {
            let nanos = std::time::Duration::from_nanos(nanos);
            println!(
                "chaos: {nanos:.1?} at least from the end of a lease whose keys were left to expire to the next holder"
            );
        }
    }

    fn summary(&self, options: &Options, verdict: &Verdict, slowest: f64) -> String {
        let mut line = format!(
            "chaos: seed {}, {} s: {} critical sections by {WORKERS} workers in {} group{} on {RESOURCES} resources \
             ({}); faults:",
            options.seed,
            options.length.as_secs(),
            verdict.sections,
            self.groups,
            if self.groups == 1 { "" } else { "s" },
            Kind::ALL
                .map(|kind| format!("{} {}", verdict.of(kind), kind.name()))
                .join(", "),
        );
        for (class, count) in &self.faults {
            write!(line, " {count} {},", class.name()).unwrap();
        }
        write!(
            line,
            " {} abrupt exits of workers; all servers at once {} times; \
             {} violations, {} leaked keys, recovered in {slowest:.2} s",
            self.abrupt,
            self.all_at_once,
            verdict.overlaps.len() + verdict.others.len(),
            self.leaked.len()
        )
        .unwrap();
        line
    }

    /// How long it took until the last resource was acquired again, in seconds, and which took too long.
    fn recovery(&self) -> (f64, Vec<String>) {
        let first = self.witness.acquired_after(self.calm);
        let mut slowest = 0.0_f64;
        let mut stuck = Vec::new();
        for what in (0..RESOURCES).flat_map(|i| [(i, Sharing::Alone), (i, Sharing::Read)]) {
            let (resource, sharing) = what;
            let Some(&time) = first.get(&what) else {
                stuck.push(format!(
                    "resource {resource} was never acquired again, {sharing:?}"
                ));
                continue;
            };
            let seconds = std::time::Duration::from_nanos(time - self.calm);
            slowest = slowest.max(seconds.as_secs_f64());
            if seconds > std::time::Duration::from_millis(5 * LONGEST_TTL_MS) {
                stuck.push(format!(
                    "resource {resource} was acquired after {seconds:?}, {sharing:?}"
                ));
            }
        }
        (slowest, stuck)
    }

    /// Why the run shows too little.
    fn what_is_missing(&self, options: &Options, verdict: &Verdict) -> Vec<String> {
        let mut missing = Vec::new();
        let seconds = options.length.as_secs();
        let least = seconds * 2;
        if u64::try_from(verdict.sections).unwrap() < least {
            missing.push(format!("fewer than {least} critical sections"));
        }
        for kind in Kind::ALL {
            if verdict.of(kind) == 0 {
                missing.push(format!("no {}", kind.name()));
            }
        }
        // The system may hold a process up between the return of a guard and the first look at it, but not as a rule.
        if self.witness.late * 20 > verdict.sections {
            missing.push(format!(
                "{} guards were over when they were returned",
                self.witness.late
            ));
        }
        if self.samples == 0 {
            missing.push("no key was ever seen by sampling".to_owned());
        }
        if seconds >= 60 {
            if verdict.together == 0 {
                missing.push("no two readers at a time".to_owned());
            }
            for class in Class::ALL {
                if !self.faults.contains_key(&class) {
                    missing.push(format!("no {}", class.name()));
                }
            }
            for outcome in [
                "extensions",
                "extensions refused as lost-expired",
                "locks handed over",
                "unlocks: ok",
            ] {
                if !self.witness.counts.contains_key(outcome) {
                    missing.push(format!("no {outcome}"));
                }
            }
        }
        missing
    }
}
