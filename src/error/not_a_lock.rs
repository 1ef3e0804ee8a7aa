//! `NodeError::NotALock`: what is under a key that is no lock, and what to do about it.

use std::fmt;

use super::NodeError;
use crate::value::Content;

/// It has the value of a holder of this crate, and no time to live.
const LOST_ITS_TTL: &str = "lost its time to live";

impl NodeError {
    /// A key that never expires, and its value as far as that is known.
    pub(crate) fn never_expires(value: Option<&[u8]>, length: Option<usize>) -> Self {
        let reason = match value.map_or(Content::Foreign, Content::read) {
            Content::Held(_) | Content::Resting(_) => LOST_ITS_TTL,
            Content::Foreign => "never expires",
        };
        Self::NotALock {
            reason,
            length,
            resource: None,
        }
    }

    pub(crate) fn other_type() -> Self {
        Self::NotALock {
            reason: "holds a value of another type",
            length: None,
            resource: None,
        }
    }

    /// Whether it was a lock, which its holder may still have.
    pub(crate) fn is_a_lock_without_ttl(&self) -> bool {
        matches!(self, Self::NotALock { reason, .. } if *reason == LOST_ITS_TTL)
    }

    pub(super) fn fmt_not_a_lock(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::NotALock {
            reason,
            length,
            resource,
        } = self
        else {
            return Ok(());
        };
        match resource {
            None => f.write_str("the key is ")?,
            Some(name) => write!(f, "the key of {name:?} is ")?,
        }
        if self.is_a_lock_without_ttl() {
            return write!(
                f,
                "a lock that {reason}; delete it only if its holder is gone"
            );
        }
        write!(f, "not a lock: it {reason}; ")?;
        if let Some(length) = length {
            let plural = if *length == 1 { "" } else { "s" };
            write!(f, "its value has {length} byte{plural}; ")?;
        }
        f.write_str("choose another resource or key_prefix, or delete the key")
    }
}
