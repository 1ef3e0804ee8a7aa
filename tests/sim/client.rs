//! A client: a program with a thread or two that take locks through the crate's public API, uses them well or badly, and reports to the
//! witness.

use std::sync::Arc;
use std::time::Duration;

use redlatch_history::Says;

use super::access::Access;
use super::calls::Wish;
use super::clocks::MILLI;
use super::history::why;
use super::hooks::name;
use super::keeping::Keeping;
use super::line::Dialer;
use super::permits::given;
use super::plan::{Labels, Plan, nanos, pick};
use super::process::{ClientTime, has_its_slots};
use super::returned::Returned;
use super::sharing::Way;
use super::world::World;
use crate::clock::Clock;
use crate::wire::transport::Connect;
use crate::{Error, LockGuard, LockManager, Protocol};

/// One thread of a client.
pub(crate) struct Worker {
    pub(super) world: Arc<World>,
    pub(super) plan: Plan,
    /// The client's number.
    pub(super) id: usize,
    /// Its own number among the threads of the client.
    pub(super) number: usize,
    pub(super) manager: LockManager,
    pub(super) rng: fastrand::Rng,
    /// How many locks it has.
    pub(super) depth: usize,
    /// The locks that this worker has forgotten, as a program does that dies.
    abandoned: Vec<LockGuard>,
}

impl Worker {
    /// The workers of client `id`, which share a manager.
    pub(crate) fn of_client(world: &Arc<World>, plan: &Plan, id: usize) -> Vec<Self> {
        let nodes = (0..plan.nodes).map(|node| {
            let dialer: Box<dyn Connect> = Box::new(Dialer {
                world: Arc::clone(world),
                client: id,
                node,
            });
            (format!("n{node}").into(), dialer)
        });
        let time = ClientTime {
            world: Arc::clone(world),
            client: id,
            thread: 0,
        };
        let (retry_min, retry_max) = plan.retry;
        let mut builder = LockManager::builder().fanout(plan.fanouts[id]);
        if plan.labels[id] == Labels::Client {
            builder = builder.holder(format!("c{id}"));
        }
        if plan.fenced[id] {
            let longest = Duration::from_nanos(plan.longest_ttl());
            builder = builder.protocol(Protocol::Fenced).max_ttl(longest);
        }
        let manager = builder
            .node_timeout(plan.node_timeout)
            .retry_delay(retry_min, retry_max)
            // One for each worker, for renewals and for probes: to wait for another's would take real time.
            .pool_size(u32::try_from(plan.workers).unwrap() + 2)
            .assemble(nodes.collect(), Clock::Virtual(Arc::new(time)))
            .unwrap();
        has_its_slots(&manager);
        let number = |worker: usize| u64::try_from(id * plan.workers + worker).unwrap();
        (0..plan.workers)
            .map(|worker| Self {
                world: Arc::clone(world),
                plan: plan.clone(),
                id,
                number: worker,
                manager: manager.clone(),
                rng: fastrand::Rng::with_seed(plan.seed.rotate_left(32) ^ (number(worker) + 1)),
                depth: 0,
                abandoned: Vec::new(),
            })
            .collect()
    }

    /// Its whole life.
    pub(crate) fn live(mut self) {
        self.does_its_part();
        while self.is_stormy() {
            self.work();
            let usual = self.ttl() / 4;
            let rest = self.some_time(usual);
            self.sleep(rest);
        }
        self.world.assemble();
        for _ in 0..2 {
            self.work_in_calm_weather();
        }
        self.world.assemble();
        self.leaves_nothing_in_the_process();
        self.count_queued();
        // From now on no message gets through.
        self.abandoned.clear();
    }

    /// Once for each manager.
    fn count_queued(&self) {
        if self.number == 0 {
            let queued = self.manager.stats().queued;
            let mut state = self.world.state();
            *state.witness.tally.entry("queued").or_default() += queued;
        }
    }

    pub(super) fn is_stormy(&self) -> bool {
        let state = self.world.state();
        state.is_stormy && !state.is_over
    }

    pub(super) fn ttl(&mut self) -> Duration {
        pick(&mut self.rng, &self.plan.ttls)
    }

    /// Mostly short, never more than one and a half of `usual`.
    pub(super) fn some_time(&mut self, usual: Duration) -> Duration {
        usual.mul_f64(self.rng.f64().powi(2) * 1.5)
    }

    pub(super) fn sleep(&self, span: Duration) {
        let until = self.world.state().now + nanos(span);
        self.world.block(until, None);
    }

    /// Tries to get a lock, and does something with it.
    fn work(&mut self) {
        if self.crowds() || self.hurries() || (self.rng.u8(0..3) == 0 && self.take_over()) {
            return;
        }
        let ((way, on), ttl) = (self.draw_wanted(), self.ttl());
        let timeout = match self.rng.u8(0..4) {
            0 | 1 => Duration::ZERO,
            2 => ttl,
            _ => ttl * 3,
        };
        let keeping = self.draw_keeping(ttl);
        let id = self.id;
        let words =
            || format!("c{id} wants {on} for {ttl:?}, and waits for {timeout:?}; {keeping:?}");
        self.world.state().note(words);
        let minimum = self.draw_minimum(ttl).filter(|_| way != Way::Read);
        let wish = Wish {
            keeping,
            minimum,
            label: self.own_label(),
            ..Wish::new(ttl, timeout)
        };
        match self.ask((way, &on), &wish) {
            Ok(guard) => {
                self.is_named_as(&guard);
                let on = given(&guard, &on);
                let claim = self.world.acquired(self.id, &on, &guard, ttl);
                if let Some(keeping) = keeping {
                    self.is_kept(claim, keeping);
                }
                if let Some(minimum) = minimum {
                    self.world.has_a_minimum(self.id, &guard, minimum);
                }
                self.hold(&on, claim, guard, keeping);
            }
            Err(error) => self.refused(&error),
        }
    }

    /// The label that others see of this worker's locks.
    fn label(&self) -> Option<String> {
        let (id, number) = (self.id, self.number);
        match self.plan.labels[id] {
            Labels::Nobody => None,
            Labels::Client => Some(format!("c{id}")),
            Labels::Thread => Some(format!("c{id} thread {number}")),
        }
    }

    /// What this worker is called in place of its client.
    pub(super) fn own_label(&self) -> Option<String> {
        let is_named = self.plan.labels[self.id] == Labels::Thread;
        self.label().filter(|_| is_named)
    }

    /// The holder of this worker's lock has the worker's own name, also where another thread has passed the lock on.
    fn is_named_as(&self, guard: &LockGuard) {
        let named = guard
            .watch()
            .holder()
            .map(|holder| holder.label.to_string());
        if named != self.label() {
            let id = self.id;
            self.world
                .broken_promise(format!("c{id} has a lock as {named:?}"));
        }
    }

    pub(super) fn hold(
        &mut self,
        on: &Access,
        claim: u64,
        guard: LockGuard,
        mut keeping: Option<Keeping>,
    ) {
        self.depth += 1;
        let ttl = self.ttl();
        for _ in 0..self.rng.usize(0..=3) {
            // When the storm is over, the worker ends its section.
            if !self.is_stormy() {
                break;
            }
            // A race with a loss needs a hook.
            let hooks = if self.plan.preemption.is_some() { 2 } else { 1 };
            if self.rng.u8(0..3) < hooks {
                self.world.hook(claim, self.id, &guard);
            }
            // A kept lock is held for several ttls.
            let work = self.some_time(if keeping.is_some() { ttl * 3 } else { ttl });
            self.work_under(claim, &guard, work);
            if self.depth == 1 && self.plan.resources > 1 && self.rng.u8(0..4) == 0 {
                self.work();
            }
            if self.rng.u8(0..8) == 0 {
                keeping = keeping.or_else(|| self.keep_from_now_on(claim, &guard));
            } else if self.rng.bool() {
                let longer = self.ttl();
                let result = self.world.extends(claim, &guard, longer);
                self.was_extended(claim, &guard, result);
            }
        }
        self.depth -= 1;
        match self.rng.u8(0..10) {
            // A kept lock would never end.
            0 if !self.plan.lossless && keeping.is_none() => {
                self.world.state().clients[self.id].abandoned += guard.resources().len();
                self.abandoned.push(guard);
            }
            0 | 1 => self.hand_on(claim, guard),
            _ if self.ends_at_once() => self.unlock_now(claim, guard),
            2..=4 => {
                self.world.is_to_rest(claim, on, &guard);
                let watch = guard.watch();
                let mut returned = self.world.gives_back(claim);
                drop(guard);
                self.is_over(&mut returned, &watch);
                self.world.ends(&returned, Says::Nothing);
            }
            _ => {
                self.world.is_to_rest(claim, on, &guard);
                let (token, until) = (guard.token().to_owned(), guard.rests_until);
                if self.unlock(claim, guard) {
                    self.world.has_rested(self.id, (&token, until));
                }
            }
        }
    }

    pub(super) fn unlock(&self, claim: u64, guard: LockGuard) -> bool {
        let watch = guard.watch();
        let mut returned = self.world.gives_back(claim);
        let result = guard.unlock();
        self.is_over(&mut returned, &watch);
        self.was_unlocked(&returned, &result)
    }

    /// Unlocks so that the lock does not rest.
    fn unlock_now(&self, claim: u64, guard: LockGuard) {
        self.world.state().count("given back at once");
        let watch = guard.watch();
        let mut returned = self.world.gives_back(claim);
        let result = guard.unlock_now();
        self.is_over(&mut returned, &watch);
        self.was_unlocked(&returned, &result);
    }

    fn was_unlocked(&self, returned: &Returned, result: &Result<(), Error>) -> bool {
        let end = match result {
            Ok(()) => "held to its end",
            Err(Error::Lost { cause, .. }) => name(cause),
            Err(_) => "not known",
        };
        self.world.state().is_unlocked(returned.id, end);
        match result {
            Ok(()) => self.world.ends(returned, Says::Okay),
            Err(error) => {
                let id = self.id;
                self.world
                    .state()
                    .note(|| format!("c{id} unlocks: {error}"));
                self.world.ends(returned, Says::Not(why(error)));
            }
        }
        result.is_ok()
    }

    /// Nothing has gone wrong for a while: this worker must get a free lock, and leave nothing behind.
    fn work_in_calm_weather(&mut self) {
        let resource = self.rng.usize(0..self.plan.resources);
        let longest = Duration::from_nanos(self.plan.longest_ttl());
        let second = Duration::from_secs(1);
        // The fenced protocol refuses a ttl above the longest one.
        let ttl = if self.plan.rules().is_some() {
            longest
        } else {
            longest.max(second)
        };
        let id = self.id;
        let (way, on) = self.draw_wanted_of(resource);
        let keeping = self.draw_keeping(ttl);
        let wish = Wish {
            keeping,
            ..Wish::new(ttl, ttl.max(second) * 5)
        };
        match self.ask((way, &on), &wish) {
            Ok(guard) => {
                let on = given(&guard, &on);
                let claim = self.world.acquired(id, &on, &guard, ttl);
                if let Some(keeping) = keeping {
                    self.is_kept(claim, keeping);
                }
                let work = Duration::from_nanos(self.rng.u64(0..=10 * MILLI));
                self.sleep(work);
                if !self.unlock(claim, guard) {
                    self.world
                        .broken_promise(format!("c{id} could not unlock in calm weather"));
                }
            }
            Err(Error::Unavailable { .. }) if self.plan.is_beyond => {}
            Err(error) => {
                self.world
                    .broken_promise(format!("c{id} got no lock in calm weather: {error}"));
            }
        }
        self.world.nothing_is_left();
        let wish = Wish::new(ttl, Duration::ZERO);
        if let Ok(guard) = self.ask((way, &on), &wish) {
            let on = given(&guard, &on);
            let claim = self.world.acquired(id, &on, &guard, ttl);
            self.unlock(claim, guard);
        }
        self.world.nothing_is_left();
    }
}
