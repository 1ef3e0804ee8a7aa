//! Keep-alive: what the background threads do for held locks.

use std::sync::Arc;
use std::time::Duration;

use super::LockManager;
use crate::clock::Timestamp;
use crate::error::Error;
use crate::guard::held::{Held, Purpose};
use crate::keep_alive::{FEWEST_TIMEOUTS, KeepAlive, LONGEST_HEAD_START};
use crate::keeper::{Wake, in_any_case};

impl LockManager {
    /// Refuses a keep-alive that could not work. Returns the ttl in whole milliseconds.
    pub(crate) fn checked_keep_alive(
        &self,
        ttl: Duration,
        keep_alive: KeepAlive,
    ) -> Result<Duration, Error> {
        let (whole, _) = self.validity(ttl)?;
        let refuse = |reason| Err(Error::InvalidTtl { ttl, reason });
        let least = self
            .shared
            .options
            .node_timeout
            .saturating_mul(FEWEST_TIMEOUTS);
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
        Ok(whole)
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
        let delay = wake.at.saturating_since(self.clock().now());
        let shared = Arc::downgrade(&self.shared);
        let timers = self.shared.keeper.line(purpose).timers(self.clock());
        timers.punctually_after(delay, move || {
            // The thread must not keep the manager.
            if let Some(shared) = shared.upgrade() {
                Self { shared }.wake(purpose, wake);
            }
        });
    }

    fn wake(&self, purpose: Purpose, wake: Wake) {
        let line = self.shared.keeper.line(purpose);
        if !line.is_current(wake) {
            return;
        }
        let now = self.clock().now();
        if now < wake.at {
            return self.arm(purpose, wake);
        }
        match purpose {
            Purpose::Renew => {
                let soon = |held: &Held| held.renewal().map_or(Duration::ZERO, |r| r.head_start());
                self.renew_all(&line.take_due(now, LONGEST_HEAD_START, soon));
            }
            Purpose::Watch => {
                for held in line.take_due(now, Duration::ZERO, |_| Duration::ZERO) {
                    self.tell_of_loss(&held, now);
                }
            }
        }
        if let Some(next) = line.next_wake() {
            self.arm(purpose, next);
        }
    }

    /// Calls the hooks of a lock if it is lost; else it waits on.
    fn tell_of_loss(&self, held: &Arc<Held>, now: Timestamp) {
        let Some((hooks, cause)) = held.take_hooks(now) else {
            return self.watch(held);
        };
        for hook in hooks {
            let cause = cause.clone();
            in_any_case(|| hook(cause));
        }
    }
}
