//! Many threads of one client that want locks of their own at the same time, so that some send for others.

use std::time::Duration;

use super::client::Worker;
use super::clocks::{MICRO, MILLI, Nanos};
use super::half_the_seeds;
use super::plan::{Kind, Plan, nanos, pick};
use super::run::none_breaks_a_promise;
use super::trouble::{Episode, Trouble};
use super::wish::Wish;

/// A crowd begins at a multiple of this time.
const SPAN: Nanos = 50 * MILLI;

impl Plan {
    /// Few clients of many threads. Each thread has a lock of its own, and there are others for all.
    pub(super) fn crowd(seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed ^ 0xc20_3d5);
        let rng = &mut rng;
        let kind = pick(rng, &[Kind::Sound, Kind::Sound, Kind::Fenced]);
        let (nodes, clients) = (pick(rng, &[5, 5, 3, 3, 1]), pick(rng, &[1, 1, 2]));
        let workers = pick(rng, &[3, 5, 8]);
        let mut plan = Self::with(seed, kind, (nodes, clients, workers), rng.fork());
        plan.replaced.clear();
        plan.client_lags.fill(0);
        plan.resources = clients * workers + rng.usize(1..=2);
        plan.storm = plan.storm.min(10 * super::clocks::SECOND);
        let storm = plan.storm;
        plan.episodes.retain(|episode| {
            episode.end <= storm && !matches!(episode.trouble, Trouble::Replace { .. })
        });
        // A fast link with two lanes, or a slow one with more.
        if rng.bool() {
            plan.weather.delay = (20 * MICRO, 20 * MICRO + rng.u64(5 * MICRO..=40 * MICRO));
        } else {
            let slow = nanos(plan.node_timeout) / 12;
            plan.weather.delay = (slow / 2, slow);
        }
        let they_die = !plan.lossless && rng.bool();
        plan.crowds = Some(if they_die { rng.u32(100..=5_000) } else { 0 });
        let mut start = rng.u64(0..=storm / 10);
        // A release that waits in a node without its script would leave its key there, until that expires.
        while !plan.lossless && rng.u8(0..8) > 0 && start < storm {
            let node = rng.usize(0..nodes);
            let trouble = Trouble::ForgetScripts { node };
            let end = start;
            plan.episodes.push(Episode {
                start,
                end,
                trouble,
            });
            start += rng.u64(MILLI..=storm / 10);
        }
        plan
    }
}

impl Worker {
    /// Perhaps takes locks of its own, from the same moment on as the other threads of its client.
    pub(super) fn crowds(&mut self) -> bool {
        if self.plan.crowds.is_none() || self.depth > 0 || self.rng.u8(0..6) == 0 {
            return false;
        }
        let now = self.world.state().now;
        self.world.block(now.next_multiple_of(SPAN), None);
        for _ in 0..self.rng.usize(2..=8) {
            if !self.is_stormy() {
                break;
            }
            self.takes_its_own_lock();
        }
        true
    }

    fn takes_its_own_lock(&mut self) {
        let own = self.id * self.plan.workers + self.number;
        let ((way, on), ttl) = (self.draw_wanted_in_a_crowd(own), self.ttl());
        let wish = Wish::new(ttl, Duration::ZERO);
        let call = || self.world.despite_death(|| self.call((way, &on), &wish));
        let Some(result) = self.world.while_asking_for(&on, &wish, call) else {
            return;
        };
        match result {
            Ok(guard) => {
                let claim = self.world.acquired(self.id, &on, &guard, ttl);
                if self.rng.u8(0..4) == 0 {
                    let result = self.world.extends(claim, &guard, ttl);
                    self.was_extended(claim, &guard, result);
                }
                self.unlock(claim, guard);
            }
            Err(error) => {
                self.refused(&error);
                // Where nobody is asked, no time passes.
                self.sleep(Duration::from_micros(100));
            }
        }
    }
}

/// What has to happen in 200 seeds with crowds.
const SEEN: [&str; 10] = [
    "a crowd in one write",
    "a panic in the middle of a call",
    "a panic of a leader",
    "a text sent again in the middle of a batch",
    "led for others",
    "led from the background",
    "several threads in one write",
    "two connections to a node at once",
    "two threads in one write",
    "went alone after waiting",
];

/// Threads that send for each other, on slow and on fast links, and that panic while they do.
#[test]
fn no_seed_of_crowds_breaks_a_promise() {
    let total = none_breaks_a_promise("crowd", half_the_seeds(), Plan::crowd);
    assert!(total.acquired > 100 * total.runs, "{total}");
    let led = total.tally.get("led for others").copied();
    assert!(led > Some(20 * total.runs), "{total}");
    let expected = if total.runs < 200 { &[][..] } else { &SEEN };
    total.has_seen(expected);
}
