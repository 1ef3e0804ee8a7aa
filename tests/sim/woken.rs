//! Clients that want one lock again and again, in calm weather: a release wakes one who waits, and hardly any free lock stands
//! there until somebody's time to look again has come.

use std::time::Duration;

use super::access::Access;
use super::client::Worker;
use super::clocks::{MICRO, MILLI, Nanos, SECOND};
use super::fewer_seeds;
use super::plan::{Kind, Plan, pick};
use super::run::none_breaks_a_promise;
use super::sharing::Way;
use super::stream::Workload;
use super::wish::Wish;
use crate::Fanout;

/// How long after a wait in vain a client looks again.
const LOOKS_AGAIN: Duration = Duration::from_secs(1);

/// A lock is free for longer only where nobody is woken: who has been woken three times in vain does not listen for a while.
const LONGEST_FREE: Nanos = 200 * MILLI;

/// The name of such a case in the tally.
const BY_TIMER: &str = "a free lock that somebody got by its timer alone";

/// The number of the resource that all want.
const WANTED: usize = 0;

impl Plan {
    /// All want one lock, for a short time each. Nothing goes wrong.
    pub(super) fn woken(seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed ^ 0xbe11_0057);
        let rng = &mut rng;
        let (nodes, clients) = (pick(rng, &[5, 5, 3, 1]), rng.usize(2..=5));
        let workers = pick(rng, &[1, 1, 2]);
        let kind = pick(rng, &[Kind::Sound, Kind::Sound, Kind::Fenced]);
        let mut plan = Self::with(seed, kind, (nodes, clients, workers), rng.fork());
        plan.workload = Workload::Woken;
        plan.resources = 1;
        plan.lossless = kind == Kind::Sound;
        plan.client_lags.fill(0);
        (plan.replaced, plan.episodes) = (Vec::new(), Vec::new());
        plan.fanouts = vec![pick(rng, &[Fanout::Sequential, Fanout::Overlapped]); clients];
        plan.ttls = vec![LOOKS_AGAIN * 20];
        plan.node_timeout = Duration::from_millis(50);
        plan.retry = (LOOKS_AGAIN, LOOKS_AGAIN * 2);
        plan.weather.delay = (20 * MICRO, rng.u64(30 * MICRO..=2 * MILLI));
        plan.weather.tail = 0;
        (plan.weather.lost_request, plan.weather.lost_reply) = (0, 0);
        (plan.weather.stuck, plan.weather.stumble, plan.weather.pause) = (0, 0, 0);
        plan.storm = 10 * SECOND;
        plan
    }
}

impl Worker {
    /// Takes the lock for a moment, again and again until the end.
    pub(super) fn is_woken(&mut self) {
        while self.is_stormy() {
            let pause = self.some_time(LOOKS_AGAIN / 20);
            self.sleep(pause);
            self.takes_its_turn();
        }
    }

    fn takes_its_turn(&mut self) {
        let (id, ttl) = (self.id, self.plan.ttls[0]);
        let on = Access::to(WANTED);
        let wish = Wish {
            label: self.own_label(),
            ..Wish::new(ttl, LOOKS_AGAIN * 60)
        };
        let began = self.world.state().now;
        let guard = match self.ask((Way::Lock, &on), &wish) {
            Ok(guard) => guard,
            Err(error) => {
                let why = format!("c{id} did not get {on} in its turn: {error}");
                return self.world.broken_promise(why);
            }
        };
        let mut state = self.world.state();
        let free = state.now - state.witness.freed.max(began);
        if free > LONGEST_FREE {
            state.count(BY_TIMER);
        }
        drop(state);
        let claim = self.world.acquired(id, &on, &guard, ttl);
        let work = self.some_time(LOOKS_AGAIN / 10);
        self.sleep(work);
        self.unlock(claim, guard);
        let mut state = self.world.state();
        state.witness.freed = state.now;
    }
}

/// A lost wake-up would leave a lock free until somebody looks again, a second later.
#[test]
fn a_release_wakes_one_who_waits() {
    let total = none_breaks_a_promise("woken", fewer_seeds(), Plan::woken);
    assert!(total.acquired > 20 * total.runs, "{total}");
    let times = |what| total.tally.get(what).copied().unwrap_or_default();
    // Nearly all who listen are woken; the others are overtaken for a second.
    assert!(
        times("woken by the bell") > 9 * times("listened in vain"),
        "{total}"
    );
    assert!(times("woken by the bell") > 5 * total.runs, "{total}");
    assert!(100 * times(BY_TIMER) < total.acquired, "{total}");
}
