//! A client: a program with a thread or two that take locks through the crate's public API, uses them well or badly, and reports to the
//! witness.

use super::line::Dialer;
use super::plan::Labels;
use super::prelude::*;
use super::process::ClientTime;
use crate::clock::Clock;
use crate::wire::transport::Connect;
use crate::{LockManager, Protocol};

pub(super) struct Worker {
    pub(super) world: Arc<World>,
    pub(super) plan: Plan,
    pub(super) id: usize,
    pub(super) number: usize,
    pub(super) manager: LockManager,
    pub(super) rng: fastrand::Rng,
    pub(super) depth: usize,
    /// The locks that this worker has forgotten, as a program does that dies.
    pub(super) abandoned: Vec<LockGuard>,
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

    pub(super) fn work(&mut self) {
        if self.crowds() || self.hurries() || (self.rng.u8(0..3) == 0 && self.take_over()) {
            return;
        }
        let resource = self.usual_resource();
        let (on, ttl) = (self.draw_wanted_of(resource), self.ttl());
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
            Ok(held) => {
                self.is_named_as_it_is(&held.guard);
                self.hold(held, keep);
            }
            Err(error) => self.refused(&error),
        }
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
            Ok(held) => {
                let work = Duration::from_nanos(self.rng.u64(0..=10 * MILLI));
                self.sleep(work);
                if !self.unlock(held) {
                    let words = format!("P6: c{id} could not unlock in calm weather");
                    self.world.fail(words);
                }
            }
            Err(Error::Unavailable { .. }) if self.plan.is_beyond => {}
            Err(error) => {
                let words = format!("P9: c{id} got no lock in calm weather: {error}");
                self.world.fail(words);
            }
        }
        self.world.nothing_is_left();
        let wish = Wish::new(ttl, Waits::For(Duration::ZERO));
        if let Ok(held) = self.ask(&on, &wish) {
            self.unlock(held);
        }
        self.world.nothing_is_left();
    }
}
