//! Locks that are handed from one client to another, at once or late.

use std::time::UNIX_EPOCH;

use redlatch_history::Says;

use super::claims::Returned;
use super::client::Worker;
use super::node::Node;
use super::wish::why;
use crate::clock::VIRTUAL_EPOCH_US;
use crate::{Error, Lease, LockGuard};

/// A lease on its way, with what the witness knows of it. What still lies there when the storm is over is nobody's, and ends
/// by itself.
pub(super) struct Mail {
    text: String,
    handed: Returned,
    from: usize,
}

impl Worker {
    /// Makes a lease of a guard, for whoever takes it first.
    pub(super) fn hand_on(&self, claim: u64, guard: LockGuard) {
        let token = guard.token().to_owned();
        self.world.state().witness.handed.insert(token);
        let ahead = || self.world.state().clients[self.id].wall_ahead;
        let (handed, (lease, ahead)) = self.world.gives_back(claim, guard, |guard| {
            let before = ahead();
            let lease = guard.into_lease();
            ((lease, before.max(ahead())), Says::Nothing)
        });
        let text = lease.to_string();
        let mut state = self.world.state();
        if text.parse::<Lease>().ok().as_ref() != Some(&lease) {
            state.fail(format!("{text} is not read as it was written"));
        }
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
                state.fail(format!("P2: {text} lasts {late} us too long"));
            }
        }
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
        let (id, nodes) = (self.id, self.plan.nodes);
        let mut state = self.world.state();
        let now = state.now;
        let has_it = |node: &mut Node| {
            let has_gone_back = node.forgot.is_some_and(|forgot| forgot >= began);
            !has_gone_back && node.contents(lease.resource(), now).has(lease.token())
        };
        let left = state
            .nodes
            .iter_mut()
            .map(has_it)
            .filter(|has| *has)
            .count();
        // Nobody brings a key back that was deleted, but a node that goes back to an earlier state.
        if result.is_ok() && left > nodes - (nodes / 2 + 1) {
            state.fail(format!(
                "P6: {left} nodes have the key of c{id} that was released"
            ));
        }
        match result {
            Ok(()) => state.count("released by token"),
            Err(Error::Lost { .. }) => state.count("not released by token: lost"),
            Err(Error::Unconfirmed { .. }) => state.count("not released by token: not told"),
            Err(error) => state.fail(format!("c{id} got an error that makes no sense: {error}")),
        }
    }

    /// Adopts a lease that lies there, and works under it; returns whether there was one.
    pub(super) fn take_over(&mut self) -> bool {
        let Some(mail) = self.take_mail() else {
            return false;
        };
        let lease: Lease = mail.text.parse().unwrap();
        let theirs = (lease.token().to_owned(), lease.fencing_token());
        if let Some((on, _)) = &mail.handed.claim {
            let mut state = self.world.state();
            state.records_call(on, None, Some(&lease));
        }
        match self.manager.adopt(lease) {
            Ok(guard) => {
                self.world.adopted(self.id, &mail.handed, &guard);
                let mut state = self.world.state();
                state.count("adopted");
                if guard.rests_until.is_some() {
                    state.count("adopted with a minimum");
                }
                if (guard.token().to_owned(), guard.fencing_token()) != theirs {
                    state.fail(format!("{} was adopted with another token", mail.text));
                }
                drop(state);
                if let Some((on, _)) = &mail.handed.claim {
                    self.hold(on, mail.handed.id, guard, None);
                }
            }
            Err(error) => self.not_adopted(mail, &error),
        }
        true
    }

    fn not_adopted(&mut self, mail: Mail, error: &Error) {
        let id = self.id;
        let mut state = self.world.state();
        state.records_failure(why(error));
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
