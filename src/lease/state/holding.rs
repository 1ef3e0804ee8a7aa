//! What each node may have of a lock.

use smallvec::SmallVec;

use crate::clock::Timestamp;
use crate::error::Vote;
use crate::node::{Leftover, Receipt};

/// What one node may have of a lock, and what extensions do there.
///
/// | what the lock has left there | a heal begins | where it has sent nothing, or an undo |
/// |---|---|---|
/// | a key, possibly | if the node answers that it has none | it may have the key as before; it was sent an undo |
/// | nothing | if the node was not asked | the key can be set there as before; it was sent an undo |
/// | an undo behind the command | if the node was not asked, and the undo is answered | the key can be set there as before; it was sent another undo |
///
/// Where the node may have executed the heal, it may have the key from then on. If the program's logger panics during a heal, the
/// node stays one that is being healed: it is released in the end, and never counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Holding {
    pub(super) standing: Standing,
    /// Whether the key is being set there. If no reply comes, an undo follows, so the node does not count before the reply.
    pub(super) is_being_healed: bool,
    /// Whether an extension has counted the node since one got the right to heal.
    pub(super) is_relied_on: bool,
}

/// What the lock has left on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    Untouched,
    MayHaveKey,
    /// The last undo may still delete the key, so the node does not count before another heal.
    Undone,
}

/// What the nodes may have of a lock, in the canonical order.
pub(crate) type Holdings = SmallVec<[Holding; 5]>;

/// Returns what a lock has on each node, and its undos.
pub(super) fn of_leftovers(leftovers: impl Iterator<Item = Leftover>) -> (Holdings, Undos) {
    let mut undos = Undos::default();
    let nodes = leftovers.enumerate().map(|(place, leftover)| {
        let node = Holding::from(&leftover);
        undos.note(place, leftover);
        node
    });
    (nodes.collect(), undos)
}

impl From<&Leftover> for Holding {
    fn from(leftover: &Leftover) -> Self {
        Self {
            standing: match leftover {
                Leftover::None => Standing::Untouched,
                Leftover::Possible => Standing::MayHaveKey,
                Leftover::Undone(_) => Standing::Undone,
            },
            is_being_healed: false,
            is_relied_on: false,
        }
    }
}

impl Holding {
    /// Whether the lock may rely on a key on this node.
    pub(crate) fn counts(self) -> bool {
        self.standing == Standing::MayHaveKey && !self.is_being_healed
    }

    /// Whether a release has to reach this node.
    pub(crate) fn has_to_be_released(self) -> bool {
        self.standing == Standing::MayHaveKey || self.is_being_healed
    }

    /// Whether the key can be set again on this node after `vote` in an extension. `undo` is the last undo that was sent to the
    /// node.
    pub(super) fn can_be_healed(self, vote: &Vote, undo: Option<&Receipt>) -> bool {
        let lacks_the_key = match self.standing {
            Standing::MayHaveKey => matches!(vote, Vote::Missing),
            Standing::Untouched => matches!(vote, Vote::NotAsked),
            Standing::Undone => {
                matches!(vote, Vote::NotAsked) && undo.is_some_and(Receipt::is_answered)
            }
        };
        lacks_the_key && !self.is_being_healed
    }

    /// Whether another extension of the lock has made `vote` worthless. The extension with this vote began at `started`. The other
    /// extension heals the node now, or has healed the node since this one left it out, or has sent an undo since. Then the key may
    /// be there or not. `undo` is the last undo that was sent to the node.
    pub(super) fn is_worthless(
        self,
        vote: &Vote,
        undo: Option<&Receipt>,
        started: Timestamp,
    ) -> bool {
        // Do not count the vote after an undo, because the node may have been healed again, and another client may have had it in
        // between.
        let is_undone_since = || undo.is_some_and(|undo| started <= undo.sent_at());
        self.is_being_healed
            || match self.standing {
                Standing::MayHaveKey if vote.is_granted() => is_undone_since(),
                Standing::MayHaveKey => matches!(vote, Vote::NotAsked),
                Standing::Untouched | Standing::Undone => vote.is_granted(),
            }
    }
}

/// The last undo to each node that was sent one. Most locks have no undo, and take no memory for one.
#[derive(Default)]
pub(super) struct Undos(Option<Box<SmallVec<[Undone; 1]>>>);

struct Undone {
    place: usize,
    receipt: Receipt,
}

impl Undos {
    /// The last undo to the node at this place.
    pub(super) fn last(&self, place: usize) -> Option<&Receipt> {
        let mut all = self.0.iter().flat_map(|all| all.iter());
        let found = all.find(|undone| undone.place == place);
        found.map(|undone| &undone.receipt)
    }

    /// Notes an undo, if the node at this place was sent one.
    pub(super) fn note(&mut self, place: usize, leftover: Leftover) {
        if let Leftover::Undone(receipt) = leftover {
            let all = self.0.get_or_insert_default();
            all.retain(|undone| undone.place != place);
            all.push(Undone { place, receipt });
        }
    }
}
