//! Servers without persistence that are restarted one after the other, twice around, while one client keeps a lock all the
//! time.

use std::time::Duration;

use super::access::Access;
use super::client::Worker;
use super::clocks::{MILLI, SECOND};
use super::fewer_seeds;
use super::keeping::Keeping;
use super::kinds::drawn_as;
use super::plan::{Kind, Plan, Restarts};
use super::run::{Until, none_breaks_a_promise, run_many};
use super::sharing::Way;
use super::trouble::{Episode, Trouble};
use super::wish::Wish;
use crate::Error;

/// The lock that is kept all the time, or the first of its resources.
const KEPT: usize = 0;

impl Plan {
    /// Each server is away for a while, and comes back empty. Nothing else goes wrong.
    pub(super) fn rolling(seed: u64, kind: Kind, nodes: usize) -> Self {
        let mut plan = Self::sized(seed, kind, nodes, 3);
        let longest = plan.longest_ttl();
        plan.restarts = Restarts::InTurn;
        plan.lossless = false;
        plan.node_timeout = plan.node_timeout.min(Duration::from_nanos(longest / 8));
        let most = longest / 200;
        let (lowest, highest) = plan.weather.delay;
        plan.weather.delay = (lowest.min(most), highest.min(2 * most));
        plan.weather.tail = 0;
        (plan.weather.lost_request, plan.weather.lost_reply) = (0, 0);
        (plan.weather.stuck, plan.weather.stumble, plan.weather.pause) = (0, 0, 0);
        // Where every promise is to hold, a server is away for longer than every ttl, and the locks have time to heal.
        let (away, between) = match kind {
            Kind::Amnesia => (10 * MILLI, MILLI),
            Kind::Sound | Kind::Fenced | Kind::Mixed | Kind::Jumps => {
                (longest + longest / 50 + 5 * MILLI, longest)
            }
        };
        let mut start = longest + SECOND;
        plan.episodes.clear();
        for node in (0..nodes).chain(0..nodes) {
            let end = start + away;
            let trouble = Trouble::Crash { node, keeps: false };
            plan.episodes.push(Episode {
                start,
                end,
                trouble,
            });
            start = end + between;
        }
        plan.storm = start + longest;
        plan
    }

    /// The same on three nodes or five, where every promise is to hold.
    pub(super) fn rolling_sound(seed: u64) -> Self {
        let nodes = if seed.is_multiple_of(2) { 5 } else { 3 };
        Self::rolling(seed, Kind::Sound, nodes)
    }

    /// The same, where the lock that is kept is a read lock, or one on several resources.
    pub(super) fn rolling_shared(seed: u64) -> Self {
        Self {
            resources: 2,
            rests: false,
            looks: false,
            ..Self::rolling_sound(seed).with_sharing()
        }
    }
}

impl Worker {
    /// Whether this worker keeps the lock while the servers are restarted.
    pub(super) fn keeps_throughout(&self) -> bool {
        self.plan.restarts == Restarts::InTurn && self.id == 0
    }

    /// A lock; or, where the plan has that, a read lock or one on several resources.
    fn wanted_throughout(&self) -> (Way, Access) {
        match (self.plan.sharing, self.plan.seed % 4) {
            (None, _) => (Way::Lock, Access::to(KEPT)),
            (Some(_), 0 | 3) => (Way::Read, Access::to_read(KEPT)),
            (Some(_), _) => (Way::All, Access::to_all([KEPT, KEPT + 1])),
        }
    }

    /// Keeps the lock until all servers have been restarted twice.
    pub(super) fn keep_throughout(&mut self) {
        let ttl = Duration::from_nanos(self.plan.longest_ttl());
        let keeping = Keeping::unbounded();
        let (way, on) = self.wanted_throughout();
        let wish = Wish {
            keeping: Some(keeping),
            ..Wish::new(ttl, ttl * 20)
        };
        let guard = match self.ask((way, &on), &wish) {
            Ok(guard) => guard,
            Err(error) => return self.refused(&error),
        };
        let claim = self.world.acquired(self.id, &on, &guard, ttl);
        self.is_kept(claim, keeping);
        while self.is_stormy() {
            self.sleep(ttl / 5);
            let held = self.world.as_witness(|| guard.check());
            if let Err(error @ Error::Lost { .. }) = held
                && self.plan.kind == Kind::Sound
            {
                if on.resources().len() > 1 {
                    // A node is healed only when all of them are free there at one moment, and others want them too.
                    self.world.state().count("several resources kept, and lost");
                    break;
                }
                let why = format!("a kept lock did not outlive restarts: {error}");
                self.world.broken_promise(why);
                break;
            }
        }
        self.world.counts_copies(&on, guard.token());
        self.unlock(claim, guard);
    }
}

/// The same with a read lock, and with a lock on several resources, among readers and others.
#[test]
fn a_kept_read_lock_and_one_on_several_resources_outlive_the_restart_of_every_server() {
    let total = none_breaks_a_promise("rolling-shared", fewer_seeds(), Plan::rolling_shared);
    let lost = total.tally.get("several resources kept, and lost");
    assert!(lost.copied() <= Some(total.runs / 10), "{total}");
    let healed = total.tally.get("a key set again").copied();
    assert!(healed >= Some(5 * total.runs), "{total}");
    let everywhere = total.tally.get("kept throughout, on all nodes").copied();
    assert!(everywhere > Some(total.runs / 2), "{total}");
}

/// Servers without persistence are restarted one after the other, each away for longer than every ttl. A lock that is kept
/// meanwhile is never lost, and nobody else gets it.
#[test]
fn a_kept_lock_outlives_the_restart_of_every_server() {
    let total = none_breaks_a_promise("rolling", fewer_seeds(), Plan::rolling_sound);
    let healed = total.tally.get("a key set again").copied();
    assert!(healed >= Some(5 * total.runs), "{total}");
    let everywhere = total.tally.get("kept throughout, on all nodes").copied();
    assert!(everywhere > Some(total.runs / 2), "{total}");
}

/// Restarts that leave no time to heal, of servers that vote at once.
#[test]
fn quick_restarts_of_all_servers_are_seen_to_break_exclusion() {
    let draw = drawn_as("rolling-amnesia");
    let total = run_many(fewer_seeds(), Until::TheEnd, draw);
    println!("rolling, quickly: {total}");
    let broken = total.violations.iter();
    let others = broken.filter(|(_, what)| !what.starts_with("two holders"));
    assert_eq!(others.collect::<Vec<_>>(), Vec::<&(u64, String)>::new());
    let seen = u64::try_from(total.violations.len()).unwrap();
    assert!(seen > total.runs / 10, "{total}");
}
