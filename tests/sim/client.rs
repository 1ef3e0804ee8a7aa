//! A client: a program with a thread or two that take locks through the crate's public API, uses them well or badly, and reports to the
//! witness.

use std::sync::Arc;
use std::time::Duration;

use redlatch_history::{On, Says};

use super::clocks::MILLI;
use super::hooks::name;
use super::line::Dialer;
use super::plan::{Labels, Plan, nanos, pick};
use super::process::{ClientTime, has_its_slots};
use super::wanted::given;
use super::wish::{Keep, Waits, Wish, why};
use super::world::World;
use crate::clock::Clock;
use crate::wire::transport::Connect;
use crate::{Error, LockGuard, LockManager, Protocol};

pub(super) struct Worker {
    pub(super) world: Arc<World>,
    pub(super) plan: Plan,
    pub(super) id: usize,
    pub(super) number: usize,
    pub(super) manager: LockManager,
    pub(super) rng: fastrand::Rng,
    pub(super) depth: usize,
    /// The locks that this worker has forgotten, as a program does that dies.
    abandoned: Vec<LockGuard>,
}

impl Worker {
    pub(super) fn of_client(world: &Arc<World>, plan: &Plan, id: usize) -> Vec<Self> {
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

    pub(super) fn live(mut self) {
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
        if self.number == 0 {
            self.leaves_nothing_in_the_process();
            let queued = self.manager.stats().queued;
            let mut state = self.world.state();
            *state.witness.tally.entry("queued").or_default() += queued;
        }
        // From now on no message gets through.
        self.abandoned.clear();
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

    fn work(&mut self) {
        if self.crowds() || self.hurries() || (self.rng.u8(0..3) == 0 && self.take_over()) {
            return;
        }
        let (on, ttl) = (self.draw_wanted(), self.ttl());
        let timeout = match self.rng.u8(0..4) {
            0 | 1 => Duration::ZERO,
            2 => ttl,
            _ => ttl * 3,
        };
        let keep = self.draw_keeping(ttl);
        let id = self.id;
        let words = || format!("c{id} wants {on} for {ttl:?}, and waits for {timeout:?}; {keep:?}");
        self.world.state().note(words);
        let wish = Wish {
            keep,
            at_least: self.draw_minimum(ttl),
            label: self.own_label(),
            ..Wish::new(ttl, Waits::For(timeout))
        };
        match self.ask(&on, &wish) {
            Ok(guard) => {
                self.is_named_as_it_is(&guard);
                let (claim, on) = self.has(&guard, &on, &wish);
                self.hold(&on, claim, guard, keep);
            }
            Err(error) => self.refused(&error),
        }
    }

    /// It was given this guard by its wish.
    pub(super) fn has(&self, guard: &LockGuard, on: &On, wish: &Wish) -> (u64, On) {
        let on = given(guard, on);
        let claim = self.world.acquired(self.id, &on, guard, wish.ttl);
        if let Some(keep) = wish.keep {
            self.is_kept(claim, keep);
        }
        if let Some(minimum) = wish.at_least.filter(|_| !on.is_read()) {
            self.world.has_a_minimum(self.id, guard, minimum);
        }
        (claim, on)
    }

    /// What this worker is called in place of its client.
    pub(super) fn own_label(&self) -> Option<String> {
        let is_named = self.plan.labels[self.id] == Labels::Thread;
        self.label().filter(|_| is_named)
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

    /// The holder of this worker's lock has the worker's own name, also where another thread has passed the lock on.
    fn is_named_as_it_is(&self, guard: &LockGuard) {
        let watch = guard.watch();
        let named = watch.holder().map(|holder| holder.label.to_string());
        if named != self.label() {
            let id = self.id;
            self.world.fail(format!("c{id} has a lock as {named:?}"));
        }
    }

    pub(super) fn hold(&mut self, on: &On, claim: u64, guard: LockGuard, mut keep: Option<Keep>) {
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
            let work = self.some_time(if keep.is_some() { ttl * 3 } else { ttl });
            self.work_under(claim, &guard, work);
            if self.depth == 1 && self.plan.resources > 1 && self.rng.u8(0..4) == 0 {
                self.work();
            }
            if self.rng.u8(0..8) == 0 {
                keep = keep.or_else(|| self.keep_from_now_on(claim, &guard));
            } else if self.rng.bool() {
                let longer = self.ttl();
                let result = self.world.extends(claim, &guard, longer);
                self.was_extended(claim, &guard, result);
            }
        }
        self.depth -= 1;
        match self.rng.u8(0..10) {
            // A kept lock would never end.
            0 if !self.plan.lossless && keep.is_none() => {
                self.world.state().clients[self.id].abandoned += guard.resources().len();
                self.abandoned.push(guard);
            }
            0 | 1 => self.hand_on(claim, guard),
            // So that it does not rest.
            _ if self.plan.rests && self.rng.u8(0..4) == 0 => {
                self.world.state().count("given back at once");
                self.ends_by(claim, guard, LockGuard::unlock_now);
            }
            2..=4 => {
                self.world.is_to_rest(claim, on, &guard);
                let drops = |guard| (drop(guard), Says::Nothing);
                self.world.gives_back(claim, guard, drops);
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
        self.ends_by(claim, guard, LockGuard::unlock)
    }

    fn ends_by(
        &self,
        claim: u64,
        guard: LockGuard,
        unlock: fn(LockGuard) -> Result<(), Error>,
    ) -> bool {
        let (_, result) = self.world.gives_back(claim, guard, |guard| {
            let result = unlock(guard);
            let error = result.as_ref().err();
            let says = error.map_or(Says::Okay, |error| Says::Not(why(error)));
            (result, says)
        });
        let end = match &result {
            Ok(()) => "held to its end",
            Err(Error::Lost { cause, .. }) => name(cause),
            Err(_) => "not known",
        };
        let (id, mut state) = (self.id, self.world.state());
        state.is_unlocked(claim, end);
        if let Err(error) = &result {
            state.note(|| format!("c{id} unlocks: {error}"));
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
        let on = self.draw_wanted_of(resource);
        let wish = Wish {
            keep: self.draw_keeping(ttl),
            ..Wish::new(ttl, Waits::For(ttl.max(second) * 5))
        };
        match self.ask(&on, &wish) {
            Ok(guard) => {
                let (claim, _) = self.has(&guard, &on, &wish);
                let work = Duration::from_nanos(self.rng.u64(0..=10 * MILLI));
                self.sleep(work);
                if !self.unlock(claim, guard) {
                    self.world
                        .fail(format!("P6: c{id} could not unlock in calm weather"));
                }
            }
            Err(Error::Unavailable { .. }) if self.plan.is_beyond => {}
            Err(error) => self
                .world
                .fail(format!("P9: c{id} got no lock in calm weather: {error}")),
        }
        self.world.nothing_is_left();
        let wish = Wish::new(ttl, Waits::For(Duration::ZERO));
        if let Ok(guard) = self.ask(&on, &wish) {
            let (claim, _) = self.has(&guard, &on, &wish);
            self.unlock(claim, guard);
        }
        self.world.nothing_is_left();
    }
}
