//! A late write that `PostgreSQL` refuses, because it compares fencing tokens.
//!
//! `cargo run --example fenced_postgres -- 'host=/run/postgresql user=me dbname=test'` shows that the ledger refuses A's
//! write; A starts over, and the balance is right. With `--unchecked` behind it, it is the same without the comparison: B's
//! amount is lost.
//!
//! It makes two tables in this database for the time of the run, and starts three Redis servers, which it ends. The exit code is
//! 0 if the run has shown just that, 1 if not, and 2 if a program is missing or an argument can't be used. What happens is in
//! `story.rs` of the example `fenced_writer`, the part to copy in `ledger.rs`, and the rule in docs/safety.md.

#![expect(clippy::print_stdout, reason = "an example talks to its reader")]

use std::process::ExitCode;

use postgres::{Client, NoTls};
use redlatch_testing::{WrongUse, example};

mod ledger;
#[path = "../fenced_writer/story.rs"]
mod story;

use crate::ledger::{REMOVE, TABLES};

fn main() -> ExitCode {
    example("fenced_postgres", |arguments| {
        let (database, is_unchecked) = match arguments {
            [database] => (database, false),
            [database, "--unchecked"] => (database, true),
            _ => return Err(WrongUse("fenced_postgres DATABASE [--unchecked]").into()),
        };
        let connect = || Client::connect(database, NoTls);
        let mut ledger = connect()?;
        ledger.batch_execute(TABLES)?;
        let result = story::play([connect()?, connect()?], is_unchecked);
        ledger.batch_execute(REMOVE)?;
        result
    })
}
