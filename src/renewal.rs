//! Keep-alive: what the background threads do for held locks.

use std::sync::Arc;
use std::time::Duration;

use super::LockManager;
use crate::clock::Timestamp;
use crate::error::{Error, LossCause};
use crate::foreign::in_any_case;
use crate::guard::held::{Held, Purpose};
use crate::keep_alive::{FEWEST_TIMEOUTS, FEWEST_VALID_TIMEOUTS, KeepAlive, LONGEST_HEAD_START};
use crate::keeper::Wake;

impl LockManager {
    /// Refuses a keep-alive that could not work. Returns the ttl in whole milliseconds, and how long that is valid.
    pub(crate) fn checked_keep_alive(
        &self,
        ttl: Duration,
        keep_alive: KeepAlive,
    ) -> Result<(Duration, Duration), Error> {
        if self.is_forked() {
            return Err(Error::Forked);
        }
        let (whole, validity) = self.validity(ttl)?;
        let refuse = |reason| Err(Error::InvalidTtl { ttl, reason });
        let node_timeout = self.shared.options.node_timeout;
        let least = node_timeout.saturating_mul(FEWEST_TIMEOUTS);
        if ttl < least {
            return refuse(format!(
                "with keep-alive it must be at least {FEWEST_TIMEOUTS} node timeouts, {least:?}; ask for more or set a \
                 shorter node_timeout"
            ));
        }
        if let Some(limit) = keep_alive.limit()
            && limit < ttl
        {
            return refuse(format!(
                "max_hold is shorter, {limit:?}; ask for a ttl of at most that"
            ));
        }
        let least = node_timeout.saturating_mul(FEWEST_VALID_TIMEOUTS);
        if validity < least {
            return refuse(format!(
                "with keep-alive {FEWEST_VALID_TIMEOUTS} node timeouts, {least:?}, must be left when the drift is taken \
                 off; ask for more or set a smaller drift_factor"
            ));
        }
        self.start(Purpose::Renew)?;
        Ok((whole, validity))
    }

    /// Starts the thread for something, if it is not there.
    pub(crate) fn start(&self, purpose: Purpose) -> Result<(), Error> {
        let started = self.shared.keeper.line(purpose).start(self.clock());
        let no_thread = |source| Error::NoThread {
            source: Arc::new(source),
        };
        started.map(|_| ()).map_err(no_thread)
    }

    /// Has a lock renewed at that time, and from then on.
    pub(crate) fn keep(&self, held: &Arc<Held>, due: Timestamp) {
        self.queue(Purpose::Renew, held, due);
        // With max_hold, the end may have come nearer.
        self.watch(held);
    }

    /// Has the hooks of a lock called when it is lost.
    pub(crate) fn watch(&self, held: &Arc<Held>) {
        self.queue(Purpose::Watch, held, held.told_at());
    }

    /// Ends what is done for a lock in the background.
    pub(crate) fn forget(&self, held: &Held) {
        self.shared.keeper.line(Purpose::Renew).remove(held);
        self.shared.keeper.line(Purpose::Watch).remove(held);
    }

    pub(super) fn queue(&self, purpose: Purpose, held: &Arc<Held>, at: Timestamp) {
        if let Some(wake) = self.shared.keeper.line(purpose).put(held, at) {
            self.arm(purpose, wake);
        }
    }

    fn arm(&self, purpose: Purpose, wake: Wake) {
        // Without a thread nothing is waited for.
        let Some(timers) = self.shared.keeper.line(purpose).timers() else {
            return;
        };
        let delay = wake.at.saturating_since(self.clock().now());
        let shared = Arc::downgrade(&self.shared);
        timers.punctually_after(delay, move || {
            let Some(shared) = shared.upgrade() else {
                return;
            };
            let manager = Self { shared, user: None };
            let lost = manager.wake(purpose, wake);
            // A hook that takes long must not keep the manager.
            drop(manager);
            for (held, cause) in lost {
                while let Some(hook) = held.next_hook() {
                    in_any_case(|| hook(cause.clone()));
                }
            }
        });
    }

    /// Does what is due. Returns the locks whose hooks are to be called.
    fn wake(&self, purpose: Purpose, wake: Wake) -> Vec<(Arc<Held>, LossCause)> {
        let line = self.shared.keeper.line(purpose);
        if !line.is_current(wake) {
            return Vec::new();
        }
        let now = self.clock().now();
        if now < wake.at {
            self.arm(purpose, wake);
            return Vec::new();
        }
        let mut lost = Vec::new();
        match purpose {
            Purpose::Renew => self.renew_all(self.take_due(LONGEST_HEAD_START)),
            Purpose::Watch => {
                for held in line.take_due(now, Duration::ZERO, |_| Duration::ZERO) {
                    match held.told(now) {
                        Some(cause) => lost.push((held, cause)),
                        None => self.watch(&held),
                    }
                }
            }
        }
        if let Some(next) = line.next_wake() {
            self.arm(purpose, next);
        }
        lost
    }

    /// Takes the locks that are to be renewed by now, and those that may as well be: each by its head start, and `at_most` so
    /// much sooner.
    pub(super) fn take_due(&self, at_most: Duration) -> Vec<Arc<Held>> {
        let line = self.shared.keeper.line(Purpose::Renew);
        let soon = |held: &Held| {
            let renewal = held.renewal();
            renewal.map_or(Duration::ZERO, |renewal| renewal.head_start().min(at_most))
        };
        line.take_due(self.clock().now(), at_most, soon)
    }
}
