//! Whether a `redlatch run` that this process belongs to has the lock already.

use std::env;

use crate::name::Name;
use crate::wanted::{Kind, Wanted};

/// The variables in which a command finds what its `redlatch run` has locked.
pub(crate) const RESOURCE: &str = "REDLATCH_RESOURCE";
pub(crate) const RESOURCES: &str = "REDLATCH_RESOURCES";

/// The name that is wanted, and that a parent has locked. Of a semaphore, there may be another permit.
pub(crate) fn held_by_parent<'a>(wanted: &Wanted<'a>) -> Option<&'a Name> {
    if let Kind::Permit(_) = wanted.kind {
        return None;
    }
    let one = env::var(RESOURCE).ok();
    let all = env::var(RESOURCES).unwrap_or_default();
    let is_held = |name: &&Name| {
        one.as_deref() == Some(name.as_str()) || all.lines().any(|other| other == name.as_str())
    };
    wanted.names().find(is_held)
}
