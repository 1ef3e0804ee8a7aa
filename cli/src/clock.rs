//! The only place in the command that reads a clock: for the time that it has waited, for the watchdog, and for the
//! lines of a log. The validity of a lock is the library's task.

use std::time::{Duration, Instant, SystemTime};

use rustix::time::{ClockId, clock_gettime};

#[expect(
    clippy::disallowed_methods,
    reason = "for a person who waits, and for a grace period, time that the machine was suspended does not count"
)]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// The time of day, for the lines of a log.
#[expect(
    clippy::disallowed_methods,
    reason = "nothing is decided by it: it is shown to people"
)]
pub(crate) fn wall() -> SystemTime {
    SystemTime::now()
}

/// The time since the machine was started, which is the same for every process. If the system allows, it includes the
/// time that the machine was suspended, as the validity of a lock does.
pub(crate) fn since_boot() -> Duration {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let clock = ClockId::Boottime;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let clock = ClockId::Monotonic;
    // The clock counts up from zero, so neither part is negative.
    let time = clock_gettime(clock);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or(0),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}
