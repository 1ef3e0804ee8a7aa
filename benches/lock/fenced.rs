//! The cost of fencing tokens and the restart guard: the fenced protocol against the classic one.

use redlatch::{LockManager, Protocol};
use redlatch_testing::Server;

use crate::effort::{Effort, TTL, patient_builder, patient_manager};
use crate::table::{Row, Samples, Table};

pub(crate) fn latency(table: &mut Table, servers: &[Server], effort: Effort) {
    let classic = patient_manager(servers);
    let fenced = patient_builder(servers.iter().map(Server::url))
        .protocol(Protocol::Fenced)
        .build()
        .unwrap();
    fenced.open_nodes().unwrap();
    measure(&fenced, &classic, effort.pairs / 10);
    let [ours, baseline] = measure(&fenced, &classic, effort.pairs);
    table.section(
        "fenced against classic, 5 nodes [µs]",
        ["p50", "p90", "p99"],
    );
    table.row(Row::new(
        "classic: acquire + release",
        baseline.both.micros(),
    ));
    table.row(
        Row::new("fenced: acquire + release", ours.both.micros()).ratio_of(
            &ours.both,
            &baseline.both,
            1.15,
        ),
    );
    table.row(Row::new("classic: acquire", baseline.acquire.micros()));
    table.row(Row::new("fenced: acquire", ours.acquire.micros()));
}

#[derive(Default)]
struct Times {
    acquire: Samples,
    both: Samples,
}

/// Fenced first, classic second.
fn measure(fenced: &LockManager, classic: &LockManager, pairs: u32) -> [Times; 2] {
    let mut times = <[Times; 2]>::default();
    for i in 0..pairs {
        // Neither side is always the one that follows the other.
        let first = usize::from(i % 2 == 0);
        for side in [first, 1 - first] {
            let (manager, name) = [(fenced, "fenced"), (classic, "classic")][side];
            let resource = format!("bench:{name}:{i}");
            let Times { acquire, both } = &mut times[side];
            both.time(|| {
                let guard = acquire.time(|| manager.try_lock(&resource, TTL));
                guard.unwrap().unlock().unwrap();
            });
        }
    }
    times
}
