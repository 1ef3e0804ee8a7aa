//! What the library is asked for, and the thread that asks.

use std::sync::mpsc::Sender;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use redlatch::{Cancel, Error, KeepAlive, LockGuard, LockManager};

use crate::arguments::Lock;
use crate::config::Config;
use crate::event::Event;
use crate::failure::{Failure, no_system};
use crate::hold_time::HoldTime;
use crate::wanted::{Kind, Wanted};

/// How much longer than the ttl to wait where nothing is said. A holder that was killed leaves its keys for a ttl. Who
/// waits for less gives up although nobody has the lock any more, and a job that is started once a day is skipped.
const BEYOND_TTL: Duration = Duration::from_secs(10);

/// Which lock to acquire, and how.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) manager: &'a LockManager,
    pub(crate) wanted: Wanted<'a>,
    pub(crate) hold_time: HoldTime,
    /// For how long nobody else may have the lock.
    pub(crate) at_least: Option<Duration>,
    /// None means one attempt.
    pub(crate) wait: Option<Duration>,
    /// Whether it is no news that another holder has the lock.
    pub(crate) is_quiet: bool,
    pub(crate) held_code: u8,
}

/// The thread that waits for the lock.
pub(crate) type Caller = JoinHandle<Result<LockGuard, Error>>;

/// Sends an event when the call has ended, also after a panic.
struct Announced(Sender<Event>);

impl Drop for Announced {
    fn drop(&mut self) {
        // The receiver lives as long as this process.
        self.0.send(Event::Answered).ok();
    }
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
            wanted: Wanted::one(&lock.name, lock.max),
            hold_time,
            at_least: None,
            wait: (!lock.no_wait).then(|| lock.wait.or(config.wait).unwrap_or(unsaid)),
            is_quiet: lock.quiet,
            held_code: lock.conflict_exit_code,
        })
    }

    /// Calls the library on a thread, which sends an event when the call has ended. The lock is renewed from then on.
    pub(crate) fn call(&self, cancel: &Cancel, events: Sender<Event>) -> Result<Caller, Failure> {
        let asked = Asked {
            names: self
                .wanted
                .names()
                .map(|name| name.as_str().to_owned())
                .collect(),
            permits: self.wanted.permits(),
            hold_time: self.hold_time,
            at_least: self.at_least,
            wait: self.wait,
            cancel: cancel.clone(),
        };
        let is_shared = matches!(self.wanted.kind, Kind::Shared);
        let manager = self.manager.clone();
        let call = move || {
            let _end = Announced(events);
            if is_shared {
                asked.to_read(&manager)
            } else {
                asked.to_lock(&manager)
            }
        };
        let thread = thread::Builder::new().name("waiting".into());
        thread
            .spawn(call)
            .map_err(|error| no_system("thread", &error))
    }
}

/// What the library is asked for, on the thread that waits.
struct Asked {
    /// One at least.
    names: Vec<String>,
    permits: Option<u32>,
    hold_time: HoldTime,
    at_least: Option<Duration>,
    wait: Option<Duration>,
    cancel: Cancel,
}

impl Asked {
    fn to_lock(&self, manager: &LockManager) -> Result<LockGuard, Error> {
        let request = match (self.names.as_slice(), self.permits) {
            ([name], Some(permits)) => manager.semaphore(name, permits),
            ([name], None) => manager.request(name),
            (names, _) => manager.request_all(names),
        };
        let request = request
            .ttl(self.hold_time.ttl)
            .keep_alive(self.keep_alive());
        let request = request.cancelled_by(&self.cancel);
        let request = match self.at_least {
            Some(minimum) => request.at_least(minimum),
            None => request,
        };
        match self.wait {
            Some(wait) => request.try_lock_for(wait),
            None => request.try_lock(),
        }
    }

    fn to_read(&self, manager: &LockManager) -> Result<LockGuard, Error> {
        let name = self.names.first().map_or("", String::as_str);
        let request = manager.rw_lock(name).ttl(self.hold_time.ttl);
        let request = request
            .keep_alive(self.keep_alive())
            .cancelled_by(&self.cancel);
        match self.wait {
            Some(wait) => request.try_read_for(wait),
            None => request.try_read(),
        }
    }

    fn keep_alive(&self) -> KeepAlive {
        let max_hold = self.hold_time.max_hold;
        max_hold.map_or(KeepAlive::unbounded(), KeepAlive::max_hold)
    }
}
