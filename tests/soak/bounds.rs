//! How large everything is: servers, workers, resources, times to live, clocks.

use std::ops::RangeInclusive;

pub(crate) const SERVERS: usize = 5;
pub(crate) const WORKERS: usize = 6;
pub(crate) const RESOURCES: u32 = 4;
pub(crate) const SEMAPHORES: u32 = 2;
/// The permits of each semaphore.
pub(crate) const PERMITS: u32 = 2;
/// The times to live that workers ask for, in milliseconds.
pub(crate) const TTL_MS: RangeInclusive<u64> = 300..=1_000;
pub(crate) const LONGEST_TTL_MS: u64 = 1_000;
/// The times to live where two holders must be found: they last while servers come back, however slow the machine is.
pub(crate) const LONG_TTL_MS: RangeInclusive<u64> = 3_000..=8_000;
/// How far a clock may be off, to either side: less than half of the longest ttl. With the fenced protocol, two clocks may differ
/// by the longest ttl.
pub(crate) const OFF_MS: i64 = 480;
