//! How much is measured.

use std::time::Duration;

/// Longer than the benchmark holds any lock.
pub(crate) const TTL: Duration = Duration::from_mins(1);

/// How much is measured.
#[derive(Clone, Copy)]
pub(crate) struct Effort {
    /// Pairs of acquire and release on loopback, and through the link.
    pub(crate) pairs: u32,
    pub(crate) link_pairs: u32,
    /// How often the sides take turns with locks of their own, and for how long: on loopback, through the link, and for
    /// each number of threads.
    pub(crate) own_keys: (usize, Duration),
    pub(crate) own_keys_link: (usize, Duration),
    pub(crate) scaling: (usize, Duration),
    /// For how long threads, and processes, contend for a lock.
    pub(crate) threads: Duration,
    pub(crate) processes: Duration,
    /// How long a node stays dead, or hung.
    pub(crate) fault: Duration,
    /// How often each side takes locks and holds them all, and how many.
    pub(crate) held: (usize, usize),
    /// Managers that are made.
    pub(crate) starts: u32,
}

pub(crate) const QUICK: Effort = Effort {
    pairs: 200,
    link_pairs: 10,
    own_keys: (2, Duration::from_millis(200)),
    own_keys_link: (2, Duration::from_millis(200)),
    scaling: (1, Duration::from_millis(200)),
    threads: Duration::from_secs(3),
    processes: Duration::from_secs(5),
    fault: Duration::from_secs(2),
    held: (1, 1_000),
    starts: 10,
};

pub(crate) const FULL: Effort = Effort {
    pairs: 2_000,
    link_pairs: 100,
    own_keys: (10, Duration::from_millis(800)),
    own_keys_link: (5, Duration::from_millis(800)),
    scaling: (5, Duration::from_millis(500)),
    threads: Duration::from_secs(20),
    processes: Duration::from_secs(30),
    fault: Duration::from_secs(5),
    held: (3, 10_000),
    starts: 100,
};
