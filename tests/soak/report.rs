//! What a run amounts to, in words, and whether it is good.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::process::ExitCode;
use std::time::Duration;

use redlatch_history::{History, Violation};

use crate::bounds::{RESOURCES, WORKERS};
use crate::class::Class;
use crate::demands::MANY;
use crate::on::Kind;
use crate::options::Options;
use crate::plan::Episode;
use crate::record::Record;
use crate::site::{Made, places};

/// How many violations are printed in full.
const MOST: usize = 10;

pub(crate) struct Report {
    pub(crate) made: Made,
    pub(crate) plan: Vec<Episode>,
    /// How many clients the proxy kept when a server became another process.
    pub(crate) kept: u64,
    /// Episodes in which all servers were struck at once.
    pub(crate) all_at_once: usize,
    /// Workers that ended by themselves in the middle.
    pub(crate) abrupt: u32,
    pub(crate) groups: usize,
    pub(crate) leaked: Vec<String>,
    pub(crate) record: Record,
}

impl Report {
    /// Prints it, and returns whether the run is as it has to be.
    pub(crate) fn tell(&self, options: &Options) -> ExitCode {
        for (what, count) in &self.record.counts {
            println!("soak: {count} {what}");
        }
        println!(
            "soak: {} guards were over when they were looked at first; the latest hook was called {:.1?} after the \
             end; {} keys seen",
            self.record.late,
            Duration::from_nanos(self.record.latest),
            self.made.samples
        );
        for found in self.record.violations().iter().take(MOST) {
            println!(
                "soak: VIOLATION: {:?} at {} ns: {found}",
                found.rule, found.at
            );
        }
        if let Some(first) = self.record.first_violation() {
            let after = Duration::from_nanos(self.record.found_after);
            println!("soak: the first one was found after {after:.1?}");
            draw(options, "", Some(first));
        }
        for text in self.record.wrong.iter().take(MOST) {
            println!("soak: WRONG: {text}");
        }
        draw(options, "-wrong", self.record.first_wrong());
        if options.planted {
            return self.tell_of_planted(options);
        }
        let (slowest, stuck) = self.recovery();
        let vacuous = self.what_is_missing(options);
        self.tell_of_the_end(options, &stuck);
        for text in &vacuous {
            println!("soak: VACUOUS: {text}");
        }
        println!("{}", self.summary(options, slowest));
        let is_good = self.record.violations().is_empty()
            && [&self.record.wrong, &self.leaked, &stuck, &vacuous]
                .iter()
                .all(|list| list.is_empty());
        if is_good {
            return ExitCode::SUCCESS;
        }
        println!(
            "soak: FAILED; the same faults again: {} --seconds {} --seed {}",
            options.switch(),
            options.length.as_secs(),
            options.seed
        );
        ExitCode::FAILURE
    }

    /// What is left when all faults are over.
    fn tell_of_the_end(&self, options: &Options, stuck: &[String]) {
        for text in &self.leaked {
            println!("soak: LEAKED: {text}");
        }
        for text in stuck {
            println!("soak: NOT RECOVERED: {text}");
        }
        let at_the_end = [
            ("-leaked", "leaked", self.leaked.first()),
            ("-stuck", "not recovered", stuck.first()),
        ];
        for (name, what, first) in at_the_end {
            let found = first.map(|first| format!("{what}: {first}"));
            let found = found.and_then(|text| self.record.left_at_the_end(&text));
            draw(options, name, found);
        }
    }

    fn tell_of_planted(&self, options: &Options) -> ExitCode {
        let faults: u32 = self.made.faults.values().sum();
        let (sections, overlaps) = (self.record.sections, self.record.overlaps());
        let what = options.kind();
        println!(
            "soak: {what}: {sections} critical sections, {faults} losses of a majority's memory"
        );
        if overlaps > 0 {
            println!("soak: {overlaps} overlaps found, as it has to be");
            return ExitCode::SUCCESS;
        }
        println!("soak: FAILED: servers forgot, and nobody saw two holders");
        ExitCode::FAILURE
    }

    /// How often there were faults of each kind, and how many of them were seen to have happened.
    fn by_class(&self) -> BTreeMap<Class, (u32, u32)> {
        let mut all = BTreeMap::new();
        for (&class, &count) in &self.made.faults {
            all.insert(class, (count, 0));
        }
        for &episode in &self.made.seen {
            let of_class = all.entry(self.plan[episode].class).or_default();
            of_class.1 += 1;
        }
        all
    }

    fn summary(&self, options: &Options, slowest: Duration) -> String {
        let mut line = format!(
            "soak: seed {}, {}, {} s: {} critical sections by {WORKERS} workers in {} group{} on {RESOURCES} resources \
             ({}); faults:",
            options.seed,
            options.kind(),
            options.length.as_secs(),
            self.record.sections,
            self.groups,
            if self.groups == 1 { "" } else { "s" },
            Kind::ALL
                .map(|kind| format!("{} {}", self.record.of(kind.name()), kind.name()))
                .join(", "),
        );
        for (class, (count, seen)) in self.by_class() {
            write!(line, " {count} {}", class.name()).unwrap();
            if seen < count {
                write!(line, " ({seen} seen to strike)").unwrap();
            }
            line.push(',');
        }
        write!(
            line,
            " {} abrupt exits of workers, {} clients kept by a proxy; all servers at once {} times; \
             {} violations, {} leaked keys, recovered in {slowest:.1?}",
            self.abrupt,
            self.kept,
            self.all_at_once,
            self.record.violations().len() + self.record.wrong.len(),
            self.leaked.len()
        )
        .unwrap();
        line
    }

    /// How long it took until the last place was had again, and which were not.
    fn recovery(&self) -> (Duration, Vec<String>) {
        let mut slowest = 0;
        let mut stuck = Vec::new();
        for (place, is_read) in places() {
            match self.record.recovered((place, is_read)) {
                Some(time) => slowest = time.max(slowest),
                None => stuck.push(format!("place {place}, read: {is_read}")),
            }
        }
        (Duration::from_nanos(slowest), stuck)
    }

    /// Why the run shows too little. What takes luck is asked for only where there were many sections.
    fn what_is_missing(&self, options: &Options) -> Vec<String> {
        let record = &self.record;
        let mut missing = record.never(options.clients);
        if record.sections >= MANY && self.kept == 0 {
            missing.push("no client was kept by a proxy".to_owned());
        }
        for (class, (_, seen)) in self.by_class() {
            if seen == 0 {
                missing.push(format!("none of the {} was seen to strike", class.name()));
            }
        }
        if self.made.samples == 0 {
            missing.push("no key was ever seen".to_owned());
        }
        missing
    }
}

/// Writes the page of something that was found, if anything was.
fn draw(options: &Options, what: &str, found: Option<(Violation, History)>) {
    let Some((found, history)) = found else {
        return;
    };
    let name = format!("soak-{}-{}{what}", options.name(), options.seed);
    match history.write(&name, &found) {
        Ok(page) => println!("soak: the first one: {}", page.display()),
        Err(error) => println!("soak: the first one can't be drawn: {error}"),
    }
}
