//! The crate beside `redlock` 2 and `rslock` 0.10, on the same work in one run: `cargo run --release [-- --quick] [--write] [SECTION..]`.
//!
//! All sides are on the same servers in one process, and their samples alternate, so that noise meets all of them.
//! `--write` puts the tables and plots into docs/benchmarks.md and the folder beside it.

use redlatch_testing::Server;

mod contended;
#[path = "../../lock/crowd.rs"]
mod crowd;
mod curves;
mod effort;
mod faults;
mod figures;
#[path = "../../lock/floor.rs"]
mod floor;
mod held;
mod latency;
#[path = "../../lock/link.rs"]
mod link;
#[path = "../../lock/mode.rs"]
#[expect(dead_code, reason = "the sides have names of their own here")]
mod mode;
mod own_keys;
#[path = "../../lock/pairs.rs"]
mod pairs;
mod plot;
#[path = "../../lock/processor.rs"]
mod processor;
#[path = "../../lock/raw.rs"]
#[expect(
    dead_code,
    reason = "the floor here is plain TCP, without the crate `redis`"
)]
mod raw;
mod report;
mod start;
#[path = "../../lock/table.rs"]
#[expect(dead_code, reason = "the tables here are those of a page")]
mod table;
mod tasks;
mod throughput;
mod who;

use crate::effort::{Effort, FULL, QUICK};
use crate::report::Report;

fn main() {
    if contended::is_contender() || held::is_holder() {
        return;
    }
    let has = |wanted: &str| std::env::args().any(|argument| argument == wanted);
    let effort = if has("--quick") { QUICK } else { FULL };
    let named: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with("--"))
        .collect();
    let is_wanted = |name: &str| named.is_empty() || named.iter().any(|named| named == name);

    let servers = Server::cluster(5);
    let mut report = Report::default();
    for (name, measure) in SECTIONS {
        if is_wanted(name) {
            measure(&mut report, &servers, effort);
        }
    }
    report.targets();
    // A run of some sections knows only some of the cases.
    if named.is_empty() {
        report.wins();
        report.summary();
    } else {
        report.leave_out("targets");
    }
    if has("--write") {
        report.write();
    }
}

type Section = fn(&mut Report, &[Server], Effort);

const SECTIONS: [(&str, Section); 10] = [
    ("uncontended", latency::uncontended),
    ("link", latency::over_a_link),
    ("own-keys", throughput::own_keys),
    ("own-keys-link", throughput::own_keys_over_a_link),
    ("scaling", throughput::scaling),
    ("threads", contended::threads),
    ("processes", contended::processes),
    ("faults", faults::one_of_five),
    ("start", start::first_lock),
    ("held", held::thousands),
];
