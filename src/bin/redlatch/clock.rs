//! The only place of the command that reads a clock: for how long it has waited. How long a lock is ours, the library
//! counts.

use std::time::Instant;

#[expect(
    clippy::disallowed_methods,
    reason = "for a person who waits, and for a grace period, time that the machine was suspended does not count"
)]
pub(crate) fn now() -> Instant {
    Instant::now()
}
