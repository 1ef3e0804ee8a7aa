//! How much is measured.

use std::time::Duration;

#[derive(Clone, Copy)]
pub(crate) struct Effort {
    /// How often the sides take turns, and for how long: one thread, and many.
    pub(crate) alone: (usize, Duration),
    pub(crate) own_keys: (usize, Duration),
    /// For how long threads, and processes, contend for a lock.
    pub(crate) threads: Duration,
    pub(crate) processes: Duration,
    /// How often a node is faulty, and for how long.
    pub(crate) faults: u32,
    pub(crate) fault: Duration,
}

pub(crate) const QUICK: Effort = Effort {
    alone: (10, Duration::from_millis(20)),
    own_keys: (2, Duration::from_millis(100)),
    threads: Duration::from_secs(2),
    processes: Duration::from_secs(2),
    faults: 1,
    fault: Duration::from_secs(1),
};

pub(crate) const FULL: Effort = Effort {
    alone: (50, Duration::from_millis(40)),
    own_keys: (10, Duration::from_millis(500)),
    threads: Duration::from_secs(20),
    processes: Duration::from_secs(30),
    faults: 5,
    fault: Duration::from_secs(2),
};
