//! Pure: `KeepAlive`, and the times at which locks are renewed.

use std::time::Duration;

use crate::clock::Timestamp;
use crate::quorum::Term;

/// Renews a lock in the background, for a holder that does not know how long its work takes.
///
/// The lock is renewed when about a third of its time to live (less the [margin](Self::margin)) is over, until the guard releases it. One background
/// thread renews all locks of a manager. If too few nodes answer, the renewal is repeated while the lock is valid. If a
/// majority of the nodes no longer has the lock, it is lost at once. A node that has lost the key, or could not be
/// reached before, gets it with the next renewal, as [`LockGuard::extend`](crate::LockGuard::extend) says.
///
/// A holder that hangs would keep its lock without a bound, so the algorithm asks for a limit: set one with
/// [`max_hold`](Self::max_hold), or opt out with [`unbounded`](Self::unbounded).
///
/// The lock can still be lost. Call [`LockGuard::check`](crate::LockGuard::check) at each step of the work, or be
/// notified by [`LockGuard::wait_lost`](crate::LockGuard::wait_lost), [`LockGuard::on_lost`](crate::LockGuard::on_lost)
/// or a [`LeaseWatch`](crate::LeaseWatch).
///
/// ```
/// use std::time::Duration;
/// use redlatch::{KeepAlive, LockManager};
/// # use redlatch::fake::{FakeClock, FakeNode};
/// # let clock = FakeClock::new();
/// # let nodes = FakeNode::cluster_on(3, &clock);
/// # let manager = LockManager::builder().fakes(&nodes).build()?;
///
/// let guard = manager
///     .request("nightly-report")
///     .ttl(Duration::from_secs(10))
///     .keep_alive(KeepAlive::max_hold(Duration::from_secs(3600)))
///     .lock()?;
/// # clock.advance(Duration::from_secs(600));
/// // Ten minutes later, still ours.
/// guard.check()?;
/// guard.unlock()?;
/// # Ok::<(), redlatch::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[must_use = "it does nothing until it is given to a request or a guard"]
pub struct KeepAlive {
    max_hold: Option<Duration>,
    pub(crate) margin: Duration,
}

impl KeepAlive {
    /// Keeps the lock for `limit` at most, counted from before the attempt that got it. Then it is lost
    /// ([`LossCause::MaxHold`](crate::LossCause::MaxHold)), and soon after free for others, even if its holder still
    /// runs.
    ///
    /// ```
    /// # use std::time::Duration;
    /// use redlatch::{Error, KeepAlive, LossCause};
    /// # let clock = redlatch::fake::FakeClock::new();
    /// # let nodes = redlatch::fake::FakeNode::cluster_on(3, &clock);
    /// # let manager = redlatch::LockManager::builder().fakes(&nodes).build()?;
    /// let minute = KeepAlive::max_hold(Duration::from_secs(60));
    /// let guard = manager.request("report").ttl(Duration::from_secs(10)).keep_alive(minute).lock()?;
    /// clock.advance(Duration::from_secs(50));
    /// guard.check()?;
    /// clock.advance(Duration::from_secs(10));
    /// let lost = guard.check();
    /// assert!(matches!(lost, Err(Error::Lost { cause: LossCause::MaxHold { .. }, .. })));
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn max_hold(limit: Duration) -> Self {
        Self {
            max_hold: Some(limit),
            margin: Duration::ZERO,
        }
    }

    /// Keeps the lock for as long as its guard exists and this process runs.
    ///
    /// ```
    /// # use std::time::Duration;
    /// use redlatch::KeepAlive;
    /// # let clock = redlatch::fake::FakeClock::new();
    /// # let nodes = redlatch::fake::FakeNode::cluster_on(3, &clock);
    /// # let manager = redlatch::LockManager::builder().fakes(&nodes).build()?;
    /// let guard = manager.request("report").keep_alive(KeepAlive::unbounded()).lock()?;
    /// clock.advance(Duration::from_secs(3600));
    /// guard.check()?;
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn unbounded() -> Self {
        Self {
            max_hold: None,
            margin: Duration::ZERO,
        }
    }

    /// Has the program lose the lock `margin` before the validity ends, so that it can stop in time what relies on the lock.
    ///
    /// From then on the guard is lost, as after the end of the validity: [`check`](crate::LockGuard::check) fails,
    /// [`remaining`](crate::LockGuard::remaining) is zero, [`on_lost`](crate::LockGuard::on_lost),
    /// [`wait_lost`](crate::LockGuard::wait_lost) and each [`LeaseWatch`](crate::LeaseWatch) report it, and no extension revives
    /// it. A majority keeps the keys during the margin, so nobody else gets the lock. A guard that ends within the margin releases
    /// them. With [`max_hold`](Self::max_hold), the guard is lost the margin before that limit.
    ///
    /// A margin does not help if the nodes report that the lock is taken or gone. Then the guard is lost when a renewal finds that
    /// out.
    ///
    /// A renewal comes after a third of the time before the margin. So a longer margin means more renewals, and an outage has to be
    /// shorter for the lock to survive it. The longest margin is two thirds of the ttl, and two node timeouts of the validity must
    /// be left before it. A longer one is refused, as [`Error::Invalid`](crate::Error::Invalid).
    /// Defaults to zero: the guard is lost when the validity ends.
    ///
    /// ```
    /// # use std::time::Duration;
    /// use redlatch::{Error, KeepAlive, LossCause};
    /// # let clock = redlatch::fake::FakeClock::new();
    /// # let nodes = redlatch::fake::FakeNode::cluster_on(3, &clock);
    /// # let manager = redlatch::LockManager::builder().fakes(&nodes).build()?;
    /// let seconds = Duration::from_secs;
    /// let keep_alive = KeepAlive::unbounded().margin(seconds(10));
    /// let guard = manager.request("report").ttl(seconds(30)).keep_alive(keep_alive).lock()?;
    /// # for node in &nodes { node.refuse() }
    /// // No node answers from now on.
    /// clock.advance(seconds(20));
    /// assert!(matches!(guard.check(), Err(Error::Lost { cause: LossCause::Unreachable { .. }, .. })));
    /// // Nobody has the lock for another nine seconds: time to stop.
    /// # for node in &nodes { node.recover() }
    /// # clock.advance(seconds(9));
    /// assert!(manager.try_lock("report", seconds(30)).is_err());
    /// drop(guard);
    /// assert!(manager.try_lock("report", seconds(30)).is_ok());
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn margin(self, margin: Duration) -> Self {
        Self { margin, ..self }
    }

    pub(crate) fn limit(self) -> Option<Duration> {
        self.max_hold
    }
}

/// With keep-alive, the ttl is at least this many node timeouts, so that a renewal has time to fail and be repeated.
pub(crate) const FEWEST_TIMEOUTS: u32 = 3;

/// With keep-alive, the validity (the ttl less the drift) is at least this many node timeouts and the margin.
pub(crate) const FEWEST_VALID_TIMEOUTS: u32 = 2;

/// The longest margin of a lock of this term, if this time has to be left before it. Renewals of a lock come three times as often
/// with it as without a margin.
pub(crate) fn longest_margin(term: Term, left: Duration) -> Duration {
    let two_thirds = term
        .ttl
        .saturating_sub(term.ttl.checked_div(3).unwrap_or_default());
    two_thirds.min(term.validity.saturating_sub(left))
}

/// When a lease of this term that began at `started` has to be renewed: after a third of the time for which the program has it.
pub(crate) fn due(started: Timestamp, term: Term, margin: Duration) -> Timestamp {
    let held = term.validity.saturating_sub(margin);
    started.saturating_add(held.checked_div(3).unwrap_or_default())
}

/// How much earlier a lock of this ttl may be renewed together with others: one write for many locks costs less than a
/// write for each.
pub(crate) fn head_start(ttl: Duration) -> Duration {
    let part = ttl.checked_div(32).unwrap_or_default();
    part.min(LONGEST_HEAD_START)
}

/// How long to wait after a failed renewal, with `left` of the validity remaining.
pub(crate) fn pause(left: Duration) -> Duration {
    let part = left.checked_div(8).unwrap_or_default();
    part.clamp(SHORTEST_PAUSE, LONGEST_PAUSE)
}

pub(crate) const LONGEST_HEAD_START: Duration = Duration::from_millis(250);
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_nanos(0).saturating_add(Duration::from_secs(seconds))
    }

    #[test]
    fn a_lock_is_renewed_after_a_third_of_its_ttl_and_hardly_sooner() {
        let term = Term {
            ttl: 31 * SECOND,
            validity: 30 * SECOND,
        };
        assert_eq!(due(at(5), term, Duration::ZERO), at(15));
        assert_eq!(due(at(5), term, 9 * SECOND), at(12));
        for (ttl, head_start) in [(SECOND, SECOND / 32), (3600 * SECOND, LONGEST_HEAD_START)] {
            assert_eq!(super::head_start(ttl), head_start);
        }
    }

    #[test]
    fn a_margin_leaves_a_third_of_the_ttl_and_the_time_for_renewals() {
        let term = Term {
            ttl: 30 * SECOND,
            validity: 29 * SECOND,
        };
        for (left, longest) in [(0, 20), (9, 20), (10, 19), (28, 1), (30, 0)] {
            assert_eq!(longest_margin(term, left * SECOND), longest * SECOND);
        }
    }

    #[test]
    fn pauses_get_shorter_as_the_end_comes_nearer() {
        let pauses = [40, 4, 1].map(|left| pause(left * SECOND));
        assert_eq!(pauses, [SECOND, SECOND / 2, SECOND / 8]);
        assert_eq!(pause(Duration::ZERO), SHORTEST_PAUSE);
    }
}
