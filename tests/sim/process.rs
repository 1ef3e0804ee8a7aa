//! A client's process: its clock, and its background threads.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::clocks::{Clockwork, MILLI, Nanos};
use super::plan::nanos;
use super::queue::{Event, Job};
use super::world::{State, World};
use crate::clock::{Timestamp, VirtualTime};

/// The background threads of a client: for probes, for renewals and for telling of losses.
pub(crate) const THREADS: usize = 3;

/// How long a thread waits for word from another before it looks for itself, as on the system's clock.
const NAP: Nanos = 20 * MILLI;

/// A client's process.
pub(crate) struct Client {
    pub(crate) clock: Clockwork,
    /// Until when it is stopped.
    pub(super) stopped_until: Nanos,
    /// For how long it and its threads have stood still so far, all together.
    pub(super) stood: Nanos,
    threads: [Thread; THREADS],
}

struct Thread {
    /// The task that is this thread.
    task: usize,
    /// What is due on it.
    jobs: VecDeque<Job>,
    is_idle: bool,
}

impl Client {
    /// A process whose background threads are the tasks from that one on.
    pub(super) fn new(clock: Clockwork, first: usize) -> Self {
        Self {
            clock,
            stopped_until: 0,
            stood: 0,
            threads: std::array::from_fn(|thread| Thread {
                task: first + thread,
                jobs: VecDeque::new(),
                is_idle: false,
            }),
        }
    }
}

impl World {
    /// Takes the next job of a client's background thread, waiting for one; none when the run has ended.
    pub(crate) fn next_job(&self, client: usize, thread: usize) -> Option<Job> {
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
            let task = own.task;
            let wait = self.tasks[task].wait;
            self.wake((task, wait));
        }
    }

    /// Whether a background thread has something to do.
    pub(super) fn is_busy(&self) -> bool {
        let mut threads = self.clients.iter().flat_map(|client| &client.threads);
        threads.any(|thread| !thread.is_idle || !thread.jobs.is_empty())
    }

    /// The task that is running stands still until then.
    pub(super) fn stands_still(&mut self, until: Nanos) {
        let (task, client) = (self.task(), self.client());
        self.tasks[task].still_until = until;
        self.clients[client].stood += until - self.now;
    }

    /// What [`Client::stood`] was before those stood still who do so now.
    pub(super) fn stood_before(&self, client: usize) -> Nanos {
        let tasks = self.tasks.iter().filter(|task| task.client == client);
        let rest = tasks.map(|task| task.still_until.saturating_sub(self.now));
        self.clients[client].stood.saturating_sub(rest.sum())
    }
}

/// The time of one client's process.
pub(crate) struct ClientTime {
    pub(crate) world: Arc<World>,
    pub(crate) client: usize,
    /// Where what is scheduled runs.
    pub(crate) thread: usize,
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

    fn sleep_until(&self, until: Timestamp) {
        let until = self.world.state().clients[self.client]
            .clock
            .when(until.as_nanos());
        self.world.block(until, None);
    }

    fn nap_until(&self, until: Timestamp) {
        let state = self.world.state();
        let until = state.clients[self.client].clock.when(until.as_nanos());
        let until = until.min(state.now + NAP);
        drop(state);
        self.world.block(until, None);
    }

    fn schedule(&self, delay: Duration, job: Job) {
        let mut state = self.world.state();
        let clock = state.clients[self.client].clock;
        let due = clock.when(clock.shows(state.now) + nanos(delay));
        let (client, thread) = (self.client, self.thread);
        let event = Event::Job {
            client,
            thread,
            job,
        };
        state.push(due, event);
    }

    fn on_own_thread(&self, name: &str) -> Option<Arc<dyn VirtualTime>> {
        let thread = match name {
            "redlatch-keeper" => 1,
            "redlatch-losses" => 2,
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
}

impl fmt::Debug for ClientTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the clock of client {}", self.client)
    }
}
