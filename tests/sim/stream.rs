//! Readers without a pause, and writers among them: neither waits for long.

use std::time::Duration;

use super::access::Access;
use super::client::Worker;
use super::clocks::{MICRO, MILLI, SECOND};
use super::fewer_seeds;
use super::plan::{Kind, Plan, pick};
use super::run::none_breaks_a_promise;
use super::sharing::Way;
use super::wish::Wish;

/// How long each reads, or writes.
const SECTION: Duration = Duration::from_millis(100);

/// For how long the writer waits: for the sections that are under way, and no others.
const LONGEST_WAIT_TO_WRITE: Duration = Duration::from_millis(300);

/// For how long a reader waits. One whose thread is late for the turn of readers waits for the next one, two sections later; a thread
/// of a run may be as late as a turn is long, and that more than once.
const LONGEST_WAIT_TO_READ: Duration = Duration::from_secs(1);

/// The number of the resource that all want. A writer of several resources also wants those before it.
fn stream(plan: &Plan) -> usize {
    plan.resources - 1
}

/// What clients do while the storm lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Workload {
    /// Each worker draws what it does.
    Drawn,
    /// One writes now and then, and all others read without a pause.
    Stream,
    /// All want one lock, for a short time each.
    Woken,
    /// Locks are taken before and after pauses of a day.
    Idle,
    /// New nodes are opened, before anything is forgotten.
    New,
}

impl Plan {
    /// One thread writes now and then, and those of all clients read again and again. Nothing goes wrong.
    pub(super) fn stream(seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed ^ 0x57_2ea3);
        let rng = &mut rng;
        let (nodes, clients) = (pick(rng, &[5, 5, 3, 1]), rng.usize(1..=4));
        let kind = pick(rng, &[Kind::Sound, Kind::Sound, Kind::Fenced]);
        let mut plan = Self::with(seed, kind, (nodes, clients, 3), rng.fork());
        plan.workload = Workload::Stream;
        plan.lossless = kind == Kind::Sound;
        plan.client_lags.fill(0);
        plan.wall_ahead.fill(0);
        (plan.replaced, plan.episodes) = (Vec::new(), Vec::new());
        plan.ttls = vec![SECTION * 20];
        plan.node_timeout = SECTION / 2;
        plan.retry = (SECTION / 20, SECTION / 10);
        plan.weather.delay = (20 * MICRO, rng.u64(30 * MICRO..=2 * MILLI));
        plan.weather.tail = 0;
        (plan.weather.lost_request, plan.weather.lost_reply) = (0, 0);
        (plan.weather.stuck, plan.weather.stumble, plan.weather.pause) = (0, 0, 0);
        plan.storm = 10 * SECOND;
        // Drawn last, so that a seed has the same network and the same clients as it had before.
        plan.resources = pick(rng, &[1, 1, 2]);
        plan
    }
}

impl Worker {
    /// What all do in runs of one subject.
    pub(super) fn does_its_part(&mut self) {
        match self.plan.workload {
            Workload::Drawn => {}
            Workload::Stream => self.streams(),
            Workload::Woken => self.is_woken(),
            Workload::Idle => self.idles(),
            Workload::New => self.opens_nodes(),
        }
    }

    /// Reads or writes until the end.
    fn streams(&mut self) {
        let writes = (self.id, self.number) == (0, 0);
        while self.is_stormy() {
            let (way, on) = match (writes, stream(&self.plan)) {
                (false, read) => (Way::Read, Access::to_read(read)),
                (true, 0) => (Way::Write, Access::to(0)),
                (true, last) => (Way::All, Access::to_all(0..=last)),
            };
            self.takes_part((way, &on));
            if writes {
                let pause = self.some_time(SECTION * 2);
                self.sleep(pause);
            }
        }
    }

    fn takes_part(&self, (way, on): (Way, &Access)) {
        let ttl = self.plan.ttls[0];
        let wish = Wish {
            label: self.own_label(),
            ..Wish::new(ttl, SECTION * 50)
        };
        let began = self.world.state().now;
        let guard = match self.ask((way, on), &wish) {
            Ok(guard) => guard,
            Err(error) => {
                let id = self.id;
                let why = format!("c{id} did not get {on} among others: {error}");
                return self.world.broken_promise(why);
            }
        };
        let waited = Duration::from_nanos(self.world.state().now - began);
        let claim = self.world.acquired(self.id, on, &guard, ttl);
        let longest = match way {
            Way::Write | Way::All => LONGEST_WAIT_TO_WRITE,
            Way::Read | Way::Lock => LONGEST_WAIT_TO_READ,
        };
        if waited > longest {
            let id = self.id;
            let why = format!("c{id} waited for {on} for {waited:?} among others");
            self.world.broken_promise(why);
        }
        self.sleep(SECTION);
        self.unlock(claim, guard);
    }
}

/// The writer waits for the readers that were there before it, and new readers wait for the writer.
#[test]
fn neither_readers_nor_writers_wait_for_long() {
    let total = none_breaks_a_promise("stream", fewer_seeds(), Plan::stream);
    assert!(total.acquired > 100 * total.runs, "{total}");
    total.has_seen(&[
        "a reader is held back for a writer",
        "readers at the same time",
        "several resources",
    ]);
}
