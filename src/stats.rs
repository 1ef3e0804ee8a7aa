//! `Stats`: the counters of a manager, and how long its calls for locks took.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use hdrhistogram::Histogram;

mod open_metrics;
mod recorder;
#[cfg(feature = "serde")]
mod serialise;

pub use self::open_metrics::OpenMetrics;
pub(crate) use self::recorder::{NodeRecorder, Recorder, Waits};

/// What a manager and its clones have done up to now. Made by [`LockManager::stats`](crate::LockManager::stats).
///
/// Counters begin at zero and only grow, so a monitoring program takes the difference of two snapshots. Each counter is
/// read by itself: while other threads lock, the counters may differ by the calls that are under way. A "call" is one
/// of [`lock`](crate::LockManager::lock) and its like; one that is refused before any node is asked, such as with
/// [`Error::Invalid`](crate::Error::Invalid), is counted nowhere.
///
/// [`Display`](fmt::Display) is for people, and may change; [`open_metrics`](Self::open_metrics) is for Prometheus.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// Rounds over the nodes, one for each attempt of a call.
    pub attempts: u64,
    /// Calls that returned a guard.
    pub acquired: u64,
    /// Calls that met another holder: an attempt failed with [`Error::Held`](crate::Error::Held), and a node had
    /// another holder's key. Each call is counted once, however long it waited and however it ended.
    pub contended: u64,
    /// Calls that found another thread of this manager with the lock or asking for it, and waited for that thread or
    /// failed.
    pub queued: u64,
    /// Waits for another process that were ended early by its release.
    pub woken: u64,
    /// Calls that failed with [`Error::Held`](crate::Error::Held).
    pub failed_held: u64,
    /// Calls that failed with [`Error::Unavailable`](crate::Error::Unavailable).
    pub failed_unavailable: u64,
    /// Calls that failed with [`Error::TooSlow`](crate::Error::TooSlow).
    pub failed_too_slow: u64,
    /// Guards that were made of a [`Lease`](crate::Lease) by [`LockManager::adopt`](crate::LockManager::adopt).
    pub adopted: u64,
    /// Calls of [`LockGuard::extend`](crate::LockGuard::extend) that succeeded.
    pub extended: u64,
    /// Renewals in the background that succeeded.
    pub renewed: u64,
    /// Keys that were set again: each is a vote of a node that had no key of a held lock, as after a restart without
    /// persistence, or where the node could not be reached when the lock was acquired.
    pub healed: u64,
    /// Renewals in the background that failed. Each is repeated while the lock is held.
    pub failed_renewals: u64,
    /// Guards that released a lock that was held up to then, by [`unlock`](crate::LockGuard::unlock) or their drop. A
    /// majority of the nodes has confirmed it.
    pub released: u64,
    /// Guards that gave a lock back, and too few nodes answered to confirm it. The nodes that did not answer are told again in
    /// the background. Until then, or until the time to live ends, nobody may get the lock.
    pub unconfirmed: u64,
    /// Guards that were turned into a [`Lease`](crate::Lease) while the lock was held.
    pub passed_on: u64,
    /// Locks that were lost before their guard ended. A lock that has expired is counted when that is noticed, at the
    /// latest by the next call for these figures, also where its guard was forgotten and is never dropped.
    pub lost: u64,
    /// What each node said, in the canonical order.
    pub nodes: Vec<NodeStats>,
    waits: WaitTimes,
}

/// What one node answered to the attempts of a manager.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeStats {
    /// The node as `host:port`, or as the path of its socket.
    pub node: Arc<str>,
    /// Attempts for which it voted.
    pub granted: u64,
    /// Attempts that it refused, because it has another holder's key, or a fencing token that is not smaller.
    pub refused: u64,
    /// Attempts for which it gave no vote: it did not answer in time, or failed.
    pub failed: u64,
    /// How often it failed at any command, and was left out from then on.
    pub opened: u64,
    /// How often it answered again after that. The node is left out now if this is less than `opened`.
    pub closed: u64,
}

/// How long calls took that returned a guard, from the call to its return, including all waiting.
///
/// Times are kept in microseconds, to within 1 %. A time of more than one hour counts as one hour.
#[derive(Debug, Clone, PartialEq)]
pub struct WaitTimes {
    /// None before the first time is recorded.
    histogram: Option<Histogram<u64>>,
}

impl Stats {
    /// Returns how long calls took that returned a guard.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let nodes = redlatch::fake::FakeNode::cluster(3);
    /// # let manager = redlatch::LockManager::builder().fakes(&nodes).build()?;
    /// drop(manager.lock("invoices", Duration::from_secs(10))?);
    /// println!("{}", manager.stats().wait()); // mean …, half within …
    /// assert_eq!(manager.stats().wait().count(), 1);
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn wait(&self) -> &WaitTimes {
        &self.waits
    }

    /// Returns how many guards have a lock now, as far as known: those that got a lock, less those that gave it back,
    /// passed it on or lost it. A lock whose validity has ended is not among them.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let nodes = redlatch::fake::FakeNode::cluster(3);
    /// # let manager = redlatch::LockManager::builder().fakes(&nodes).build()?;
    /// let guard = manager.lock("invoices", Duration::from_secs(10))?;
    /// assert_eq!(manager.stats().held(), 1);
    /// guard.unlock()?;
    /// assert_eq!(manager.stats().held(), 0);
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn held(&self) -> u64 {
        let begun = self.acquired.saturating_add(self.adopted);
        let given_back = self.released.saturating_add(self.unconfirmed);
        let ended = given_back.saturating_add(self.passed_on);
        begun.saturating_sub(ended.saturating_add(self.lost))
    }
}

impl WaitTimes {
    /// Returns how many calls there were.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let nodes = redlatch::fake::FakeNode::cluster(3);
    /// # let manager = redlatch::LockManager::builder().fakes(&nodes).build()?;
    /// drop(manager.lock("invoices", Duration::from_secs(10))?);
    /// assert!(manager.lock("", Duration::from_secs(10)).is_err());
    /// // The call that failed is not among them.
    /// assert_eq!(manager.stats().wait().count(), 1);
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn count(&self) -> u64 {
        self.histogram.as_ref().map_or(0, Histogram::len)
    }

    /// Returns the time within which this part of the calls, 0 to 1, got the lock: 0.5 is the median. Zero if there
    /// were no calls. A number below 0 or above 1 counts as that bound.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let nodes = redlatch::fake::FakeNode::cluster(3);
    /// # let manager = redlatch::LockManager::builder().fakes(&nodes).build()?;
    /// assert_eq!(manager.stats().wait().quantile(0.5), Duration::ZERO);
    /// drop(manager.lock("invoices", Duration::from_secs(10))?);
    /// let stats = manager.stats();
    /// assert!(stats.wait().quantile(0.5) <= stats.wait().quantile(0.99));
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn quantile(&self, quantile: f64) -> Duration {
        let micros = |histogram: &Histogram<u64>| histogram.value_at_quantile(quantile);
        Duration::from_micros(self.histogram.as_ref().map_or(0, micros))
    }

    /// Returns the mean, or zero if there were no calls.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let nodes = redlatch::fake::FakeNode::cluster(3);
    /// # let manager = redlatch::LockManager::builder().fakes(&nodes).build()?;
    /// assert_eq!(manager.stats().wait().mean(), Duration::ZERO);
    /// drop(manager.lock("invoices", Duration::from_secs(10))?);
    /// assert!(manager.stats().wait().mean() > Duration::ZERO);
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn mean(&self) -> Duration {
        let micros = self.histogram.as_ref().map_or(0.0, Histogram::mean);
        Duration::try_from_secs_f64(micros / 1e6).unwrap_or_default()
    }

    /// Returns the longest time, or zero if there were no calls.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let nodes = redlatch::fake::FakeNode::cluster(3);
    /// # let manager = redlatch::LockManager::builder().fakes(&nodes).build()?;
    /// drop(manager.lock("invoices", Duration::from_secs(10))?);
    /// let stats = manager.stats();
    /// assert!(stats.wait().max() >= stats.wait().quantile(0.99));
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn max(&self) -> Duration {
        Duration::from_micros(self.histogram.as_ref().map_or(0, Histogram::max))
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            attempts,
            acquired,
            contended,
            queued,
            woken,
            failed_held,
            failed_unavailable,
            failed_too_slow,
            adopted,
            extended,
            renewed,
            healed,
            failed_renewals,
            released,
            unconfirmed,
            passed_on,
            lost,
            nodes,
            waits,
        } = self;
        let held = self.held();
        writeln!(
            f,
            "locks     {acquired} acquired, {adopted} adopted; {released} released, {unconfirmed} unconfirmed, {passed_on} passed on, {lost} lost, \
             {held} held now"
        )?;
        writeln!(
            f,
            "calls     {attempts} attempts; {contended} contended, {queued} queued, {woken} woken"
        )?;
        writeln!(
            f,
            "failures  {failed_held} held, {failed_unavailable} unavailable, {failed_too_slow} too slow"
        )?;
        writeln!(
            f,
            "leases    {extended} extended, {renewed} renewed, {healed} keys set again, {failed_renewals} renewals failed"
        )?;
        write!(f, "wait      {waits}")?;
        for node in nodes {
            write!(f, "\nnode      {node}")?;
        }
        Ok(())
    }
}

impl fmt::Display for WaitTimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.count() == 0 {
            return f.write_str("no lock yet");
        }
        let (median, late) = (self.quantile(0.5), self.quantile(0.99));
        let (mean, max) = (self.mean(), self.max());
        write!(
            f,
            "mean {mean:.1?}, half within {median:.1?}, 99 % within {late:.1?}, longest {max:.1?}"
        )
    }
}

impl fmt::Display for NodeStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            node,
            granted,
            refused,
            failed,
            opened,
            closed,
        } = self;
        write!(
            f,
            "{node}: {granted} granted, {refused} refused, {failed} failed; left out {opened} times, back {closed} times"
        )
    }
}
