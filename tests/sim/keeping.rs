//! Clients that have their locks kept alive, and want to know when they are lost.

use std::time::Duration;

use redlatch_history::What;

use super::client::Worker;
use super::history::why_lost;
use super::hooks::name;
use super::plan::nanos;
use super::returned::Returned;
use crate::{Error, KeepAlive, LeaseWatch, LockGuard};

/// How a lock is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keeping {
    pub(super) keep_alive: KeepAlive,
    max_hold: Option<Duration>,
}

impl Keeping {
    pub(super) fn unbounded() -> Self {
        Self {
            keep_alive: KeepAlive::unbounded(),
            max_hold: None,
        }
    }
}

impl Worker {
    /// Whether a lock of this ttl is to be kept, and how.
    pub(super) fn draw_keeping(&mut self, ttl: Duration) -> Option<Keeping> {
        if self.rng.u8(0..3) > 0 || ttl < self.plan.node_timeout * 3 {
            return None;
        }
        let max_hold = self.rng.bool().then(|| {
            let longer = Duration::from_nanos(self.rng.u64(0..=4 * nanos(ttl)));
            ttl + longer
        });
        let keep_alive = max_hold.map_or_else(KeepAlive::unbounded, KeepAlive::max_hold);
        Some(Keeping {
            keep_alive,
            max_hold,
        })
    }

    /// The guard of this claim is kept.
    pub(super) fn is_kept(&self, claim: u64, keeping: Keeping) {
        self.world.records(claim, What::Keeps);
        self.world.state().count("kept");
        if let Some(max_hold) = keeping.max_hold {
            self.world.limit(claim, max_hold);
        }
    }

    /// Has a lock kept that was taken or adopted without that.
    pub(super) fn keep_from_now_on(&mut self, claim: u64, guard: &LockGuard) -> Option<Keeping> {
        let ttl = self.ttl();
        let keeping = self.draw_keeping(ttl)?;
        self.world.records(claim, What::Keeps);
        let keep = || guard.keep_alive(ttl, keeping.keep_alive);
        let result = self.world.may_end_sooner(claim, keep);
        let is_kept = result.is_ok();
        self.was_extended(claim, guard, result);
        is_kept.then(|| self.is_kept(claim, keeping))?;
        Some(keeping)
    }

    /// Works for so long under a lock, or until it is told that the lock is lost.
    pub(super) fn work_under(&mut self, claim: u64, guard: &LockGuard, work: Duration) {
        let watch = guard.watch();
        let told = match self.rng.u8(0..4) {
            0 => watch.wait_lost(work),
            1 => guard.wait_lost(work),
            _ => {
                self.sleep(work);
                None
            }
        };
        if let Some(cause) = &told {
            let mut state = self.world.state();
            state.count("a wait for a loss ended");
            state.is_told(claim, name(cause));
            drop(state);
            self.is_lost(claim, guard);
        }
        if self.rng.bool() {
            let was_held = self.world.begins_to_look(claim);
            match guard.check() {
                Ok(()) => self.world.records_look(claim, was_held),
                Err(Error::Lost { cause, .. }) => {
                    let mut state = self.world.state();
                    state.count(name(&cause));
                    state.is_told(claim, name(&cause));
                    drop(state);
                    self.is_lost(claim, guard);
                    let why = why_lost(&cause);
                    self.world.records(claim, What::Lost(why));
                }
                Err(error) => {
                    let id = self.id;
                    self.world
                        .broken_promise(format!("c{id} was told nonsense: {error}"));
                }
            }
        }
        self.world.says_the_same(self.id, guard);
    }

    /// After a loss was told, nothing may say that the lock is held.
    fn is_lost(&self, claim: u64, guard: &LockGuard) {
        let left = self.world.as_witness(|| guard.remaining());
        self.world.look_now();
        let is_held = self.world.state().is_held(claim);
        if is_held || !left.is_zero() {
            let id = self.id;
            self.world
                .broken_promise(format!("c{id} was told of a loss, and has it for {left:?}"));
        }
    }

    /// The guard of a claim has been given back, and each watch of it says so.
    pub(super) fn is_over(&self, returned: &mut Returned, watch: &LeaseWatch) {
        self.world.has_given_back(returned);
        let left = self.world.as_witness(|| watch.remaining());
        let check = self.world.as_witness(|| watch.check());
        if !left.is_zero() || !matches!(check, Err(Error::Lost { .. })) {
            let id = self.id;
            self.world
                .broken_promise(format!("c{id} gave a lock back, and has it for {left:?}"));
        }
    }
}
