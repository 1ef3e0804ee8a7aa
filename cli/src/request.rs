//! What the library is asked for, and how.

use std::time::Duration;

use redlatch::{Cancel, Error, KeepAlive, LockGuard, LockManager};

use crate::arguments::Lock;
use crate::claim::{Claim, Kind};
use crate::config::Config;
use crate::durations;
use crate::failure::Failure;
use crate::name::Name;

/// The time to live where none is given.
const TTL: Duration = Duration::from_secs(30);

/// How much longer than the ttl to wait where nothing is said. A holder that was killed leaves its keys for a ttl. Who
/// waits for less gives up although nobody has the lock any more, and a job that is started once a day is skipped.
const BEYOND_TTL: Duration = Duration::from_secs(10);

/// Which lock to acquire, and how.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) manager: &'a LockManager,
    pub(crate) claim: Claim<'a>,
    pub(crate) hold_time: HoldTime,
    /// For how long nobody else may have the lock.
    pub(crate) at_least: Option<Duration>,
    /// None means one attempt.
    pub(crate) wait: Option<Duration>,
    /// Whether it is no news that another holder has the lock.
    pub(crate) is_quiet: bool,
    pub(crate) held_code: u8,
}

impl<'a> Request<'a> {
    /// The defaults are those of the configuration, else those of this program.
    pub(crate) fn new(
        lock: &'a Lock,
        config: &Config,
        manager: &'a LockManager,
    ) -> Result<Self, Failure> {
        let hold_time =
            HoldTime::choose(lock.ttl.or(config.ttl), lock.max_hold.or(config.max_hold))?;
        let unsaid = hold_time.ttl.saturating_add(BEYOND_TTL);
        Ok(Self {
            manager,
            claim: Claim {
                name: &lock.name,
                kind: lock.max.map_or(Kind::Lock, Kind::Permit),
            },
            hold_time,
            at_least: None,
            wait: (!lock.no_wait).then(|| lock.wait.or(config.wait).unwrap_or(unsaid)),
            is_quiet: lock.quiet,
            held_code: lock.conflict_exit_code,
        })
    }

    /// Calls the library, which waits for so long. The lock is renewed from then on.
    pub(crate) fn call(&self, wait: Option<Duration>, cancel: &Cancel) -> Result<LockGuard, Error> {
        let (manager, ttl, name) = (self.manager, self.hold_time.ttl, self.claim.name.as_str());
        let max_hold = self.hold_time.max_hold;
        let keep_alive = max_hold.map_or(KeepAlive::unbounded(), KeepAlive::max_hold);
        let request = match self.claim.kind {
            Kind::Shared => {
                let request = manager.rw_lock(name).ttl(ttl).keep_alive(keep_alive);
                let request = request.cancelled_by(cancel);
                return wait.map_or_else(|| request.try_read(), |wait| request.try_read_for(wait));
            }
            Kind::Permit(permits) => manager.semaphore(name, permits),
            Kind::Lock => manager.request(name),
            Kind::Also(_) => {
                let names: Vec<&str> = self.claim.names().map(Name::as_str).collect();
                manager.request_all(&names)
            }
        };
        let request = request.ttl(ttl).keep_alive(keep_alive).cancelled_by(cancel);
        let request = match self.at_least {
            Some(minimum) => request.at_least(minimum),
            None => request,
        };
        wait.map_or_else(|| request.try_lock(), |wait| request.try_lock_for(wait))
    }
}

/// For how long the lock is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HoldTime {
    pub(crate) ttl: Duration,
    pub(crate) max_hold: Option<Duration>,
    /// Whether the ttl was not given, and is `max_hold` because that is shorter than the default.
    pub(crate) ttl_is_from_max_hold: bool,
}

impl HoldTime {
    /// Chooses the defaults.
    fn choose(ttl: Option<Duration>, max_hold: Option<Duration>) -> Result<Self, Failure> {
        let longest = max_hold.unwrap_or(TTL);
        let chosen = ttl.unwrap_or_else(|| TTL.min(longest));
        if max_hold.is_some_and(|max_hold| max_hold < chosen) {
            return Err(Failure::usage(format!(
                "--max-hold {} is shorter than --ttl {}; leave --ttl out, or ask for no more than --max-hold",
                durations::exact(longest),
                durations::exact(chosen)
            )));
        }
        Ok(Self {
            ttl: chosen,
            max_hold,
            ttl_is_from_max_hold: ttl.is_none() && max_hold == Some(chosen),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ttl_is_30_s_or_max_hold_if_that_is_shorter() {
        let seconds = |n: Option<u64>| n.map(Duration::from_secs);
        let choose = |ttl, max_hold| {
            let hold_time = HoldTime::choose(seconds(ttl), seconds(max_hold));
            hold_time
                .map(|hold_time| hold_time.ttl.as_secs())
                .map_err(|failure| failure.code)
        };
        for (ttl, max_hold, chosen) in [
            (None, None, Ok(30)),
            (None, Some(7200), Ok(30)),
            (None, Some(5), Ok(5)),
            (Some(60), None, Ok(60)),
            (Some(5), Some(5), Ok(5)),
            (Some(6), Some(5), Err(crate::failure::USAGE)),
        ] {
            assert_eq!(choose(ttl, max_hold), chosen);
        }
    }
}
