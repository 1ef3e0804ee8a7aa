//! What a lock costs, measured against the same commands sent by hand: `cargo bench --bench lock -- [--quick] [--write] [SECTION..]`.
//!
//! Absolute times say more about the machine than about the crate, so what counts is a ratio: both sides run in one
//! process against the same servers, and their samples alternate, so that noise meets both. Nothing here fails because
//! of a time; the last lines say how many targets were met. `--write` puts what was printed into docs/benchmarks.md.

#![expect(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints, and stops at the first thing that goes wrong"
)]
#![expect(
    clippy::incompatible_msrv,
    reason = "benchmarks are run by maintainers, with the latest compiler"
)]

use std::alloc::System;
use std::time::Duration;

use redlatch::{Builder, LockManager};
use redlatch_testing::{Server, now};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

mod contended;
mod crowd;
mod faults;
mod fenced;
mod floor;
mod footprint;
mod healthy;
mod held;
mod kept;
mod labelled;
mod link;
mod mode;
mod native;
mod pairs;
mod processor;
mod raw;
mod readers;
mod several;
mod streams;
mod syscalls;
mod table;
mod throughput;

use crate::table::Table;

/// Counts for [`footprint::allocations`]. The few atomic additions per allocation make the other figures of both sides
/// worse by about a thousandth.
#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Longer than the benchmark holds any lock.
const TTL: Duration = Duration::from_secs(60);

fn main() {
    if contended::is_contender()
        || held::is_holder()
        || readers::is_reader()
        || streams::is_of_stream()
        || syscalls::is_traced()
    {
        return;
    }
    let effort = Effort::from_arguments();
    let started = now();
    let servers = Server::cluster(5);
    let mut table = Table::default();

    let named = named_sections();
    let is_wanted = |name| named.is_empty() || named.iter().any(|named| named == name);
    for (name, measure) in SECTIONS {
        if is_wanted(name) {
            table.part(name);
            measure(&mut table, &servers, effort);
        }
    }
    // A run of some sections knows only some of the targets.
    table.part(if named.is_empty() { "summary" } else { "some" });
    table.summary(now() - started);
    let has = |wanted: &str| std::env::args().any(|argument| argument == wanted);
    match (has("--write"), has("--quick")) {
        (true, true) => {
            println!("the page has figures of whole runs alone: nothing is written with --quick");
        }
        (true, false) => table.write(),
        (false, _) => {}
    }
}

type Section = fn(&mut Table, &[Server], Effort);

const SECTIONS: [(&str, Section); 13] = [
    ("healthy", healthy::latency),
    ("fenced", fenced::latency),
    ("labelled", labelled::latency),
    ("faults", faults::latency),
    ("footprint", footprint::all),
    ("held", held::memory),
    ("kept", kept::all),
    ("throughput", throughput::uncontended),
    ("contended", contended::all),
    ("several", several::all),
    ("readers", readers::all),
    ("syscalls", syscalls::count),
    ("native", native::server_time),
];

/// The sections that the command line names; all are wanted, if it names none.
fn named_sections() -> Vec<String> {
    std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with("--"))
        .collect()
}

/// A manager over servers that are well: where a stall of this machine is all that can go wrong, it is not to be taken
/// for the failure of a node, which would be left out for a while and so flatter the figures.
fn patient_manager(servers: &[Server]) -> LockManager {
    let urls = servers.iter().map(Server::url);
    patient_builder(urls).build().unwrap()
}

fn patient_builder(urls: impl IntoIterator<Item = impl AsRef<str>>) -> Builder {
    LockManager::builder()
        .nodes(urls)
        .node_timeout(Duration::from_secs(5))
}

/// How much is measured.
#[derive(Clone, Copy)]
struct Effort {
    /// Pairs of acquire and release for each latency, and as many by hand.
    pairs: u32,
    /// Pairs over which allocations are averaged.
    counted: u32,
    /// How often each fault is made and repaired.
    faults: u32,
    /// How long each fault lasts at least.
    fault_span: Duration,
    /// Managers that are built.
    builds: u32,
    /// Locks that are kept alive at the same time, and for how long.
    kept: usize,
    kept_for: Duration,
    /// How often each side of a comparison takes its turn, and for how long.
    slices: u32,
    slice: Duration,
    /// For how long threads, and processes, contend for a lock.
    contended_threads: Duration,
    contended_processes: Duration,
    /// The pairs of each thread whose system calls are counted.
    traced: u32,
    /// The pairs of each run over which the time of a server is averaged.
    native: u32,
}

impl Effort {
    /// Only `cargo bench` passes `--bench`; in `cargo test --benches` it is enough that the benchmark runs.
    fn from_arguments() -> Self {
        let has = |wanted: &str| std::env::args().any(|argument| argument == wanted);
        if has("--quick") || !has("--bench") {
            return Self {
                pairs: 300,
                counted: 100,
                faults: 1,
                fault_span: Duration::from_millis(100),
                builds: 10,
                kept: 500,
                kept_for: Duration::from_secs(4),
                slices: 3,
                slice: Duration::from_millis(50),
                contended_threads: Duration::from_secs(2),
                contended_processes: Duration::from_secs(3),
                traced: 20,
                native: 2_000,
            };
        }
        Self {
            pairs: 10_000,
            counted: 1_000,
            faults: 5,
            // By then the pauses between the probes of a node have grown to their longest, so that the recoveries are
            // the slow ones.
            fault_span: Duration::from_millis(600),
            builds: 200,
            kept: 10_000,
            kept_for: Duration::from_secs(60),
            slices: 20,
            slice: Duration::from_millis(200),
            contended_threads: Duration::from_secs(10),
            contended_processes: Duration::from_secs(30),
            traced: 200,
            native: 200_000,
        }
    }
}
