//! What a flush reports about one node.

use std::fmt;
use std::sync::Arc;

/// The most names in a message.
const MOST_NAMES: usize = 3;

/// The releases that one node has not answered, as [`Error::Unanswered`](crate::Error::Unanswered) tells.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnansweredReleases {
    /// The node as `host:port`, or as the path of its socket.
    pub node: Arc<str>,
    /// The resources whose keys may be left on it, each once, in the order of their names.
    pub resources: Vec<String>,
}

impl fmt::Display for UnansweredReleases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { node, resources } = self;
        write!(f, "{node} has not answered the release of ")?;
        for (place, name) in resources.iter().take(MOST_NAMES).enumerate() {
            let comma = if place == 0 { "" } else { ", " };
            write!(f, "{comma}{name:?}")?;
        }
        match resources.len().saturating_sub(MOST_NAMES) {
            0 if resources.is_empty() => f.write_str("a lock"),
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}
