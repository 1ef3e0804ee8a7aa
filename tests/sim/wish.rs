//! Calls for locks in every way, with their options.

use std::time::Duration;

use super::access::Access;
use super::client::Worker;
use super::keeping::Keeping;
use super::sharing::Way;
use super::witness::key;
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
        let call = || self.call((way, on), wish);
        self.world.while_asking_for(on, wish, call)
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
