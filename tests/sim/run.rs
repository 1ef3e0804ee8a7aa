//! Runs of one seed and of many.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{fmt, thread};

use generator::{Generator, Gn};
use parking_lot::Mutex;

use super::preempt::Preempter;
use super::prelude::*;
use super::trace::Trace;
use super::witness::Tally;
use crate::sync::points::{Scheduler, scheduled};

/// For each coroutine, in machine words.
const STACK: usize = 0x1_0000;

/// Plays the plan to its end, or to the first promise that is broken. The world knows what came of it.
pub(super) fn run_one(plan: &Plan, trace: Trace) -> Arc<World> {
    let world = World::new(plan, trace);
    let clients = (0..plan.clients).flat_map(|id| Worker::of_client(&world, plan, id));
    let workers = clients.map(|worker| Gn::new_opt(STACK, move || worker.live()));
    let backgrounds = (0..plan.clients * THREADS).map(|number| {
        let world = Arc::clone(&world);
        Gn::new_opt(STACK, move || {
            while let Some(job) = world.next_job(number / THREADS, number % THREADS) {
                job();
            }
        })
    });
    let mut tasks: Vec<Generator<'static, (), ()>> = workers.chain(backgrounds).collect();
    let preempter = Preempter::of(plan, &world);
    while let Some(task) = world.advance() {
        resume(&world, &mut tasks[task], preempter.as_ref());
    }
    // In turn, because one may wait for what another has.
    while tasks.iter().any(|task| !task.is_done()) {
        let all = tasks.iter_mut().enumerate();
        for (i, task) in all.filter(|(_, task)| !task.is_done()) {
            world.state().task = i;
            resume(&world, task, preempter.as_ref());
        }
    }
    drop(tasks);
    world
}

fn resume(
    world: &World,
    task: &mut Generator<'static, (), ()>,
    preempter: Option<&Rc<dyn Scheduler>>,
) {
    let mut go_on = || catch_unwind(AssertUnwindSafe(|| task.resume()));
    let result = match preempter {
        Some(preempter) => scheduled(preempter, go_on),
        None => go_on(),
    };
    if result.is_err() {
        world.state().fail_at_any_time("a panic".into());
    }
}

/// What stands behind the trace of a run that broke none.
pub(crate) const KEPT_ALL: &str = "no promise is broken";

/// The last lines of a seed's trace. Playing it again gives the same violation, or there is something wrong here.
pub(crate) fn replay_text(kind: &str, plan: &Plan, lines: usize) -> String {
    let world = run_one(plan, Trace::text());
    let state = world.state();
    let tail = state.trace.tail(lines);
    let Some(violation) = &state.witness.violation else {
        return format!("{tail}{KEPT_ALL}");
    };
    let path = state.record.write(kind, plan.seed, violation);
    format!("{tail}{violation}\nits history is in {path}")
}

#[derive(Default)]
pub(crate) struct Total {
    pub(crate) runs: u64,
    /// The seeds that broke a promise, in their order, and how.
    pub(crate) violations: Vec<(u64, String)>,
    pub(crate) tally: Tally,
    /// The same for two trees that play the same runs.
    digest: u64,
    events: u64,
}

/// When to stop before the last seed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    /// Every seed that is lower than the first one that breaks a promise has run then.
    Broken,
    TheEnd,
}

/// Runs the seeds on all cores. Each run is on one thread, so that this changes nothing in any of them.
pub(crate) fn run_many(seeds: Range<u64>, until: Until, plan: fn(u64) -> Plan) -> Total {
    let next = AtomicU64::new(seeds.start);
    let total = Mutex::new(Total::default());
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return;
            }
            let world = run_one(&plan(seed), Trace::digest_only());
            let state = world.state();
            if until == Until::Broken && state.witness.violation.is_some() {
                next.store(seeds.end, Ordering::Relaxed);
            }
            total.lock().add(&state);
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let mut total = total.into_inner();
    total.violations.sort();
    total
}

/// Runs the seeds of a kind in which every promise has to hold. The first seed that breaks one ends the test, with its trace and with
/// what replays it.
#[track_caller]
pub(crate) fn none_breaks_a_promise(kind: &str, seeds: Range<u64>, draw: fn(u64) -> Plan) -> Total {
    let total = run_many(seeds, Until::Broken, draw);
    println!("{kind}: {total}");
    if let Some((seed, what)) = total.violations.first() {
        panic!(
            "seed {seed}: {what}\n{}\nreplay it with REDLATCH_SIM_KIND={kind} REDLATCH_SIM_SEED={seed} cargo test --release --features tls-rustls,serde --lib sim::replay -- --nocapture",
            replay_text(kind, &draw(*seed), 80)
        );
    }
    total
}

impl Total {
    fn add(&mut self, state: &State) {
        self.runs += 1;
        for (what, count) in &state.witness.tally {
            *self.tally.entry(what).or_default() += count;
        }
        self.digest = self.digest.wrapping_add(state.trace.finish());
        self.events += state.popped;
        let broken = state.witness.violation.iter();
        self.violations
            .extend(broken.map(|what| (state.plan.seed, what.clone())));
    }
}

impl fmt::Display for Total {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (runs, broken) = (self.runs, self.violations.len());
        let (events, digest, tally) = (self.events, self.digest, &self.tally);
        write!(
            f,
            "{runs} seeds, {broken} of them with a broken promise; {events} events, digest {digest:016x}\n{tally:?}"
        )
    }
}
