//! A call for a lock of any kind, with the options that all kinds have.

use std::time::Duration;

use redlatch::{Cancel, Error, KeepAlive, LockGuard, LockRequest, RwLock};

#[derive(Clone)]
pub(crate) enum Call<'m> {
    Lock(LockRequest<'m>),
    Read(RwLock<'m>),
    Write(RwLock<'m>),
}

macro_rules! options {
    ($($name:ident: $value:ty),*) => {$(
        pub(crate) fn $name(self, value: $value) -> Self {
            match self {
                Self::Lock(request) => Self::Lock(request.$name(value)),
                Self::Read(lock) => Self::Read(lock.$name(value)),
                Self::Write(lock) => Self::Write(lock.$name(value)),
            }
        }
    )*};
}

impl Call<'_> {
    options!(ttl: Duration, at_least: Duration, keep_alive: KeepAlive, holder: &str, cancelled_by: &Cancel);

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
