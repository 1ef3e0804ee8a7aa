//! How one run of the command ended.

use std::time::Duration;

/// How one run of the command ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Term {
    /// The exit code that it has for `redlatch`.
    pub(crate) code: u8,
    pub(crate) ran: Duration,
    /// Whether the lock was lost before the command had ended.
    pub(crate) is_lost: bool,
}
