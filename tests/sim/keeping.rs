//! Clients that have their locks kept alive, and want to know when they are lost.

use std::time::Duration;

use redlatch_history::What;

use super::client::Worker;
use super::hooks::name;
use super::plan::nanos;
use super::wish::{Keep, why_lost};
use crate::{Error, LockGuard, LossCause};

impl Worker {
    pub(super) fn draw_keeping(&mut self, ttl: Duration) -> Option<Keep> {
        if self.rng.u8(0..3) > 0 || ttl < self.plan.node_timeout * 3 {
            return None;
        }
        let limit = self.rng.bool().then(|| {
            let longer = Duration::from_nanos(self.rng.u64(0..=4 * nanos(ttl)));
            ttl + longer
        });
        Some(Keep { limit })
    }

    pub(super) fn is_kept(&self, claim: u64, keep: Keep) {
        self.world.records(claim, What::Keeps);
        self.world.state().count("kept");
        if let Some(limit) = keep.limit {
            self.world.limit(claim, limit);
        }
    }

    /// Has a lock kept that was taken or adopted without that.
    pub(super) fn keep_from_now_on(&mut self, claim: u64, guard: &LockGuard) -> Option<Keep> {
        let ttl = self.ttl();
        let keep = self.draw_keeping(ttl)?;
        self.world.records(claim, What::Keeps);
        let call = || guard.keep_alive(ttl, keep.alive());
        let result = self.world.may_end_sooner(claim, call);
        let is_kept = result.is_ok();
        self.was_extended(claim, guard, result);
        is_kept.then(|| self.is_kept(claim, keep))?;
        Some(keep)
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
            self.world.state().count("a wait for a loss ended");
            self.is_lost(claim, guard, cause);
        }
        if self.rng.bool() {
            self.world.look_now();
            let was_held = self.world.state().is_held(claim);
            match guard.check() {
                Ok(()) => self.world.records_look(claim, was_held),
                Err(Error::Lost { cause, .. }) => {
                    self.world.state().count(name(&cause));
                    self.is_lost(claim, guard, &cause);
                    self.world.records(claim, What::Lost(why_lost(&cause)));
                }
                Err(error) => {
                    let id = self.id;
                    self.world.fail(format!("c{id} was told nonsense: {error}"));
                }
            }
        }
        self.world.says_the_same(self.id, guard);
    }

    /// After a loss was told, nothing may say that the lock is held.
    fn is_lost(&self, claim: u64, guard: &LockGuard, cause: &LossCause) {
        self.world.state().is_told(claim, cause);
        let left = self.world.as_witness(|| guard.remaining());
        self.world.look_now();
        let is_held = self.world.state().is_held(claim);
        if is_held || !left.is_zero() {
            let id = self.id;
            self.world
                .fail(format!("c{id} was told of a loss, and has it for {left:?}"));
        }
    }
}
