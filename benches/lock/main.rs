//! What a lock costs beside the same commands over raw TCP: `cargo bench --bench lock [-- --quick | --new-baseline]`.
//!
//! Absolute times say more about the machine than about the crate, so ratios count: both sides run in one process against
//! the same servers, and take turns, so that noise meets both.

#![expect(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "a benchmark prints, and stops at the first thing that goes wrong"
)]

use std::alloc::System;
use std::process::ExitCode;

use redlatch_testing::Server;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

use crate::baseline::Effort;

mod baseline;
mod busy;
mod locker;
mod pairs;
mod raw;
#[expect(dead_code, reason = "the benchmark beside the peers uses all of it")]
mod samples;

/// Its atomic additions make the figures of all sides worse by about a thousandth.
#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Fails if this build is slower than the baseline.
fn main() -> ExitCode {
    if busy::is_spinner() {
        return ExitCode::SUCCESS;
    }
    let has = |wanted: &str| std::env::args().any(|argument| argument == wanted);
    // Only `cargo bench` passes `--bench`; in `cargo test --benches`, without optimisation, it is enough that it runs.
    let is_bench = has("--bench");
    let effort = if has("--quick") || !is_bench {
        Effort {
            turns: 30,
            pairs: 200,
        }
    } else {
        Effort {
            turns: 100,
            pairs: 1_000,
        }
    };
    let servers = Server::cluster(5);
    let urls: Vec<String> = servers.iter().map(Server::url).collect();
    if has("--new-baseline") {
        baseline::renew(&urls, effort);
        return ExitCode::SUCCESS;
    }
    let is_met = baseline::compare(&urls, effort);
    ExitCode::from(u8::from(is_bench && !is_met))
}
