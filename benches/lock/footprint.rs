//! Costs besides time: allocations, threads, and building a manager whose nodes are all dead.

use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

use redlatch::{LockGuard, LockManager};
use redlatch_testing::{Server, eventually};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region};

use crate::effort::{Effort, TTL, patient_manager};
use crate::raw::{Packed, Raw};
use crate::table::{Row, Samples, Table};

pub(crate) fn all(table: &mut Table, servers: &[Server], effort: Effort) {
    allocations(table, servers, effort);
    threads(table, servers);
    build_time(table, effort);
}

fn allocations(table: &mut Table, servers: &[Server], effort: Effort) {
    let manager = patient_manager(servers);
    let mut raw = Raw::connect(servers);
    // The first pairs connect and let buffers grow.
    count(&manager, &mut raw, effort.counted / 10);
    let [ours, by_hand] = count(&manager, &mut raw, effort.counted);

    let title = "heap: per acquire + release, 5 nodes";
    table.section(title, ["acquire", "release", "both"]);
    for (who, [acquire, release]) in [("by hand", by_hand), ("redlatch", ours)] {
        let means = |of: fn(&Counts) -> u32| {
            let (acquire, release) = (of(&acquire), of(&release));
            [acquire, release, acquire + release].map(|n| f64::from(n) / f64::from(effort.counted))
        };
        let row = |what, means: [f64; 3]| {
            Row::new(
                format!("{who}: {what}"),
                means.map(|mean| format!("{mean:.1}")),
            )
        };
        let allocations = means(|counts| counts.allocations);
        let mut first = row("allocations", allocations);
        if who == "redlatch" {
            first = first.at_most(allocations[2], 40.0, "40");
        }
        table.row(first);
        table.row(row("reallocations", means(|counts| counts.reallocations)));
        table.row(row("bytes", means(|counts| counts.bytes)));
    }
}

/// Sums over a number of acquires, or of releases.
#[derive(Default)]
struct Counts {
    allocations: u32,
    reallocations: u32,
    bytes: u32,
}

impl Counts {
    fn count<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let region = Region::new(&INSTRUMENTED_SYSTEM);
        let result = work();
        let change = region.change();
        self.allocations += u32::try_from(change.allocations).unwrap();
        self.reallocations += u32::try_from(change.reallocations).unwrap();
        self.bytes += u32::try_from(change.bytes_allocated).unwrap();
        result
    }
}

/// Returns acquire and release of ours, then by hand. What is freed later, such as the guard, counts where it was made.
fn count(manager: &LockManager, raw: &mut Raw, pairs: u32) -> [[Counts; 2]; 2] {
    let mut counts: [[Counts; 2]; 2] = Default::default();
    let [ours, by_hand] = &mut counts;
    for i in 0..pairs {
        let resource = format!("bench:counted:{i}");
        let packed = Packed::new(&resource, i, TTL);
        let guard = ours[0].count(|| manager.try_lock(&resource, TTL)).unwrap();
        ours[1].count(|| guard.unlock()).unwrap();
        by_hand[0].count(|| raw.acquire(&packed));
        by_hand[1].count(|| raw.release(&packed));
    }
    counts
}

/// How many threads a manager has, whether locks have any, and how soon they end.
fn threads(table: &mut Table, servers: &[Server]) {
    const MANAGERS: u32 = 8;
    const LOCKS: u32 = 1_000;

    // The managers of before are dropped, but their last threads may just be ending.
    eventually(Duration::from_secs(5), || {
        thread_count().is_none_or(|threads| threads == 1)
    });
    let Some(before) = thread_count() else {
        table.section("threads", ["", "", "count"]);
        table.remark("not measured: this system does not list them");
        return;
    };
    let more = || thread_count().unwrap().saturating_sub(before);
    let lock = |manager: &LockManager, n| manager.try_lock(&format!("bench:held:{n}"), TTL);

    let managers: Vec<LockManager> = (0..MANAGERS).map(|_| patient_manager(servers)).collect();
    for manager in &managers {
        lock(manager, 0).unwrap().unlock().unwrap();
    }
    let of_managers = more();
    let guards: Vec<LockGuard> = (0..LOCKS).map(|n| lock(&managers[0], n).unwrap()).collect();
    let of_locks = more().saturating_sub(of_managers);
    drop(guards);
    drop(managers);
    let mut ending = Samples::default();
    ending.time(|| eventually(Duration::from_secs(5), || more() == 0));
    let left = more();

    let blank = String::new;
    let row = |label: String, n: f64| Row::new(label, [blank(), blank(), format!("{n:.1}")]);
    table.section("threads", ["", "", "count"]);
    let each = f64::from(of_managers) / f64::from(MANAGERS);
    let label = format!("per manager, of {MANAGERS} in use");
    table.row(row(label, each).at_most(each, 2.0, "2"));
    let for_locks = f64::from(of_locks);
    let label = format!("more while {LOCKS} locks are held");
    table.row(row(label, for_locks).at_most(for_locks, 0.0, "0"));
    let left = f64::from(left);
    let waited = 1e3 * ending.percentile(50).as_secs_f64();
    let label = format!("left {waited:.0} ms after the last manager is dropped");
    table.row(row(label, left).at_most(left, 0.0, "0"));
}

/// The threads of this process, where the system lists them.
fn thread_count() -> Option<u32> {
    let tasks = std::fs::read_dir("/proc/self/task").ok()?;
    u32::try_from(tasks.count()).ok()
}

/// A manager connects to nothing when it is made, so it makes no difference to it that nobody listens.
fn build_time(table: &mut Table, effort: Effort) {
    // All at once, so that they are five different ports; none of them is listened on afterwards.
    let taken: Vec<TcpListener> = (0..5)
        .map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap())
        .collect();
    let urls = taken.iter().map(|listener| {
        let address = listener.local_addr().unwrap();
        format!("redis://{address}")
    });
    let dead: Vec<String> = urls.collect();
    drop(taken);

    let mut times = Samples::default();
    for _ in 0..effort.builds {
        // Only the building is timed, not the end of the manager and of its threads.
        let manager = times.time(|| LockManager::new(&dead)).unwrap();
        drop(manager);
    }
    table.section("build a manager, 5 dead nodes [µs]", ["p50", "p90", "p99"]);
    let median = times.percentile(50).as_secs_f64();
    table.row(Row::new("redlatch: new", times.micros()).at_most(median, 1e-3, "1 ms"));
}
