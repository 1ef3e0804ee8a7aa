//! Several resources at once, beside one: the time of a pair for one thread, and what it is to a node.

use redlatch::{LockGuard, LockManager};
use redlatch_testing::Server;

use crate::contended::told;
use crate::crowd::ratio;
use crate::effort::{Effort, TTL, patient_builder};
use crate::mode::{Mode, configure};
use crate::processor;
use crate::table::{Row, Samples, Table};

/// How many resources there are; the first of these is the ordinary lock.
const NUMBERS: [usize; 4] = [1, 2, 4, 8];

/// The one that has a target, and what its pair may cost of that of one resource.
const COMPARED: (usize, f64) = (4, 1.25);

pub(crate) fn all(table: &mut Table, servers: &[Server], effort: Effort) {
    let modes = [Mode::Sequential, Mode::Overlapped];
    let managers = modes.map(|mode| {
        let builder = patient_builder(servers.iter().map(Server::url));
        configure(builder, mode).build().unwrap()
    });
    let sets = NUMBERS.map(names);
    // The first pairs connect, and tell the servers the scripts.
    measure(&managers, &sets, effort.pairs / 10);
    let times = measure(&managers, &sets, effort.pairs);
    for (mode, times) in modes.iter().zip(&times) {
        latency(table, *mode, times);
    }
    let [_, overlapped] = &managers;
    load(table, servers, overlapped, &sets, effort.counted);
}

fn names(number: usize) -> Vec<String> {
    let name = |n| format!("bench:several:{number}:{n}");
    (0..number).map(name).collect()
}

/// The times of each manager and each set. No side is always the one that follows another.
fn measure(managers: &[LockManager; 2], sets: &[Vec<String>; 4], pairs: u32) -> [[Samples; 4]; 2] {
    let mut times = <[[Samples; 4]; 2]>::default();
    for pair in 0..usize::try_from(pairs).unwrap() {
        for n in 0..8 {
            let n = if pair % 2 == 0 { n } else { 7 - n };
            let side = (n + pair) % 8;
            let (mode, set) = (side % 2, side / 2);
            times[mode][set].time(|| lock(&managers[mode], &sets[set]).unlock().unwrap());
        }
    }
    times
}

fn lock(manager: &LockManager, names: &[String]) -> LockGuard {
    match names {
        [name] => manager.try_lock(name, TTL).unwrap(),
        names => manager.request_all(names).ttl(TTL).try_lock().unwrap(),
    }
}

fn latency(table: &mut Table, mode: Mode, times: &[Samples; 4]) {
    let title = format!("several resources, {}: pair [µs]", mode.name());
    table.section(&title, ["p50", "p90", "p99"]);
    let [one, ..] = times;
    for (number, several) in NUMBERS.into_iter().zip(times) {
        let row = Row::new(of(number), several.micros());
        table.row(match number {
            1 => row,
            number if number == COMPARED.0 => row.ratio_of(several, one, COMPARED.1),
            _ => row.ratio(several.against(one)),
        });
    }
}

/// What a pair is to one node, and to the client.
fn load(
    table: &mut Table,
    servers: &[Server],
    manager: &LockManager,
    sets: &[Vec<String>; 4],
    pairs: u32,
) {
    let title = "several resources: a pair at one node, client";
    table.section(title, ["commands", "bytes", "client"]);
    let figures = [
        "total_commands_processed",
        "total_net_input_bytes",
        "total_net_output_bytes",
    ];
    let totals = || figures.map(|figure| told(servers, "stats", figure));
    for (number, names) in NUMBERS.into_iter().zip(sets) {
        // What the look at the figures adds itself.
        let idle = totals();
        let (before, used) = (totals(), processor::time());
        for _ in 0..pairs {
            lock(manager, names).unlock().unwrap();
        }
        let used = processor::time().saturating_sub(used) / pairs;
        let after = totals();
        let [commands, sent, received] = [0, 1, 2].map(|n| {
            let work = (after[n] - before[n]) - (before[n] - idle[n]);
            work / (f64::from(pairs) * ratio(servers.len(), 1))
        });
        let figures = [
            format!("{commands:.1}"),
            format!("{:.0}", sent + received),
            format!("{:.1} µs", 1e6 * used.as_secs_f64()),
        ];
        table.row(Row::new(of(number), figures));
    }
}

fn of(number: usize) -> String {
    match number {
        1 => "one resource".to_owned(),
        number => format!("{number} resources"),
    }
}
