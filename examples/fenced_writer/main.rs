//! A late write that a ledger in `SQLite` refuses, because it compares fencing tokens.
//!
//! `cargo run --example fenced_writer` shows that the ledger refuses A's write; A starts over, and the balance is right.
//! `cargo run --example fenced_writer -- --unchecked` is the same without the comparison: B's amount is lost.
//!
//! It starts three Redis servers of its own, and ends them. The exit code is 0 if the run has shown just that, 1 if not, and 2
//! if a program is missing or an argument can't be used. `story.rs` is what happens, and `ledger.rs` the part to copy. The rule
//! that it follows is in docs/safety.md, also for other databases.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an example talks to its reader"
)]

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

use redlatch_testing::NoServer;

mod ledger;
mod story;

use crate::ledger::Sqlite;

fn run(is_unchecked: bool) -> Result<(), Box<dyn Error>> {
    let name = format!("redlatch-fenced-writer-{}.sqlite", std::process::id());
    let path = std::env::temp_dir().join(name);
    let result = on(&path, is_unchecked);
    std::fs::remove_file(&path).ok();
    result
}

fn on(path: &Path, is_unchecked: bool) -> Result<(), Box<dyn Error>> {
    let servers = story::start_servers()?;
    let ledgers = [Sqlite::open(path)?, Sqlite::open(path)?];
    ledgers[0].create()?;
    story::play(&servers, ledgers, is_unchecked)
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_unchecked = match arguments.as_slice() {
        [] => false,
        [option] if option == "--unchecked" => true,
        _ => {
            eprintln!("usage: fenced_writer [--unchecked]");
            return ExitCode::from(2);
        }
    };
    let Err(error) = run(is_unchecked) else {
        return ExitCode::SUCCESS;
    };
    eprintln!("fenced_writer: {error}");
    ExitCode::from(if error.is::<NoServer>() { 2 } else { 1 })
}
