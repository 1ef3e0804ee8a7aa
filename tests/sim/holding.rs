//! What a worker does with a lock that it has: works under it, extends it, has it kept, gives it back or hands it on; and what it does
//! with a lease that another has handed on.

use std::time::UNIX_EPOCH;

use redlatch_history::Says;

use super::claims::Returned;
use super::hooks::name;
use super::prelude::*;
use super::wish::{Keep, why, why_lost};
use crate::{Lease, LossCause};

/// A guard, and the number by which the witness knows it.
pub(super) struct Held {
    pub(super) claim: u64,
    pub(super) on: On,
    pub(super) guard: LockGuard,
}

/// A lease on its way, with what the witness knows of it. What still lies there when the storm is over is nobody's, and ends
/// by itself.
pub(super) struct Mail {
    text: String,
    handed: Returned,
    from: usize,
}

impl Worker {
    pub(super) fn hold(&mut self, held: Held, mut keep: Option<Keep>) {
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
                self.world.hook(self.id, &held);
            }
            // A kept lock is held for several ttls.
            let work = self.some_time(if keep.is_some() { ttl * 3 } else { ttl });
            self.work_under(&held, work);
            if self.depth == 1 && self.plan.resources > 1 && self.rng.u8(0..4) == 0 {
                self.work();
            }
            if self.rng.u8(0..8) == 0 {
                keep = keep.or_else(|| self.keep_from_now_on(&held));
            } else if self.rng.bool() {
                let longer = self.ttl();
                self.extend(&held, longer);
            }
        }
        self.depth -= 1;
        match self.rng.u8(0..10) {
            // A kept lock would never end.
            0 if !self.plan.lossless && keep.is_none() => {
                let resources = held.guard.resources().len();
                self.world.state().clients[self.id].abandoned += resources;
                self.abandoned.push(held.guard);
            }
            0 | 1 => self.hand_on(held),
            // So that it does not rest.
            _ if self.plan.rests && self.rng.u8(0..4) == 0 => {
                self.world.state().count("given back at once");
                self.ends_by(held, LockGuard::unlock_now);
            }
            2..=4 => {
                self.world.is_to_rest(&held);
                let drops = |guard| (drop(guard), Says::Nothing);
                self.world.gives_back(held, drops);
            }
            _ => {
                self.world.is_to_rest(&held);
                let (token, until) = (held.guard.token().to_owned(), held.guard.rests_until);
                if self.unlock(held) {
                    self.world.has_rested(self.id, (&token, until));
                }
            }
        }
    }

    pub(super) fn unlock(&self, held: Held) -> bool {
        self.ends_by(held, LockGuard::unlock)
    }

    fn ends_by(&self, held: Held, unlock: fn(LockGuard) -> Result<(), Error>) -> bool {
        let claim = held.claim;
        let (_, result) = self.world.gives_back(held, |guard| {
            let result = unlock(guard);
            let error = result.as_ref().err();
            let says = error.map_or(Says::Okay, |error| Says::Not(why(error)));
            (result, says)
        });
        let mut state = self.world.state();
        state.is_told(
            claim,
            match &result {
                Ok(()) => "held to its end",
                Err(Error::Lost { cause, .. }) => name(cause),
                Err(_) => "not known",
            },
        );
        if let Err(error) = &result {
            state.note(|| format!("c{} unlocks: {error}", self.id));
        }
        result.is_ok()
    }

    pub(super) fn extend(&self, held: &Held, ttl: Duration) {
        self.world.records(held.claim, What::Extends(nanos(ttl)));
        let result = held.guard.extend(ttl);
        self.was_extended(held, result);
    }

    fn was_extended(&self, held: &Held, result: Result<(), Error>) {
        if let Err(error) = &result {
            let mut state = self.world.state();
            if matches!(error, Error::Lost { .. }) {
                state.count("extension: lost");
            }
            state.note(|| format!("c{} can't extend: {error}", self.id));
        }
        self.world
            .extended(held, result.map_err(|error| why(&error)));
    }

    pub(super) fn draw_keeping(&mut self, ttl: Duration) -> Option<Keep> {
        if self.rng.u8(0..3) > 0 || ttl < self.plan.node_timeout * 3 {
            return None;
        }
        let limit = self.rng.bool().then(|| {
            let longer = Duration::from_nanos(self.rng.u64(0..=4 * nanos(ttl)));
            ttl + longer
        });
        // Without a further draw. Two node timeouts are left before it.
        let longest = (ttl / 2).saturating_sub(self.plan.node_timeout * 2);
        let margin = longest / 3 * (ttl.subsec_nanos() % 4);
        Some(Keep { limit, margin })
    }

    pub(super) fn is_kept(&self, claim: u64, keep: Keep) {
        self.world.records(claim, What::Keeps);
        let mut state = self.world.state();
        state.count("kept");
        if !keep.margin.is_zero() {
            state.count("kept with a margin");
        }
        if let Some(claim) = state.claim(claim) {
            claim.margin = nanos(keep.margin);
        }
        drop(state);
        if let Some(limit) = keep.limit {
            self.world.limit(claim, limit.saturating_sub(keep.margin));
        }
    }

    /// Has a lock kept that was taken or adopted without that.
    fn keep_from_now_on(&mut self, held: &Held) -> Option<Keep> {
        let ttl = self.ttl();
        let keep = self.draw_keeping(ttl)?;
        self.world.records(held.claim, What::Keeps);
        let call = || held.guard.keep_alive(ttl, keep.alive());
        let result = self.world.may_end_sooner(held.claim, call);
        let is_kept = result.is_ok();
        self.was_extended(held, result);
        is_kept.then(|| self.is_kept(held.claim, keep))?;
        Some(keep)
    }

    /// Works for so long under a lock, or until it is told that the lock is lost.
    fn work_under(&mut self, held: &Held, work: Duration) {
        let (claim, guard) = (held.claim, &held.guard);
        let told = match self.rng.u8(0..4) {
            0 => guard.watch().wait_lost(work),
            1 => guard.wait_lost(work),
            _ => {
                self.sleep(work);
                None
            }
        };
        if let Some(cause) = &told {
            self.world.state().count("a wait for a loss ended");
            self.is_lost(held, cause);
        }
        if self.rng.bool() {
            let was_held = self.world.state().is_held_now(claim);
            match guard.check() {
                Ok(()) => self.world.records_look(claim, was_held),
                Err(Error::Lost { cause, .. }) => {
                    self.world.state().count(name(&cause));
                    self.is_lost(held, &cause);
                    self.world.records(claim, What::Lost(why_lost(&cause)));
                }
                Err(error) => {
                    let words = format!("c{} was told nonsense: {error}", self.id);
                    self.world.fail(words);
                }
            }
        }
        self.world.says_the_same(self.id, guard);
    }

    /// After a loss was told, nothing may say that the lock is held.
    fn is_lost(&self, held: &Held, cause: &LossCause) {
        self.world.state().is_told(held.claim, name(cause));
        let left = self.world.as_witness(|| held.guard.remaining());
        let is_held = self.world.state().is_held_now(held.claim);
        if is_held || !left.is_zero() {
            let id = self.id;
            let words = format!("c{id} was told of a loss, and has it for {left:?}");
            self.world.fail(words);
        }
    }

    /// Makes a lease of a guard, for whoever takes it first.
    fn hand_on(&self, held: Held) {
        let token = held.guard.token().to_owned();
        self.world.state().witness.handed.insert(token);
        let ahead = || self.world.state().clients[self.id].wall_ahead;
        let (handed, (lease, ahead)) = self.world.gives_back(held, |guard| {
            let before = ahead();
            let lease = guard.into_lease();
            ((lease, before.max(ahead())), Says::Nothing)
        });
        let mut state = self.world.state();
        state.count("handed on");
        let mut is_lock = true;
        if let Some((on, until)) = &handed.claim {
            is_lock = on.places.len() == 1 && !on.is_read();
            // No later than the guard said, on the clock that it went by; or just now, when it had ended before. Its wall clock may
            // have been set meanwhile.
            let clock = state.clients[self.id].clock;
            let end = clock.shows((*until).max(state.now));
            let says = lease.expires_at().duration_since(UNIX_EPOCH).unwrap();
            let says = i64::try_from(says.as_micros()).unwrap() - VIRTUAL_EPOCH_US.cast_signed();
            let late = says - (i64::try_from(end).unwrap() + ahead) / 1_000;
            if late > 0 {
                state.fail(format!("P2: {lease} lasts {late} us too long"));
            }
        }
        if handed.id.is_multiple_of(5) && is_lock {
            drop(state);
            return self.release_by_token(&lease);
        }
        let (text, from) = (lease.to_string(), self.id);
        state.mail.push(Mail { text, handed, from });
    }

    /// Releases a lock by its token alone, as an operator does.
    fn release_by_token(&self, lease: &Lease) {
        let began = self.world.state().now;
        let result = self.manager.release(lease.resource(), lease.token());
        let (id, nodes) = (self.id, self.plan.nodes);
        let mut state = self.world.state();
        let now = state.now;
        let has_it = |node: &mut Node| {
            let has_gone_back = node.forgot.is_some_and(|forgot| forgot >= began);
            !has_gone_back && node.contents(lease.resource(), now).has(lease.token())
        };
        let left = state.nodes.iter_mut().map(has_it).filter(|has| *has);
        let left = left.count();
        // Nobody brings a key back that was deleted, but a node that goes back to an earlier state.
        if result.is_ok() && left > nodes - (nodes / 2 + 1) {
            let words = format!("P6: {left} nodes have the key of c{id} that was released");
            state.fail(words);
        }
        match result {
            Ok(()) => state.count("released by token"),
            Err(Error::Lost { .. } | Error::Unconfirmed { .. }) => {}
            Err(error) => state.fail(format!("c{id} got an error that makes no sense: {error}")),
        }
    }

    /// Adopts a lease that lies there, and works under it; returns whether there was one.
    pub(super) fn take_over(&mut self) -> bool {
        let Some(mail) = self.take_mail() else {
            return false;
        };
        let lease: Lease = mail.text.parse().unwrap();
        if let Some((on, _)) = &mail.handed.claim {
            let mut state = self.world.state();
            state.records_call(on, None, Some(&lease));
        }
        match self.manager.adopt(&lease) {
            Ok(guard) => {
                self.world.adopted(self.id, &mail.handed, &guard);
                let mut state = self.world.state();
                state.count("adopted");
                if guard.rests_until.is_some() {
                    state.count("adopted with a minimum");
                }
                drop(state);
                if let Some((on, _)) = mail.handed.claim {
                    let claim = mail.handed.id;
                    self.hold(Held { claim, on, guard }, None);
                }
            }
            Err(error) => {
                let (id, mut state) = (self.id, self.world.state());
                state.records_failure(why(&error));
                state.note(|| format!("c{id} can't adopt: {error}"));
                if matches!(error, Error::Lost { .. }) {
                    state.count("adoption refused");
                } else if matches!(error, Error::Unavailable { .. }) {
                    state.count("adoption not decided");
                    if self.rng.bool() {
                        state.mail.push(mail);
                    }
                } else {
                    state.fail(format!("c{id} got an error that makes no sense: {error}"));
                }
            }
        }
        true
    }

    fn take_mail(&mut self) -> Option<Mail> {
        let mail = &mut self.world.state().mail;
        let last = mail.len().checked_sub(1)?;
        let place = match self.rng.u8(0..4) {
            0 => self.rng.usize(0..=last),
            _ => last,
        };
        // A lease of the other protocol is refused before any node is asked.
        let fenced = &self.plan.fenced;
        let is_own = fenced[mail[place].from] == fenced[self.id];
        is_own.then(|| mail.remove(place))
    }
}
