//! What clients want to lock, as what, and on how many nodes.

use std::ops::Range;

pub(crate) const NODES: usize = 3;
pub(crate) const QUORUM: usize = 2;
/// Their places in each node.
pub(crate) const RESOURCES: usize = 2;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Subject {
    /// The first resource, as a plain lock: a writer is nothing else.
    #[default]
    Lock,
    /// The first resource, as a reader.
    Read,
    /// The second resource, as a plain lock.
    Other,
    /// Both resources at once.
    Both,
}

impl Subject {
    pub(crate) fn resources(self) -> Range<usize> {
        match self {
            Self::Lock | Self::Read => 0..1,
            Self::Other => 1..2,
            Self::Both => 0..2,
        }
    }

    pub(crate) fn is_reader(self) -> bool {
        self == Self::Read
    }

    /// Whether two clients with these must not be valid at once.
    pub(crate) fn excludes(self, other: Self) -> bool {
        let (ours, theirs) = (self.resources(), other.resources());
        let shares_one = ours.start < theirs.end && theirs.start < ours.end;
        shares_one && !(self.is_reader() && other.is_reader())
    }
}
