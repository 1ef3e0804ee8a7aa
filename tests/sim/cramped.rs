//! Pools of connections that are smaller than the crowd of threads: some calls find none, and what must not wait goes beside the
//! pool. For a connection of another thread the pool waits in real time, in which nothing else goes on, and so in vain.

use std::time::Duration;

use super::clocks::{MICRO, SECOND};
use super::fewer_seeds;
use super::plan::{Plan, pick};
use super::run::none_breaks_a_promise;
use super::world::State;
use crate::Error;
use crate::error::{NodeError, Vote};

impl Plan {
    /// A crowd with one connection to each node, or two.
    pub(super) fn cramped(seed: u64) -> Self {
        let mut plan = Self::crowd(seed);
        let mut rng = fastrand::Rng::with_seed(seed ^ 0x0c_4a3b);
        plan.pool_size = Some(pick(&mut rng, &[1, 1, 2]));
        // The real time for which a pool waits is half of it.
        plan.node_timeout = Duration::from_millis(4);
        plan.weather.delay = (20 * MICRO, rng.u64(30 * MICRO..=300 * MICRO));
        plan.crowds = Some(0);
        plan.storm = plan.storm.min(SECOND);
        let storm = plan.storm;
        plan.episodes.retain(|episode| episode.end <= storm);
        plan
    }
}

impl State {
    /// Counts the calls that found no connection.
    pub(super) fn counts_what_is_short(&mut self, error: &Error) {
        let (Error::Unavailable { nodes, .. } | Error::Held { nodes, .. }) = error else {
            return;
        };
        let is_short = |vote: &Vote| matches!(vote, Vote::Failed(NodeError::PoolExhausted));
        if nodes.iter().any(|report| is_short(&report.vote)) {
            self.count("a pool was exhausted");
        }
    }

    /// Counts connections that are beside the pool, when a client writes on one of its own.
    pub(super) fn counts_connections(&mut self, node: usize, client: usize) {
        let Some(size) = self.plan.pool_size else {
            return;
        };
        let open = self.network.open[node].iter();
        let of_client = open.filter(|other| {
            let other = &self.network.connections[**other];
            other.client == client && !other.is_reset
        });
        if of_client.count() > usize::try_from(size).unwrap() {
            self.count("a connection beside the pool");
        }
    }
}

#[test]
fn pools_that_are_too_small_break_no_promise() {
    let total = none_breaks_a_promise("cramped", fewer_seeds(), Plan::cramped);
    assert!(total.acquired > 20 * total.runs, "{total}");
    total.has_seen(&["a pool was exhausted", "a connection beside the pool"]);
}
