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

use redlatch_testing::{Server, now};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

mod contended;
mod crowd;
mod effort;
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

use crate::effort::Effort;
use crate::table::Table;

/// Counts for [`footprint::allocations`]. The few atomic additions per allocation make the other figures of both sides
/// worse by about a thousandth.
#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

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
