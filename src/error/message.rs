//! The messages of [`Error`]: lower case, without a full stop, and with what each node told.

use std::error::Error as _;
use std::fmt;
use std::time::Duration;

use super::reports::Told;
use super::words::done_by;
use super::{Error, NodeReport};
use crate::holder::Holder;
use crate::shown::span;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&match self {
            Self::Held {
                resource,
                permits,
                holder,
                nodes,
                ..
            } => match permits {
                None => held(resource, holder.as_ref(), Told(nodes)),
                Some(permits) => all_held(resource, *permits, holder.as_ref(), Told(nodes)),
            },
            Self::Unavailable { resource, .. } => {
                format!("too many nodes failed for a majority for {resource:?}")
            }
            Self::NotALock { resource, .. } => {
                format!("the key of {resource:?} is in use by something else")
            }
            Self::TooSlow {
                resource, elapsed, ..
            } => format!(
                "a majority granted the lock on {resource:?}, but its validity was used up after {}; use a longer ttl",
                span(*elapsed)
            ),
            Self::Cancelled { resource, .. } => {
                format!("the wait for the lock on {resource:?} was cancelled")
            }
            Self::Lost { resource, cause } => {
                format!("the lock on {resource:?} is no longer held: {cause}")
            }
            Self::Unconfirmed { resource, .. } => format!(
                "the release of the lock on {resource:?} is not confirmed, because too few nodes answered; it ends with \
                 its time to live"
            ),
            Self::Unanswered { nodes, .. } => {
                let nodes: Vec<String> = nodes.iter().map(ToString::to_string).collect();
                format!("not all releases are answered: {}", nodes.join("; "))
            }
            Self::Incomplete { .. } => {
                "the list of locks is incomplete, because too many nodes failed".into()
            }
            Self::NotOpened { .. } => {
                "nothing was opened, because not all nodes grant that".into()
            }
            Self::Invalid { field, reason } => format!("invalid {field}: {reason}"),
            Self::Forked => "a forked child can use no LockManager, neither its parent's nor one of its own: execute a \
                             program in the child, or fork before the first LockManager is built"
                .into(),
            Self::NoThread { .. } => {
                "the operating system gave no thread; look at its limits".into()
            }
            Self::NoRandomness { .. } => "the operating system gave no random bytes".into(),
        })?;
        let (waited, nodes) = self.round();
        f.write_str(&after(waited, nodes))
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)?;
        self.source()
            .map_or(Ok(()), |source| write!(f, ": {source}"))
    }
}

impl Error {
    /// How long the call has taken, and what each node said, as far as the error has that.
    pub(crate) fn round(&self) -> (Duration, &[NodeReport]) {
        match self {
            Self::Held { waited, nodes, .. }
            | Self::Unavailable { waited, nodes, .. }
            | Self::NotALock { waited, nodes, .. }
            | Self::TooSlow { waited, nodes, .. }
            | Self::Unconfirmed { waited, nodes, .. }
            | Self::Incomplete { waited, nodes } => (*waited, nodes),
            Self::Cancelled { waited, .. } | Self::Unanswered { waited, .. } => (*waited, &[]),
            Self::NotOpened { nodes } => (Duration::ZERO, nodes),
            Self::Lost { .. }
            | Self::Invalid { .. }
            | Self::Forked
            | Self::NoThread { .. }
            | Self::NoRandomness { .. } => (Duration::ZERO, &[]),
        }
    }
}

fn held(resource: &str, holder: Option<&Holder>, told: Told<'_>) -> String {
    let lock = format!("the lock on {resource:?}");
    match (told.readers(), holder) {
        (_, Some(holder)) if told.is_nothing() => {
            format!("{lock} is held by another guard of this manager, {holder}")
        }
        (_, None) if told.is_nothing() => format!(
            "{lock} is held by another guard of this manager, or another thread asks for it"
        ),
        _ if told.is_rest() => format!("{lock} rests{}", done_by(holder)),
        _ if told.writer_waits() => {
            format!("a writer waits for {lock}, and comes before further readers")
        }
        (Some(readers), _) => format!("{lock} is read by {readers}"),
        (None, Some(holder)) => format!("{lock} is held by {holder}"),
        (None, None) => format!("{lock} is held by another holder"),
    }
}

fn all_held(resource: &str, permits: u32, holder: Option<&Holder>, told: Told<'_>) -> String {
    let whom = match holder {
        _ if told.is_nothing() => "guards of this manager, or another thread asks for one".into(),
        Some(holder) => format!("other holders, {holder} among them"),
        None => "other holders".to_owned(),
    };
    format!("the permits of {resource:?}, {permits} in all, are held by {whom}")
}

fn after(waited: Duration, nodes: &[NodeReport]) -> String {
    let told = Told(nodes);
    let waited = match waited.as_millis() {
        0 => String::new(),
        _ => format!(" (waited {})", span(waited)),
    };
    if nodes.is_empty() {
        waited
    } else if told.is_nothing() {
        format!("; no node was asked{waited}")
    } else {
        format!("{waited}: {told}")
    }
}
