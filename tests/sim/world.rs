//! The scheduler: one thread, one queue of events in true time, and clients that run until they wait.
//!
//! Each client is a coroutine that runs the crate's own code. Wherever that code waits, reads a clock or touches the
//! network, it comes here; whether it goes on at once, and who goes on next, is drawn from the seed.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use super::clocks::{BEGINNING, Clockwork, MICRO, MILLI, Nanos};
use super::history::Record;
use super::mail::Mail;
use super::network::Network;
use super::node::Node;
use super::plan::{Plan, nanos};
use super::process::{Client, THREADS, Task};
use super::queue::{Event, Queue};
use super::trace::Trace;
use super::witness::Witness;

/// More events than any run has.
const MOST_EVENTS: u64 = 20_000_000;

pub(crate) struct World {
    state: Mutex<State>,
}

pub(crate) struct State {
    pub(crate) plan: Plan,
    pub(crate) now: Nanos,
    pub(crate) rng: fastrand::Rng,
    pub(crate) nodes: Vec<Node>,
    pub(crate) clients: Vec<Client>,
    pub(crate) network: Network,
    pub(crate) witness: Witness,
    /// Leases on their way from one holder to the next.
    pub(super) mail: Vec<Mail>,
    pub(crate) trace: Trace,
    pub(crate) record: Record,
    /// Whether the troubles of the plan last.
    pub(crate) is_stormy: bool,
    /// Whether the run has ended: nobody waits any more, and nothing gets through.
    pub(crate) is_over: bool,
    /// Whether the witness is looking, for which no time passes.
    is_witness: bool,
    queue: Queue,
    pub(super) tasks: Vec<Task>,
    current: usize,
    /// The tasks that wait for the other workers to come to the same phase.
    assembled: Vec<usize>,
    phase: Phase,
}

/// Where the run is after the clients have first assembled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The troubles, and then the wait until all that was under way has arrived.
    Storm,
    /// The wait until all that may have been left behind has expired.
    Settling,
    /// The clients show that they can work again.
    Calm,
}

impl World {
    /// A world at its beginning; the tasks are the workers, client by client, and then the background threads, in the same
    /// order.
    pub(crate) fn new(plan: &Plan, trace: Trace) -> Arc<Self> {
        let clockwork = |rate: &i64| Clockwork::new(BEGINNING, *rate);
        let workers = plan.clients * plan.workers;
        let clients = plan.client_rates.iter().enumerate().map(|(i, rate)| {
            let mut clock = clockwork(rate);
            clock.falls_behind(plan.client_lags[i]);
            Client::new((clock, plan.wall_ahead[i]), workers + i * THREADS)
        });
        let mut state = State {
            now: 0,
            rng: fastrand::Rng::with_seed(plan.seed ^ 0x5ee_d0f7),
            nodes: (0..)
                .zip(plan.node_rates.iter().map(clockwork))
                .map(|(number, clock)| Node::new(number, clock, plan))
                .collect(),
            clients: clients.collect(),
            network: Network::new(plan.nodes),
            witness: Witness::default(),
            mail: Vec::new(),
            trace,
            record: Record::new(plan),
            is_stormy: true,
            is_over: false,
            is_witness: false,
            queue: Queue::default(),
            tasks: (0..workers)
                .map(|task| task / plan.workers)
                .chain((0..plan.clients * THREADS).map(|task| task / THREADS))
                .map(Task::of)
                .collect(),
            current: 0,
            assembled: Vec::new(),
            phase: Phase::Storm,
            plan: plan.clone(),
        };
        for task in 0..state.tasks.len() {
            let at = state.rng.u64(0..MILLI);
            state.push(at, Event::Wake { task, wait: 0 });
        }
        for (episode, plan) in plan.episodes.iter().enumerate() {
            state.push(plan.start, Event::Begin { episode });
            state.push(plan.end, Event::End { episode });
        }
        state.push(plan.storm, Event::Calm);
        Arc::new(Self {
            state: Mutex::new(state),
        })
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// None where the caller has it already: all of a run is on one thread.
    pub(super) fn try_state(&self) -> Option<MutexGuard<'_, State>> {
        self.state.try_lock()
    }

    /// Plays events until a task has to run, and returns the task. None when the run has ended.
    pub(crate) fn advance(&self) -> Option<usize> {
        let mut state = self.state.lock();
        state.look_at_claims();
        while !state.is_over {
            let Some((due, event)) = state.queue.pop() else {
                panic!("seed {}: nothing is ever going to happen", state.plan.seed);
            };
            assert!(
                state.queue.popped() < MOST_EVENTS,
                "seed {}: no end",
                state.plan.seed
            );
            state.now = state.now.max(due);
            if let Some(task) = state.handle(event) {
                return Some(task);
            }
        }
        None
    }

    /// Waits, as the task that is running, until `until` or until something comes on the connection.
    pub(crate) fn block(&self, until: Nanos, connection: Option<usize>) {
        let mut state = self.state.lock();
        if state.is_over {
            if until < Nanos::MAX {
                state.now = state.now.max(until);
            }
            let is_preempted = state.plan.preemption.is_some();
            drop(state);
            if is_preempted {
                // Another may have what this one waits for.
                switch();
            }
            return;
        }
        let task = state.current;
        let wait = state.tasks[task].wait;
        if let Some(connection) = connection {
            state.network.expect(connection, (task, wait));
        }
        if until < Nanos::MAX {
            state.push(until, Event::Wake { task, wait });
        }
        drop(state);
        switch();
    }

    /// Perhaps stands still, as a thread may between any two steps.
    pub(crate) fn step(&self) {
        let mut state = self.state.lock();
        if !state.is_stormy || state.is_witness || state.is_over {
            return;
        }
        let chance = state.rng.u32(0..1_000_000);
        let weather = &state.plan.weather;
        let (pause, stumble, longest) = (weather.pause, weather.stumble, weather.longest_pause);
        let span = if chance < pause {
            // As often around a millisecond as around a second.
            let share = state.rng.f64().powi(6);
            nanos(Duration::from_nanos(longest).mul_f64(share))
        } else if chance < pause + stumble {
            state.rng.u64(MICRO..MILLI)
        } else {
            return;
        };
        let until = state.now + span;
        state.stands_still(until);
        if chance < pause {
            let client = state.client();
            state.count("pause");
            state.note(|| {
                format!(
                    "c{client} stands still for {:?}",
                    Duration::from_nanos(span)
                )
            });
        }
        drop(state);
        self.block(until, None);
    }

    /// Looks at something while no time passes.
    pub(crate) fn as_witness<T>(&self, look: impl FnOnce() -> T) -> T {
        self.state.lock().is_witness = true;
        let seen = look();
        self.state.lock().is_witness = false;
        seen
    }

    /// Waits until all workers have come to this phase.
    pub(crate) fn assemble(&self) {
        let mut state = self.state.lock();
        let task = state.current;
        state.assembled.push(task);
        if state.assembled.len() == state.plan.clients * state.plan.workers {
            let end = state.plan.episodes.iter().map(|episode| episode.end).max();
            let arrived = state.queue.last_arrival().max(end.unwrap_or(0));
            let at = arrived.max(state.now) + MILLI;
            state.push(at, Event::Next);
        }
        drop(state);
        self.block(Nanos::MAX, None);
    }
}

/// Back to the scheduler, until it resumes this task.
pub(super) fn switch() {
    #[expect(
        deprecated,
        reason = "a scope can't be handed down through the crate's code, and nothing is yielded that could mismatch"
    )]
    generator::yield_with(());
}

impl State {
    pub(crate) fn push(&mut self, at: Nanos, event: Event) {
        self.queue.push(at.max(self.now), event);
    }

    /// The client whose task is running.
    pub(crate) fn client(&self) -> usize {
        self.tasks[self.current].client
    }

    pub(crate) fn events(&self) -> u64 {
        self.queue.popped()
    }

    pub(crate) fn note(&mut self, what: impl FnOnce() -> String) {
        self.trace.note(self.now, what);
    }

    /// Whether the task that is running is a background thread.
    pub(super) fn is_in_background(&self) -> bool {
        self.current >= self.plan.clients * self.plan.workers
    }

    pub(crate) fn task(&self) -> usize {
        self.current
    }

    /// The wait that the task which is running is about to begin.
    pub(super) fn wait_of_task(&self) -> (usize, u64) {
        (self.current, self.tasks[self.current].wait)
    }

    /// Ends the wait of a task.
    pub(super) fn wake_task(&mut self, task: usize) {
        let wait = self.tasks[task].wait;
        self.wake((task, wait));
    }

    /// Whether the witness is looking from now on. Returns whether it was before.
    pub(super) fn looks_as_witness(&mut self, is_witness: bool) -> bool {
        std::mem::replace(&mut self.is_witness, is_witness)
    }

    pub(super) fn is_witness(&self) -> bool {
        self.is_witness
    }

    /// Resumes what still runs when the run has ended.
    pub(crate) fn switch_to(&mut self, task: usize) {
        self.current = task;
    }

    /// Lets what has come be noticed by the task that waits for it.
    pub(crate) fn wake(&mut self, (task, wait): (usize, u64)) {
        self.push(self.now, Event::Wake { task, wait });
    }

    fn handle(&mut self, event: Event) -> Option<usize> {
        self.trace.digest(self.now, &event);
        match event {
            Event::Wake { task, wait } => return self.run_next(task, wait),
            Event::Job {
                client,
                thread,
                job,
            } => self.give_job(client, thread, job),
            Event::Request {
                connection,
                message,
            } => self.arrive(connection, message),
            Event::Reply { connection, value } => self.answer(connection, value),
            Event::Reset { connection } => self.reset(connection),
            Event::Unblock { connection } => {
                self.unblock(self.network.connections[connection].node);
                self.listens_on(connection);
            }
            Event::Gone { connection } => {
                let node = self.network.connections[connection].node;
                self.nodes[node].leaves(connection);
            }
            Event::Begin { episode } => self.begin(episode),
            Event::End { episode } => self.end(episode),
            Event::Calm => {
                self.is_stormy = false;
                self.note(|| "the storm is over".into());
            }
            Event::Next => self.next_phase(),
        }
        None
    }

    fn run_next(&mut self, task: usize, wait: u64) -> Option<usize> {
        if self.tasks[task].wait != wait {
            return None;
        }
        let stopped_until = self.clients[self.tasks[task].client].stopped_until;
        if self.now < stopped_until {
            self.push(stopped_until, Event::Wake { task, wait });
            return None;
        }
        self.tasks[task].wait += 1;
        self.current = task;
        Some(task)
    }

    fn next_phase(&mut self) {
        let phase = self.phase;
        self.note(|| format!("it is time for the end of: {phase:?}"));
        match self.phase {
            // A renewal may be under way, although the lock was given back meanwhile.
            Phase::Storm if self.is_busy() || self.queue.last_arrival() > 0 => {
                let at = self.queue.last_arrival().max(self.now) + MILLI;
                self.push(at, Event::Next);
            }
            Phase::Storm => {
                self.nothing_was_left_behind();
                self.phase = Phase::Settling;
                let longest = self.plan.longest_ttl().max(self.longest_rest());
                let longest = longest + self.plan.set_back;
                self.push(self.now + longest + longest / 50 + 5 * MILLI, Event::Next);
            }
            Phase::Settling => {
                self.everything_has_expired();
                self.hooks_were_called();
                self.phase = Phase::Calm;
                self.go_on_together();
            }
            Phase::Calm if self.plan.preemption.is_some() && self.is_busy() => {
                self.push(self.now + MILLI, Event::Next);
            }
            Phase::Calm => {
                self.everything_has_expired();
                self.all_calls_have_ended();
                self.is_over = true;
            }
        }
    }

    fn go_on_together(&mut self) {
        for task in std::mem::take(&mut self.assembled) {
            let wait = self.tasks[task].wait;
            self.wake((task, wait));
        }
    }
}
