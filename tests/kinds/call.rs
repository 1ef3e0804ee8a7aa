//! A call for a lock of any kind, with the options that all kinds have.

use std::time::Duration;

use redlatch::{Cancel, Error, KeepAlive, LockGuard, LockRequest, RwLock};

#[derive(Clone)]
pub(crate) enum Call<'m> {
    Lock(LockRequest<'m>),
    Read(RwLock<'m>),
    Write(RwLock<'m>),
}

impl<'m> Call<'m> {
    fn map(
        self,
        request: impl FnOnce(LockRequest<'m>) -> LockRequest<'m>,
        lock: impl FnOnce(RwLock<'m>) -> RwLock<'m>,
    ) -> Self {
        match self {
            Self::Lock(plain) => Self::Lock(request(plain)),
            Self::Read(read) => Self::Read(lock(read)),
            Self::Write(write) => Self::Write(lock(write)),
        }
    }

    pub(crate) fn ttl(self, ttl: Duration) -> Self {
        self.map(|request| request.ttl(ttl), |lock| lock.ttl(ttl))
    }

    pub(crate) fn keep_alive(self, keep: KeepAlive) -> Self {
        self.map(
            |request| request.keep_alive(keep),
            |lock| lock.keep_alive(keep),
        )
    }

    pub(crate) fn at_least(self, minimum: Duration) -> Self {
        self.map(
            |request| request.at_least(minimum),
            |lock| lock.at_least(minimum),
        )
    }

    pub(crate) fn holder(self, label: &str) -> Self {
        self.map(|request| request.holder(label), |lock| lock.holder(label))
    }

    pub(crate) fn cancelled_by(self, cancel: &Cancel) -> Self {
        self.map(
            |request| request.cancelled_by(cancel),
            |lock| lock.cancelled_by(cancel),
        )
    }

    pub(crate) fn try_lock(&self) -> Result<LockGuard, Error> {
        match self {
            Self::Lock(request) => request.try_lock(),
            Self::Read(lock) => lock.try_read(),
            Self::Write(lock) => lock.try_write(),
        }
    }

    pub(crate) fn lock(&self) -> Result<LockGuard, Error> {
        match self {
            Self::Lock(request) => request.lock(),
            Self::Read(lock) => lock.read(),
            Self::Write(lock) => lock.write(),
        }
    }

    pub(crate) fn try_lock_for(&self, wait: Duration) -> Result<LockGuard, Error> {
        match self {
            Self::Lock(request) => request.try_lock_for(wait),
            Self::Read(lock) => lock.try_read_for(wait),
            Self::Write(lock) => lock.try_write_for(wait),
        }
    }
}
