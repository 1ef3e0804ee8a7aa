//! The processor time of this process: what its own threads have used, without the servers.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

pub(crate) fn time() -> Duration {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    let [seconds, nanos] = [used.tv_sec, used.tv_nsec].map(|n| u64::try_from(n).unwrap());
    Duration::from_secs(seconds) + Duration::from_nanos(nanos)
}
