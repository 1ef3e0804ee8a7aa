//! What fencing tokens and the restart guard cost: the fenced protocol against the classic one.

use redlatch::{LockManager, Protocol};

use crate::server::Server;
use crate::table::{Row, Samples, Table};
use crate::{Effort, TTL, patient_builder, patient_manager};

pub(crate) fn latency(table: &mut Table, servers: &[Server], effort: Effort) {
    let classic = patient_manager(servers);
    let fenced = patient_builder(servers)
        .protocol(Protocol::Fenced)
        .build()
        .unwrap();
    fenced.open_nodes().unwrap();
    measure(&fenced, &classic, effort.pairs / 10);
    let [ours, baseline] = measure(&fenced, &classic, effort.pairs);
    table.section("acquire + release, 5 nodes [µs]", ["p50", "p90", "p99"]);
    table.row(Row::new("Protocol::Classic", baseline.micros()));
    table.row(Row::new("Protocol::Fenced", ours.micros()).ratio_of(&ours, &baseline, 1.15));
}

/// Fenced first, classic second.
fn measure(fenced: &LockManager, classic: &LockManager, pairs: u32) -> [Samples; 2] {
    let mut times = <[Samples; 2]>::default();
    for i in 0..pairs {
        // Neither side is always the one that follows the other.
        let first = usize::from(i % 2 == 0);
        for side in [first, 1 - first] {
            let (manager, name) = [(fenced, "fenced"), (classic, "classic")][side];
            let resource = format!("bench:{name}:{i}");
            times[side].time(|| manager.try_lock(&resource, TTL).unwrap().unlock().unwrap());
        }
    }
    times
}
