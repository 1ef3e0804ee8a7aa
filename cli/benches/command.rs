//! What `redlatch run` adds to a command: `cargo bench -p redlatch-cli [-- --quick]`.
//!
//! The program `true` is run by itself and under a lock on five local servers, alternately, so that noise meets both, and
//! the medians are compared. Nothing here fails because of a time.

#![expect(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints, and stops at the first thing that goes wrong"
)]

use std::process::{Command, Stdio};
use std::time::Duration;

use redlatch_testing::{Server, now};

/// What may be added at most.
const TARGET: Duration = Duration::from_millis(15);

fn main() {
    let is_quick = std::env::args().any(|argument| argument == "--quick");
    let runs = if is_quick { 10 } else { 200 };
    let servers = Server::cluster(5);
    let urls: Vec<String> = servers.iter().map(Server::url).collect();
    let mut plain = Command::new("true");
    let mut locked = Command::new(env!("CARGO_BIN_EXE_redlatch"));
    locked
        .args(["run", "bench", "--", "true"])
        .env("REDLATCH_NODES", urls.join(","))
        .env("REDLATCH_CONFIG", "/dev/null");
    let (mut of_plain, mut of_locked) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        of_plain.push(time(&mut plain));
        of_locked.push(time(&mut locked));
    }
    let (plain, locked) = (median(of_plain), median(of_locked));
    let added = locked.saturating_sub(plain);
    println!(
        "medians of {runs} runs each, over {} local servers:",
        servers.len()
    );
    println!("  true                    {plain:>10.2?}");
    println!("  redlatch run … -- true  {locked:>10.2?}");
    let verdict = if added <= TARGET { "met" } else { "MISSED" };
    println!("  added                   {added:>10.2?}   at most {TARGET:?}: {verdict}");
}

fn time(command: &mut Command) -> Duration {
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let started = now();
    let status = command.status().unwrap();
    let span = now() - started;
    assert!(status.success(), "{command:?}: {status}");
    span
}

fn median(mut spans: Vec<Duration>) -> Duration {
    spans.sort_unstable();
    spans[spans.len() / 2]
}
