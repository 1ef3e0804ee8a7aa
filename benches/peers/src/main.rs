//! The crate beside `redlock` 2 and `rslock` 0.10, on the same work in one run: `cargo run --release [-- [--write] [SECTION..]]`.
//!
//! All sides are on the same servers in one process, and take turns, so that noise meets all of them. `--write` puts the
//! tables into docs/benchmarks.md.

use redlatch_testing::Server;

mod crowd;
mod faults;
mod link;
#[path = "../../lock/locker.rs"]
mod locker;
mod one_lock;
mod own_keys;
#[path = "../../lock/pairs.rs"]
mod pairs;
#[path = "../../lock/raw.rs"]
mod raw;
mod report;
#[path = "../../lock/samples.rs"]
mod samples;
mod tasks;
mod who;

use crate::report::Report;

fn main() {
    if one_lock::is_contender() {
        return;
    }
    let has = |wanted: &str| std::env::args().any(|argument| argument == wanted);
    let named: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with("--"))
        .collect();
    let is_wanted = |name: &str| named.is_empty() || named.iter().any(|named| named == name);

    let servers = Server::cluster(5);
    let urls: Vec<String> = servers.iter().map(Server::url).collect();
    let mut report = Report::default();
    for (name, measure) in SECTIONS {
        if is_wanted(name) {
            measure(&mut report, &urls);
        }
    }
    if has("--write") {
        report.write();
    }
}

type Section = fn(&mut Report, &[String]);

const SECTIONS: [(&str, Section); 4] = [
    ("alone", own_keys::alone),
    ("own-keys", own_keys::all),
    ("one-lock", one_lock::all),
    ("faults", faults::one_of_five),
];
