//! `Stats`: the counters of a manager, and how long its calls for locks took.
//!
//! `recorder` counts; `node` has what is counted of a node; `facade` hands the figures on to the crate `metrics`; `serialise`
//! makes data of a snapshot.

use std::fmt;
use std::time::Duration;

use hdrhistogram::Histogram;

/// Makes a snapshot and its recorder of one list of counters, in groups. A row has the description of the counter and its name, and then
/// what monitoring systems get: its name there if that is another one, with the label that tells it from others of this name; by how
/// much it changes the gauge of the locks that are held; and its description.
macro_rules! counters {
    (@metric $name:ident) => { stringify!($name) };
    (@metric $name:ident $metric:literal) => { $metric };
    (
        $(#[$docs:meta])* $stats:ident $((listed if $listed:meta))? of $recorder:ident $({ $own:ident: $own_type:ty })?
        $($group:literal {
            $(
                $(#[$doc:meta])* $name:ident
                $(as $metric:literal)? $(where $label:ident = $value:literal)? $(held $by:literal)?: $text:expr;
            )*
        })*
        $($(#[$other_doc:meta])* $visibility:vis $other:ident: $type:ty,)*
    ) => {
        $(#[$docs])*
        #[non_exhaustive]
        pub struct $stats {
            $($(#[$other_doc])* $visibility $other: $type,)*
            $($($(#[$doc])* pub $name: u64,)*)*
        }

        impl $stats {
            /// The counters in the order of the list.
            $(#[cfg($listed)])?
            pub(super) fn groups(&self) -> Vec<(&'static str, Vec<(&'static str, u64)>)> {
                vec![$(($group, vec![$((stringify!($name), self.$name)),*])),*]
            }
        }

        /// Counts what the snapshot describes.
        #[derive(Debug)]
        pub(crate) struct $recorder {
            $($(pub(crate) $name: Counter,)*)*
            $(pub(crate) $own: $own_type,)?
        }

        impl $recorder {
            pub(crate) fn new(labels: &[(&'static str, &str)]) -> Self {
                Self {
                    $($($name: Counter::new(
                        counters!(@metric $name $($metric)?),
                        $text,
                        &[labels, &[$((stringify!($label), $value))?]].concat(),
                        None$(.or(Some($by)))?,
                    ),)*)*
                    $($own: <$own_type>::default(),)?
                }
            }

            /// The counters up to now, with what else the snapshot has.
            pub(crate) fn snapshot(&self, $($other: $type),*) -> $stats {
                $stats { $($other,)* $($($name: self.$name.get(),)*)* }
            }
        }
    };
}

mod facade;
mod node;
mod recorder;
#[cfg(feature = "serde")]
mod serialise;

pub(crate) use self::node::NodeRecorder;
pub use self::node::NodeStats;
use self::recorder::{Counter, Waits};

counters! {
    /// What a manager and its clones have done up to now. Made by [`LockManager::stats`](crate::LockManager::stats).
    ///
    /// Counters begin at zero and only grow, so a monitoring program takes the difference of two snapshots. Each counter is
    /// read by itself: while other threads lock, the counters may differ by the calls that are under way. A "call" is one
    /// of [`lock`](crate::LockManager::lock) and its like; one that is refused before any node is asked, such as with
    /// [`Error::Invalid`](crate::Error::Invalid), is counted nowhere.
    ///
    /// Wait times are those of the calls that returned a guard, from the call to its return, including all waiting. They are
    /// kept in microseconds, to within 1 %. A time of more than one hour counts as one hour.
    ///
    /// [`Display`](fmt::Display) is for people, and may change. With the cargo feature `metrics`, the recorder that the program
    /// has installed for the crate [`metrics`](https://docs.rs/metrics) gets the same figures as they happen.
    #[derive(Debug, Clone, PartialEq)]
    Stats of Recorder { waits: Waits }
    "locks" {
        /// Calls that returned a guard.
        acquired held 1.0: "Calls that got the lock.";
        /// Guards that were made of a [`Lease`](crate::Lease) by [`LockManager::adopt`](crate::LockManager::adopt).
        adopted held 1.0: "Locks that were taken over as a lease.";
        /// Guards that released a lock that was held up to then, by [`unlock`](crate::LockGuard::unlock) or their drop. A
        /// majority of the nodes has confirmed it.
        released held -1.0: "Locks that were given back.";
        /// Guards that gave a lock back, and too few nodes answered to confirm it. The nodes that did not answer are told again in
        /// the background. Until then, or until the time to live ends, nobody may get the lock.
        unconfirmed held -1.0: "Locks that were given back, without a majority to confirm it.";
        /// Guards that were turned into a [`Lease`](crate::Lease) while the lock was held.
        passed_on held -1.0: "Locks that were passed on as a lease.";
        /// Locks that were lost before their guard ended. A lock that has expired is counted when that is noticed, at the
        /// latest by the next call for these figures, also where its guard was forgotten and is never dropped.
        lost held -1.0: "Locks that were lost before their end.";
    }
    "calls" {
        /// Rounds over the nodes, one for each attempt of a call.
        attempts: "Rounds over the nodes for a lock.";
        /// Calls that met another holder: an attempt failed with [`Error::Held`](crate::Error::Held), and a node had
        /// another holder's key. Each call is counted once, however long it waited and however it ended.
        contended: "Calls that met another holder.";
        /// Calls that found another thread of this manager with the lock or asking for it, and waited for that thread or
        /// failed.
        queued: "Calls that waited for another thread of this process.";
        /// Waits for another process that were ended early by its release.
        woken: "Waits that the release of another process ended.";
    }
    "failures" {
        /// Calls that failed with [`Error::Held`](crate::Error::Held).
        failed_held as "failed_calls" where reason = "held": "Calls that did not get the lock.";
        /// Calls that failed with [`Error::Unavailable`](crate::Error::Unavailable) or [`Error::NotALock`](crate::Error::NotALock).
        failed_unavailable as "failed_calls" where reason = "unavailable": "Calls that did not get the lock.";
        /// Calls that failed with [`Error::TooSlow`](crate::Error::TooSlow).
        failed_too_slow as "failed_calls" where reason = "too_slow": "Calls that did not get the lock.";
        /// Renewals in the background that failed. Each is repeated while the lock is held.
        failed_renewals: "Renewals in the background that failed.";
    }
    "leases" {
        /// Calls of [`LockGuard::extend`](crate::LockGuard::extend) that succeeded.
        extended: "Extensions by a call that succeeded.";
        /// Renewals in the background that succeeded.
        renewed: "Renewals in the background that succeeded.";
        /// Keys that were set again: each is a vote of a node that had no key of a held lock, as after a restart without
        /// persistence, or where the node could not be reached when the lock was acquired.
        healed: "Keys that were set again on a node that had none.";
    }
    /// What each node said, in the canonical order.
    pub nodes: Vec<NodeStats>,
    /// In microseconds. None before the first time is recorded.
    waits: Option<Histogram<u64>>,
}

impl Stats {
    /// Returns the time within which this part of the calls, 0 to 1, got the lock: 0.5 is the median, 1 the longest time.
    /// Zero if no call got a lock yet. A number below 0 or above 1 counts as that bound.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
    /// assert_eq!(manager.stats().wait_quantile(0.5), Duration::ZERO);
    /// drop(manager.lock("invoices", Duration::from_secs(10))?);
    /// let stats = manager.stats();
    /// assert!(stats.wait_quantile(0.5) <= stats.wait_quantile(0.99));
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn wait_quantile(&self, quantile: f64) -> Duration {
        let micros = |waits: &Histogram<u64>| waits.value_at_quantile(quantile);
        Duration::from_micros(self.waits.as_ref().map_or(0, micros))
    }

    /// Returns the mean of the wait times, or zero if no call got a lock yet.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
    /// assert_eq!(manager.stats().wait_mean(), Duration::ZERO);
    /// drop(manager.lock("invoices", Duration::from_secs(10))?);
    /// assert!(manager.stats().wait_mean() > Duration::ZERO);
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn wait_mean(&self) -> Duration {
        let micros = self.waits.as_ref().map_or(0.0, Histogram::mean);
        Duration::try_from_secs_f64(micros / 1e6).unwrap_or_default()
    }

    /// How many wait times there are: as many as `acquired`, but for a call that is under way.
    fn wait_count(&self) -> u64 {
        self.waits.as_ref().map_or(0, Histogram::len)
    }

    /// Returns how many guards have a lock now, as far as known: those that got a lock, less those that gave it back,
    /// passed it on or lost it. A lock whose validity has ended is not among them.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let manager = redlatch::LockManager::builder().fakes(&redlatch::fake::FakeNode::cluster(3)).build()?;
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

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (group, counters) in self.groups() {
            let words = |name: &str| name.trim_start_matches("failed_").replace('_', " ");
            let counters = counters.into_iter();
            let counters = counters.map(|(name, count)| format!("{count} {}", words(name)));
            writeln!(f, "{group:<9} {}", counters.collect::<Vec<_>>().join(", "))?;
        }
        writeln!(f, "held      {} now", self.held())?;
        if self.wait_count() == 0 {
            f.write_str("wait      no lock yet")?;
        } else {
            let [median, late, longest] = [0.5, 0.99, 1.0].map(|part| self.wait_quantile(part));
            let mean = self.wait_mean();
            write!(
                f,
                "wait      mean {mean:.1?}, half within {median:.1?}, 99 % within {late:.1?}, longest {longest:.1?}"
            )?;
        }
        self.nodes
            .iter()
            .try_for_each(|node| write!(f, "\nnode      {node}"))
    }
}
