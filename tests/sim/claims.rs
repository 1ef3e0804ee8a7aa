//! What the guards of all clients say, looked at between any two steps, and compared with the truth.

use std::time::Duration;

use redlatch_history::{Call, Span, What, Why};

use super::access::Access;
use super::clocks::{MILLI, Nanos};
use super::plan::nanos;
use super::returned::Returned;
use super::world::{State, World};
use crate::LossCause;
use crate::guard::LockGuard;
use crate::lease::LeaseWatch;

/// A guard, and until which true time it says to be valid.
pub(crate) struct Claim {
    pub(super) id: u64,
    /// Its number in the history.
    pub(super) hold: Call,
    pub(super) client: usize,
    pub(super) on: Access,
    pub(super) token: String,
    /// Since when this lock is out, by this guard or by those that it was adopted from.
    pub(super) since: Nanos,
    pub(super) until: Nanos,
    /// Its value before the last change.
    pub(super) former: Nanos,
    /// The same as the guard has it: by its client's clock, and zero when the lock is lost.
    deadline: Nanos,
    /// Its value before the loss.
    pub(super) last: Nanos,
    /// The latest time at which the attempt that got it may have begun, or the adoption.
    got: Nanos,
    /// When the time that it has now was asked for, or before.
    pub(super) asked: Nanos,
    /// When an extension was asked for since then.
    pub(super) asks: Option<Nanos>,
    /// When it has to end, whatever happens.
    limit: Option<Nanos>,
    /// Whether it may end before that.
    pub(super) may_end_sooner: bool,
    watch: LeaseWatch,
}

/// By how much sooner a loss may be told than the validity ends.
pub(super) const NOTICE: Nanos = MILLI;

impl State {
    /// Looks at the guards themselves, as often as anything may have changed.
    pub(crate) fn look_at_claims(&mut self) {
        if self.is_over {
            return;
        }
        for i in 0..self.witness.guards.len() {
            let claim = &self.witness.guards[i];
            let deadline = claim.watch.deadline().as_nanos();
            if deadline != claim.deadline {
                self.has_changed(i, deadline);
            }
        }
    }

    /// The validity of a guard was found to have changed during the step that has just ended.
    fn has_changed(&mut self, i: usize, deadline: Nanos) {
        let now = self.now;
        let claim = &self.witness.guards[i];
        let (id, client, limit) = (claim.id, claim.client, claim.limit);
        let on = claim.on.clone();
        let (before, old, hold) = (claim.deadline, claim.until, claim.hold);
        let may_end_sooner = claim.may_end_sooner;
        let clock = self.clients[client].clock;
        let shown = clock.shows(now);
        // A lock that is lost, or has reached its limit, has ended before or ends now.
        let until = if deadline <= shown {
            old.min(now)
        } else {
            clock.when(deadline)
        };
        let claim = &mut self.witness.guards[i];
        (claim.deadline, claim.until, claim.former) = (deadline, until, old);
        claim.asked = claim.asks.take().unwrap_or(claim.asked);
        claim.last = if deadline == 0 { before } else { deadline };
        if deadline == 0 {
            self.note(|| format!("c{client} has no lock any more: {on}"));
            // A majority keeps the keys of a lease that lasts, so no answers can show that it is lost, unless nodes forget.
            let why = if may_end_sooner {
                Why::Limited
            } else {
                Why::Expired
            };
            return self.records(Some(hold), What::Lost(why));
        }
        self.note(|| {
            format!(
                "c{client} HAS {on} now to {}",
                Duration::from_nanos(until).as_secs_f64()
            )
        });
        if self.is_in_background() {
            self.count("renewed in the background");
        }
        if before <= shown && self.witness.told.contains_key(&id) {
            self.fail(format!(
                "c{client} was told that {on} is lost, and has it again"
            ));
        }
        if limit.is_some_and(|limit| until > limit) {
            self.fail(format!("c{client} has {on} for longer than max_hold"));
        }
        let is_limited = may_end_sooner;
        let end = until;
        self.records(Some(hold), What::Moves { end, is_limited });
        self.counts_company(id);
        self.check_claims();
    }

    pub(super) fn claim(&mut self, id: u64) -> Option<&mut Claim> {
        let mut claims = self.witness.guards.iter_mut();
        claims.find(|claim| claim.id == id)
    }

    pub(super) fn is_held(&self, id: u64) -> bool {
        let mut claims = self.witness.guards.iter();
        claims.any(|claim| claim.id == id && claim.until > self.now)
    }

    /// When the validity of a guard that is out ended, or ends.
    pub(super) fn end_of(&self, id: u64) -> Option<Nanos> {
        let mut claims = self.witness.guards.iter();
        claims.find(|claim| claim.id == id).map(|claim| claim.until)
    }

    /// A guard says that it is valid from now on: nobody else has had its lock since the first time, and its own call began at the
    /// second one, or later.
    fn claims(
        &mut self,
        id: u64,
        (client, on): (usize, &Access),
        (since, began): (Nanos, Nanos),
        guard: &LockGuard,
    ) {
        let now = self.now;
        let watch = guard.watch();
        let deadline = watch.deadline().as_nanos();
        let until = self.clients[client].clock.when(deadline);
        let span = Duration::from_nanos(until.saturating_sub(now));
        let number = self.witness.number(guard.token());
        self.note(|| format!("c{client} HOLDS {on} t{number} for {span:?}"));
        if self.is_over {
            return;
        }
        let hold = self.records_guard(guard, until);
        if self.is_over {
            return;
        }
        self.witness.guards.push(Claim {
            id,
            hold,
            client,
            on: on.clone(),
            token: guard.token().to_owned(),
            since,
            until,
            former: until,
            deadline,
            last: deadline,
            got: began,
            // Since when an earlier guard has had the lock is not known any more.
            asked: self.witness.began(guard.token()).min(began),
            asks: None,
            limit: None,
            may_end_sooner: false,
            watch,
        });
        self.counts_company(id);
        self.check_claims();
    }
}

impl World {
    /// A guard was returned. Returns the number by which the witness knows it.
    pub(crate) fn acquired(
        &self,
        client: usize,
        on: &Access,
        guard: &LockGuard,
        ttl: Duration,
    ) -> u64 {
        self.says_the_same(client, guard);
        let mut state = self.state();
        let now = state.now;
        state.witness.next += 1;
        state.count("taken");
        let id = state.witness.next;
        let began = state.begins((client, on), guard, ttl);
        state.claims(id, (client, on), (now, began), guard);
        state.is_given_with(guard.fencing_token());
        state.passes_nobody(client, on, guard.token());
        state.counts(on);
        id
    }

    /// A lock was handed on, and this guard is its next: the same claim again.
    pub(crate) fn adopted(&self, client: usize, handed: &Returned, guard: &LockGuard) {
        self.says_the_same(client, guard);
        let mut state = self.state();
        let Some(claim) = &handed.claim else {
            return;
        };
        state.witness.handed.remove(guard.token());
        // What its former client was told does not concern this one.
        state.witness.told.remove(&handed.id);
        state.witness.unlocked.remove(&handed.id);
        let (on, since) = (&claim.on, claim.since);
        let began = state.now;
        state.claims(handed.id, (client, on), (since, began), guard);
    }

    /// During a call, the guard may end before its validity does: it is given a limit, or handed on.
    pub(crate) fn may_end_sooner<T>(&self, id: u64, call: impl FnOnce() -> T) -> T {
        let may_end_sooner = |is_so| {
            if let Some(claim) = self.state().claim(id) {
                claim.may_end_sooner = is_so;
            }
        };
        may_end_sooner(true);
        let result = call();
        self.look_now();
        may_end_sooner(false);
        self.has_ended_by_its_limit(id);
        result
    }

    /// The lock was given a limit that had passed, so it has ended. No loss that is told from now on is too early.
    fn has_ended_by_its_limit(&self, id: u64) {
        let watch = self.state().claim(id).map(|claim| claim.watch.clone());
        let said = watch.and_then(|watch| self.as_witness(|| watch.wait_lost(Duration::ZERO)));
        let is_over = matches!(said, Some(LossCause::MaxHold { .. }));
        if let Some(claim) = self.state().claim(id).filter(|_| is_over) {
            claim.last = 0;
        }
    }

    /// The guard is never held for longer than that, counted from when the attempt began that got it.
    pub(crate) fn limit(&self, id: u64, max_hold: Duration) {
        let mut state = self.state();
        let Some(claim) = state.claim(id) else {
            return;
        };
        let (client, until, got) = (claim.client, claim.until, claim.got);
        let clock = state.clients[client].clock;
        let limit = clock.when(clock.shows(got) + nanos(max_hold));
        if let Some(claim) = state.claim(id) {
            claim.limit = Some(limit);
        }
        if until > limit {
            state.fail(format!("c{client} has a lock for longer than max_hold"));
        }
    }

    /// An extension has succeeded.
    pub(crate) fn extended(&self, id: u64, guard: &LockGuard) {
        self.look_now();
        let Some(client) = self.client_of(id) else {
            return;
        };
        self.says_the_same(client, guard);
        let end = self.state().end_of(id).map(Span::exactly);
        self.records(id, What::Extended(end));
        self.state().count("extended");
    }

    /// An extension has failed; the lock is as it was, or lost.
    pub(crate) fn not_extended(&self, id: u64, guard: &LockGuard, why: Why) {
        let Some(client) = self.client_of(id) else {
            return;
        };
        let mut state = self.state();
        // A renewal in the background was noticed at the end of its step.
        let claim = state.witness.guards.iter().find(|claim| claim.id == id);
        let is_longer = claim.is_some_and(|c| c.watch.deadline().as_nanos() > c.deadline);
        state.require(!is_longer, || {
            format!("c{client} failed to extend its lock and has it for longer")
        });
        state.look_at_claims();
        drop(state);
        self.records(id, What::NotExtended(why));
        self.says_the_same(client, guard);
    }

    pub(crate) fn broken_promise(&self, what: String) {
        let mut state = self.state();
        if !state.is_over {
            state.fail(what);
        }
    }

    /// Looks at the guards in the middle of a step.
    pub(crate) fn look_now(&self) {
        self.state().look_at_claims();
    }

    fn client_of(&self, id: u64) -> Option<usize> {
        let state = self.state();
        let claim = state.witness.guards.iter().find(|claim| claim.id == id)?;
        (!state.is_over).then_some(claim.client)
    }

    /// What a program can ask agrees with what the witness looks at, at one moment.
    pub(crate) fn says_the_same(&self, client: usize, guard: &LockGuard) {
        let watch = guard.watch();
        let (own, others) = self.as_witness(|| (guard.remaining(), watch.remaining()));
        // To check a lock that has ended notes that it is lost; a program does that when it likes, and the witness never.
        let says_no =
            !own.is_zero() && self.as_witness(|| guard.check().is_err() || watch.check().is_err());
        let mut state = self.state();
        let shown = state.clients[client].clock.shows(state.now);
        let left = watch.deadline().as_nanos().saturating_sub(shown);
        let truth = Duration::from_nanos(left);
        if (own, others, says_no) != (truth, truth, false) && !state.is_over {
            state.fail(format!(
                "c{client} is told {own:?} by its guard and {others:?} by a watch, and it is {truth:?}"
            ));
        }
    }
}
