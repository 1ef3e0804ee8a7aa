//! Locks that go from thread to thread of one client: the next holder has what is left of the lease, and no more.

use std::time::Duration;

use redlatch_history::Origin;

use super::access::Access;
use super::claims::Claim;
use super::clocks::{MILLI, Nanos};
use super::history::Ends;
use super::keeping::Keeping;
use super::plan::nanos;
use super::wire::Message;
use super::world::{State, World};
use crate::guard::LockGuard;
use crate::quorum;

/// How often a lock may go to the next thread, and until when.
#[derive(Clone, Copy)]
pub(super) struct Left {
    times: u32,
    until: Nanos,
}

/// A guard that was given back, and whose lock may go to the next thread.
#[derive(Clone, Copy)]
pub(super) struct Before {
    /// The number of its claim.
    id: u64,
    client: usize,
    resource: usize,
    left: Left,
    /// When it ended.
    at: Nanos,
    /// When it would have ended otherwise, by its client's clock.
    last: Nanos,
}

/// What the guard of a lock that was taken, or handed over, begins with.
pub(super) struct Beginning {
    /// Since when nobody else has had the lock.
    pub(super) began: Nanos,
    pub(super) left: Option<Left>,
    pub(super) origin: Origin,
}

/// The validity that is asked for, and whether it is renewed.
pub(crate) type Asked = (Duration, Option<Keeping>);

impl Before {
    /// None where the next one may not have it.
    pub(super) fn of(claim: &Claim, now: Nanos) -> Option<Self> {
        let left = claim.left.filter(|_| claim.is_known_to_last())?;
        let resource = claim.on.only()?;
        Some(Self {
            id: claim.id,
            client: claim.client,
            resource,
            left,
            at: now,
            last: claim.last,
        })
    }

    pub(super) fn has_ended(&mut self, at: Nanos, last: Nanos) {
        (self.at, self.last) = (at, last);
    }
}

impl State {
    /// A lock that is given back on the nodes does not go to the next thread.
    pub(super) fn sends_for_the_next(&mut self, message: &Message) {
        if let Some(token) = message.releases() {
            self.witness.given_back.remove(token);
        }
    }

    /// A guard is returned to whoever asked for its lock: it was taken from the nodes, or handed over.
    pub(super) fn begins(
        &mut self,
        (client, on): (usize, &Access),
        guard: &LockGuard,
        (ttl, keeping): Asked,
    ) -> Beginning {
        let value = guard.token();
        let clock = self.clients[client].clock;
        let deadline = guard.watch().deadline().as_nanos();
        // The nodes count whole milliseconds.
        let whole = Duration::from_millis(nanos(ttl) / MILLI);
        let validity = nanos(whole.saturating_sub(quorum::drift(whole, 0.01)));
        if deadline > clock.shows(self.now) + validity && !self.is_over {
            self.fail(format!("c{client} has {on} for longer than it asked for"));
        }
        let task = self.task();
        if !self.witness.is_returned_again(value, task) {
            self.count_expired(client, on);
            if self.witness.was_passed(value) {
                self.count("passed to the next thread");
            }
            let began = self.witness.began(value);
            let handover = self.plan.handovers[client].filter(|_| on.only().is_some());
            let left = handover.map(|(times, time)| Left {
                times,
                until: clock.when(clock.shows(began) + nanos(time)),
            });
            let origin = Origin::Nodes;
            return Beginning {
                began,
                left,
                origin,
            };
        }
        let now = self.now;
        self.count("handed over");
        let before = self.witness.given_back.remove(value);
        let stops = self.plan.may_stop_after_a_look();
        let left = before.and_then(|before| {
            let is_in_bounds = before.left.times > 0 && before.at < before.left.until;
            let is_same = (before.client, Some(before.resource)) == (client, on.only());
            let is_longer = keeping.is_none() && deadline > before.last;
            // A thread that stops while it gives a lock back may find that the rest is over.
            let given = if stops { now } else { before.at };
            let is_early = self.was_to_rest(value, given);
            let is_lost = self.witness.told.contains_key(&before.id);
            let may_be = is_in_bounds && is_same && !is_longer && !is_early;
            (may_be && !is_lost).then(|| Left {
                times: before.left.times - 1,
                ..before.left
            })
        });
        if left.is_none() && !self.is_over {
            self.fail(format!(
                "c{client} was handed {on}, which was over, or not for so often or so long"
            ));
        }
        Beginning {
            began: now,
            left,
            origin: Origin::HandedOver,
        }
    }

    /// Counts the locks of this client that are taken although a guard is out.
    fn count_expired(&mut self, client: usize, on: &Access) {
        let guards = self.witness.guards.iter();
        let mut in_line = guards.filter(|claim| claim.has_a_turn());
        if in_line.any(|claim| claim.client == client && claim.on.excludes(on).is_some()) {
            self.count("taken over from one that has expired");
        }
    }

    /// Counts what happens to a lock that was handed over.
    pub(super) fn count_if_handed_over(&mut self, id: u64, what: &'static str) {
        if self.was_handed_over(id) {
            self.count(what);
        }
    }

    pub(super) fn was_handed_over(&self, id: u64) -> bool {
        let mut guards = self.witness.guards.iter();
        guards.any(|claim| claim.id == id && claim.was_handed_over())
    }
}

impl World {
    /// Calls for a lock, of which the witness knows meanwhile.
    pub(super) fn while_asking<T: Ends>(
        &self,
        on: &Access,
        ttl: Duration,
        call: impl FnOnce() -> T,
    ) -> T {
        let mut state = self.state();
        let task = state.task();
        state.records_call(on, Some(nanos(ttl)), None);
        if let Some(resource) = on.only() {
            state.witness.asking.insert(task, resource);
        }
        drop(state);
        let result = call();
        let mut state = self.state();
        state.witness.asking.remove(&task);
        if let Some(why) = result.why() {
            state.records_failure(why);
        }
        result
    }
}
