//! Locks that are handed from one client to another, at once or late.

use std::time::UNIX_EPOCH;

use redlatch_history::Says;

use super::client::Worker;
use super::history::why;
use super::node::Node;
use super::returned::Returned;
use super::world::State;
use crate::clock::VIRTUAL_EPOCH_US;
use crate::{Error, Lease, LockGuard};

/// A lease on its way, with what the witness knows of it. What still lies there when the storm is over is nobody's, and ends
/// by itself.
pub(crate) struct Mail {
    text: String,
    handed: Returned,
    /// Who made it.
    from: usize,
}

impl Worker {
    /// Makes a lease of a guard, for whoever takes it first.
    pub(super) fn hand_on(&self, claim: u64, guard: LockGuard) {
        let watch = guard.watch();
        let token = guard.token().to_owned();
        self.world.state().witness.handed.insert(token);
        let mut handed = self.world.gives_back(claim);
        let ahead = |state: &State| state.clients[self.id].wall_ahead;
        let before = ahead(&self.world.state());
        let lease = guard.into_lease();
        let after = ahead(&self.world.state());
        self.is_over(&mut handed, &watch);
        self.world.ends(&handed, Says::Nothing);
        let text = lease.to_string();
        if text.parse::<Lease>().ok().as_ref() != Some(&lease) {
            self.world
                .broken_promise(format!("{text} is not read as it was written"));
        }
        let mut state = self.world.state();
        state.count("handed on");
        if let Some(claim) = &handed.claim {
            // No later than the guard said, on the clock that it went by; or just now, when it had ended before. Its wall clock may
            // have been set meanwhile.
            let end = state.clients[self.id]
                .clock
                .shows(claim.until.max(state.now));
            let says = lease.expires_at().duration_since(UNIX_EPOCH).unwrap();
            let says = i64::try_from(says.as_micros()).unwrap() - VIRTUAL_EPOCH_US.cast_signed();
            let end = (i64::try_from(end).unwrap() + before.max(after)) / 1_000;
            if says > end {
                let late = says - end;
                state.fail(format!("{text} lasts {late} us too long"));
            }
        }
        let is_lock = handed
            .claim
            .as_ref()
            .is_none_or(|claim| claim.on.only().is_some());
        if handed.id.is_multiple_of(5) && is_lock {
            drop(state);
            return self.release_by_token(&lease);
        }
        let from = self.id;
        state.mail.push(Mail { text, handed, from });
    }

    /// Releases a lock by its token alone, as an operator does.
    fn release_by_token(&self, lease: &Lease) {
        let began = self.world.state().now;
        let result = self.manager.release(lease.resource(), lease.token());
        let is_released = result.is_ok();
        let (id, nodes) = (self.id, self.plan.nodes);
        let mut state = self.world.state();
        let now = state.now;
        let has_it = |node: &mut Node| {
            let has_gone_back = node.forgot.is_some_and(|forgot| forgot >= began);
            let contents = node.contents(lease.resource(), now);
            contents.has(lease.token()) && !has_gone_back
        };
        let left = state
            .nodes
            .iter_mut()
            .map(has_it)
            .filter(|has| *has)
            .count();
        match result {
            Ok(()) => state.count("released by token"),
            Err(Error::Lost { .. }) => state.count("not released by token: lost"),
            Err(Error::Unconfirmed { .. }) => state.count("not released by token: not told"),
            Err(error) => state.fail(format!("c{id} got an error that makes no sense: {error}")),
        }
        // Nobody brings a key back that was deleted, but a node that goes back to an earlier state.
        if is_released && left > nodes - (nodes / 2 + 1) {
            state.fail(format!(
                "{left} nodes have the key of c{id} that was released"
            ));
        }
    }

    /// Adopts a lease that lies there, and works under it; returns whether there was one.
    pub(super) fn take_over(&mut self) -> bool {
        let Some(mail) = self.take_mail() else {
            return false;
        };
        let lease: Lease = mail.text.parse().unwrap();
        let theirs = (lease.token().to_owned(), lease.fencing_token());
        self.records_adoption(&mail);
        let result = self.manager.adopt(lease);
        match result {
            Ok(guard) => {
                self.world.adopted(self.id, &mail.handed, &guard);
                self.world.state().count("adopted");
                if guard.rests_until.is_some() {
                    self.world.state().count("adopted with a minimum");
                }
                if (guard.token().to_owned(), guard.fencing_token()) != theirs {
                    self.world
                        .broken_promise(format!("{} was adopted with another token", mail.text));
                }
                if let Some(claim) = &mail.handed.claim {
                    self.hold(&claim.on, mail.handed.id, guard, None);
                }
            }
            Err(error) => self.not_adopted(mail, &error),
        }
        true
    }

    fn records_adoption(&self, mail: &Mail) {
        let lease: Lease = mail.text.parse().unwrap();
        if let Some(claim) = &mail.handed.claim {
            let mut state = self.world.state();
            state.records_call(&claim.on, None, Some(&lease));
        }
    }

    fn not_adopted(&mut self, mail: Mail, error: &Error) {
        let id = self.id;
        let mut state = self.world.state();
        state.records_failure(why(error));
        state.note(|| format!("c{id} can't adopt: {error}"));
        match error {
            Error::Lost { .. } => {
                state.count("adoption refused");
            }
            Error::Unavailable { .. } => {
                state.count("adoption not decided");
                if self.rng.bool() {
                    state.mail.push(mail);
                }
            }
            Error::Held { .. } | _ => {
                drop(state);
                self.world
                    .broken_promise(format!("c{id} got an error that makes no sense: {error}"));
            }
        }
    }

    /// Takes a lease out of the mail, mostly the last one.
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
