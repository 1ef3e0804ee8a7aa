//! How a guard gets more time: by one extension, or by keep-alive.

use std::slice;
use std::time::Duration;

use super::LockGuard;
use crate::error::Error;
use crate::lease::state::Renewal;
use crate::protocol::extend::{Extension, NextStep};
use crate::quorum::Term;
use crate::renewal::{KeepAlive, due};

impl LockGuard {
    /// Gives the lock a validity of `ttl` from now, less the drift.
    ///
    /// All nodes are asked at once. A lease is never shortened: a `ttl` below the remaining time changes nothing. An
    /// extension that fails deletes nothing, and unless the error is `Lost`, the lock keeps its former validity.
    ///
    /// With [`Protocol::Classic`](crate::Protocol::Classic) it also heals the lock: it sets the key again on nodes that
    /// have none, as a server that came back empty or that could not be reached before. It leaves out nodes with another
    /// holder's key, nodes that failed a moment ago, and nodes that were sent a release because they had not answered in
    /// time, until that is answered. That takes one more round trip, and only where there is something to heal. If the lock
    /// has lost a majority of its nodes, it is lost all the same.
    ///
    /// # Errors
    ///
    /// - [`Error::Lost`] when the validity ended before the call or during it, also while a node was healed, or when a
    ///   majority no longer has our key.
    /// - [`Error::Unavailable`] when too few nodes answered to tell.
    /// - [`Error::TooSlow`] when a majority extended the lock, but so late that the new validity had ended.
    /// - [`Error::Invalid`] as for [`LockManager::lock`](crate::LockManager::lock), and [`Error::Forked`] in a forked child.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
    /// let guard = manager.lock("invoices", Duration::from_secs(10))?;
    /// guard.extend(Duration::from_secs(60))?;
    /// assert!(guard.remaining() > Duration::from_secs(50));
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn extend(&self, ttl: Duration) -> Result<(), Error> {
        self.extend_and_keep(ttl, None)
    }

    /// Extends the lock. From then on `renewal` replaces the keep-alive of the lock, if there is one.
    fn extend_and_keep(&self, ttl: Duration, renewal: Option<Renewal>) -> Result<(), Error> {
        let cluster = self.shared.cluster().refuse_fork()?;
        // Refuses a ttl that is invalid by itself. Below, max_hold may shorten it.
        cluster.options.term(ttl)?;
        self.check()?;
        let started = cluster.clock.now();
        let limit = renewal.map_or_else(|| self.lease.limit(), |renewal| renewal.until);
        // The ttl is at most what max_hold leaves.
        let term = cluster.term_until(limit, ttl, started)?;

        let mut extension = Extension::begin(cluster, &self.lease, term, started);
        let asked = extension.counted.clone();
        Extension::ask(slice::from_mut(&mut extension), cluster, &asked, None);
        loop {
            match extension.next(cluster) {
                NextStep::Heal => extension.heal(cluster, None),
                // All nodes were asked.
                NextStep::Settle | NextStep::AskAll => {
                    let settled = extension.settle(cluster.clock.now(), renewal);
                    // The lock may be lost or wanted, and max_hold may have moved its end to an earlier time. The thread that watches
                    // the lock has to know before a heal, which may last longer than the lock.
                    let is_lost = matches!(settled, Err(Error::Lost { .. }));
                    if renewal.is_some() || is_lost || self.lease.has_news() {
                        self.shared.keeper.watch(&self.lease);
                    }
                    settled?;
                }
                NextStep::End => break,
            }
        }
        // The lock may have ended while a node was healed.
        self.check()?;
        cluster.stats.extended.count();
        Ok(())
    }

    /// Extends the lock by `ttl` and renews it from now on, as [`LockRequest::keep_alive`] does, for a guard that was
    /// [adopted](crate::LockManager::adopt). It replaces an earlier keep-alive.
    ///
    /// The time of [`KeepAlive::max_hold`] is counted from when this guard got the lock.
    ///
    /// # Errors
    ///
    /// As for [`extend`](Self::extend). Also [`Error::Invalid`] for a `ttl` of less than three node timeouts or of
    /// more than `max_hold`, for a [margin](KeepAlive::margin) that is too long, and if the lock was already held for `max_hold`
    /// (less the margin); and [`Error::NoThread`]. After these errors, nothing has changed.
    ///
    /// [`LockRequest::keep_alive`]: crate::LockRequest::keep_alive
    ///
    /// ```
    /// # use std::time::Duration;
    /// use redlatch::KeepAlive;
    /// # let clock = redlatch::fake::FakeClock::new();
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster_on(3, &clock)).build()?;
    /// let ttl = Duration::from_secs(10);
    /// let lease = manager.lock("invoices", ttl)?.into_lease();
    /// let guard = manager.adopt(&lease)?;
    /// guard.keep_alive(ttl, KeepAlive::max_hold(Duration::from_secs(3600)))?;
    /// # clock.advance(Duration::from_secs(600));
    /// // Ten minutes later, still ours.
    /// guard.check()?;
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn keep_alive(&self, ttl: Duration, keep_alive: KeepAlive) -> Result<(), Error> {
        let term = self.shared.keeper.prepare(ttl, keep_alive)?;
        self.check()?;
        let renewal = self.renewal(term.ttl, keep_alive);
        let started = self.shared.cluster().clock.now();
        let limit = renewal.until;
        if limit.is_some_and(|limit| limit.saturating_sub(renewal.margin) <= started) {
            let reason =
                "the lock was held for as long as max_hold already; allow more, or release it";
            return Err(Error::invalid("max_hold", reason));
        }
        self.extend_and_keep(term.ttl, Some(renewal))?;
        let due = due(started, term, renewal.margin);
        self.shared.keeper.keep(&self.lease, due);
        // The validity may have ended meanwhile.
        self.check()
    }

    /// Begins the keep-alive of a lock that was just acquired with this term.
    pub(crate) fn begin_keep_alive(&self, term: Term, keep_alive: KeepAlive) {
        let renewal = self.renewal(term.ttl, keep_alive);
        self.lease.keep(renewal);
        let due = due(self.lease.since, term, renewal.margin);
        self.shared.keeper.keep(&self.lease, due);
    }

    fn renewal(&self, ttl: Duration, keep_alive: KeepAlive) -> Renewal {
        let limit = keep_alive.limit();
        let until = limit.and_then(|limit| self.lease.since.checked_add(limit));
        Renewal {
            ttl,
            margin: keep_alive.margin,
            until,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LockManager;
    use crate::fake::{FakeClock, FakeNode};

    /// As where a lock is passed to a thread that is slow to wake up.
    #[test]
    fn the_first_renewal_of_a_lock_that_has_less_left_comes_as_if_it_had_been_acquired_earlier() {
        let clock = FakeClock::new();
        let nodes = FakeNode::cluster_on(3, &clock);
        let manager = LockManager::builder().fakes(&nodes).build().unwrap();
        let (ttl, keep_alive) = (Duration::from_secs(30), KeepAlive::unbounded());
        let guard = manager.lock("job", ttl).unwrap();
        clock.advance(Duration::from_secs(5));
        let term = guard.shared.keeper.prepare(ttl, keep_alive).unwrap();
        guard.begin_keep_alive(term, keep_alive);
        // It is renewed when a third of its validity has gone, which is less than five seconds later.
        clock.advance(Duration::from_secs(5));
        let renewed = Duration::from_secs(25);
        assert!(guard.remaining() > renewed, "{:?}", guard.remaining());
    }
}
