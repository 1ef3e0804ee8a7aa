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

/// For how long at most a lock is renewed in the background, and how much before its end it is lost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keep {
    pub(crate) limit: Option<Duration>,
    pub(crate) margin: Duration,
}

impl Keep {
    pub(crate) fn alive(self) -> KeepAlive {
        let limit = self.limit;
        let keep_alive = limit.map_or_else(KeepAlive::unbounded, KeepAlive::max_hold);
        keep_alive.margin(self.margin)
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
        // The two kinds of requests have nothing in common but the names of their setters.
        macro_rules! wished {
            ($request:expr) => {{
                let mut request = $request.ttl(self.ttl);
                if let Some(label) = &self.label {
                    request = request.holder(label);
                }
                if let Some(span) = self.at_least.filter(|_| way != Way::Read) {
                    request = request.at_least(span);
                }
                if let Some(keep) = self.keep {
                    request = request.keep_alive(keep.alive());
                }
                request
            }};
        }
        if matches!(way, Way::Read | Way::Write) {
            let lock = wished!(manager.rw_lock(&names[0]));
            return match (way, self.waits) {
                (Way::Read, Waits::Once) => lock.try_read(),
                (Way::Read, Waits::AsUsual) => lock.read(),
                (Way::Read, Waits::For(time)) => lock.try_read_for(time),
                (_, Waits::Once) => lock.try_write(),
                (_, Waits::AsUsual) => lock.write(),
                (_, Waits::For(time)) => lock.try_write_for(time),
            };
        }
        let request = wished!(match way {
            Way::All => manager.request_all(names.iter().rev()),
            Way::Permit => manager.semaphore(&names[0], permits),
            Way::Lock | Way::Write | Way::Read => manager.request(&names[0]),
        });
        match self.waits {
            Waits::Once => request.try_lock(),
            Waits::AsUsual => request.lock(),
            Waits::For(time) => request.try_lock_for(time),
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
