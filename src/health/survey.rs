//! How many nodes have the keys of each held lock.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::error::NodeReport;
use crate::quorum::quorum;

/// The result of a list of the held locks, up to where the list ended.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    /// How many locks are held.
    pub(crate) held: usize,
    /// Why the nodes are not known for all held locks, if they are not.
    pub(crate) why_not: Option<String>,
    /// The locks with the fewest keys, if these are on fewer nodes than can vote.
    thin: Option<Thin>,
}

/// Locks that survive fewer failures than the nodes do.
#[derive(Debug, Default)]
struct Thin {
    /// How many such locks there are.
    locks: usize,
    /// How many nodes have the key of each of them.
    on: usize,
    /// The nodes that lack the key of at least one of them.
    lacking: BTreeSet<Arc<str>>,
}

impl Survey {
    /// Adds a lock that is on so few nodes. Only those on the fewest nodes are counted.
    pub(crate) fn note_thin<'n>(&mut self, on: usize, lacking: impl Iterator<Item = &'n Arc<str>>) {
        if self.thin.as_ref().is_none_or(|thin| on < thin.on) {
            let none = Thin::default();
            self.thin = Some(Thin { on, ..none });
        }
        if let Some(thin) = self.thin.as_mut().filter(|thin| thin.on == on) {
            thin.locks = thin.locks.saturating_add(1);
            thin.lacking.extend(lacking.cloned());
        }
    }

    /// Notes that the time was over before the end of the list.
    pub(crate) fn note_late(&mut self) {
        let held = self.held;
        self.why_not = Some(format!("there are more than {held} held locks"));
    }

    /// Notes that these nodes failed.
    pub(crate) fn note_failed(&mut self, nodes: &[NodeReport]) {
        let failure = nodes.iter().find_map(|node| node.vote.failure());
        let too_few = || "too few nodes answer".to_owned();
        self.why_not = Some(failure.map_or_else(too_few, ToString::to_string));
    }

    /// The nodes that lack keys of the locks that survive the fewest failures, and the text about these locks.
    pub(super) fn thin(&self, nodes: usize) -> Option<(&BTreeSet<Arc<str>>, String)> {
        let Thin { locks, on, lacking } = self.thin.as_ref()?;
        let margin = on.saturating_sub(quorum(nodes));
        let failures = match margin.saturating_add(1) {
            1 => "one more failure loses".to_owned(),
            more => format!("{more} more failures lose"),
        };
        let (have, them) = match locks {
            1 => ("has its", "it"),
            _ => ("have their", "them"),
        };
        let or_more = self.why_not.as_ref().map_or("", |_| " or more");
        let message = format!(
            "{locks} of {}{or_more} held locks {have} key on only {on} of {nodes} nodes: {failures} {them}",
            self.held
        );
        Some((lacking, message))
    }
}
