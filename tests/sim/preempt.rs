//! Runs in which threads are preempted at the locks and atomics of `src/sync.rs`: in the middle of critical sections, and
//! between one and the next. Elsewhere a thread runs until it waits for time or for the network.
//!
//! Where a thread stops is drawn from the seed: a few places of the source are likely ones in a seed, and all others are not.
//! So a race between two places is met by the seeds in which one of them is likely, many times in such a run. It stops for the
//! others that can go on at that moment, for a time in which others do something, or until another thread has used the mutex or
//! the atomic that it stops at. The last one is what a race needs, and virtual time makes it cheap: another thread comes there
//! sooner or later.

use std::cell::RefCell;
use std::panic::Location;
use std::rc::Rc;
use std::thread::panicking;

use super::prelude::*;
use super::world::{Wait, switch};
use crate::sync::points::{Point, Scheduler, Side};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Preemption {
    /// One place in so many is a likely one.
    one_in: u64,
    /// How likely a thread stops at a likely place, and at any other, in a million.
    likely: u32,
    elsewhere: u32,
    /// For how long at most; for no time if it is zero.
    longest: Nanos,
    /// For how long at most it stops until others have used what it stops at; not for that if it is zero.
    patience: Nanos,
}

#[derive(Clone, Copy, Debug)]
struct Stop {
    span: Nanos,
    /// How often others use what it stops at until it goes on; 0 if it does not heed that.
    uses: u32,
}

/// After so many stops in vain at a place, half of the next ones heed nobody, and fewer and fewer do.
const IN_VAIN: u32 = 4;

impl Preemption {
    /// For so long at most: a thread that stops by itself, and one that stops for others.
    pub(super) fn draw(rng: &mut fastrand::Rng, (longest, patience): (Nanos, Nanos)) -> Self {
        Self {
            one_in: pick(rng, &[4, 8, 16]),
            likely: pick(rng, &[500_000, 200_000, 50_000]),
            elsewhere: pick(rng, &[0, 200, 2_000]),
            longest,
            patience,
        }
    }
}

impl Plan {
    /// Whether a thread may stop between its last look at the clock and the step that it takes by it. No code can prevent that,
    /// so a guard may be returned late, and an extension be noted late: for what the nodes had granted in time.
    pub(super) fn may_stop_after_a_look(&self) -> bool {
        let mut stops = self.preemption.iter();
        stops.any(|preemption| preemption.longest.max(preemption.patience) > 0)
    }
}

/// Stops coroutines at the points, and wakes those that wait for each other.
pub(super) struct Preempter {
    world: Arc<World>,
    waits: RefCell<Waits>,
}

#[derive(Default)]
struct Waits {
    /// Mutexes by their addresses, each with the wait of a task.
    mutexes: Vec<(usize, Wait)>,
    condvars: Vec<(usize, usize)>,
    /// Who has stopped until others have used something.
    watches: Vec<Watch>,
    /// How many stops of this kind a place had since others came there last.
    in_vain: HashMap<(&'static Location<'static>, Side), u32>,
}

/// A task that has stopped until others have used this object so often.
struct Watch {
    object: usize,
    left: u32,
    wait: Wait,
    point: Point,
}

impl Waits {
    /// Who has waited for the last of these uses.
    fn is_used(&mut self, object: usize, by: usize) -> Vec<Wait> {
        let mut woken = Vec::new();
        let in_vain = &mut self.in_vain;
        self.watches.retain_mut(|watch| {
            if watch.object != object || watch.wait.0 == by {
                return true;
            }
            in_vain.insert(watch.point.place(), 0);
            watch.left -= 1;
            if watch.left == 0 {
                woken.push(watch.wait);
            }
            watch.left > 0
        });
        woken
    }
}

impl Preempter {
    pub(super) fn of(plan: &Plan, world: &Arc<World>) -> Option<Rc<dyn Scheduler>> {
        plan.preemption?;
        let world = Arc::clone(world);
        let waits = RefCell::default();
        Some(Rc::new(Self { world, waits }))
    }
}

impl Scheduler for Preempter {
    fn pass(&self, point: Point) {
        // Where the state is locked, the simulation itself looks at something. A switch while one unwinds would make all
        // others think that they panic.
        let Some(mut state) = self.world.try_state().filter(|_| !panicking()) else {
            return;
        };
        if point.side != Side::Before {
            self.is_used(&mut state, point.object);
        }
        let Some(mut stop) = state.is_preempted_at(point) else {
            return;
        };
        let mut waits = self.waits.borrow_mut();
        let in_vain = waits.in_vain.get(&point.place()).copied();
        if stop.uses > 0 && state.rng.u32(0..IN_VAIN + in_vain.unwrap_or(0)) >= IN_VAIN {
            stop = Stop { span: 0, uses: 0 };
        }
        state.count("preempted");
        let (began, until) = (state.now, state.now + stop.span);
        if stop.span > 0 {
            state.stands_still(until);
        }
        let task = state.task;
        let place = point.place();
        state.note(|| format!("task {task}: {stop:?} at {place:?}"));
        if stop.uses > 0 {
            *waits.in_vain.entry(place).or_default() += 1;
            waits.watches.push(Watch {
                object: point.object,
                left: stop.uses,
                wait: state.this_wait(),
                point,
            });
        }
        drop((state, waits));
        self.world.block(until, None);
        if stop.uses > 0 {
            let mut waits = self.waits.borrow_mut();
            waits.watches.retain(|watch| watch.wait.0 != task);
            self.world.state().goes_on(&(began..until));
        }
    }

    fn wait_for(&self, mutex: usize) {
        let mut state = self.world.state();
        state.count("waited for a mutex");
        // The witness has to wait as well.
        let was_witness = std::mem::take(&mut state.is_witness);
        self.is_used(&mut state, mutex);
        let wait = state.this_wait();
        drop(state);
        self.waits.borrow_mut().mutexes.push((mutex, wait));
        switch();
        self.world.state().is_witness = was_witness;
    }

    fn unlocked(&self, mutex: usize) {
        let mut waits = self.waits.borrow_mut();
        if !waits.mutexes.iter().any(|(other, _)| *other == mutex) {
            return;
        }
        let mut state = self.world.state();
        waits.mutexes.retain(|(other, wait)| {
            if *other == mutex {
                state.wake(*wait);
            }
            *other != mutex
        });
    }

    fn listen(&self, condvar: Option<usize>) {
        let task = self.world.state().task;
        let listeners = &mut self.waits.borrow_mut().condvars;
        listeners.retain(|(_, other)| *other != task);
        listeners.extend(condvar.map(|condvar| (condvar, task)));
    }

    fn notified(&self, condvar: usize) {
        let waits = self.waits.borrow();
        let listeners = waits.condvars.iter();
        for (_, task) in listeners.filter(|(other, _)| *other == condvar) {
            self.world.state().wake_task(*task);
        }
    }
}

impl Preempter {
    /// The task that is running uses what others may have stopped at.
    fn is_used(&self, state: &mut State, object: usize) {
        if state.is_witness {
            return;
        }
        let task = state.task;
        for wait in self.waits.borrow_mut().is_used(object, task) {
            state.wake(wait);
        }
    }
}

impl Point {
    fn place(self) -> (&'static Location<'static>, Side) {
        (self.line, self.side)
    }
}

impl State {
    /// How the task that is running stops there, if it does.
    fn is_preempted_at(&mut self, point: Point) -> Option<Stop> {
        let preemption = self.plan.preemption?;
        if self.is_over || self.is_witness {
            return None;
        }
        let chance = if is_likely(self.plan.seed, point, preemption.one_in) {
            preemption.likely
        } else {
            preemption.elsewhere
        };
        if chance == 0 || self.rng.u32(0..1_000_000) >= chance {
            return None;
        }
        let no_time = Stop { span: 0, uses: 0 };
        if !self.is_stormy {
            return Some(no_time);
        }
        if preemption.patience > 0 && self.rng.bool() {
            return Some(Stop {
                span: preemption.patience,
                uses: pick(&mut self.rng, &[1, 1, 2, 4]),
            });
        }
        if preemption.longest < 2 * MICRO || self.rng.bool() {
            return Some(no_time);
        }
        // As often around a microsecond as around a millisecond.
        let scale = (preemption.longest / MICRO).ilog2();
        let most = MICRO << self.rng.u32(0..=scale);
        Some(Stop {
            span: self.rng.u64(most / 2..=most),
            uses: 0,
        })
    }
}

/// Whether a place is a likely one for this seed.
fn is_likely(seed: u64, point: Point, one_in: u64) -> bool {
    let line = point.line;
    let place = [
        u64::from(line.line()),
        u64::from(line.column()),
        u64::try_from(line.file().len()).unwrap(),
        match point.side {
            Side::Before => 0,
            Side::After => 1,
            Side::Unlocked => 2,
        },
    ];
    let mix = |sum: u64, part: u64| {
        (sum ^ part)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29)
    };
    place.into_iter().fold(seed, mix).is_multiple_of(one_in)
}

impl Worker {
    /// When all have given back what they had, nothing of it remains in the process.
    pub(super) fn leaves_nothing_in_the_process(&self) {
        let state = self.world.state();
        let has_failed = state.witness.violation.is_some();
        let (id, abandoned) = (self.id, state.clients[self.id].abandoned);
        drop(state);
        if self.plan.preemption.is_none() || has_failed {
            return;
        }
        if let Some(remains) = self.manager.left_behind(abandoned) {
            let words = format!("P7: in the process of c{id} remains {remains}");
            self.world.state().fail_at_any_time(words);
        }
    }
}
