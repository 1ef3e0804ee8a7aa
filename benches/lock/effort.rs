//! How much is measured, and over which managers.

use std::time::Duration;

use redlatch::{Builder, LockManager};
use redlatch_testing::Server;

/// Longer than the benchmark holds any lock.
pub(crate) const TTL: Duration = Duration::from_secs(60);

/// A manager over servers that are well: where a stall of this machine is all that can go wrong, it is not to be taken
/// for the failure of a node, which would be left out for a while and so flatter the figures.
pub(crate) fn patient_manager(servers: &[Server]) -> LockManager {
    let urls = servers.iter().map(Server::url);
    patient_builder(urls).build().unwrap()
}

pub(crate) fn patient_builder(urls: impl IntoIterator<Item = impl AsRef<str>>) -> Builder {
    LockManager::builder()
        .nodes(urls)
        .node_timeout(Duration::from_secs(5))
}

/// How much is measured.
#[derive(Clone, Copy)]
pub(crate) struct Effort {
    /// Pairs of acquire and release for each latency, and as many by hand.
    pub(crate) pairs: u32,
    /// Pairs over which allocations are averaged.
    pub(crate) counted: u32,
    /// How often each fault is made and repaired.
    pub(crate) faults: u32,
    /// How long each fault lasts at least.
    pub(crate) fault_span: Duration,
    /// Managers that are built.
    pub(crate) builds: u32,
    /// Locks that are kept alive at the same time, and for how long.
    pub(crate) kept: usize,
    pub(crate) kept_for: Duration,
    /// How often each side of a comparison takes its turn, and for how long.
    pub(crate) slices: u32,
    pub(crate) slice: Duration,
    /// For how long threads, and processes, contend for a lock.
    pub(crate) contended_threads: Duration,
    pub(crate) contended_processes: Duration,
    /// The pairs of each thread whose system calls are counted.
    pub(crate) traced: u32,
    /// The pairs of each run over which the time of a server is averaged.
    pub(crate) native: u32,
}

impl Effort {
    /// Only `cargo bench` passes `--bench`; in `cargo test --benches` it is enough that the benchmark runs.
    pub(crate) fn from_arguments() -> Self {
        let has = |wanted: &str| std::env::args().any(|argument| argument == wanted);
        if has("--quick") || !has("--bench") {
            return Self {
                pairs: 300,
                counted: 100,
                faults: 1,
                fault_span: Duration::from_millis(100),
                builds: 10,
                kept: 500,
                kept_for: Duration::from_secs(4),
                slices: 3,
                slice: Duration::from_millis(50),
                contended_threads: Duration::from_secs(2),
                contended_processes: Duration::from_secs(3),
                traced: 20,
                native: 2_000,
            };
        }
        Self {
            pairs: 10_000,
            counted: 1_000,
            faults: 5,
            // By then the pauses between the probes of a node have grown to their longest, so that the recoveries are
            // the slow ones.
            fault_span: Duration::from_millis(600),
            builds: 200,
            kept: 10_000,
            kept_for: Duration::from_secs(60),
            slices: 20,
            slice: Duration::from_millis(200),
            contended_threads: Duration::from_secs(10),
            contended_processes: Duration::from_secs(30),
            traced: 200,
            native: 200_000,
        }
    }
}
