//! Nobody asks for a lock for so long that its counter is gone. Fencing tokens grow all the same, also for a client whose clock is
//! behind by a day.

use std::time::Duration;

use super::access::Access;
use super::client::Worker;
use super::clocks::{MICRO, MILLI, Nanos, SECOND};
use super::fewer_seeds;
use super::node::Node;
use super::plan::{Kind, Plan, nanos, pick};
use super::run::none_breaks_a_promise;
use super::stream::Workload;
use super::trouble::{Episode, Trouble};
use super::witness::key;
use super::world::State;
use crate::fencing::{FENCE_IDLE, Rules};

/// How long lock after lock is taken before and after the pause.
const BUSY: Nanos = 100 * MILLI;

impl Plan {
    /// Some clients' clocks are ahead by as much as is allowed, and those of the others behind by nearly as much as counters are kept. The first
    /// take the locks before each pause, and the others after it.
    pub(super) fn idle(seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed ^ 0x1d1e);
        let rng = &mut rng;
        let (nodes, clients) = (pick(rng, &[5, 3, 1]), rng.usize(2..=4));
        let plan = Self::with(seed, Kind::Fenced, (nodes, clients, 1), rng.fork());
        let mut plan = plan.without_replacements();
        plan.workload = Workload::Idle;
        plan.resources = 1;
        plan.ttls = vec![Duration::from_millis(rng.u64(2_000..=10_000))];
        plan.node_timeout = Duration::from_millis(50);
        plan.retry = (Duration::from_millis(5), Duration::from_millis(20));
        plan.weather.delay = (20 * MICRO, rng.u64(30 * MICRO..=MILLI));
        plan.weather.tail = 0;
        (plan.weather.lost_request, plan.weather.lost_reply) = (0, 0);
        (plan.weather.stuck, plan.weather.stumble, plan.weather.pause) = (0, 0, 0);
        // Over days, different rates would drive the clocks apart.
        plan.node_rates.fill(0);
        plan.client_rates.fill(0);
        let (longest, idle) = (plan.longest_ttl(), nanos(FENCE_IDLE));
        let ahead = i64::try_from(longest - 10 * MILLI).unwrap();
        let mut wall = |client| {
            // A client further behind follows no token that is so far ahead of its clock.
            let behind = i64::try_from(idle - rng.u64(0..=longest)).unwrap();
            if client % 2 > 0 { -behind } else { ahead }
        };
        plan.wall_ahead = (0..clients).map(&mut wall).collect();
        plan.is_beyond = true;
        plan.episodes.clear();
        let mut start = SECOND;
        for _ in 0..3 {
            // No longer than the tokens of before are ahead of the servers' clocks.
            let by = idle + rng.u64(0..=longest / 2);
            plan.episodes.push(Episode {
                start,
                end: start + by,
                trouble: Trouble::Idle { by },
            });
            start += by + 2 * longest + SECOND;
        }
        plan.storm = start;
        plan
    }
}

impl Worker {
    /// Takes locks before each pause, or after it.
    pub(super) fn idles(&mut self) {
        let is_early = self.plan.wall_ahead[self.id] > 0;
        for pause in self.plan.episodes.clone() {
            let (from, until) = if is_early {
                (pause.start - BUSY, pause.start - MILLI)
            } else {
                (pause.end, pause.end + BUSY)
            };
            self.world.block(from, None);
            self.takes_locks_for_a_moment(until);
        }
        self.world.block(self.plan.storm, None);
    }

    fn takes_locks_for_a_moment(&mut self, until: Nanos) {
        let (name, ttl, on) = (key(0), self.plan.ttls[0], Access::to(0));
        while self.is_stormy() && self.world.state().now < until {
            let request = self.manager.request(&name).ttl(ttl);
            match self.world.while_asking(&on, ttl, || request.try_lock()) {
                Ok(guard) => {
                    let claim = self.world.acquired(self.id, &on, &guard, ttl);
                    let work = self.some_time(Duration::from_millis(2));
                    self.sleep(work);
                    self.unlock(claim, guard);
                }
                Err(error) => self.refused(&error),
            }
            let pause = self.some_time(Duration::from_millis(5));
            self.sleep(pause);
        }
    }
}

impl State {
    /// Puts off by this span all that is under way, and all waits.
    pub(super) fn stands_still_for(&mut self, by: Nanos) {
        let began = self.now;
        self.now += by;
        for client in &mut self.clients {
            client.stands_still(began..self.now);
        }
        let now = self.now;
        let counter = Rules::fence(&key(0));
        let is_gone = |node: &mut Node| node.contents(&counter, now).entries().is_empty();
        if self.nodes.iter_mut().all(is_gone) {
            self.count("a counter is gone");
        }
    }
}

#[test]
fn fencing_tokens_grow_when_their_counters_are_gone() {
    let total = none_breaks_a_promise("idle", fewer_seeds(), Plan::idle);
    assert!(total.acquired > 20 * total.runs, "{total}");
    total.has_seen(&["a pause of a day", "a counter is gone", "a larger token"]);
}
