//! A client: a program with a thread or two that take locks through the crate's public API, uses them well or badly, and reports to the
//! witness.

use std::sync::Arc;
use std::time::Duration;

use super::clocks::MILLI;
use super::dialer::Dialer;
use super::plan::{Kind, Plan, nanos, pick};
use super::witness::key;
use super::world::{ClientTime, World};
use crate::clock::Clock;
use crate::node::transport::Connect;
use crate::{
    Error, Finding, LockGuard, LockManager, LockStatus, Margin, NodeHealth, Protocol, Reach, View,
};

/// One thread of a client.
pub(crate) struct Worker {
    world: Arc<World>,
    plan: Plan,
    /// The client's number.
    id: usize,
    manager: LockManager,
    rng: fastrand::Rng,
    /// The locks of programs that ended without a word.
    abandoned: Vec<LockGuard>,
}

impl Worker {
    /// The workers of client `id`, with a manager of theirs.
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
        };
        let (retry_min, retry_max) = plan.retry;
        let mut builder = LockManager::builder();
        if plan.kind == Kind::Fenced {
            let longest = Duration::from_nanos(plan.longest_ttl());
            builder = builder.protocol(Protocol::Fenced).max_ttl(longest);
        }
        let manager = builder
            .node_timeout(plan.node_timeout)
            .retry_delay(retry_min, retry_max)
            // One for each worker and one for the background thread: to wait for another's would take real time.
            .pool_size(u32::try_from(plan.workers).unwrap() + 1)
            .assemble(nodes.collect(), Clock::Virtual(Arc::new(time)))
            .unwrap();
        let number = |worker: usize| u64::try_from(id * plan.workers + worker).unwrap();
        (0..plan.workers)
            .map(|worker| Self {
                world: Arc::clone(world),
                plan: plan.clone(),
                id,
                manager: manager.clone(),
                rng: fastrand::Rng::with_seed(plan.seed.rotate_left(32) ^ (number(worker) + 1)),
                abandoned: Vec::new(),
            })
            .collect()
    }

    /// Its whole life.
    pub(crate) fn live(mut self) {
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
        // Now nothing gets through any more.
        self.abandoned.clear();
    }

    fn is_stormy(&self) -> bool {
        let state = self.world.state();
        state.is_stormy && !state.is_over
    }

    fn ttl(&mut self) -> Duration {
        pick(&mut self.rng, &self.plan.ttls)
    }

    /// Mostly short, never more than one and a half of `usual`.
    fn some_time(&mut self, usual: Duration) -> Duration {
        usual.mul_f64(self.rng.f64().powi(2) * 1.5)
    }

    fn sleep(&self, span: Duration) {
        let until = self.world.state().now + nanos(span);
        self.world.block(until, None);
    }

    /// Tries to get a lock, and does something with it.
    fn work(&mut self) {
        let (resource, ttl) = (self.rng.usize(0..self.plan.resources), self.ttl());
        let timeout = match self.rng.u8(0..4) {
            0 | 1 => Duration::ZERO,
            2 => ttl,
            _ => ttl * 3,
        };
        let name = key(resource);
        let (id, manager) = (self.id, self.manager.clone());
        let words = || format!("c{id} wants {name} for {ttl:?}, and waits for {timeout:?}");
        self.world.state().note(words);
        self.look(resource, None);
        match manager.try_lock_for(&name, ttl, timeout) {
            Ok(guard) => self.hold(resource, ttl, guard),
            Err(error) => self.refused(&error),
        }
    }

    fn refused(&self, error: &Error) {
        let mut state = self.world.state();
        state.witness.refused += 1;
        state.count(outcome(error));
        let id = self.id;
        state.note(|| format!("c{id} does not get it: {error}"));
        drop(state);
        if !matches!(
            error,
            Error::Held { .. } | Error::Unavailable { .. } | Error::TooSlow { .. }
        ) {
            self.world
                .broken_promise(format!("c{id} got an error that makes no sense: {error}"));
        }
    }

    fn hold(&mut self, resource: usize, ttl: Duration, guard: LockGuard) {
        let claim = self.world.acquired(self.id, resource, &guard);
        for _ in 0..self.rng.usize(0..=3) {
            let work = self.some_time(ttl);
            self.sleep(work);
            self.look(resource, Some(&guard));
            if self.rng.bool() {
                let longer = self.ttl();
                match guard.extend(longer) {
                    Ok(()) => self.world.extended(claim, &guard),
                    Err(error) => {
                        let (id, mut state) = (self.id, self.world.state());
                        let is_lost = matches!(error, Error::Lost { .. });
                        state.count(if is_lost {
                            "extension: lost"
                        } else {
                            "extension: not told"
                        });
                        state.note(|| format!("c{id} can't extend: {error}"));
                        drop(state);
                        self.world.not_extended(claim, &guard);
                    }
                }
            }
        }
        match self.rng.u8(0..10) {
            0 if !self.plan.lossless => {
                self.abandoned.push(guard);
            }
            0..=3 => {
                self.world.gives_back(claim);
                drop(guard);
            }
            _ => {
                self.unlock(claim, guard);
            }
        }
    }

    /// Looks at a lock, if the plan says so: its own if there is a guard. That it changes nothing, the witness sees.
    fn look(&self, resource: usize, guard: Option<&LockGuard>) {
        if !self.plan.looks {
            return;
        }
        self.look_at_the_nodes();
        let Ok(status) = self.manager.status(&key(resource)) else {
            return self
                .world
                .broken_promise(format!("c{} can't look", self.id));
        };
        // Read after the nodes have answered, so that it is no more than it was then.
        let mine = guard.map_or(Duration::ZERO, |guard| {
            self.world.as_witness(|| guard.remaining())
        });
        let (seen, is_true) = match &status {
            LockStatus::Held {
                token, remaining, ..
            } => {
                let is_mine = guard.is_some_and(|guard| guard.token() == token);
                // A node that is silent may be one of those that were extended.
                let has_all = status
                    .nodes()
                    .iter()
                    .all(|node| matches!(node.view, View::Held { .. } | View::Free));
                let enough = !has_all || *remaining + Duration::from_millis(1) >= mine;
                ("looked: held", is_mine && enough)
            }
            LockStatus::Free { .. } => ("looked: free", false),
            LockStatus::Blocked { .. } => ("looked: blocked", false),
            LockStatus::Unknown { .. } => ("looked: unknown", true),
        };
        self.world.state().count(seen);
        if !mine.is_zero() && !is_true {
            self.world.broken_promise(format!(
                "c{} has r{resource} for {mine:?}, and sees: {status}",
                self.id
            ));
        }
    }

    /// Looks at the nodes. None of them is anything but a master with a server of its own, and those that can vote are
    /// no more than those that answer.
    fn look_at_the_nodes(&self) {
        let Ok(health) = self.manager.health() else {
            return self
                .world
                .broken_promise(format!("c{} can't look at the nodes", self.id));
        };
        let answer = |node: &&NodeHealth| matches!(node.reach, Reach::Answers);
        let answering = health.nodes.iter().filter(answer).count();
        let is_true = |finding: &Finding| {
            matches!(
                finding,
                Finding::NoMajority { .. }
                    | Finding::Unreachable { .. }
                    | Finding::ClockDiffers { .. }
            )
        };
        if health.voters != answering || !health.findings.iter().all(is_true) {
            let id = self.id;
            self.world
                .broken_promise(format!("c{id} sees what is not there: {health}"));
        }
        self.world.state().count(match health.margin() {
            Margin::Survives { .. } => "looked: a majority",
            Margin::NoMajority { .. } => "looked: no majority",
        });
    }

    fn unlock(&self, claim: u64, guard: LockGuard) -> bool {
        let returned = self.world.gives_back(claim);
        let result = guard.unlock();
        match &result {
            Ok(()) => self.world.unlocked(&returned),
            Err(error) => {
                let id = self.id;
                self.world
                    .state()
                    .note(|| format!("c{id} unlocks: {error}"));
                if matches!(error, Error::Lost { .. }) {
                    self.world.lost(&returned);
                }
            }
        }
        result.is_ok()
    }

    /// Everything has been well for a while: a free lock is to be had, and nothing is left behind.
    fn work_in_calm_weather(&mut self) {
        let resource = self.rng.usize(0..self.plan.resources);
        let longest = Duration::from_nanos(self.plan.longest_ttl());
        let second = Duration::from_secs(1);
        // With the fenced protocol there is none above the longest.
        let ttl = if self.plan.kind == Kind::Fenced {
            longest
        } else {
            longest.max(second)
        };
        let id = self.id;
        match self
            .manager
            .try_lock_for(&key(resource), ttl, ttl.max(second) * 5)
        {
            Ok(guard) => {
                let claim = self.world.acquired(id, resource, &guard);
                let work = Duration::from_nanos(self.rng.u64(0..=10 * MILLI));
                self.sleep(work);
                if !self.unlock(claim, guard) {
                    self.world
                        .broken_promise(format!("c{id} could not unlock in calm weather"));
                }
            }
            Err(error) => {
                self.world
                    .broken_promise(format!("c{id} got no lock in calm weather: {error}"));
            }
        }
        self.world.nothing_is_left();
        if let Ok(guard) = self.manager.try_lock(&key(resource), ttl) {
            let claim = self.world.acquired(id, resource, &guard);
            self.unlock(claim, guard);
        }
        self.world.nothing_is_left();
    }
}

fn outcome(error: &Error) -> &'static str {
    if matches!(error, Error::Held { .. }) {
        "held"
    } else if matches!(error, Error::TooSlow { .. }) {
        "too slow"
    } else {
        "unavailable"
    }
}
