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

pub(crate) fn acquired(lock: &Resource, waited: Duration) {
    despite_panics(|| log::debug!(target: LOCK, "{lock} acquired in {waited:.1?}"));
}

/// Instead of [`acquired`], after more than one attempt.
pub(crate) fn waited(lock: &Resource, waited: Duration, attempts: u32) {
    despite_panics(|| {
        log::debug!(
            target: LOCK,
            "{lock} acquired after {waited:.1?}, attempts: {attempts}"
        );
    });
}

/// Instead of [`contended`], where readers have the lock.
pub(crate) fn read_by(resource: &str, readers: u64) {
    despite_panics(|| log::debug!(target: LOCK, "lock {resource:?} is read by {readers}"));
}

/// Instead of [`contended`], where a reader meets no holder.
pub(crate) fn kept_for_a_writer(resource: &str) {
    despite_panics(
        || log::debug!(target: LOCK, "lock {resource:?} is kept for a writer that waits"),
    );
}

pub(crate) fn contended(resource: &str, holder: Option<&Holder>) {
    despite_panics(|| match holder {
        Some(holder) => log::debug!(target: LOCK, "lock {resource:?} is held by {holder}"),
        None => log::debug!(target: LOCK, "lock {resource:?} is held by another"),
    });
}

/// Once for renewals that fail one after the other.
pub(crate) fn renewals_fail(
    lock: &Resource,
    (count, of): (usize, usize),
    left: Duration,
    told: &dyn Display,
) {
    despite_panics(|| {
        log::warn!(
            target: RENEWAL,
            "renewals of {lock} fail on {count} of {of} nodes, and it ends in {left:.1?}: {told}"
        );
    });
}

/// After [`renewals_fail`].
pub(crate) fn renewed_again(lock: &Resource) {
    despite_panics(|| log::info!(target: RENEWAL, "{lock} is renewed again"));
}

pub(crate) fn lost(lock: &Resource, cause: &dyn Display) {
    despite_panics(|| log::warn!(target: LOCK, "{lock} lost: {cause}"));
}

pub(crate) fn released(lock: &Resource, held: Duration) {
    despite_panics(|| log::debug!(target: LOCK, "{lock} released after {held:.1?}"));
}

/// Instead of [`released`], where too few nodes have answered.
pub(crate) fn unconfirmed(lock: &Resource) {
    despite_panics(|| {
        log::warn!(
            target: LOCK,
            "{lock} given back, but no majority has answered; the others are told again in the background"
        );
    });
}

pub(crate) fn healed(lock: &Resource, node: &str) {
    despite_panics(
        || log::debug!(target: LOCK, "{lock} set again on node {node}, which had no key of it"),
    );
}

pub(crate) fn node_opened(name: &str, fault: &dyn Display) {
    despite_panics(|| {
        log::warn!(
            target: NODE,
            "node {name} failed ({fault}); left out until it answers again"
        );
    });
}

pub(crate) fn node_closed(name: &str) {
    despite_panics(|| log::info!(target: NODE, "node {name} answers again"));
}
