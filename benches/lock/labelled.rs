//! The cost of telling who has a lock, and of a minimum hold: the same commands with longer values.

use std::time::Duration;

use redlatch::LockManager;
use redlatch_testing::Server;

use crate::effort::{Effort, TTL, patient_manager};
use crate::table::{Row, Samples, Table};

/// About as long as that of the command `redlatch`.
const LABEL: &str = "web-3.example.org 123456 nightly-report";

/// Longer than a pair takes, so that each lock rests for a while after it.
const MINIMUM: Duration = Duration::from_secs(1);

pub(crate) fn latency(table: &mut Table, servers: &[Server], effort: Effort) {
    let manager = patient_manager(servers);
    measure(&manager, "first", effort.pairs / 10);
    let [plain, labelled, resting] = measure(&manager, "then", effort.pairs);
    table.section(
        "acquire + release with a label, 5 nodes [µs]",
        ["p50", "p90", "p99"],
    );
    table.row(Row::new("plain", plain.micros()));
    let row = Row::new("labelled", labelled.micros());
    table.row(row.ratio_of(&labelled, &plain, 1.03));
    let row = Row::new("labelled, at_least", resting.micros());
    table.row(row.ratio_of(&resting, &plain, 1.03));
}

/// The times of a pair: plain, with a label, and with a label and a minimum.
/// Locks of one name may rest, so `part` tells the parts of the run apart.
fn measure(manager: &LockManager, part: &str, pairs: u32) -> [Samples; 3] {
    let mut times = <[Samples; 3]>::default();
    for i in 0..pairs {
        // Each side comes first as often as the others.
        for side in (0..3).cycle().skip(usize::try_from(i % 3).unwrap()).take(3) {
            let resource = format!("bench:labelled:{part}:{side}:{i}");
            let request = manager.request(&resource).ttl(TTL);
            let request = match side {
                0 => request,
                1 => request.holder(LABEL),
                _ => request.holder(LABEL).at_least(MINIMUM),
            };
            times[side].time(|| request.try_lock().unwrap().unlock().unwrap());
        }
    }
    times
}
