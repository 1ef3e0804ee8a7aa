//! The whole program, the driver or a worker; and what a run amounts to, in words, and whether it is good.

use std::process::{ExitCode, exit};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use redlatch_history::{Way, write};
use redlatch_testing::{Clock, now, pause};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::ask::plural;
use crate::keys;
use crate::options::{Clients, Options};
use crate::record::{self, Record};
use crate::site::{self, Made};
use crate::worker::{self, Role};

/// For starting and ending. On a busy machine faults take longer than planned, too.
const PATIENCE: Duration = Duration::from_mins(10);
/// How many violations are printed in full.
const MOST: usize = 10;
/// From this number of sections on, what some of them end with has to be there.
const MANY: u64 = 500;
/// The same for what happens two to fifteen times in 700 sections: luck could leave it out.
const VERY_MANY: u64 = 3_000;

pub(crate) fn run() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(role) = Role::parse(&arguments) {
        worker::run(&role);
        return ExitCode::SUCCESS;
    }
    let Some(mut options) = Options::parse(&arguments) else {
        return ExitCode::from(2);
    };
    // Says so where there is none.
    options.clocks = Clock::if_there().is_some();
    println!("soak: {} (seed {})", options.command(), options.seed);
    record::self_check();
    keys::self_check();
    end_in_time(options.length * 4 + PATIENCE);
    tell(&site::run(&options), &options)
}

/// Ends this process when it was told to, or hangs. What it has started ends as after a kill.
fn end_in_time(limit: Duration) {
    let is_told = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // Also where a script has it ignored.
        signal_hook::flag::register(signal, Arc::clone(&is_told)).unwrap();
    }
    let deadline = now() + limit;
    thread::spawn(move || {
        while now() < deadline && !is_told.load(Ordering::Relaxed) {
            pause(Duration::from_millis(50));
        }
        println!("soak: FAILED: it was told to end, or not over after {limit:?}");
        exit(1);
    });
}

/// Prints it, and returns whether the run is as it has to be.
fn tell(made: &Made, options: &Options) -> ExitCode {
    let record = &made.record;
    for (what, count) in &record.counts {
        println!("soak: {count} {what}");
    }
    let mut bad = Vec::new();
    for found in record.violations() {
        bad.push(format!(
            "VIOLATION: {:?} at {} ns: {}",
            found.rule, found.at, found.text
        ));
    }
    bad.extend(record.wrong.iter().map(|text| format!("WRONG: {text}")));
    bad.truncate(MOST);
    if options.planted {
        show(&bad);
        show_the_first(record, options);
        return tell_of_planted(record, options);
    }
    bad.extend(made.leaked.iter().map(|text| format!("LEAKED: P7: {text}")));
    let recovery = record.recovery();
    if let Err(stuck) = &recovery {
        bad.push(format!(
            "NOT RECOVERED: P9: these places, and whether to read: {stuck:?}"
        ));
    }
    let missing = what_is_missing(made, options).into_iter();
    bad.extend(missing.map(|what| format!("VACUOUS: {what}")));
    show(&bad);
    show_the_first(record, options);
    summary(made, options);
    if let (Ok(slowest), true) = (recovery, bad.is_empty()) {
        let slowest = Duration::from_nanos(slowest);
        println!("soak: no violation, recovered in {slowest:.1?}");
        return ExitCode::SUCCESS;
    }
    println!("soak: FAILED; the same faults again: {}", options.command());
    ExitCode::FAILURE
}

fn show(all: &[String]) {
    for text in all {
        println!("soak: {text}");
    }
}

fn tell_of_planted(record: &Record, options: &Options) -> ExitCode {
    let (sections, overlaps) = (record.sections, record.overlaps());
    println!("soak: {}: {sections} critical sections", options.kind());
    if overlaps > 0 {
        println!("soak: {overlaps} overlaps found, as it has to be");
        return ExitCode::SUCCESS;
    }
    println!("soak: FAILED: servers forgot, and nobody saw two holders");
    ExitCode::FAILURE
}

/// Writes the text of what was found first, if anything was.
fn show_the_first(record: &Record, options: &Options) {
    let Some((found, after, events)) = &record.first else {
        return;
    };
    let after = Duration::from_nanos(*after);
    let name = format!("soak-{}-{}", options.kind(), options.seed);
    let path = write(&name, events, found).unwrap();
    println!("soak: the first one, after {after:.1?}: {}", path.display());
}

fn summary(made: &Made, options: &Options) {
    let (seconds, sections) = (options.length.as_secs(), made.record.sections);
    println!(
        "soak: seed {}: {sections} critical sections in {seconds} s",
        options.seed
    );
    for (class, (count, seen)) in &made.faults {
        println!(
            "soak: {count} {}, {seen} of them seen to strike",
            class.name()
        );
    }
    let (kept, samples) = (made.kept, made.samples);
    println!("soak: {kept} clients kept by a proxy, {samples} looks at keys");
}

/// Why the run shows too little. What takes luck is asked for only where there were many sections.
fn what_is_missing(made: &Made, options: &Options) -> Vec<String> {
    let record = &made.record;
    let mut expected = vec![
        "unlocks: Okay",
        "calls that failed: Held",
        "locks kept alive",
    ];
    expected.push("losses told: Expired");
    expected.extend(Way::EACH.map(plural));
    if record.sections >= MANY {
        expected.extend(["extensions", "extensions that failed: Expired"]);
        expected.extend(["locks adopted", "locks kept for a ttl"]);
    }
    if record.sections >= VERY_MANY {
        expected.extend(["locks that rested", "losses told: Limited"]);
    }
    if options.clients != Clients::Classic {
        expected.extend(["abstentions: Unmarked", "abstentions: Reborn"]);
    }
    expected.retain(|what| !record.counts.contains_key(*what));
    let mut missing: Vec<String> = expected.iter().map(|what| format!("no {what}")).collect();
    if record.sections >= MANY && made.kept == 0 {
        missing.push("no client was kept by a proxy".to_owned());
    }
    if made.samples == 0 {
        missing.push("no key was ever seen".to_owned());
    }
    let unseen = made.faults.iter().filter(|(_, (_, seen))| *seen == 0);
    missing.extend(unseen.map(|(class, _)| format!("none of the {} struck", class.name())));
    missing
}
