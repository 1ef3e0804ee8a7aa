//! The time that all processes are on, and the end of a guard's lease on it.

use std::time::Duration;

use redlatch::LockGuard;
use redlatch_history::Span;
use rustix::time::{ClockId, clock_gettime};

/// A claim whose bounds are this near to each other is not read again.
const SHARP: u64 = 1_000_000;

/// The time in nanoseconds on a clock that all processes of one machine share.
pub(crate) fn clock() -> u64 {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let id = ClockId::Boottime;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let id = ClockId::Monotonic;
    let time = clock_gettime(id);
    u64::try_from(time.tv_sec).unwrap() * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap()
}

pub(crate) fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap()
}

/// Reads until when the guard is valid; `None` when it no longer is.
///
/// The lease ends at one instant, and `remaining` is the way to it from some moment between a reading of the clock
/// before the call and one after it. So the reading before gives a lower bound and the one after an upper bound.
/// Where the process was held up in between, they are far apart, and it reads again.
pub(crate) fn of(guard: &LockGuard) -> Option<Span> {
    let mut claim = Span {
        low: 0,
        high: u64::MAX,
    };
    for _ in 0..100 {
        let before = clock();
        let left = guard.remaining();
        let after = clock();
        if left.is_zero() {
            claim.high = claim.high.min(after);
            break;
        }
        claim.low = claim.low.max(before + nanos(left));
        claim.high = claim.high.min(after + nanos(left));
        if claim.high - claim.low <= SHARP {
            break;
        }
    }
    (claim.low > 0).then_some(claim)
}

/// What a check says that began at one time and had returned at another, with what was read of the guard behind it, by the last
/// time; and when it says that. A guard that says yes was valid at some time between the first two, so its lease ends behind the
/// first one. Where it is over when it is read, it has ended since, or it was over before: then the judge finds that the guard has
/// claimed too much. Wherever the process is stopped, this is never more than what the guard has said.
pub(crate) fn of_check(
    is_valid: bool,
    (began, returned): (u64, u64),
    claim: Option<Span>,
    read: u64,
) -> (u64, Option<Span>) {
    if !is_valid {
        return (returned, None);
    }
    let least = Span {
        low: began + 1,
        high: read.max(began + 1),
    };
    (began, Some(claim.unwrap_or(least)))
}

/// What a lease of this ttl is shorter by: 1 % and 2 ms.
pub(crate) fn drift(ttl_ms: u64) -> u64 {
    ttl_ms * 10_000 + 2_000_000
}
