//! Locks that pass from thread to thread again and again, while most messages are late. With the fenced protocol, other clients'
//! clocks are ahead.

use super::clocks::{MILLI, Nanos, SECOND};
use super::fewer_seeds;
use super::plan::{Kind, Plan, nanos, pick};
use super::run::none_breaks_a_promise;
use super::trouble::{Episode, Trouble};

impl Plan {
    /// Two or three clients of three threads each want one lock.
    pub(super) fn relay(seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed ^ 0x2e_1a75);
        let rng = &mut rng;
        let kind = pick(rng, &[Kind::Sound, Kind::Fenced]);
        let clients = rng.usize(2..=3);
        let mut plan = Self::with(seed, kind, (3, clients, 3), rng.fork());
        plan.resources = 1;
        plan.lossless = false;
        plan.replaced.clear();
        plan.client_lags.fill(0);
        let longest = plan.longest_ttl();
        plan.weather.tail = rng.u32(100_000..=400_000);
        plan.weather.longest = (longest / 2).max(nanos(plan.node_timeout) * 3);
        plan.storm = plan.storm.min((3 * longest).max(10 * SECOND));
        plan.episodes = one_node_is_stopped(rng, longest, plan.storm);
        if kind == Kind::Fenced {
            plan = plan.with_wall_clocks_apart();
        }
        plan
    }
}

/// One of three after the other, so that a majority needs both of the others.
fn one_node_is_stopped(rng: &mut fastrand::Rng, longest_ttl: Nanos, storm: Nanos) -> Vec<Episode> {
    let mut episodes = Vec::new();
    let mut start = 0;
    while start < storm {
        let end = start + rng.u64(MILLI..=longest_ttl);
        episodes.push(Episode {
            start,
            end: end.min(storm),
            trouble: Trouble::Hang {
                node: rng.usize(0..3),
            },
        });
        start = end + rng.u64(MILLI..=longest_ttl);
    }
    episodes
}

#[test]
fn no_lock_that_passes_from_thread_to_thread_breaks_a_promise() {
    let total = none_breaks_a_promise("relay", fewer_seeds(), Plan::relay);
    assert!(total.acquired > 20 * total.runs, "{total}");
    for seen in [
        "passed to the next thread",
        "undo",
        "a wall clock goes forward",
        "a larger token",
    ] {
        let is_expected = total.runs >= 40 || seen == "passed to the next thread" || seen == "undo";
        assert!(
            !is_expected || total.tally.contains_key(seen),
            "no {seen}: {total}"
        );
    }
}
