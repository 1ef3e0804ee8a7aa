//! What each node may have of a lock.
//!
//! | from | event | to |
//! |---|---|---|
//! | – | nothing of the attempt has reached the node | `Untouched` |
//! | – | the node may have executed the attempt's command | `MayHaveKey` |
//! | – | an undo was sent behind the command | `Undone` |
//! | `Untouched`, or `MayHaveKey` where the node answers that it has no key | a heal begins | `Healing` |
//! | `Healing` | nothing of the heal has reached the node | the one before |
//! | `Healing` | the node may have executed the heal | `MayHaveKey` |
//! | `Healing` | an undo was sent behind the heal | `Undone` |
//! | `Healing` | a logger of the program panics | `Healing`, to the end of the lock: it is released, and never counts |

use smallvec::SmallVec;

use crate::error::{NodeError, NodeReport, Vote};
use crate::node::Trace;

/// What one node may have of a lock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It may have the key.
    MayHaveKey,
    /// Nothing of the lock has reached it, so the key can be set there.
    #[default]
    Untouched,
    /// The key is being set there. If no reply comes, an undo follows, so the node does not count before the reply.
    Healing,
    /// It was sent an undo, which may delete the key at any later time. It never counts again.
    Undone,
}

/// What the nodes may have of a lock, in the canonical order.
pub(crate) type Standings = SmallVec<[Standing; 14]>;

impl From<Trace> for Standing {
    fn from(trace: Trace) -> Self {
        match trace {
            Trace::None => Self::Untouched,
            Trace::Possible => Self::MayHaveKey,
            Trace::Undone => Self::Undone,
        }
    }
}

impl Standing {
    /// Of a node in a lease. The text does not say whether a node without the key was sent an undo, so it may have been.
    pub(crate) fn of_lease(may_have_key: bool) -> Self {
        if may_have_key {
            Self::MayHaveKey
        } else {
            Self::Undone
        }
    }

    /// Whether the lock may rely on a key on this node.
    pub(crate) fn counts(self) -> bool {
        self == Self::MayHaveKey
    }

    /// Whether a release has to reach this node.
    pub(crate) fn has_to_be_released(self) -> bool {
        matches!(self, Self::MayHaveKey | Self::Healing)
    }
}

/// Takes the votes that another extension of the lock has made worthless: it is healing the node, or has healed it since it
/// was left out of this round, or has sent it an undo, so that the key may be there or not.
pub(super) fn discount(standings: &[Standing], nodes: &mut [NodeReport]) {
    for (standing, node) in standings.iter().zip(nodes) {
        let is_worthless = match standing {
            Standing::MayHaveKey => matches!(node.vote, Vote::NotAsked),
            Standing::Healing => true,
            Standing::Untouched | Standing::Undone => node.vote.is_granted(),
        };
        if is_worthless {
            node.vote = Vote::Failed(NodeError::TimedOut);
        }
    }
}
