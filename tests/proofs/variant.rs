//! The protocol, and what becomes of it when one rule is another.

use crate::node::{AttemptId, Lock, Node, Token};
use crate::state::Attempt;

/// Which rules the nodes follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Variant {
    /// The fenced protocol. All others differ from it in one rule.
    Fenced,
    /// A node grants a token that is no smaller than its counter, where it has to be larger.
    EqualIsEnough,
    /// Clients propose nothing. Each node counts its grants, and the largest count of the quorum is the token.
    CountPerNode,
    /// Clients propose nothing. The token is the largest counter of the quorum and one, and nobody waits for it to be
    /// written back: it is in the tombstone, and comes with the release.
    NoWriteBack,
    /// An extension makes a key again without a look at the counter.
    BlindExtension,
    /// A node that lost its counters grants every token.
    NoFloor,
    /// The clock of a node that lost its counters went back, so that `open_at` is not above all that it granted.
    ClockSteppedBack,
    /// `open_at` stands in for a counter that does not exist, and is forgotten as soon as one does.
    FloorOfMissingCounters,
    /// A holder also extends on nodes that it sent an undo while it was asking.
    UndoneIsExtended,
    /// An extension makes a key again without a look at the marker.
    RecreationWithoutFloor,
    /// A reader does not raise the counter.
    ReadersDontCount,
    /// A reader is let in while a lock key is there.
    ReadsPastWriters,
    /// A holder extends only on nodes whose votes it counted. This is no fault, but more than the protocol asks for.
    ExtendsByVotes,
    /// A node grants several resources if one of them is free.
    SetOnHalf,
    /// A token for several resources is larger than the counter of one of them.
    AboveOneCounter,
}

impl Variant {
    /// Whether clients propose tokens, as opposed to learning them from the votes.
    pub(crate) fn proposes(self) -> bool {
        !matches!(self, Self::CountPerNode | Self::NoWriteBack)
    }

    /// What a node whose lock is free answers to an acquire: the vote, which is the proposal or what stands in for
    /// it, and the new counter.
    pub(crate) fn grant(
        self,
        open_at: Token,
        counter: Token,
        proposal: Token,
    ) -> Option<(Token, Token)> {
        let floor = if self == Self::FloorOfMissingCounters && counter > 0 {
            counter
        } else {
            counter.max(open_at)
        };
        if self == Self::CountPerNode {
            Some((floor + 1, floor + 1))
        } else if self == Self::NoWriteBack {
            Some((floor + 1, counter))
        } else {
            let large_enough = proposal > floor || self == Self::EqualIsEnough && proposal == floor;
            large_enough.then_some((proposal, proposal))
        }
    }

    /// Whether an extension may make a key again that is gone: if the node granted nothing since, and lost nothing.
    pub(crate) fn may_recreate(self, open_at: Option<Token>, lock: Lock, attempt: Attempt) -> bool {
        // The marker is of this process, and the token can't be from before a loss of data.
        let is_above_open_at = open_at.is_some_and(|open_at| attempt.token > open_at);
        !attempt.subject.is_reader()
            && (self == Self::BlindExtension
                || lock.counter == attempt.token
                    && (self == Self::RecreationWithoutFloor || is_above_open_at))
    }

    /// Whether a holder sends its extension to this node.
    pub(crate) fn extends_at(self, node: &Node, attempt: AttemptId) -> bool {
        // While an attempt has a guard, its only releases are undos, and they stay where messages are repeated.
        let is_undone = node.releases.contains(attempt) && self != Self::UndoneIsExtended;
        let has_voted = node.voters.contains(attempt) || self != Self::ExtendsByVotes;
        has_voted && !is_undone
    }

    /// What a release makes the counter, unless it is larger.
    pub(crate) fn tombstone(self, token: Token) -> Token {
        if self == Self::CountPerNode {
            0
        } else if self == Self::NoWriteBack {
            token
        } else {
            token + 1
        }
    }

    /// What stands in for `open_at` when a node has just lost data.
    pub(crate) fn open_at_after_loss(self) -> Option<Token> {
        (self == Self::NoFloor).then_some(0)
    }

    /// The least `open_at` of a node that lost data.
    pub(crate) fn floor(self, node: &Node) -> Token {
        if self == Self::ClockSteppedBack {
            node.granted.saturating_sub(1)
        } else {
            node.granted
        }
    }
}
