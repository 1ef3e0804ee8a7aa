//! The wall clocks of clients, from which fencing tokens come: apart from each other and stepped, by as much as is allowed or by more.

use super::clocks::{MICRO, MILLI, Nanos, SECOND};
use super::fewer_seeds;
use super::plan::{FASTEST, Kind, Plan, nanos, pick};
use super::run::none_breaks_a_promise;
use super::trouble::{Episode, Trouble};
use super::world::State;
use crate::clock::VIRTUAL_EPOCH_US;

/// By how much a clock is ahead, or behind.
pub(crate) type Offset = i64;

impl Plan {
    /// By how much the wall clocks of clients may still be apart, when all others are at their bounds at the end of the run. Any two
    /// clocks may differ by the longest ttl.
    fn room_of_wall_clocks(&self) -> Nanos {
        let rates = self.node_rates.iter().chain(&self.client_rates);
        let fastest = rates.map(|rate| rate.unsigned_abs()).max().unwrap_or(0);
        let drifted = 2 * fastest * (self.storm + self.rest_of_the_run()) / 1_000_000;
        // A node tells its time in whole milliseconds.
        self.longest_ttl().saturating_sub(drifted + 2 * MILLI)
    }

    /// More than what comes after the storm.
    fn rest_of_the_run(&self) -> Nanos {
        20 * SECOND + 15 * self.longest_ttl().max(SECOND)
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
            self.episodes.push(Episode {
                start,
                end,
                trouble: Trouble::SetWall {
                    client: rng.usize(0..self.clients),
                    ahead: rng.i64(-half..=half),
                },
            });
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
        let kind = [Kind::Sound, Kind::Fenced][usize::from(seed % 2 == 1)];
        let mut plan = Self::draw(seed, kind).without_replacements();
        plan.set_back = if matches!(kind, Kind::Fenced) {
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
                plan.episodes.push(Episode {
                    start,
                    end: start,
                    trouble: Trouble::SetBack { node, by },
                });
                start += rng.u64(MILLI..=10 * SECOND);
            }
        }
        plan
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

    pub(super) fn sets_wall(&mut self, client: usize, ahead: Offset) {
        let before = std::mem::replace(&mut self.clients[client].wall_ahead, ahead);
        self.count(if before < ahead {
            "a wall clock goes forward"
        } else {
            "a wall clock goes back"
        });
    }

    /// The wall clock is set right again: to what it showed at the beginning.
    pub(super) fn resets_wall(&mut self, client: usize) {
        self.sets_wall(client, self.plan.wall_ahead[client]);
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
                "a lock was given with a token that is {ahead} us ahead of all nodes"
            ));
        }
    }

    /// A node is asked with a token which is too far ahead, and refuses it. Where most of them do, the client gets no lock.
    pub(super) fn is_told_of_skew(&mut self) {
        self.count("a token too far ahead");
        if !self.plan.is_beyond {
            self.fail("a node says SKEW".into());
        }
    }
}

#[test]
fn wall_clocks_beyond_the_bound_cost_locks_and_no_promise() {
    let total = none_breaks_a_promise("beyond", fewer_seeds(), Plan::beyond_the_bound);
    assert!(total.acquired > 5 * total.runs, "{total}");
    total.has_seen(&[
        "a token too far ahead",
        "a larger token",
        "a wall clock goes forward",
        "a wall clock goes back",
    ]);
}

#[test]
fn nodes_whose_clocks_are_set_back_break_no_promise() {
    let total = none_breaks_a_promise("set-back", fewer_seeds(), Plan::with_clocks_set_back);
    assert!(total.acquired > 5 * total.runs, "{total}");
    total.has_seen(&["a node's clock is set back", "listened in vain"]);
}

/// The bound of the rates is drawn for the fenced protocol as well.
#[test]
fn some_clocks_of_the_fenced_protocol_go_at_the_bound_of_their_rates() {
    let plans = (0..200).map(|seed| Plan::draw(seed, Kind::Fenced));
    let is_fast = |plan: &Plan| {
        let rates = plan.node_rates.iter().chain(&plan.client_rates);
        rates.map(|rate| rate.abs()).max() > Some(FASTEST * 3 / 4)
    };
    assert!(plans.filter(is_fast).count() > 20);
}
