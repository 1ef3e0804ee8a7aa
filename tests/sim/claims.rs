//! What the guards of all clients say, looked at between any two steps, and compared with the truth.

use redlatch_history::{Says, Span};

use super::prelude::*;
use crate::LossCause;
use crate::guard::LockGuard;
use crate::lease::LeaseWatch;

/// A guard, and until which true time it says to be valid.
pub(super) struct Claim {
    pub(super) id: u64,
    /// Its number in the history.
    pub(super) hold: Call,
    pub(super) client: usize,
    pub(super) on: On,
    pub(super) token: String,
    pub(super) until: Nanos,
    /// Its value before the last change.
    pub(super) former: Nanos,
    /// The same as the guard has it: by its client's clock, and zero when the lock is lost.
    deadline: Nanos,
    /// Its value before the loss.
    last: Nanos,
    /// How much longer its validity lasts.
    pub(super) margin: Nanos,
    /// The latest time at which the attempt that got it may have begun, or the adoption.
    got: Nanos,
    /// When the time that it has now was asked for, or before.
    pub(super) asked: Nanos,
    /// When an extension was asked for since then.
    pub(super) asks: Option<Nanos>,
    /// When it has to end, whatever happens.
    limit: Option<Nanos>,
    may_end_sooner: bool,
    watch: LeaseWatch,
}

/// A guard that was given back.
pub(super) struct Returned {
    pub(super) id: u64,
    /// What it was on, and the end of its validity, also if it was ended before that.
    pub(super) claim: Option<(On, Nanos)>,
}

/// By how much sooner a loss may be told than the validity ends.
pub(super) const NOTICE: Nanos = MILLI;

impl State {
    /// Looks at the guards themselves, as often as anything may have changed.
    pub(super) fn look_at_claims(&mut self) {
        for i in 0..self.witness.guards.len() {
            let claim = &self.witness.guards[i];
            let deadline = claim.watch.deadline().as_nanos();
            if deadline != claim.deadline && !self.is_over {
                self.has_changed(i, deadline);
            }
        }
    }

    /// The validity of a guard was found to have changed during the step that has just ended.
    fn has_changed(&mut self, i: usize, deadline: Nanos) {
        let now = self.now;
        let claim = &mut self.witness.guards[i];
        let clock = self.clients[claim.client].clock;
        let shown = clock.shows(now);
        let (before, old) = (claim.deadline, claim.until);
        // A lock that is lost, or has reached its limit, has ended before or ends now.
        let until = if deadline <= shown {
            old.min(now)
        } else {
            clock.when(deadline)
        };
        (claim.deadline, claim.until, claim.former) = (deadline, until, old);
        claim.asked = claim.asks.take().unwrap_or(claim.asked);
        claim.last = if deadline == 0 { before } else { deadline };
        let (id, client, on) = (claim.id, claim.client, claim.on.clone());
        let (hold, limit, is_limited) = (claim.hold, claim.limit, claim.may_end_sooner);
        if deadline == 0 {
            self.note(|| format!("c{client} has no lock any more: {on}"));
            // A majority keeps the keys of a lease that lasts, so no answers can show that it is lost, unless nodes forget.
            let why = if is_limited {
                Why::Limited
            } else {
                Why::Expired
            };
            return self.records(Some(hold), What::Lost(why));
        }
        let end = Duration::from_nanos(until).as_secs_f64();
        self.note(|| format!("c{client} HAS {on} now to {end}"));
        if self.is_in_background() {
            self.count("renewed in the background");
        }
        if before <= shown && self.witness.told.contains_key(&id) {
            self.fail(format!(
                "P4: c{client} was told that {on} is lost, and has it again"
            ));
        }
        if limit.is_some_and(|limit| until > limit) {
            self.fail(format!("c{client} has {on} for longer than max_hold"));
        }
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
        self.end_of(id).is_some_and(|until| until > self.now)
    }

    /// The same, and looks at the guards in the middle of a step.
    pub(super) fn is_held_now(&mut self, id: u64) -> bool {
        self.look_at_claims();
        self.is_held(id)
    }

    pub(super) fn end_of(&self, id: u64) -> Option<Nanos> {
        let mut claims = self.witness.guards.iter();
        claims.find(|claim| claim.id == id).map(|claim| claim.until)
    }

    /// A guard says that it is valid from now on; its own call began then, or later.
    fn claims(&mut self, id: u64, (client, on): (usize, &On), began: Nanos, guard: &LockGuard) {
        let watch = guard.watch();
        let deadline = watch.deadline().as_nanos();
        let until = self.clients[client].clock.when(deadline);
        let span = Duration::from_nanos(until.saturating_sub(self.now));
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
            until,
            former: until,
            deadline,
            last: deadline,
            margin: 0,
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
    pub(super) fn acquired(&self, client: usize, on: &On, guard: &LockGuard, ttl: Duration) -> u64 {
        self.says_the_same(client, guard);
        let mut state = self.state();
        state.witness.next += 1;
        state.count("taken");
        let id = state.witness.next;
        let began = state.begins((client, on), guard, ttl);
        state.claims(id, (client, on), began, guard);
        state.is_given_with(guard.fencing_token());
        if on.is_read() {
            state.count("a read lock");
        } else if on.places.len() > 1 {
            state.count("several resources");
        }
        id
    }

    /// A lock was handed on, and this guard is its next: the same claim again.
    pub(super) fn adopted(&self, client: usize, handed: &Returned, guard: &LockGuard) {
        self.says_the_same(client, guard);
        let mut state = self.state();
        let Some((on, _)) = &handed.claim else {
            return;
        };
        state.witness.handed.remove(guard.token());
        // What its former client was told does not concern this one.
        state.witness.told.remove(&handed.id);
        let began = state.now;
        state.claims(handed.id, (client, on), began, guard);
    }

    /// During a call, the guard may end before its validity does: it is given a limit.
    pub(super) fn may_end_sooner<T>(&self, id: u64, call: impl FnOnce() -> T) -> T {
        let may_end_sooner = |is_so| {
            if let Some(claim) = self.state().claim(id) {
                claim.may_end_sooner = is_so;
            }
        };
        may_end_sooner(true);
        let result = call();
        self.state().look_at_claims();
        may_end_sooner(false);
        // A limit that had passed has ended the lock. No loss that is told from now on is too early.
        let watch = self.state().claim(id).map(|claim| claim.watch.clone());
        let said = watch.and_then(|watch| self.as_witness(|| watch.wait_lost(Duration::ZERO)));
        let is_over = matches!(said, Some(LossCause::MaxHold { .. }));
        if let Some(claim) = self.state().claim(id).filter(|_| is_over) {
            claim.last = 0;
        }
        result
    }

    /// The guard is never held for longer than that, counted from when the attempt began that got it.
    pub(super) fn limit(&self, id: u64, max_hold: Duration) {
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

    /// An extension has succeeded, or failed: then the lock is as it was, or lost.
    pub(super) fn extended(&self, held: &Held, result: Result<(), Why>) {
        let (id, guard) = (held.claim, &held.guard);
        let mut state = self.state();
        if result.is_ok() {
            state.look_at_claims();
        }
        if state.is_over {
            return;
        }
        let Some(claim) = state.claim(id) else {
            return;
        };
        let client = claim.client;
        // A renewal in the background was noticed at the end of its step.
        let is_longer = claim.watch.deadline().as_nanos() > claim.deadline;
        if let Err(why) = result {
            state.require(!is_longer, || {
                format!("P4: c{client} failed to extend its lock and has it for longer")
            });
            state.look_at_claims();
            drop(state);
            self.records(id, What::NotExtended(why));
            return self.says_the_same(client, guard);
        }
        drop(state);
        self.says_the_same(client, guard);
        let end = self.state().end_of(id).map(Span::exactly);
        self.records(id, What::Extended(end));
        self.state().count("extended");
    }

    /// What a program can ask agrees with what the witness looks at, at one moment.
    pub(super) fn says_the_same(&self, client: usize, guard: &LockGuard) {
        let watch = guard.watch();
        let (own, others) = self.as_witness(|| (guard.remaining(), watch.remaining()));
        // To check a lock that has ended notes that it is lost; a program does that when it likes, and the witness never.
        let says_no =
            !own.is_zero() && self.as_witness(|| guard.check().is_err() || watch.check().is_err());
        let mut state = self.state();
        let shown = state.clients[client].clock.shows(state.now);
        let truth = Duration::from_nanos(watch.deadline().as_nanos().saturating_sub(shown));
        if (own, others, says_no) != (truth, truth, false) {
            state.fail(format!(
                "c{client} is told {own:?} by its guard and {others:?} by a watch, and it is {truth:?}"
            ));
        }
    }

    /// Gives a guard back by a call. From now on it may end, and then it claims nothing any more, its hooks are not called, and each
    /// watch of it says so. The call returns what it says of the lock as well.
    pub(super) fn gives_back<T>(
        &self,
        Held {
            claim: id, guard, ..
        }: Held,
        call: impl FnOnce(LockGuard) -> (T, Says),
    ) -> (Returned, T) {
        let watch = guard.watch();
        let mut state = self.state();
        let client = state.client();
        state.look_at_claims();
        state.hooks_were_called_of(id);
        let is_over = state.is_over;
        let (mut hold, mut last) = (None, None);
        if let Some(claim) = state.claim(id).filter(|_| !is_over) {
            claim.may_end_sooner = true;
            let (on, end) = (claim.on.clone(), claim.last);
            hold = Some(claim.hold);
            state.note(|| format!("c{client} gives {on} back"));
            last = Some((on, state.clients[client].clock.when(end)));
            state.records(hold, What::Releases);
        }
        drop(state);
        let (result, says) = call(guard);
        let mut state = self.state();
        state.hooks_are_over(id);
        state.look_at_claims();
        let guards = &mut state.witness.guards;
        if let Some(i) = guards.iter().position(|claim| claim.id == id) {
            let claim = guards.remove(i);
            // It may have been renewed up to the moment at which it was ended.
            let clock = state.clients[client].clock;
            let end = clock.when(claim.last);
            if last.as_ref().is_some_and(|(_, until)| *until != end) {
                let is_limited = true;
                state.records(Some(claim.hold), What::Moves { end, is_limited });
            }
            if let Some((_, until)) = &mut last {
                *until = clock.when(claim.last + claim.margin);
            }
        }
        drop(state);
        let left = self.as_witness(|| watch.remaining());
        let check = self.as_witness(|| watch.check());
        if !left.is_zero() || !matches!(check, Err(Error::Lost { .. })) {
            self.fail(format!(
                "P2: c{client} gave a lock back, and has it for {left:?}"
            ));
        }
        if hold.is_some() {
            self.state().records(hold, What::Released(says));
        }
        (Returned { id, claim: last }, result)
    }
}
