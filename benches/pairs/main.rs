//! How many instructions of this process a lock costs: the same number on a busy machine and on an idle one.
//!
//! Times say more about the machine than about a change of some percent. So callgrind runs this program again and counts,
//! and the figures are compared with the baseline, a file that is checked in. `pairs MODE N` does N pairs of acquire and release
//! without counting, for any other tool.

#![expect(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints, and stops at the first thing that goes wrong"
)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use redlatch_testing::Server;

use crate::baseline::{Baseline, Figure};
use crate::callgrind::Callgrind;
use crate::work::{MODES, Mode};

mod baseline;
mod callgrind;
mod setting;
mod work;

/// Noise adds less than the tolerance to a figure. If it ever adds more, it hardly does so three times.
const TRIES: usize = 3;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (cargo, words): (Vec<&str>, Vec<&str>) = words
        .iter()
        .map(String::as_str)
        .partition(|word| *word == "--bench");
    match *words {
        // Only `cargo bench` adds a word; in `cargo test --benches`, without optimisation, it is enough that it runs.
        [] if cargo.is_empty() => {
            for mode in &MODES {
                work(mode, 1, &[]);
            }
            ExitCode::SUCCESS
        }
        [] => compare(),
        ["--new-baseline"] => renew(),
        [mode, pairs, ref urls @ ..] => {
            let mode = MODES.iter().find(|it| it.name == mode);
            match mode.zip(pairs.parse().ok()) {
                Some((mode, pairs)) => {
                    work(mode, pairs, urls);
                    ExitCode::SUCCESS
                }
                None => usage(),
            }
        }
        _ => usage(),
    }
}

fn usage() -> ExitCode {
    let modes = MODES.map(|mode| mode.name).join(" | ");
    println!("usage: pairs [--new-baseline]\n       pairs {modes} N [URL..]");
    ExitCode::from(64)
}

/// Fails if a figure differs from the baseline by more than the tolerance.
fn compare() -> ExitCode {
    let callgrind = match Callgrind::here() {
        Ok(callgrind) => callgrind,
        Err(reason) => {
            println!("LEFT OUT: {reason}, so the instructions of a pair were not counted");
            return ExitCode::SUCCESS;
        }
    };
    let baseline: Baseline = std::fs::read_to_string(path()).unwrap().parse().unwrap();
    let figures = measure(&callgrind, |figure| !baseline.is_exceeded_by(figure));
    let report = baseline.compare(&setting::here(&callgrind.version), &figures);
    println!("{report}");
    println!(
        "profiles: callgrind_annotate --inclusive=no {}/MODE.callgrind",
        callgrind::folder().display()
    );
    ExitCode::from(u8::from(report.has_failed))
}

/// Measures the figures anew, and writes the file.
fn renew() -> ExitCode {
    let callgrind = Callgrind::here().unwrap();
    let figures = measure(&callgrind, |_| false);
    let baseline = Baseline {
        setting: setting::here(&callgrind.version),
        figures,
    };
    std::fs::write(path(), baseline.to_string()).unwrap();
    println!("{baseline}");
    ExitCode::SUCCESS
}

/// Measures each figure, and once more if it is too large. The smallest one is taken.
fn measure(callgrind: &Callgrind, is_good: impl Fn(&Figure) -> bool) -> Vec<Figure> {
    let servers = Server::cluster(5);
    let urls: Vec<String> = servers.iter().map(Server::url).collect();
    let measure = |mode: &Mode| {
        let count = || Figure {
            name: mode.title.to_owned(),
            instructions: callgrind.count(mode, &urls),
        };
        let mut figure = count();
        for _ in 1..TRIES {
            if !is_good(&figure) {
                figure.instructions = figure.instructions.min(count().instructions);
            }
        }
        figure
    };
    MODES.iter().map(measure).collect()
}

/// Does the pairs, on these servers or on new ones.
fn work(mode: &Mode, pairs: usize, urls: &[&str]) {
    let servers = if urls.is_empty() {
        Server::cluster(5)
    } else {
        Vec::new()
    };
    let own = servers.iter().map(Server::url);
    let urls: Vec<String> = urls
        .iter()
        .map(|url| (*url).to_owned())
        .chain(own)
        .collect();
    let (pairs, took) = mode.run(&urls, pairs);
    println!("{}: {pairs} pairs in {took:.3?}", mode.title);
}

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/pairs/baseline.txt")
}
