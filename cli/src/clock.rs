//! The only place of the command that reads a clock: for how long it has waited, and when the watchdog has to act. How long
//! a lock is ours, the library counts.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

#[expect(
    clippy::disallowed_methods,
    reason = "for a person who waits, and for a grace period, time that the machine was suspended does not count"
)]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// The time since the machine was started, of which every process reads the same. Where the system tells, it counts the
/// time that the machine was suspended, as the end of a lock does.
pub(crate) fn since_boot() -> Duration {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let clock = ClockId::Boottime;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let clock = ClockId::Monotonic;
    // It counts up from zero, so neither part is ever negative.
    let time = clock_gettime(clock);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or(0),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}
