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

/// Makes a function of each line.
macro_rules! lines {
    ($($(#[$doc:meta])* $name:ident($($value:ident: $type:ty),*) $level:ident $target:ident $line:literal;)*) => {$(
        $(#[$doc])*
        pub(crate) fn $name($($value: $type),*) {
            despite_panics(|| log::$level!(target: $target, $line));
        }
    )*};
}

lines! {
    acquired(lock: &Resource, waited: Duration) debug LOCK "{lock} acquired in {waited:.1?}";
    /// Instead of [`acquired`], after more than one attempt.
    waited(lock: &Resource, waited: Duration, attempts: u32)
        debug LOCK "{lock} acquired after {waited:.1?}, attempts: {attempts}";
    held_by_another(resource: &str) debug LOCK "lock {resource:?} is held by another";
    /// Instead of [`held_by_another`], where the holder has a label.
    held_by(resource: &str, holder: &Holder) debug LOCK "lock {resource:?} is held by {holder}";
    /// Instead of [`held_by_another`], where readers have the lock.
    read_by(resource: &str, readers: u64) debug LOCK "lock {resource:?} is read by {readers}";
    /// Instead of [`held_by_another`], where a reader meets no holder.
    kept_for_a_writer(resource: &str) debug LOCK "lock {resource:?} is kept for a writer that waits";
    released(lock: &Resource, held: Duration) debug LOCK "{lock} released after {held:.1?}";
    /// Instead of [`released`], where too few nodes have answered.
    unconfirmed(lock: &Resource)
        warn LOCK "{lock} given back, but no majority has answered; the others are told again in the background";
    lost(lock: &Resource, cause: &dyn Display) warn LOCK "{lock} lost: {cause}";
    healed(lock: &Resource, node: &str) debug LOCK "{lock} set again on node {node}, which had no key of it";
    /// Once for renewals that fail one after the other.
    renewals_fail(lock: &Resource, count: usize, of: usize, left: Duration, told: &dyn Display)
        warn RENEWAL "renewals of {lock} fail on {count} of {of} nodes, and it ends in {left:.1?}: {told}";
    /// After [`renewals_fail`].
    renewed_again(lock: &Resource) info RENEWAL "{lock} is renewed again";
    node_opened(name: &str, fault: &dyn Display) warn NODE "node {name} failed ({fault}); left out until it answers again";
    node_closed(name: &str) info NODE "node {name} answers again";
}
