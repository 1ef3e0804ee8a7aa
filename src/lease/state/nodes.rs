//! What each node may have of a lock, and who may set its key again on nodes that have none.

use std::mem::replace;
use std::sync::Arc;

use smallvec::SmallVec;

use super::LeaseState;
use crate::cluster::{Places, places};
use crate::error::{NodeReport, Vote};
use crate::node::Trace;

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
    trace: Trace,
    /// Whether the key is being set there. If no reply comes, an undo follows, so the node does not count before the reply.
    is_being_healed: bool,
    /// Whether an extension has counted the node since one got the right to heal.
    pub(super) is_relied_on: bool,
}

/// What the nodes may have of a lock, in the canonical order.
pub(crate) type Holdings = SmallVec<[Holding; 5]>;

impl From<Trace> for Holding {
    fn from(trace: Trace) -> Self {
        Self {
            trace,
            is_being_healed: false,
            is_relied_on: false,
        }
    }
}

impl Holding {
    /// Whether the lock may rely on a key on this node.
    pub(crate) fn counts(self) -> bool {
        self.trace == Trace::Possible && !self.is_being_healed
    }

    /// Whether a release has to reach this node.
    pub(crate) fn has_to_be_released(self) -> bool {
        self.trace == Trace::Possible || self.is_being_healed
    }

    /// Whether the key can be set again on this node, which has said that in an extension.
    fn can_be_healed(self, vote: &Vote) -> bool {
        let lacks_the_key = match self.trace {
            Trace::Possible => matches!(vote, Vote::Missing),
            Trace::None => matches!(vote, Vote::NotAsked),
            Trace::Undone => false,
        };
        lacks_the_key && !self.is_being_healed
    }

    /// Whether another extension of the lock has made this vote worthless: it is healing the node, or has healed it since it was
    /// left out of this round, or has sent it an undo, so that the key may be there or not.
    pub(super) fn is_worthless(self, vote: &Vote) -> bool {
        self.is_being_healed
            || match self.trace {
                Trace::Possible => matches!(vote, Vote::NotAsked),
                Trace::None | Trace::Undone => vote.is_granted(),
            }
    }
}

/// The right to heal a lock. One extension at a time has it, from before its first send. Otherwise one could set the key on
/// a node where it has found none, and undo it, after another one has set it there and counted it.
pub(crate) struct Healer {
    lease: Arc<LeaseState>,
}

impl Healer {
    /// The nodes on which the key can be set again: those that answered that they have no key, and those which nothing of the lock
    /// has reached.
    pub(crate) fn wanted(&self, nodes: &[NodeReport]) -> Places {
        let state = self.lease.state.lock();
        let nodes = state.nodes.iter().zip(nodes).enumerate();
        let wanted = nodes.filter(|(_, (node, report))| node.can_be_healed(&report.vote));
        wanted.map(|(place, _)| place).collect()
    }

    /// Begins to set the key on these nodes, if the lock is still held, and no extension has counted one of them meanwhile. From
    /// now on, a guard that ends does not pass them on. Returns whether it begins.
    pub(crate) fn begin(&self, places: &[usize]) -> bool {
        let mut state = self.lease.state.lock();
        // A command of the acquisition may have set the key after this extension has found none there, where a connection broke
        // and no undo follows it. Another extension relies on that key now, and the undo of a heal would delete it.
        let is_relied_on = |place: &usize| {
            state
                .nodes
                .get(*place)
                .is_some_and(|node| node.is_relied_on)
        };
        if state.is_lost() || places.iter().any(is_relied_on) {
            return false;
        }
        for place in places {
            if let Some(node) = state.nodes.get_mut(*place) {
                node.is_being_healed = true;
            }
        }
        true
    }

    /// Ends the heal with what it has left on each of its nodes. Returns whether the lock has ended meanwhile. Its guard may have
    /// released it before, so the caller has to release these nodes.
    pub(crate) fn end(self, traces: impl Iterator<Item = (usize, Trace)>) -> bool {
        let mut state = self.lease.state.lock();
        if state.is_lost() {
            return true;
        }
        for (place, trace) in traces {
            if let Some(node) = state.nodes.get_mut(place) {
                node.is_being_healed = false;
                if trace != Trace::None {
                    node.trace = trace;
                }
            }
        }
        false
    }
}

impl Drop for Healer {
    fn drop(&mut self) {
        self.lease.state.lock().has_healer = false;
    }
}

impl LeaseState {
    /// The nodes on which the lock may rely.
    pub(crate) fn counted(&self) -> Places {
        places(&self.state.lock().nodes, |node| node.counts())
    }

    /// Takes the right to heal the lock, unless another extension has it.
    pub(crate) fn take_healer(self: &Arc<Self>) -> Option<Healer> {
        let mut state = self.state.lock();
        if replace(&mut state.has_healer, true) {
            return None;
        }
        for node in &mut state.nodes {
            node.is_relied_on = false;
        }
        drop(state);
        let lease = Arc::clone(self);
        Some(Healer { lease })
    }
}
