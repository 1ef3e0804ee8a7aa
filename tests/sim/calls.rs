//! Calls for locks in every way, with their options. Each ends in its time: whatever its thread waits for, nobody waits for it in turn.

use std::time::Duration;

use super::access::Access;
use super::asking::Asked;
use super::client::Worker;
use super::clocks::{MILLI, Nanos};
use super::history::why;
use super::keeping::Keeping;
use super::plan::{Plan, nanos};
use super::sharing::Way;
use super::witness::key;
use super::world::World;
use crate::{Error, LockGuard, LockRequest, RwLock};

/// What a call says beside what it wants.
pub(super) struct Wish {
    pub(super) ttl: Duration,
    pub(super) timeout: Duration,
    pub(super) keeping: Option<Keeping>,
    pub(super) minimum: Option<Duration>,
    pub(super) label: Option<String>,
}

impl Wish {
    pub(super) fn new(ttl: Duration, timeout: Duration) -> Self {
        Self {
            ttl,
            timeout,
            keeping: None,
            minimum: None,
            label: None,
        }
    }

    fn of_lock<'a>(&self, request: LockRequest<'a>) -> LockRequest<'a> {
        let mut request = request.ttl(self.ttl);
        if let Some(keeping) = self.keeping {
            request = request.keep_alive(keeping.keep_alive);
        }
        if let Some(minimum) = self.minimum {
            request = request.at_least(minimum);
        }
        if let Some(label) = &self.label {
            request = request.holder(label);
        }
        request
    }
}

impl Worker {
    /// Calls for a lock, and the witness minds when the call ends.
    pub(super) fn ask(&self, (way, on): (Way, &Access), wish: &Wish) -> Result<LockGuard, Error> {
        let call = || Some(self.call((way, on), wish));
        self.world.while_asking_for(on, wish, call).unwrap()
    }

    fn of_rw_lock<'a>(&'a self, wish: &Wish, name: &'a str) -> RwLock<'a> {
        let mut request = self.manager.rw_lock(name).ttl(wish.ttl);
        if let Some(keeping) = wish.keeping {
            request = request.keep_alive(keeping.keep_alive);
        }
        if let Some(minimum) = wish.minimum {
            request = request.at_least(minimum);
        }
        if let Some(label) = &wish.label {
            request = request.holder(label);
        }
        request
    }

    pub(super) fn call(&self, (way, on): (Way, &Access), wish: &Wish) -> Result<LockGuard, Error> {
        let names: Vec<String> = on
            .resources()
            .iter()
            .map(|resource| key(*resource))
            .collect();
        let (manager, timeout) = (&self.manager, wish.timeout);
        let lock = |request| wish.of_lock(request).try_lock_for(timeout);
        match way {
            Way::Lock => lock(self.plan.request(self.id, manager, &names[0])),
            Way::All => lock(manager.request_all(&names)),
            Way::Read => self.of_rw_lock(wish, &names[0]).try_read_for(timeout),
            Way::Write => self.of_rw_lock(wish, &names[0]).try_write_for(timeout),
        }
    }
}

impl Plan {
    /// By how much a call may be late whose time is over: the attempt that is under way goes on to its end, with its
    /// release, and so does the last one. Each command takes two node timeouts and a connection at most.
    fn lateness(&self, timeout: Duration) -> Nanos {
        let nodes = u64::try_from(self.nodes).unwrap();
        let attempts = 4 * 3 * nodes * nanos(self.node_timeout);
        // The clocks of clients go at rates of their own.
        attempts + nanos(timeout) / 100 + 50 * MILLI
    }
}

impl World {
    /// Calls for a lock. The witness demands that the call ends within this time.
    pub(super) fn while_asking_for(
        &self,
        on: &Access,
        wish: &Wish,
        call: impl FnOnce() -> Asked,
    ) -> Asked {
        let timeout = wish.timeout;
        let state = self.state();
        let (client, began) = (state.client(), state.now);
        drop(state);
        let result = self.while_asking(on, wish.ttl, call);
        let mut state = self.state();
        let still = state.clients[client].stood_still_in(&(began..state.now));
        let allowed = nanos(timeout) + state.plan.lateness(timeout) + still;
        let took = state.now - began;
        if took > allowed && !state.is_over {
            let (took, allowed) = (Duration::from_nanos(took), Duration::from_nanos(allowed));
            state.fail(format!(
                "c{client} asked for {on} for {took:?}, and was to have an answer within {allowed:?}"
            ));
        }
        result
    }
}

impl Worker {
    pub(super) fn refused(&self, error: &Error) {
        let mut state = self.world.state();
        state.count("refused");
        state.count(outcome(error));
        let id = self.id;
        state.note(|| format!("c{id} does not get it: {error}"));
        drop(state);
        if !error.is_transient() || matches!(error, Error::NotALock { .. }) {
            self.world
                .broken_promise(format!("c{id} got an error that makes no sense: {error}"));
        }
    }

    pub(super) fn was_extended(&self, claim: u64, guard: &LockGuard, result: Result<(), Error>) {
        let Err(error) = result else {
            return self.world.extended(claim, guard);
        };
        let (id, mut state) = (self.id, self.world.state());
        let is_lost = matches!(error, Error::Lost { .. });
        state.count(if is_lost {
            "extension: lost"
        } else {
            "extension: not told"
        });
        state.note(|| format!("c{id} can't extend: {error}"));
        drop(state);
        self.world.not_extended(claim, guard, why(&error));
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
