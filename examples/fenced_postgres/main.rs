//! A late write that `PostgreSQL` refuses, because it compares fencing tokens.
//!
//! `cargo run --example fenced_postgres` shows that the ledger refuses A's write; A starts over, and the balance is right.
//! `cargo run --example fenced_postgres -- --unchecked` is the same without the comparison: B's amount is lost.
//!
//! It starts a `PostgreSQL` and three Redis servers of its own, and ends them. `--database 'host=… user=… dbname=…'` takes a
//! `PostgreSQL` of yours, and makes two tables there for the time of the run. The exit code is 0 if the run has shown just
//! that, 1 if not, and 2 if a program is missing or an argument can't be used. What happens is in
//! `story.rs` of the example `fenced_writer`, the part to copy in `ledger.rs`, and the rule in docs/safety.md.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an example talks to its reader"
)]

use std::error::Error;
use std::process::ExitCode;

use redlatch_testing::NoServer;

mod database;
mod ledger;
#[path = "../fenced_writer/story.rs"]
mod story;

use crate::database::{Database, NoDatabase};
use crate::ledger::Postgres;

const USAGE: &str = "usage: fenced_postgres [--unchecked] [--database CONFIG]";

fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let servers = story::start_servers()?;
    let database = match &options.database {
        Some(config) => Database::of_yours(config.clone()),
        None => Database::start()?,
    };
    let connect = || database.connect().map(Postgres::new);
    let mut ledger = connect()?;
    ledger.create()?;
    let result = story::play(&servers, [connect()?, connect()?], options.is_unchecked);
    ledger.remove()?;
    result
}

#[derive(Default)]
struct Options {
    is_unchecked: bool,
    database: Option<String>,
}

impl Options {
    /// The errors don't repeat what was typed: it can hold a password.
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self::default();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--unchecked" => options.is_unchecked = true,
                "--database" => {
                    let value = arguments.next().ok_or("a value is missing")?;
                    options.database = Some(value);
                }
                _ => return Err("can't make sense of the arguments".into()),
            }
        }
        Ok(options)
    }
}

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(problem) => {
            eprintln!("fenced_postgres: {problem}; {USAGE}");
            return ExitCode::from(2);
        }
    };
    let Err(error) = run(&options) else {
        return ExitCode::SUCCESS;
    };
    eprintln!("fenced_postgres: {error}");
    let is_missing = error.is::<NoServer>() || error.is::<NoDatabase>();
    ExitCode::from(if is_missing { 2 } else { 1 })
}
