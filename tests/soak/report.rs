//! The whole program, the driver or a worker; and what a run amounts to, in words, and whether it is good.

use std::process::{ExitCode, exit};
use std::thread;
use std::time::Duration;

use redlatch_history::{Way, seconds, write};
use redlatch_testing::{Clock, pause};

use crate::keys;
use crate::options::{Options, USAGE};
use crate::record::{SECTIONS, is_overlap};
use crate::site::{self, Made};
use crate::worker::{self, Role};

/// For starting and ending. On a busy machine faults take longer than planned, too.
const PATIENCE: Duration = Duration::from_mins(10);
/// How many faults are printed in full.
const MOST: usize = 10;
const KEPT: &str = "clients kept by a proxy";
const SEEN: &str = "looks at keys";

pub(crate) fn run() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(role) = Role::parse(&arguments) {
        worker::run(&role);
        return ExitCode::SUCCESS;
    }
    let Some(mut options) = Options::parse(&arguments) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    // Says so where there is none.
    options.clocks = Clock::if_there().is_some();
    println!("soak: {}", options.command());
    keys::self_check();
    let limit = options.length * 4 + PATIENCE;
    thread::spawn(move || {
        // What this process has started ends with it.
        pause(limit);
        println!("soak: FAILED: not over after {limit:?}");
        exit(1);
    });
    tell(site::run(&options), &options)
}

/// Prints it, and returns whether the run is as it has to be.
fn tell(mut made: Made, options: &Options) -> ExitCode {
    let found = made.record.judge(options);
    for (what, count) in &made.record.counts {
        println!("soak: {count} {what}");
    }
    for (class, (count, seen)) in &made.faults {
        println!("soak: {count} times {class:?}, {seen} of them seen to strike");
    }
    println!("soak: {} {KEPT}, {} {SEEN}", made.kept, made.samples);
    let wrong = &made.record.wrong;
    let overlaps = found.iter().filter(|found| is_overlap(found)).count();
    let violations = found.iter().map(|found| {
        let at = seconds(found.at);
        format!("VIOLATION: {:?} at {at}: {}", found.rule, found.text)
    });
    let mut bad: Vec<String> = violations.collect();
    bad.extend(wrong.iter().map(|wrong| format!("WRONG: {}", wrong.text)));
    if !options.is_planted() {
        bad.extend(made.leaked.iter().map(|text| format!("LEAKED: P7: {text}")));
        let stuck = made.record.stuck();
        bad.extend(stuck.iter().map(|on| format!("NOT RECOVERED: P9: {on}")));
        bad.extend(what_is_missing(&made, options));
    }
    for text in bad.iter().take(MOST) {
        println!("soak: {text}");
    }
    if let Some(first) = found.first().or(wrong.first()) {
        let name = format!("soak-{}-{}", options.name(), options.seed);
        let path = write(&name, &made.record.events, first).unwrap();
        println!("soak: the first one: {}", path.display());
    }
    let is_good = if options.is_planted() {
        println!("soak: {overlaps} overlaps found, and there has to be one");
        overlaps > 0
    } else {
        bad.is_empty()
    };
    if is_good {
        println!("soak: as it has to be");
        return ExitCode::SUCCESS;
    }
    println!("soak: FAILED; the same faults again: {}", options.command());
    ExitCode::FAILURE
}

/// Why the run shows too little. What takes luck is asked for only where there were many sections.
fn what_is_missing(made: &Made, options: &Options) -> Vec<String> {
    let mut counts = made.record.counts.clone();
    counts.insert(KEPT.to_owned(), made.kept);
    counts.insert(SEEN.to_owned(), made.samples);
    counts.extend(
        made.faults
            .iter()
            .map(|(class, (_, seen))| (format!("{class:?}"), *seen)),
    );
    let sections = counts.get(SECTIONS).copied().unwrap_or_default();
    let mut expected = vec![
        (0, "unlocks: Okay"),
        (0, "calls that failed: Held"),
        (0, "locks kept alive"),
        (0, "losses told: Expired"),
        (0, SEEN),
        (500, "extensions"),
        (500, "extensions that failed: Expired"),
        (500, "locks adopted"),
        (500, "locks kept for a ttl"),
        (500, KEPT),
        // They happen two to fifteen times in 700 sections.
        (3_000, "locks that rested"),
        (3_000, "losses told: Limited"),
    ];
    if options.has_fenced_workers() {
        expected.extend([(0, "abstentions: Unmarked"), (0, "abstentions: Reborn")]);
    }
    let expected = expected.into_iter().filter(|(least, _)| sections >= *least);
    let mut missing: Vec<String> = expected.map(|(_, what)| what.to_owned()).collect();
    missing.extend(Way::EACH.map(|way| format!("guards: {way:?}")));
    missing.extend(made.faults.keys().map(|class| format!("{class:?}")));
    missing.retain(|what| counts.get(what).is_none_or(|count| *count == 0));
    missing
        .iter()
        .map(|what| format!("VACUOUS: no {what}"))
        .collect()
}
