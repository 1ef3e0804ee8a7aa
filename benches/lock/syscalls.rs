//! The system calls of one acquire and release, counted by `strace`, where it is installed.
//!
//! What is traced is slower by far, and the client is slowed down more than the servers. A number is not a time, though,
//! and of those this section counts the first calls are left out: two runs of different lengths are compared.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use redlatch_testing::Server;

use crate::contended::Redlatch;
use crate::crowd::Locker;
use crate::effort::{Effort, patient_builder};
use crate::floor::{Floor, Order, Queue};
use crate::mode::{Mode, configure};
use crate::pairs::own_key;
use crate::table::{Row, Table};

const THREADS: u32 = 8;

/// What the traced process is started with, and then its side, the pairs of each thread and the servers.
const TRACED: &str = "--traced";

const RAW: &str = "raw";

/// How often each system call was made.
type Calls = BTreeMap<String, f64>;

pub(crate) fn count(table: &mut Table, servers: &[Server], effort: Effort) {
    let title = format!("nodes 5, threads {THREADS}: system calls");
    table.section(&title, ["", "", "per pair"]);
    let row = |label: String, each: f64| {
        Row::new(label, [String::new(), String::new(), format!("{each:.1}")])
    };
    for (side, at_most) in [
        (RAW, None),
        (Mode::Sequential.name(), None),
        (Mode::Overlapped.name(), Some(12.0)),
    ] {
        let Some(calls) = per_pair(servers, side, effort.traced) else {
            table.remark("not counted: strace is not installed, or may not trace");
            return;
        };
        let all: f64 = calls.values().sum();
        let who = if side == RAW { "overlapped" } else { side };
        let whose = if side == RAW { "raw" } else { "redlatch" };
        let total = row(format!("{whose}: {who}"), all);
        table.row(match at_most {
            Some(target) => total.at_most(all, target, &format!("{target}")),
            None => total,
        });
        for (name, each) in calls.into_iter().filter(|(_, each)| *each >= 0.05) {
            table.row(row(format!("    {name}"), each));
        }
    }
}

/// Nothing, if there is no `strace`, or if it may not trace.
fn per_pair(servers: &[Server], side: &str, pairs: u32) -> Option<Calls> {
    // What is done once is in both.
    let few = trace(servers, side, pairs / 10)?;
    let mut calls = trace(servers, side, pairs)?;
    let more = f64::from(THREADS * (pairs - pairs / 10));
    for (name, number) in &mut calls {
        let once = few.get(name).copied().unwrap_or_default();
        *number = (*number - once).max(0.0) / more;
    }
    Some(calls)
}

fn trace(servers: &[Server], side: &str, pairs: u32) -> Option<Calls> {
    let summary = servers[0].dir().join("strace");
    let status = Command::new("strace")
        .args(["-f", "-c", "-o"])
        .arg(&summary)
        .arg(std::env::current_exe().unwrap())
        .args([TRACED, side, &pairs.to_string()])
        .args(servers.iter().map(Server::url))
        .stderr(Stdio::null())
        .status();
    if !status.is_ok_and(|status| status.success()) {
        return None;
    }
    let summary = std::fs::read_to_string(summary).ok()?;
    let calls: Calls = summary.lines().filter_map(parse).collect();
    (!calls.is_empty()).then_some(calls)
}

/// Share, seconds, microseconds for each, number, errors if there are any, name.
fn parse(line: &str) -> Option<(String, f64)> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let name = *fields.last()?;
    let number: f64 = fields.get(3)?.parse().ok()?;
    (name != "total").then(|| (name.to_owned(), number))
}

/// Plays the traced process, if the command line says so.
pub(crate) fn is_traced() -> bool {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() != Some(TRACED) {
        return false;
    }
    let side = arguments.next().unwrap();
    let pairs: u32 = arguments.next().unwrap().parse().unwrap();
    let urls: Vec<String> = arguments.collect();
    let work = |locker: &dyn Locker, n: usize| {
        for _ in 0..pairs + 3 {
            assert!(locker.hold(&own_key(n), &mut || {}), "nobody else wants it");
        }
    };
    let manager = Mode::named(&side).map(|mode| {
        let builder = configure(patient_builder(&urls), mode);
        Redlatch(builder.build().unwrap())
    });
    std::thread::scope(|scope| {
        for n in 0..usize::try_from(THREADS).unwrap() {
            let (manager, urls) = (manager.as_ref(), &urls);
            scope.spawn(move || {
                if let Some(manager) = manager {
                    work(manager, n);
                } else {
                    let floor = Floor::connect(urls, Order::Overlapped);
                    work(&Queue::new(floor, &own_key(n)), n);
                }
            });
        }
    });
    true
}
