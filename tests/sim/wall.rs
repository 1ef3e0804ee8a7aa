//! The wall clocks of clients, from which fencing tokens come: apart from each other and stepped, by as much as is allowed or by more.

use super::plan::SHORTEST_DELAY;
use super::prelude::*;

/// By how much a clock is ahead, or behind.
pub(crate) type Offset = i64;

impl Plan {
    /// By how much the wall clocks of clients may still be apart, when all others are at their bounds at the end of the run. Any two
    /// clocks may differ by the longest ttl.
    fn room_of_wall_clocks(&self) -> Nanos {
        let rates = self.node_rates.iter().chain(&self.client_rates);
        let fastest = rates.map(|rate| rate.unsigned_abs()).max().unwrap_or(0);
        // More than what comes after the storm.
        let rest = 20 * SECOND + 15 * self.longest_ttl().max(SECOND);
        let drifted = 2 * fastest * (self.storm + rest) / 1_000_000;
        // A node tells its time in whole milliseconds.
        self.longest_ttl().saturating_sub(drifted + 2 * MILLI)
    }

    /// With the fenced protocol wall clocks may differ by the longest ttl. Where that leaves no room for clocks at the bound of their
    /// rates, they go nearly alike.
    pub(super) fn with_slower_rates(mut self) -> Self {
        if self.room_of_wall_clocks() < self.longest_ttl() / 2 {
            let rates = self.node_rates.iter_mut().chain(&mut self.client_rates);
            rates.for_each(|rate| *rate /= 100);
        }
        self
    }

    /// Sets the wall clocks of clients apart, and steps some of them, forward and back, within what is allowed.
    pub(super) fn with_wall_clocks_apart(self) -> Self {
        let room = self.room_of_wall_clocks();
        self.with_wall_clocks_in(room)
    }

    fn with_wall_clocks_in(mut self, room: Nanos) -> Self {
        let mut rng = fastrand::Rng::with_seed(self.seed ^ 0x0a11_c10c);
        let half = i64::try_from(room / 2).unwrap();
        for ahead in &mut self.wall_ahead {
            *ahead = pick(&mut rng, &[-half, 0, half]) + rng.i64(-half / 20..=0).abs();
            *ahead = (*ahead).clamp(-half, half);
        }
        let mut start = rng.u64(0..=SECOND);
        while start < self.storm {
            let end = start + rng.u64(MICRO..=SECOND);
            let client = rng.usize(0..self.clients);
            let ahead = rng.i64(-half..=half);
            self.strikes(start..end, Trouble::SetWall { client, ahead });
            start = end + rng.u64(MILLI..=3 * SECOND);
        }
        self
    }

    /// Clients whose wall clocks are ahead and behind by more than is allowed. That is a nuisance, and breaks no promise while the
    /// servers' clocks are right.
    pub(super) fn beyond_the_bound(seed: u64) -> Self {
        let plan = Self::draw(seed, Kind::Fenced);
        let room = 8 * plan.longest_ttl() + 100 * MILLI;
        Self {
            is_beyond: true,
            ..plan.without_replacements().with_wall_clocks_in(room)
        }
    }

    /// The clocks of nodes are set back, again and again. With the fenced protocol they stay within what is allowed.
    pub(super) fn with_clocks_set_back(seed: u64) -> Self {
        let is_fenced = !seed.is_multiple_of(2);
        let kind = if is_fenced { Kind::Fenced } else { Kind::Sound };
        let mut plan = Self::draw(seed, kind).without_replacements();
        plan.set_back = if is_fenced {
            plan.room_of_wall_clocks()
        } else {
            2 * plan.longest_ttl()
        };
        let mut rng = fastrand::Rng::with_seed(seed ^ 0x5e7_bac4);
        for node in 0..plan.nodes {
            let mut left = plan.set_back;
            let mut start = rng.u64(0..=5 * SECOND);
            while start < plan.storm {
                let by = rng.u64(0..=left);
                left -= by;
                plan.strikes(start..start, Trouble::SetBack { node, by });
                start += rng.u64(MILLI..=10 * SECOND);
            }
        }
        plan
    }

    /// Adds servers that are gone for good to some of the runs, and in their places empty ones whose wall clocks are behind by as much as
    /// is allowed.
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
            let one = rng.usize(0..self.nodes);
            let are_all = rng.u8(0..4) > 0;
            for node in (0..self.nodes).filter(|node| are_all || *node == one) {
                self.strikes(start..end, Trouble::Replace { node, lag });
            }
            start += 2 * longest + rng.u64(SECOND / 2..=3 * SECOND);
        }
        self
    }

    pub(super) fn without_replacements(mut self) -> Self {
        self.replaced.clear();
        self.client_lags.fill(0);
        let is_other = |episode: &Episode| !matches!(episode.trouble, Trouble::Replace { .. });
        self.episodes.retain(is_other);
        self
    }
}

impl State {
    /// What the wall clock of a client shows, in microseconds since the epoch of virtual time.
    pub(super) fn wall_micros(&self, client: usize) -> u64 {
        let client = &self.clients[client];
        let shown = i64::try_from(client.clock.shows(self.now)).unwrap();
        let micros = (shown + client.wall_ahead) / 1_000;
        VIRTUAL_EPOCH_US.checked_add_signed(micros).unwrap()
    }

    /// The nodes have given a lock with this fencing token: none that is further ahead of all their clocks than is allowed.
    pub(super) fn is_given_with(&mut self, fencing: Option<u64>) {
        let (Some(rules), Some(token)) = (self.plan.rules(), fencing) else {
            return;
        };
        let shown = self.nodes.iter().map(|node| node.clock.shows(self.now));
        let latest = VIRTUAL_EPOCH_US + shown.max().unwrap_or_default() / MICRO;
        let most = latest + nanos(rules.quarantine) / MICRO;
        if token > most {
            let ahead = token - latest;
            self.fail(format!(
                "P11: a lock was given with a token that is {ahead} us ahead of all nodes"
            ));
        }
    }
}
