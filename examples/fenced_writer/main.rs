//! A late write that a ledger in `SQLite` refuses, because it compares fencing tokens.
//!
//! `cargo run --example fenced_writer` shows that the ledger refuses A's write; A starts over, and the balance is right.
//! `cargo run --example fenced_writer -- --unchecked` is the same without the comparison: B's amount is lost.
//!
//! It starts three Redis servers of its own, and ends them. The exit code is 0 if the run has shown just that, 1 if not, and 2
//! if a program is missing or an argument can't be used. `story.rs` is what happens, and `ledger.rs` the part to copy. The rule
//! that it follows is in docs/safety.md, also for other databases.

#![expect(clippy::print_stdout, reason = "an example talks to its reader")]

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

use redlatch_testing::{WrongUse, example};
use rusqlite::Connection;

mod ledger;
mod story;

use crate::ledger::TABLES;

fn main() -> ExitCode {
    example("fenced_writer", |arguments| {
        let is_unchecked = match arguments {
            [] => false,
            ["--unchecked"] => true,
            _ => return Err(WrongUse("fenced_writer [--unchecked]").into()),
        };
        let name = format!("redlatch-fenced-writer-{}.sqlite", std::process::id());
        let path = std::env::temp_dir().join(name);
        let result = run(&path, is_unchecked);
        std::fs::remove_file(&path).ok();
        result
    })
}

fn run(path: &Path, is_unchecked: bool) -> Result<(), Box<dyn Error>> {
    // Each waits for the transaction of the other: for 5 s, if nothing else is said.
    let ledgers = [Connection::open(path)?, Connection::open(path)?];
    ledgers[0].execute_batch(TABLES)?;
    story::play(ledgers, is_unchecked)
}
