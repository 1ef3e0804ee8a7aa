//! Servers that are gone for good, and in their places empty ones whose wall clocks are behind by as much as is allowed;
//! beside them, clients that take lock after lock, up to that moment or from when the new servers vote.

use std::time::Duration;

use super::access::Access;
use super::client::Worker;
use super::clocks::{MICRO, MILLI, Nanos, SECOND};
use super::plan::{Plan, SHORTEST_DELAY, nanos};
use super::trouble::{Episode, Trouble};
use super::witness::key;

impl Plan {
    /// Adds replacements to some of the runs.
    pub(super) fn with_replacements(mut self) -> Self {
        // Numbers of its own, so that the other runs are as they were without it.
        let mut rng = fastrand::Rng::with_seed(self.seed ^ 0x2e9_1ace);
        if rng.u8(0..3) > 0 {
            return self;
        }
        let longest = self.longest_ttl();
        // A node tells its time in whole milliseconds, which makes for one more.
        let lag = longest - MILLI;
        // All of it is used up, so that the clocks must not drift apart.
        self.node_rates.fill(0);
        self.client_rates.fill(0);
        // Nobody holds the last one for long.
        self.resources = 2;
        // The last lock before a replacement comes close to it.
        self.weather.delay = (SHORTEST_DELAY, 2 * SHORTEST_DELAY);
        (self.weather.stumble, self.weather.tail) = (0, 0);
        for (client, lags) in self.client_lags.iter_mut().enumerate() {
            let is_behind = client % 2 > 0;
            *lags = if is_behind { lag } else { 0 };
        }
        let mut start = rng.u64(SECOND / 2..=3 * SECOND);
        while start < self.storm {
            self.replaced.push(start);
            let end = start + rng.u64(10 * MICRO..=MILLI);
            let trouble = |node| Trouble::Replace { node, lag };
            let one = rng.usize(0..self.nodes);
            let are_all = rng.u8(0..4) > 0;
            let nodes = (0..self.nodes).filter(|node| are_all || *node == one);
            self.episodes.extend(nodes.map(|node| Episode {
                start,
                end,
                trouble: trouble(node),
            }));
            start += 2 * longest + rng.u64(SECOND / 2..=3 * SECOND);
        }
        self
    }
}

impl Worker {
    /// Perhaps waits for the next replacement. One whose clock is right takes lock after lock up to that moment; one whose
    /// clock is behind does so when the new server begins to vote.
    pub(super) fn hurries(&mut self) -> bool {
        let now = self.world.state().now;
        let next = self.plan.replaced.iter().find(|at| **at > now);
        let (Some(next), Some(rules)) = (next.copied(), self.plan.rules()) else {
            return false;
        };
        if self.depth > 0 || self.rng.bool() {
            return false;
        }
        let span = self
            .rng
            .u64(MILLI..=20 * MILLI + self.plan.longest_ttl() / 25);
        if self.plan.client_lags[self.id] == 0 {
            self.sleep_until(next.saturating_sub(span));
            self.takes_lock_after_lock(next);
            return true;
        }
        // The quarantine begins when the new server is first asked.
        self.sleep_until(next + 2 * MILLI);
        self.takes_lock_after_lock(next + 3 * MILLI);
        let opens = next + nanos(rules.quarantine);
        self.sleep_until(opens + MILLI);
        self.takes_lock_after_lock(opens + 10 * MILLI);
        true
    }

    /// One of those that are held for as long as any lock is.
    pub(super) fn usual_resource(&mut self) -> usize {
        let set_aside = usize::from(!self.plan.replaced.is_empty());
        self.rng.usize(0..self.plan.resources - set_aside)
    }

    fn sleep_until(&self, at: Nanos) {
        self.world.block(at, None);
    }

    fn takes_lock_after_lock(&mut self, until: Nanos) {
        let (resource, ttl) = (self.plan.resources - 1, self.ttl());
        let (name, manager) = (key(resource), self.manager.clone());
        let on = Access::to(resource);
        let request = manager.request(&name).ttl(ttl);
        while self.is_stormy() && self.world.state().now < until {
            match self.world.while_asking(&on, ttl, || request.try_lock()) {
                Ok(guard) => {
                    let claim = self.world.acquired(self.id, &on, &guard, ttl);
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
}
