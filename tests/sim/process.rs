//! A client's process: its clock, and its background threads.

use std::fmt::{self, Write};
use std::ops::RangeInclusive;

use super::prelude::*;
use super::world::Job;
use crate::clock::VirtualTime;

/// The background threads of a client: for probes, for renewals and for telling of losses.
pub(super) const THREADS: usize = 3;

/// The one that keeps locks.
const KEEPER: usize = 1;

/// How long a thread waits for word from another before it looks for itself: nearly as if it were woken at first, and
/// longer and longer.
const NAPS: RangeInclusive<Nanos> = 20 * MICRO..=20 * MILLI;

#[derive(Default)]
pub(super) struct Client {
    pub(super) clock: Clockwork,
    /// By how much its wall clock alone is ahead.
    pub(super) wall_ahead: Offset,
    pub(super) stopped_until: Nanos,
    /// When it or one of its threads stood still, or still does, by the time when that began.
    pub(super) stills: Vec<Range<Nanos>>,
    /// How many resources it has locked and forgotten.
    pub(super) abandoned: usize,
    threads: [Thread; THREADS],
}

#[derive(Default)]
struct Thread {
    /// The jobs that are due on it.
    jobs: VecDeque<Job>,
    is_idle: bool,
}

impl Client {
    pub(super) fn new(clock: Clockwork, wall_ahead: Offset) -> Self {
        Self {
            clock,
            wall_ahead,
            ..Self::default()
        }
    }

    pub(super) fn when(&self, reading: Timestamp) -> Nanos {
        self.clock.when(reading.as_nanos())
    }

    /// For how long it and its threads have stood still in this time, all together.
    pub(super) fn stood_still_in(&self, time: &Range<Nanos>) -> Nanos {
        let stills = self.stills.iter();
        let in_it = stills.map(|still| {
            let (start, end) = (still.start.max(time.start), still.end.min(time.end));
            end.saturating_sub(start)
        });
        in_it.sum()
    }

    /// Whether there was a moment of this time at which all of it could go on.
    pub(super) fn could_go_on(&self, time: Range<Nanos>) -> bool {
        let mut at = time.start;
        for still in &self.stills {
            if still.start <= at {
                at = at.max(still.end);
            }
        }
        at < time.end
    }
}

impl World {
    /// Takes the next job of a client's background thread, waiting for one; none when the run has ended.
    pub(super) fn next_job(&self, client: usize, thread: usize) -> Option<Job> {
        loop {
            let mut state = self.state();
            if state.is_over {
                return None;
            }
            let own = &mut state.clients[client].threads[thread];
            if let Some(job) = own.jobs.pop_front() {
                return Some(job);
            }
            own.is_idle = true;
            drop(state);
            self.block(Nanos::MAX, None);
            self.state().clients[client].threads[thread].is_idle = false;
        }
    }
}

impl State {
    pub(super) fn give_job(&mut self, client: usize, thread: usize, job: Job) {
        let own = &mut self.clients[client].threads[thread];
        own.jobs.push_back(job);
        if own.is_idle {
            // The background threads are the tasks behind all workers.
            let workers = self.plan.clients * self.plan.workers;
            self.wake_task(workers + client * THREADS + thread);
        }
    }

    /// Whether the thread that keeps a client's locks has something to do.
    pub(super) fn is_keeping(&self, client: usize) -> bool {
        !self.clients[client].threads[KEEPER].is_idle
    }

    /// Whether a background thread has something to do.
    pub(super) fn is_busy(&self) -> bool {
        let mut threads = self.clients.iter().flat_map(|client| &client.threads);
        threads.any(|thread| !thread.is_idle || !thread.jobs.is_empty())
    }

    /// The task that is running stands still until then.
    pub(super) fn stands_still(&mut self, until: Nanos) {
        let (client, now) = (self.client(), self.now);
        self.clients[client].stills.push(now..until);
    }

    /// The task that is running stood still from the first time on, for no longer than was planned.
    pub(super) fn goes_on(&mut self, planned: &Range<Nanos>) {
        let (client, now) = (self.client(), self.now);
        let mut stills = self.clients[client].stills.iter_mut().rev();
        if let Some(still) = stills.find(|still| *still == planned) {
            still.end = still.end.min(now);
        }
    }
}

/// A thread of a client, as the scheduler sees it.
#[derive(Default)]
pub(super) struct Task {
    pub(super) client: usize,
    /// Counts its waits.
    pub(super) wait: u64,
    /// How long it waits for word from another, and when that last ended.
    pub(super) nap: (Nanos, Nanos),
    /// Whether it survives a panic in the middle of its step.
    pub(super) may_die: bool,
    /// Whether it has sent for others last.
    pub(super) is_leader: bool,
}

pub(super) struct ClientTime {
    pub(super) world: Arc<World>,
    pub(super) client: usize,
    /// Which background thread runs scheduled jobs.
    pub(super) thread: usize,
}

impl VirtualTime for ClientTime {
    fn now(&self) -> Timestamp {
        // Before the reading: one that is old when it is used is played by the pause before the next step.
        self.world.step();
        self.now_for_records()
    }

    fn now_for_records(&self) -> Timestamp {
        let state = self.world.state();
        Timestamp::from_nanos(state.clients[self.client].clock.shows(state.now))
    }

    fn wall_micros(&self) -> u64 {
        self.world.step();
        self.world.state().wall_micros(self.client)
    }

    fn sleep_until(&self, until: Timestamp) {
        let until = self.world.state().clients[self.client].when(until);
        self.world.block(until, None);
    }

    fn nap_until(&self, until: Timestamp) {
        let mut state = self.world.state();
        let (now, task) = (state.now, state.task);
        let (mut span, ended) = state.tasks[task].nap;
        span = if ended == now {
            (span + span / 4).min(*NAPS.end())
        } else {
            *NAPS.start()
        };
        let nap = state.rng.u64(span / 2..=span);
        let end = state.clients[self.client].when(until).min(now + nap);
        state.tasks[task].nap = (span, end);
        drop(state);
        self.world.block(end, None);
    }

    fn schedule(&self, delay: Duration, job: Job) {
        let mut state = self.world.state();
        let clock = state.clients[self.client].clock;
        let due = clock.when(clock.shows(state.now) + nanos(delay));
        state.push(due, Event::Job(self.client, self.thread, job));
    }

    fn on_own_thread(&self, name: &str) -> Option<Arc<dyn VirtualTime>> {
        let thread = match name {
            "redlatch-keeper" => KEEPER,
            "redlatch-losses" => 2,
            // All nodes of a client share the thread of its clock.
            "redlatch-node" => 0,
            other => panic!("a thread that is called {other}"),
        };
        let (world, client) = (Arc::clone(&self.world), self.client);
        Some(Arc::new(Self {
            world,
            client,
            thread,
        }))
    }

    fn random(&self) -> Result<u32, getrandom::Error> {
        Ok(self.world.state().rng.u32(..))
    }

    fn fill_token(&self, bytes: &mut [u8]) -> Result<(), getrandom::Error> {
        getrandom::fill(bytes)?;
        let mut token = String::new();
        for byte in bytes {
            write!(token, "{byte:02x}").unwrap();
        }
        let mut state = self.world.state();
        let task = state.task;
        state.tasks[task].is_leader = false;
        state.witness.made_by.insert(token, task);
        Ok(())
    }
}

impl fmt::Debug for ClientTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the clock of client {}", self.client)
    }
}
