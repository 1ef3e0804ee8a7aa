//! Acquire and release on five healthy servers.

use redlatch::LockManager;
use redlatch_testing::Server;

use crate::effort::{Effort, TTL, patient_manager};
use crate::raw::{Packed, Raw};
use crate::table::{Row, Samples, Table};

pub(crate) fn latency(table: &mut Table, servers: &[Server], effort: Effort) {
    let manager = patient_manager(servers);
    let mut raw = Raw::connect(servers);
    // The first pairs connect, fill caches and let the allocators of the servers settle.
    measure(&manager, &mut raw, effort.pairs / 10);
    let times = measure(&manager, &mut raw, effort.pairs);

    let [ours, by_hand] = &times.acquire;
    table.section("acquire, 5 nodes in turn [µs]", ["p50", "p90", "p99"]);
    table.row(Row::new("by hand: SET NX PX", by_hand.micros()));
    table.row(Row::new("redlatch: try_lock", ours.micros()).ratio_of(ours, by_hand, 1.10));

    let [ours, by_hand] = &times.release;
    table.section("release, 5 nodes at once [µs]", ["p50", "p90", "p99"]);
    table.row(Row::new(
        "by hand: EVAL compare-and-delete",
        by_hand.micros(),
    ));
    table.row(Row::new("redlatch: unlock", ours.micros()).ratio_of(ours, by_hand, 1.15));
}

/// Ours first, by hand second.
#[derive(Default)]
struct Times {
    acquire: [Samples; 2],
    release: [Samples; 2],
}

fn measure(manager: &LockManager, raw: &mut Raw, pairs: u32) -> Times {
    let mut times = Times::default();
    for i in 0..pairs {
        // Neither side is always the one that follows the other.
        if i % 2 == 0 {
            ours(&mut times, manager, i);
            by_hand(&mut times, raw, i);
        } else {
            by_hand(&mut times, raw, i);
            ours(&mut times, manager, i);
        }
    }
    times
}

fn ours(times: &mut Times, manager: &LockManager, i: u32) {
    let resource = format!("bench:ours:{i}");
    let guard = times.acquire[0]
        .time(|| manager.try_lock(&resource, TTL))
        .unwrap();
    times.release[0].time(|| guard.unlock()).unwrap();
}

fn by_hand(times: &mut Times, raw: &mut Raw, i: u32) {
    let packed = Packed::new(&format!("bench:hand:{i}"), i, TTL);
    let votes = times.acquire[1].time(|| raw.acquire(&packed));
    let deleted = times.release[1].time(|| raw.release(&packed));
    assert_eq!((votes, deleted), (5, 5), "every node takes part");
}
