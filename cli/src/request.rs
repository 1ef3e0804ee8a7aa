//! What `run` and `hold` ask for, and how: one name, a permit, several names at once, or a name together with other readers.

use std::fmt;
use std::iter;
use std::time::Duration;

use redlatch::{Cancel, Error, KeepAlive, LockGuard, LockManager, LockStatus};

use crate::arguments::{Lock, OnLoss, Run};
use crate::config::Config;
use crate::durations;
use crate::failure::Failure;
use crate::name::Name;
use crate::plan::Notice;

/// The time to live if none is given, unless `max_ttl` or `max_hold` is shorter.
pub(crate) const TTL: Duration = Duration::from_secs(30);

/// How much longer than the ttl to wait where nothing is said. A holder that was killed leaves its keys for a ttl. Who
/// waits for less gives up although nobody has the lock any more, and a job that is started once a day is skipped.
const BEYOND_TTL: Duration = Duration::from_secs(10);

/// How many of several names a message has.
const MOST_SHOWN: usize = 3;

/// Which lock to acquire, and how: a permit, or a shared lock, or several names, and never two of these, because the command
/// line refuses it. It is shown as it stands in messages.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) manager: &'a LockManager,
    pub(crate) lock: &'a Lock,
    /// Whether it is locked together with others who share it.
    is_shared: bool,
    /// Names that are locked beside it.
    pub(crate) also: &'a [Name],
    pub(crate) ttl: Duration,
    /// How much time what relies on the lock has to end.
    pub(crate) notice: Notice,
    node_timeout: Duration,
    max_hold: Option<Duration>,
    /// Whether the ttl was not given, and is `max_hold` because that is shorter than the default.
    pub(crate) ttl_is_max_hold: bool,
    /// For how long nobody else may have the lock.
    at_least: Option<Duration>,
    /// None means one attempt.
    pub(crate) wait: Option<Duration>,
}

impl<'a> Request<'a> {
    /// The defaults are those of the configuration, else those of this program.
    pub(crate) fn new(
        lock: &'a Lock,
        config: &Config,
        manager: &'a LockManager,
    ) -> Result<Self, Failure> {
        let (given, max_hold) = (lock.ttl.or(config.ttl), lock.max_hold.or(config.max_hold));
        let ttl = choose_ttl(given, max_hold, default_ttl(config))?;
        let unsaid = ttl.saturating_add(BEYOND_TTL);
        let node_timeout = config.node_timeout.unwrap_or_default();
        Ok(Self {
            manager,
            lock,
            is_shared: false,
            also: &[],
            ttl,
            notice: Notice::of(OnLoss::Term, None, ttl, node_timeout),
            node_timeout,
            max_hold,
            ttl_is_max_hold: given.is_none() && max_hold == Some(ttl),
            at_least: None,
            wait: (!lock.no_wait).then(|| lock.wait.or(config.wait).unwrap_or(unsaid)),
        })
    }

    /// The same, with what `run` alone may ask for.
    pub(crate) fn of(self, run: &'a Run) -> Result<Self, Failure> {
        let request = Self {
            is_shared: run.shared,
            also: &run.also,
            at_least: run.at_least,
            notice: Notice::of(run.on_loss, run.grace, self.ttl, self.node_timeout),
            ..self
        };
        let is_broken = |name: &&Name| name.as_str().contains(['\n', '\r']);
        match request.names().find(is_broken) {
            Some(name) if !run.also.is_empty() => Err(Failure::usage(format!(
                "the name {name} can't be used with --also, because REDLATCH_RESOURCES has a name a line; choose one \
                 without a line break"
            ))),
            _ => Ok(request),
        }
    }

    /// Calls the library, which waits for so long. The lock is renewed from then on.
    pub(crate) fn call(&self, wait: Option<Duration>, cancel: &Cancel) -> Result<LockGuard, Error> {
        let (manager, name) = (self.manager, self.lock.name.as_str());
        let keep_alive = self.max_hold;
        let keep_alive = keep_alive.map_or_else(KeepAlive::unbounded, KeepAlive::max_hold);
        let keep_alive = keep_alive.margin(self.notice.margin);
        if self.is_shared {
            let request = manager.rw_lock(name).ttl(self.ttl).keep_alive(keep_alive);
            let request = request.cancelled_by(cancel);
            return wait.map_or_else(|| request.try_read(), |wait| request.try_read_for(wait));
        }
        let mut request = match self.lock.max {
            Some(permits) => manager.semaphore(name, permits),
            None if self.also.is_empty() => manager.request(name),
            None => manager.request_all(self.names().map(Name::as_str)),
        };
        if let Some(minimum) = self.at_least {
            request = request.at_least(minimum);
        }
        let request = request.ttl(self.ttl).keep_alive(keep_alive);
        let request = request.cancelled_by(cancel);
        wait.map_or_else(|| request.try_lock(), |wait| request.try_lock_for(wait))
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &'a Name> + Clone {
        iter::once(&self.lock.name).chain(self.also)
    }

    /// The status of the lock; of several, that of the first that another holder has.
    pub(crate) fn status(&self) -> (&'a Name, Result<LockStatus, Error>) {
        let look = |name: &'a Name| (name, self.manager.status(name.as_str()));
        let mut in_the_way = self.names().map(look);
        in_the_way
            .find(|(_, status)| !matches!(status, Ok(LockStatus::Free { .. })))
            .unwrap_or_else(|| look(&self.lock.name))
    }
}

/// Returns the ttl of a lock for which the user gave no ttl.
pub(crate) fn default_ttl(config: &Config) -> Duration {
    let longest = config.max_ttl.unwrap_or(TTL);
    config.ttl.unwrap_or(longest.min(TTL))
}

fn choose_ttl(
    ttl: Option<Duration>,
    max_hold: Option<Duration>,
    default: Duration,
) -> Result<Duration, Failure> {
    let longest = max_hold.unwrap_or(Duration::MAX);
    let chosen = ttl.unwrap_or_else(|| default.min(longest));
    if chosen <= longest {
        return Ok(chosen);
    }
    Err(Failure::usage(format!(
        "--max-hold {} is shorter than --ttl {}; leave --ttl out, or ask for no more than --max-hold",
        durations::exact(longest),
        durations::exact(chosen)
    )))
}

impl fmt::Display for Request<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.names().take(MOST_SHOWN).map(Name::to_string).collect();
        f.write_str(&names.join(", "))?;
        match self.names().count().saturating_sub(MOST_SHOWN) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}
