//! New nodes of the fenced protocol: clients open them, several at once and in any weather, while others ask for locks already.
//! As `open_nodes` asks for, nothing is forgotten before that.

use std::time::Duration;

use super::client::Worker;
use super::clocks::{MILLI, Nanos, SECOND};
use super::fewer_seeds;
use super::plan::{Kind, Plan, nanos, pick};
use super::run::none_breaks_a_promise;
use super::stream::Workload;
use super::trouble::Trouble;
use crate::Error;

/// Until when calls of `open_nodes` begin.
const OPENED: Nanos = 2 * SECOND;

/// Until when the last of them has ended, and nothing of it is on its way any more.
const SETTLED: Nanos = 8 * SECOND;

impl Plan {
    pub(super) fn opening(seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed ^ 0x0_9e9e);
        let rng = &mut rng;
        let size = (
            pick(rng, &[5, 3, 3, 1]),
            rng.usize(2..=3),
            pick(rng, &[1, 2]),
        );
        let plan = Self::with(seed, Kind::Fenced, size, rng.fork());
        let mut plan = plan.without_replacements();
        (plan.is_new, plan.workload) = (true, Workload::New);
        plan.node_timeout = plan.node_timeout.min(Duration::from_millis(50));
        plan.storm = plan.storm.max(SETTLED + 4 * plan.longest_ttl());
        // Neither a client nor a message may be late by so much that a node has forgotten meanwhile.
        plan.weather.pause = 0;
        plan.weather.longest = nanos(plan.node_timeout) * 3;
        plan.episodes.retain(|episode| {
            episode.start > SETTLED
                || matches!(
                    episode.trouble,
                    Trouble::Hang { .. }
                        | Trouble::Crash { keeps: true, .. }
                        | Trouble::Disconnect { .. }
                        | Trouble::SetWall { .. }
                )
        });
        for episode in &mut plan.episodes {
            if episode.start <= SETTLED {
                episode.end = episode.end.min(SETTLED - SECOND);
                episode.start = episode.start.min(episode.end);
            }
        }
        plan
    }
}

impl Worker {
    /// Opens the nodes once or more, and goes on as all others.
    pub(super) fn opens_nodes(&mut self) {
        for _ in 0..self.rng.u8(0..=3) {
            let pause = self.rng.u64(0..=OPENED / 4);
            self.sleep(Duration::from_nanos(pause));
            if self.world.state().now > OPENED || !self.is_stormy() {
                return;
            }
            let result = self.manager.open_nodes();
            let mut state = self.world.state();
            let id = self.id;
            state.note(|| format!("c{id} opens nodes: {result:?}"));
            if state.now > SETTLED - SECOND {
                state.fail(format!("c{id} opened nodes for too long"));
            }
            match result {
                Ok(()) => state.count("nodes opened"),
                Err(Error::NotOpened { .. }) => state.count("nodes not opened"),
                Err(error) => {
                    state.fail(format!("c{id} got an error that makes no sense: {error}"));
                }
            }
            drop(state);
            self.sleep(Duration::from_nanos(MILLI));
        }
    }
}

#[test]
fn nodes_that_are_opened_break_no_promise() {
    let total = none_breaks_a_promise("opening", fewer_seeds(), Plan::opening);
    assert!(total.acquired > 20 * total.runs, "{total}");
    total.has_seen(&["nodes opened", "nodes not opened", "abstained"]);
}
