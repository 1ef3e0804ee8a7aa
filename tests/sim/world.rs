//! The scheduler: one thread, one queue of events in true time, and clients that run until they wait.
//!
//! Each client is a coroutine that runs the crate's own code. Wherever that code waits, reads a clock or touches the
//! network, it comes here; whether it goes on at once, and who goes on next, is drawn from the seed.

use std::collections::BTreeMap;

use parking_lot::{Mutex, MutexGuard};

use super::clocks::BEGINNING;
use super::history::Record;
use super::holding::Mail;
use super::network::Network;
use super::prelude::*;
use super::process::{Client, Task};
use super::trace::Trace;
use super::witness::Witness;

/// More events than any run has.
const MOST_EVENTS: u64 = 20_000_000;

pub(super) type Job = Box<dyn FnOnce() + Send>;

/// A task, and its wait: what would have ended an earlier wait ends no later one.
pub(super) type Wait = (usize, u64);

pub(super) enum Event {
    /// A task goes on, if it is still in this wait.
    Wake(Wait),
    /// Something is due on a client's background thread.
    Job(usize, usize, Job),
    /// On a connection a command comes to its node, or a reply to its client.
    Request(usize, Message),
    Reply(usize, Reply),
    Reset(usize),
    /// A node looks who has listened for long enough.
    Unblock(usize),
    Gone(usize),
    Begin(usize),
    End(usize),
    Calm,
    Next,
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

pub(crate) struct World {
    state: Mutex<State>,
}

pub(crate) struct State {
    pub(super) plan: Plan,
    pub(super) now: Nanos,
    pub(super) rng: fastrand::Rng,
    pub(super) nodes: Vec<Node>,
    pub(super) clients: Vec<Client>,
    pub(super) network: Network,
    pub(super) witness: Witness,
    /// Leases on their way from one holder to the next.
    pub(super) mail: Vec<Mail>,
    pub(super) trace: Trace,
    pub(super) record: Record,
    /// Whether the troubles of the plan last.
    pub(super) is_stormy: bool,
    /// Whether the run has ended: nobody waits any more, and nothing gets through.
    pub(super) is_over: bool,
    /// Whether the witness is looking, for which no time passes.
    pub(super) is_witness: bool,
    /// What is due at the same time happens in the order in which it was pushed.
    queue: BTreeMap<(Nanos, u64), Event>,
    pushed: u64,
    pub(super) popped: u64,
    pub(super) tasks: Vec<Task>,
    /// The task that is running.
    pub(super) task: usize,
    /// The tasks that wait for the other workers to come to the same phase.
    assembled: Vec<usize>,
    phase: Phase,
}

impl World {
    /// A world at its beginning; the tasks are the workers, client by client, and then the background threads, in the same
    /// order.
    pub(super) fn new(plan: &Plan, trace: Trace) -> Arc<Self> {
        let clockwork = |rate: &i64| Clockwork::new(BEGINNING, *rate);
        let workers = plan.clients * plan.workers;
        let clients = plan.client_rates.iter().enumerate().map(|(i, rate)| {
            let mut clock = clockwork(rate);
            clock.falls_behind(plan.client_lags[i]);
            Client::new(clock, plan.wall_ahead[i])
        });
        let rates = plan.node_rates.iter().map(clockwork);
        let of_workers = (0..workers).map(|task| task / plan.workers);
        let of_threads = (0..plan.clients * THREADS).map(|task| task / THREADS);
        let task = |client| Task {
            client,
            ..Task::default()
        };
        let mut state = State {
            now: 0,
            rng: fastrand::Rng::with_seed(plan.seed ^ 0x5ee_d0f7),
            nodes: (0..)
                .zip(rates)
                .map(|(number, clock)| Node::new(number, clock, plan))
                .collect(),
            clients: clients.collect(),
            network: Network {
                connections: Vec::new(),
                open: vec![Vec::new(); plan.nodes],
            },
            witness: Witness::default(),
            mail: Vec::new(),
            trace,
            record: Record::new(plan),
            is_stormy: true,
            is_over: false,
            is_witness: false,
            queue: BTreeMap::new(),
            pushed: 0,
            popped: 0,
            tasks: of_workers.chain(of_threads).map(task).collect(),
            task: 0,
            assembled: Vec::new(),
            phase: Phase::Storm,
            plan: plan.clone(),
        };
        for task in 0..state.tasks.len() {
            let at = state.rng.u64(0..MILLI);
            state.push(at, Event::Wake((task, 0)));
        }
        for (episode, plan) in plan.episodes.iter().enumerate() {
            state.push(plan.start, Event::Begin(episode));
            state.push(plan.end, Event::End(episode));
        }
        state.push(plan.storm, Event::Calm);
        let state = Mutex::new(state);
        Arc::new(Self { state })
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// None where the caller has it already: all of a run is on one thread.
    pub(super) fn try_state(&self) -> Option<MutexGuard<'_, State>> {
        self.state.try_lock()
    }

    /// Plays events until a task has to run, and returns the task. None when the run has ended.
    pub(super) fn advance(&self) -> Option<usize> {
        let mut state = self.state();
        state.look_at_claims();
        while !state.is_over {
            let seed = state.plan.seed;
            let Some(((due, _), event)) = state.queue.pop_first() else {
                panic!("seed {seed}: nothing is ever going to happen");
            };
            state.popped += 1;
            assert!(state.popped < MOST_EVENTS, "seed {seed}: no end");
            state.now = state.now.max(due);
            if let Some(task) = state.handle(event) {
                return Some(task);
            }
        }
        None
    }

    /// Waits, as the task that is running, until `until` or until something comes on the connection.
    pub(super) fn block(&self, until: Nanos, connection: Option<usize>) {
        let mut state = self.state();
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
        let wait = state.this_wait();
        if let Some(connection) = connection {
            state.network.connections[connection].waiter = Some(wait);
        }
        if until < Nanos::MAX {
            state.push(until, Event::Wake(wait));
        }
        drop(state);
        switch();
    }

    /// Perhaps stands still, as a thread may between any two steps.
    pub(super) fn step(&self) {
        let mut state = self.state();
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
            let (client, span) = (state.client(), Duration::from_nanos(span));
            state.count("pause");
            state.note(|| format!("c{client} stands still for {span:?}"));
        }
        drop(state);
        self.block(until, None);
    }

    /// Looks at something while no time passes.
    pub(super) fn as_witness<T>(&self, look: impl FnOnce() -> T) -> T {
        self.state().is_witness = true;
        let seen = look();
        self.state().is_witness = false;
        seen
    }

    /// Waits until all workers have come to this phase.
    pub(super) fn assemble(&self) {
        let mut state = self.state();
        let task = state.task;
        state.assembled.push(task);
        if state.assembled.len() == state.plan.clients * state.plan.workers {
            let end = state.plan.episodes.iter().map(|episode| episode.end).max();
            state.next_phase_after(end.unwrap_or(0));
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
    pub(super) fn push(&mut self, at: Nanos, event: Event) {
        self.pushed += 1;
        self.queue.insert((at.max(self.now), self.pushed), event);
    }

    /// When the last command that is under way arrives.
    fn last_arrival(&self) -> Nanos {
        let mut queue = self.queue.iter().rev();
        let last = queue.find(|(_, event)| matches!(event, Event::Request(..)));
        last.map_or(0, |((at, _), _)| *at)
    }

    pub(super) fn client(&self) -> usize {
        self.tasks[self.task].client
    }

    pub(super) fn is_in_background(&self) -> bool {
        self.task >= self.plan.clients * self.plan.workers
    }

    /// The wait that the task which is running is about to begin.
    pub(super) fn this_wait(&self) -> Wait {
        (self.task, self.tasks[self.task].wait)
    }

    pub(super) fn wake_task(&mut self, task: usize) {
        self.wake((task, self.tasks[task].wait));
    }

    /// Lets what has come be noticed by the task that waits for it.
    pub(super) fn wake(&mut self, wait: Wait) {
        self.push(self.now, Event::Wake(wait));
    }

    pub(super) fn note(&mut self, what: impl FnOnce() -> String) {
        self.trace.note(self.now, what);
    }

    fn handle(&mut self, event: Event) -> Option<usize> {
        self.trace.digest(self.now, self.rng.get_seed());
        match event {
            Event::Wake(wait) => return self.run_next(wait),
            Event::Job(client, thread, job) => self.give_job(client, thread, job),
            Event::Request(connection, message) => self.arrive(connection, message),
            Event::Reply(connection, value) => self.answer(connection, value),
            Event::Reset(connection) => self.reset(connection),
            Event::Unblock(connection) => {
                self.unblock(self.network.connections[connection].node);
                self.listens_on(connection);
            }
            Event::Gone(connection) => {
                let node = self.network.connections[connection].node;
                self.nodes[node].store.leave(connection);
            }
            Event::Begin(episode) => self.begin(episode),
            Event::End(episode) => self.end(episode),
            Event::Calm => {
                self.is_stormy = false;
                self.note(|| "the storm is over".into());
            }
            Event::Next => self.next_phase(),
        }
        None
    }

    fn run_next(&mut self, wait: Wait) -> Option<usize> {
        let task = &mut self.tasks[wait.0];
        if task.wait != wait.1 {
            return None;
        }
        let stopped_until = self.clients[task.client].stopped_until;
        if self.now < stopped_until {
            self.push(stopped_until, Event::Wake(wait));
            return None;
        }
        task.wait += 1;
        self.task = wait.0;
        Some(wait.0)
    }

    fn next_phase_after(&mut self, time: Nanos) {
        let at = self.last_arrival().max(time).max(self.now) + MILLI;
        self.push(at, Event::Next);
    }

    fn next_phase(&mut self) {
        let phase = self.phase;
        self.note(|| format!("it is time for the end of: {phase:?}"));
        match phase {
            // A renewal may be under way, although the lock was given back meanwhile.
            Phase::Storm if self.is_busy() || self.last_arrival() > 0 => self.next_phase_after(0),
            Phase::Storm => {
                self.nothing_was_left_behind();
                self.phase = Phase::Settling;
                let longest = self.plan.longest_ttl().max(self.longest_rest());
                let longest = longest + self.plan.set_back;
                self.push(self.now + longest + longest / 50 + 5 * MILLI, Event::Next);
            }
            Phase::Settling => {
                self.everything_has_expired();
                // Of locks that were never given back.
                let claims = self.witness.guards.iter().map(|claim| claim.id);
                for claim in claims.collect::<Vec<_>>() {
                    self.hooks_were_called_of(claim);
                }
                self.phase = Phase::Calm;
                for task in std::mem::take(&mut self.assembled) {
                    self.wake_task(task);
                }
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
}
