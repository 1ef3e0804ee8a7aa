//! What each node may have of a lock.

use smallvec::SmallVec;

use crate::error::Vote;
use crate::node::Leftover;

/// What one node may have of a lock, and what extensions do there.
///
/// | what the lock has left there | a heal begins | where it has sent nothing, or an undo |
/// |---|---|---|
/// | a key, possibly | if the node answers that it has none | it may have the key as before; it was sent an undo |
/// | nothing | if the node was not asked | the key can be set there as before; it was sent an undo |
/// | an undo behind the command | never | |
///
/// Where the node may have executed the heal, it may have the key from then on. If the program's logger panics during a heal, the
/// node stays one that is being healed: it is released in the end, and never counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Holding {
    /// What the lock has left there. An undo may delete the key at any later time, so such a node never counts again.
    pub(super) leftover: Leftover,
    /// Whether the key is being set there. If no reply comes, an undo follows, so the node does not count before the reply.
    pub(super) is_being_healed: bool,
    /// Whether an extension has counted the node since one got the right to heal.
    pub(super) is_relied_on: bool,
}

/// What the nodes may have of a lock, in the canonical order.
pub(crate) type Holdings = SmallVec<[Holding; 5]>;

impl From<Leftover> for Holding {
    fn from(leftover: Leftover) -> Self {
        Self {
            leftover,
            is_being_healed: false,
            is_relied_on: false,
        }
    }
}

impl Holding {
    /// Whether the lock may rely on a key on this node.
    pub(crate) fn counts(self) -> bool {
        self.leftover == Leftover::Possible && !self.is_being_healed
    }

    /// Whether a release has to reach this node.
    pub(crate) fn has_to_be_released(self) -> bool {
        self.leftover == Leftover::Possible || self.is_being_healed
    }

    /// Whether the key can be set again on this node, which has said that in an extension.
    pub(super) fn can_be_healed(self, vote: &Vote) -> bool {
        let lacks_the_key = match self.leftover {
            Leftover::Possible => matches!(vote, Vote::Missing),
            Leftover::None => matches!(vote, Vote::NotAsked),
            Leftover::Undone => false,
        };
        lacks_the_key && !self.is_being_healed
    }

    /// Whether another extension of the lock has made this vote worthless: it is healing the node, or has healed it since it was
    /// left out of this round, or has sent it an undo, so that the key may be there or not.
    pub(super) fn is_worthless(self, vote: &Vote) -> bool {
        self.is_being_healed
            || match self.leftover {
                Leftover::Possible => matches!(vote, Vote::NotAsked),
                Leftover::None | Leftover::Undone => vote.is_granted(),
            }
    }
}
