//! How many nodes have the keys of each held lock.

use std::sync::Arc;

use crate::error::NodeReport;
use crate::quorum::quorum;

/// The result of a list of the held locks, up to where the list ended.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    /// How many locks are held.
    pub(crate) held: usize,
    /// The locks with the fewest keys, if these are on fewer nodes than can vote.
    pub(crate) thin: Option<Thin>,
    /// Why the list is not complete, if it is not.
    pub(crate) end: Option<End>,
}

/// Locks that survive fewer failures than the nodes do.
#[derive(Debug)]
pub(crate) struct Thin {
    /// How many such locks there are.
    pub(crate) locks: usize,
    /// How many nodes have the key of each of them.
    pub(crate) on: usize,
    /// The nodes that lack the key of at least one of them.
    pub(crate) lacking: Vec<Arc<str>>,
}

#[derive(Debug)]
pub(crate) enum End {
    /// The time was over.
    Late,
    /// These nodes failed.
    Failed(Vec<NodeReport>),
}

impl Survey {
    /// Returns the locks that survive the fewest failures, and the text about them.
    pub(super) fn of_thin(&self, nodes: usize) -> Option<(&Thin, String)> {
        let thin = self.thin.as_ref()?;
        let Thin { locks, on, .. } = thin;
        let margin = on.saturating_sub(quorum(nodes));
        let failures = match margin.saturating_add(1) {
            1 => "one more failure loses".to_owned(),
            more => format!("{more} more failures lose"),
        };
        let (have, them) = if *locks == 1 {
            ("has its", "it")
        } else {
            ("have their", "them")
        };
        let held = self.held;
        let all = if self.end.is_some() {
            format!("{held} or more")
        } else {
            held.to_string()
        };
        let message = format!(
            "{locks} of {all} held locks {have} key on only {on} of {nodes} nodes: {failures} {them}"
        );
        Some((thin, message))
    }

    /// Why the nodes are not known for all held locks.
    pub(super) fn why_not(&self) -> Option<String> {
        Some(match self.end.as_ref()? {
            End::Late => format!("there are more than {} held locks", self.held),
            End::Failed(nodes) => {
                let failures = nodes.iter().find_map(|node| node.vote.failure());
                failures.map_or_else(|| "too few nodes answer".to_owned(), ToString::to_string)
            }
        })
    }
}
