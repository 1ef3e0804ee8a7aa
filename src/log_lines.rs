//! All log lines of the library. Level, target and text are a contract: `docs/operations.md` has a row for each.
//!
//! A resource is quoted and escaped, so that no name can look like another line. No line has a token or a password in
//! it.

use std::fmt::Display;
use std::time::Duration;

use crate::callbacks::despite_panics;
use crate::claim::Resource;
use crate::holder::Holder;

const LOCK: &str = "redlatch::lock";
const NODE: &str = "redlatch::node";
const RENEWAL: &str = "redlatch::renewal";

/// Logs a line, and goes on if the logger of the program panics.
macro_rules! line {
    ($level:ident, $target:expr, $($text:tt)+) => {
        despite_panics(|| log::$level!(target: $target, $($text)+))
    };
}

pub(crate) fn acquired(lock: &Resource, waited: Duration) {
    line!(debug, LOCK, "{lock} acquired in {waited:.1?}");
}

/// Instead of [`acquired`], after more than one attempt.
pub(crate) fn waited(lock: &Resource, waited: Duration, attempts: u32) {
    line!(
        debug,
        LOCK,
        "{lock} acquired after {waited:.1?}, attempts: {attempts}"
    );
}

pub(crate) fn contended(resource: &str, holder: Option<&Holder>) {
    match holder {
        Some(holder) => line!(debug, LOCK, "lock {resource:?} is held by {holder}"),
        None => line!(debug, LOCK, "lock {resource:?} is held by another"),
    }
}

/// Instead of [`contended`], where readers have the lock.
pub(crate) fn read_by(resource: &str, readers: u64) {
    line!(debug, LOCK, "lock {resource:?} is read by {readers}");
}

/// Instead of [`contended`], where a reader meets no holder.
pub(crate) fn kept_for_a_writer(resource: &str) {
    line!(
        debug,
        LOCK,
        "lock {resource:?} is kept for a writer that waits"
    );
}

/// Once for renewals that fail one after the other.
pub(crate) fn renewals_fail(
    lock: &Resource,
    (count, of): (usize, usize),
    left: Duration,
    told: &dyn Display,
) {
    line!(
        warn,
        RENEWAL,
        "renewals of {lock} fail on {count} of {of} nodes, and it ends in {left:.1?}: {told}"
    );
}

/// After [`renewals_fail`].
pub(crate) fn renewed_again(lock: &Resource) {
    line!(info, RENEWAL, "{lock} is renewed again");
}

pub(crate) fn lost(lock: &Resource, cause: &dyn Display) {
    line!(warn, LOCK, "{lock} lost: {cause}");
}

pub(crate) fn released(lock: &Resource, held: Duration) {
    line!(debug, LOCK, "{lock} released after {held:.1?}");
}

/// Instead of [`released`], where too few nodes have answered.
pub(crate) fn unconfirmed(lock: &Resource) {
    line!(
        warn,
        LOCK,
        "{lock} given back, but no majority has answered; the others are told again in the background"
    );
}

pub(crate) fn healed(lock: &Resource, node: &str) {
    line!(
        debug,
        LOCK,
        "{lock} set again on node {node}, which had no key of it"
    );
}

pub(crate) fn node_opened(name: &str, fault: &dyn Display) {
    line!(
        warn,
        NODE,
        "node {name} failed ({fault}); left out until it answers again"
    );
}

pub(crate) fn node_closed(name: &str) {
    line!(info, NODE, "node {name} answers again");
}
