//! The messages of [`Error`]: lower case, without a full stop, and with what each node said.

use std::fmt;

use super::Error;
use super::reports::{Reports, is_resting, is_unasked, readers, writer_waits};

impl fmt::Display for Error {
    #[expect(clippy::too_many_lines, reason = "one arm a variant")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held {
                resource,
                permits: None,
                waited,
                holder,
                nodes,
            } if is_resting(nodes) => {
                write!(f, "the lock on {resource:?} rests")?;
                if let Some(holder) = holder {
                    write!(f, ", done by {}", holder.label)?;
                }
                write!(f, " (waited {waited:.1?}): {}", Reports(nodes))
            }
            Self::Held {
                resource,
                permits: None,
                waited,
                nodes,
                ..
            } if writer_waits(nodes) => write!(
                f,
                "a writer waits for the lock on {resource:?}, and comes before further readers (waited {waited:.1?}): {}",
                Reports(nodes)
            ),
            Self::Held {
                resource,
                permits,
                waited,
                holder,
                nodes,
            } => {
                if let (None, Some(readers)) = (permits, readers(nodes)) {
                    return write!(
                        f,
                        "the lock on {resource:?} is read by {readers} (waited {waited:.1?}): {}",
                        Reports(nodes)
                    );
                }
                match permits {
                    None => write!(f, "the lock on {resource:?} is held by ")?,
                    Some(n) => write!(f, "the permits of {resource:?}, {n} in all, are held by ")?,
                }
                match (permits, holder, is_unasked(nodes)) {
                    (None, Some(holder), true) => write!(f, "another guard of this manager, {holder}")?,
                    (None, Some(holder), false) => write!(f, "{holder}")?,
                    (None, None, true) => {
                        f.write_str("another guard of this manager, or another thread asks for it")?;
                    }
                    (None, None, false) => f.write_str("another holder")?,
                    (Some(_), _, true) => {
                        f.write_str("guards of this manager, or another thread asks for one")?;
                    }
                    (Some(_), Some(holder), false) => write!(f, "other holders, {holder} among them")?,
                    (Some(_), None, false) => f.write_str("other holders")?,
                }
                if is_unasked(nodes) {
                    write!(f, "; no node was asked (waited {waited:.1?})")
                } else {
                    write!(f, " (waited {waited:.1?}): {}", Reports(nodes))
                }
            }
            Self::Unavailable {
                resource,
                waited,
                nodes,
            } => write!(
                f,
                "too many nodes failed for a majority for {resource:?} (waited {waited:.1?}): {}",
                Reports(nodes)
            ),
            Self::TooSlow {
                resource,
                waited,
                elapsed,
                nodes,
            } => write!(
                f,
                "a majority granted the lock on {resource:?}, but its validity was used up after {elapsed:.1?}; \
                 use a longer ttl (waited {waited:.1?}): {}",
                Reports(nodes)
            ),
            Self::Cancelled { resource, waited } => {
                write!(f, "the wait for the lock on {resource:?} was cancelled (waited {waited:.1?})")
            }
            Self::Lost { resource, cause } => {
                write!(f, "the lock on {resource:?} is no longer held: {cause}")
            }
            Self::Incomplete { waited, nodes } => write!(
                f,
                "the list of locks is incomplete, because too many nodes failed (after {waited:.1?}): {}",
                Reports(nodes)
            ),
            Self::NotOpened { nodes } => write!(
                f,
                "the nodes were not opened, because not all of them are fresh: {}",
                Reports(nodes)
            ),
            Self::Invalid { field, reason } => write!(f, "invalid {field}: {reason}"),
            Self::Forked => f.write_str(
                "a forked child can use no LockManager, neither its parent's nor one of its own: execute a program in the \
                 child, or fork before the first LockManager is built",
            ),
            Self::NoThread { .. } => {
                f.write_str("the operating system gave no thread for keep-alive; look at its limits")
            }
            Self::NoRandomness { .. } => f.write_str("the operating system gave no random bytes"),
        }
    }
}
