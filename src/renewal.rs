//! Keep-alive: background threads renew locks, and call hooks when a lock is lost.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Timestamp;
use crate::cluster::Cluster;
use crate::error::{Error, LossCause};
use crate::lease::state::{Hooks, LeaseState};
use crate::quorum::Term;

mod agenda;
mod rounds;
mod schedule;

pub(crate) use self::agenda::Purpose;
use self::agenda::{Agendas, Wake};
pub use self::schedule::KeepAlive;
pub(crate) use self::schedule::due;
use self::schedule::{FEWEST_TIMEOUTS, FEWEST_VALID_TIMEOUTS, LONGEST_HEAD_START, longest_margin};

/// A lock whose hooks are called, and how it was lost, if it was.
type Watched = (Arc<LeaseState>, Option<LossCause>);

/// A cluster, and the background work for its locks. The threads hold it only while they work, so that they keep no
/// manager alive.
pub(crate) struct Keeper {
    pub(crate) cluster: Cluster,
    agendas: Agendas,
}

impl Keeper {
    pub(crate) fn new(cluster: Cluster) -> Arc<Self> {
        let agendas = Agendas::default();
        Arc::new(Self { cluster, agendas })
    }

    /// Refuses a keep-alive that can't work, and starts the thread for renewals.
    pub(crate) fn prepare(&self, ttl: Duration, keep_alive: KeepAlive) -> Result<Term, Error> {
        let cluster = self.cluster.refuse_fork()?;
        let term = cluster.options.term(ttl)?;
        let limit = keep_alive.limit().unwrap_or(Duration::MAX);
        let timeouts = |number| cluster.options.node_timeout.saturating_mul(number);
        let (least, left) = (timeouts(FEWEST_TIMEOUTS), timeouts(FEWEST_VALID_TIMEOUTS));
        let (margin, longest) = (keep_alive.margin, longest_margin(term, left));
        let reason = if ttl < least {
            format!(
                "{ttl:?} is too short: with keep-alive it must be at least {FEWEST_TIMEOUTS} node timeouts, {least:?}; ask for \
                 more or set a shorter node_timeout"
            )
        } else if limit < ttl {
            format!(
                "{ttl:?} is too long: max_hold is shorter, {limit:?}; ask for a ttl of at most that"
            )
        } else if term.validity < left {
            format!(
                "{ttl:?} is too short: with keep-alive {FEWEST_VALID_TIMEOUTS} node timeouts, {left:?}, must be left when the \
                 drift is taken off; ask for more or set a smaller drift_factor"
            )
        } else if margin > longest {
            let reason = format!(
                "{margin:?} is too long for a ttl of {:?}: renewals need time before it, so the longest is {} ms; ask for less \
                 or for a longer ttl",
                term.ttl,
                longest.as_millis()
            );
            return Err(Error::invalid("margin", reason));
        } else {
            self.start(Purpose::Renew)?;
            return Ok(term);
        };
        Err(Error::invalid("ttl", reason))
    }

    /// Starts the thread for this purpose, unless it runs.
    pub(crate) fn start(&self, purpose: Purpose) -> Result<(), Error> {
        let started = self.agendas.of(purpose).start(&self.cluster.clock);
        started.map_err(Error::no_thread)
    }

    /// Renews a lock from the time `due` on.
    pub(crate) fn keep(self: &Arc<Self>, lease: &Arc<LeaseState>, due: Timestamp) {
        self.plan(Purpose::Renew, lease, |_| due);
        // max_hold may have moved the end of the lock to an earlier time.
        self.watch(lease);
    }

    /// Calls the hooks of a lock when it is lost, and those for which there is news.
    pub(crate) fn watch(self: &Arc<Self>, lease: &Arc<LeaseState>) {
        self.plan(Purpose::Watch, lease, LeaseState::hooks_due_at);
    }

    /// Tells the hooks of a lock that somebody waits for it.
    pub(crate) fn tell_wanted(self: &Arc<Self>, lease: &Arc<LeaseState>) {
        lease.hooks(Hooks::mark_wishes_due);
        self.tell_news(lease);
    }

    /// Calls the hooks for which there is news.
    fn tell_news(self: &Arc<Self>, lease: &Arc<LeaseState>) {
        if lease.has_news() {
            self.watch(lease);
        }
    }

    /// For how many locks renewals and hooks are planned.
    #[cfg(test)]
    pub(crate) fn planned(&self) -> [usize; 2] {
        [Purpose::Renew, Purpose::Watch].map(|purpose| self.agendas.of(purpose).count())
    }

    /// Ends the background work for a lock.
    pub(crate) fn forget(&self, lease: &LeaseState) {
        self.agendas.of(Purpose::Renew).remove(lease);
        self.agendas.of(Purpose::Watch).remove(lease);
    }

    fn plan(
        self: &Arc<Self>,
        purpose: Purpose,
        lease: &Arc<LeaseState>,
        at: impl FnOnce(&LeaseState) -> Timestamp,
    ) {
        if let Some(wake) = self.agendas.of(purpose).put(lease, at) {
            self.arm(purpose, wake);
        }
    }

    /// Wakes the thread at that time.
    fn arm(self: &Arc<Self>, purpose: Purpose, wake: Wake) {
        // Without a thread, nothing is planned.
        let Some(timers) = self.agendas.of(purpose).timers() else {
            return;
        };
        let delay = wake.at.saturating_since(self.cluster.clock.now());
        let keeper = Arc::downgrade(self);
        timers.punctually_after(delay, move || {
            let Some(keeper) = keeper.upgrade() else {
                return;
            };
            let watched = keeper.wake(purpose, wake);
            // A slow hook must not keep the connections of a manager that was dropped.
            drop(keeper);
            for (lease, loss) in watched {
                lease.call_hooks(loss.as_ref());
            }
        });
    }

    /// Does the work that is due. Returns the locks whose hooks the caller has to call, and how they were lost, if they were.
    fn wake(self: &Arc<Self>, purpose: Purpose, wake: Wake) -> Vec<Watched> {
        let agenda = self.agendas.of(purpose);
        if !agenda.is_current(wake) {
            return Vec::new();
        }
        let now = self.cluster.clock.now();
        if now < wake.at {
            self.arm(purpose, wake);
            return Vec::new();
        }
        let mut watched = Vec::new();
        match purpose {
            Purpose::Renew => self.renew_all(agenda.take_due(now, LONGEST_HEAD_START)),
            Purpose::Watch => {
                for lease in agenda.take_due(now, Duration::ZERO) {
                    let loss = lease.loss_soon(now);
                    if loss.is_none() {
                        // The caller tells the news that there is now.
                        self.plan(Purpose::Watch, &lease, LeaseState::loss_notice_at);
                    }
                    watched.push((lease, loss));
                }
            }
        }
        if let Some(next) = agenda.next_wake() {
            self.arm(purpose, next);
        }
        watched
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if self.cluster.is_forked() {
            // For the same reason as for the nodes, see `Cluster`.
            #[expect(clippy::mem_forget, reason = "a leak, in place of a hang")]
            std::mem::forget(std::mem::take(&mut self.agendas));
        }
    }
}
