//! All log lines of the library. Level, target and text are a contract: `docs/operations.md` has a row for each.
//!
//! A resource is quoted and escaped, so that no name can look like another line. No line has a token or a password in
//! it.

use std::fmt::Display;
use std::time::Duration;

use crate::foreign::despite_panics;
use crate::holder::Holder;

const LOCK: &str = "redlatch::lock";
const NODE: &str = "redlatch::node";

pub(crate) fn acquired(resource: &str, waited: Duration) {
    despite_panics(|| log::debug!(target: LOCK, "lock {resource:?} acquired in {waited:.1?}"));
}

/// Instead of [`acquired`], after more than one attempt.
pub(crate) fn waited(resource: &str, waited: Duration, attempts: u32) {
    despite_panics(|| {
        log::debug!(
            target: LOCK,
            "lock {resource:?} acquired after {waited:.1?}, attempts: {attempts}"
        );
    });
}

pub(crate) fn contended(resource: &str, holder: Option<&Holder>) {
    despite_panics(|| match holder {
        Some(holder) => log::debug!(target: LOCK, "lock {resource:?} is held by {holder}"),
        None => log::debug!(target: LOCK, "lock {resource:?} is held by another"),
    });
}

pub(crate) fn lost(resource: &str, cause: &dyn Display) {
    despite_panics(|| log::warn!(target: LOCK, "lock {resource:?} lost: {cause}"));
}

pub(crate) fn released(resource: &str, held: Duration) {
    despite_panics(|| log::debug!(target: LOCK, "lock {resource:?} released after {held:.1?}"));
}

pub(crate) fn healed(resource: &str, node: &str) {
    despite_panics(
        || log::debug!(target: LOCK, "lock {resource:?} set again on node {node}, which had no key of it"),
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
