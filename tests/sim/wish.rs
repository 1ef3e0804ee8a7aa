//! A call for a lock of any kind, and what the judge is told of its error. The soak has it as well.

use std::time::Duration;

use redlatch_history::{Way, Why};

use super::{Error, KeepAlive, LockGuard, LockManager, LossCause};

/// How long a call waits.
#[derive(Clone, Copy)]
pub(crate) enum Waits {
    Once,
    AsUsual,
    For(Duration),
}

/// For how long at most a lock is renewed in the background.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keep {
    pub(crate) limit: Option<Duration>,
}

impl Keep {
    pub(crate) fn alive(self) -> KeepAlive {
        self.limit
            .map_or_else(KeepAlive::unbounded, KeepAlive::max_hold)
    }
}

/// What is asked for beside the lock.
pub(crate) struct Wish {
    pub(crate) ttl: Duration,
    pub(crate) waits: Waits,
    pub(crate) keep: Option<Keep>,
    /// For how long it is held at least. A reader has no minimum.
    pub(crate) at_least: Option<Duration>,
    pub(crate) label: Option<String>,
}

impl Wish {
    /// Nothing beside the lock.
    pub(crate) fn new(ttl: Duration, waits: Waits) -> Self {
        Self {
            ttl,
            waits,
            keep: None,
            at_least: None,
            label: None,
        }
    }

    /// Asks for a lock on the first of these names, or on all of them; or for one of so many permits.
    pub(crate) fn ask(
        &self,
        manager: &LockManager,
        way: Way,
        names: &[String],
        permits: u32,
    ) -> Result<LockGuard, Error> {
        let mut shared = manager.rw_lock(&names[0]).ttl(self.ttl);
        let mut request = match way {
            Way::All => manager.request_all(names.iter().rev()),
            Way::Permit => manager.semaphore(&names[0], permits),
            Way::Lock | Way::Write | Way::Read => manager.request(&names[0]),
        }
        .ttl(self.ttl);
        if let Some(label) = &self.label {
            (shared, request) = (shared.holder(label), request.holder(label));
        }
        if let Some(span) = self.at_least.filter(|_| way != Way::Read) {
            (shared, request) = (shared.at_least(span), request.at_least(span));
        }
        if let Some(keep) = self.keep.map(Keep::alive) {
            (shared, request) = (shared.keep_alive(keep), request.keep_alive(keep));
        }
        match (way, self.waits) {
            (Way::Write, Waits::Once) => shared.try_write(),
            (Way::Write, Waits::AsUsual) => shared.write(),
            (Way::Write, Waits::For(time)) => shared.try_write_for(time),
            (Way::Read, Waits::Once) => shared.try_read(),
            (Way::Read, Waits::AsUsual) => shared.read(),
            (Way::Read, Waits::For(time)) => shared.try_read_for(time),
            (_, Waits::Once) => request.try_lock(),
            (_, Waits::AsUsual) => request.lock(),
            (_, Waits::For(time)) => request.try_lock_for(time),
        }
    }
}

pub(crate) fn why(error: &Error) -> Why {
    if let Error::Lost { cause, .. } = error {
        why_lost(cause)
    } else if matches!(error, Error::Held { .. }) {
        Why::Held
    } else {
        Why::Unknown
    }
}

/// Unknown is the cause of a guard that was given back, which is no loss.
pub(crate) fn why_lost(cause: &LossCause) -> Why {
    if matches!(
        cause,
        LossCause::Expired { .. } | LossCause::Unreachable { .. }
    ) {
        Why::Expired
    } else if matches!(cause, LossCause::Taken { .. } | LossCause::Vanished { .. }) {
        Why::Gone
    } else if matches!(cause, LossCause::MaxHold { .. }) {
        Why::Limited
    } else {
        Why::Unknown
    }
}
