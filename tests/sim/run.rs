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
    /// How many of them broke a promise.
    pub(crate) broken: u64,
    /// The seeds that broke one that has to hold, and how.
    violations: Vec<(u64, String)>,
    pub(crate) tally: Tally,
    /// The same for two trees that play the same runs.
    digest: u64,
    events: u64,
}

/// Runs the seeds of a kind on all cores, each on one thread, so that this changes nothing in any of them. The first seed that breaks a
/// promise, other than what may happen, ends the test with its trace and with what replays it.
#[track_caller]
pub(crate) fn run_many(
    kind: &str,
    seeds: Range<u64>,
    draw: fn(u64) -> Plan,
    allowed: Option<&str>,
) -> Total {
    let next = AtomicU64::new(seeds.start);
    let total = Mutex::new(Total::default());
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return;
            }
            let world = run_one(&draw(seed), Trace::digest_only());
            let mut total = total.lock();
            total.add(&world.state(), allowed);
            if !total.violations.is_empty() {
                // Every seed that is lower has begun.
                next.store(seeds.end, Ordering::Relaxed);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let mut total = total.into_inner();
    total.violations.sort();
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
    fn add(&mut self, state: &State, allowed: Option<&str>) {
        self.runs += 1;
        for (what, count) in &state.witness.tally {
            *self.tally.entry(what).or_default() += count;
        }
        self.digest = self.digest.wrapping_add(state.trace.finish());
        self.events += state.popped;
        if let Some(what) = &state.witness.violation {
            self.broken += 1;
            if !allowed.is_some_and(|words| what.contains(words)) {
                self.violations.push((state.plan.seed, what.clone()));
            }
        }
    }
}

impl fmt::Display for Total {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (runs, broken) = (self.runs, self.broken);
        let (events, digest, tally) = (self.events, self.digest, &self.tally);
        write!(
            f,
            "{runs} seeds, {broken} of them with a broken promise; {events} events, digest {digest:016x}\n{tally:?}"
        )
    }
}
