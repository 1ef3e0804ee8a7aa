//! What each node may have of a lock, and who may set the key again on nodes that lack it.

use std::mem::replace;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::clock::Timestamp;
use crate::cluster::{Places, places};
use crate::error::{NodeError, Vote};
use crate::node::key_report::KeyReport;
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
    standing: Standing,
    /// Whether the key is being set there. If no reply comes, an undo follows, so the node does not count before the reply.
    is_being_healed: bool,
    /// Whether an extension has counted the node since one got the right to heal.
    is_relied_on: bool,
}

/// What the lock has left on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Untouched,
    MayHaveKey,
    /// The last undo may still delete the key, so the node does not count before another heal.
    Undone,
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
    fn can_be_healed(self, vote: &Vote, undo: Option<&Receipt>) -> bool {
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
    fn is_worthless(self, vote: &Vote, undo: Option<&Receipt>, started: Timestamp) -> bool {
        // Do not count the vote after an undo, because the node may have been healed again, and another client may have had it in
        // between.
        let is_undone_since = || undo.is_some_and(|undo| started <= undo.sent_at);
        self.is_being_healed
            || match self.standing {
                Standing::MayHaveKey if vote.is_granted() => is_undone_since(),
                Standing::MayHaveKey => matches!(vote, Vote::NotAsked),
                Standing::Untouched | Standing::Undone => vote.is_granted(),
            }
    }
}

/// What the nodes may have of a lock, and who may heal it.
///
/// One extension at a time has the right to heal, from before its first send. Otherwise one could set the key on a node where it has
/// found none, and undo it, after another one has set it there and counted it.
#[derive(Default)]
pub(crate) struct Holdings {
    /// In the canonical order.
    nodes: SmallVec<[Holding; 5]>,
    /// The last undo to each node that was sent one. Most locks have no undo, and take no memory for one.
    undos: Option<Box<Undos>>,
    /// Whether an extension has the right to heal the lock.
    has_healer: bool,
}

/// Undos with the indexes of their nodes.
type Undos = SmallVec<[(usize, Arc<Receipt>); 1]>;

impl Holdings {
    pub(super) fn new(leftovers: impl Iterator<Item = Leftover>) -> Self {
        let mut all = Self::default();
        for (index, leftover) in leftovers.enumerate() {
            all.nodes.push(Holding::from(&leftover));
            all.note_undo(index, leftover);
        }
        all
    }

    pub(super) fn nodes(&self) -> &SmallVec<[Holding; 5]> {
        &self.nodes
    }

    /// The nodes on which the lock may rely.
    pub(crate) fn counted(&self) -> Places {
        places(&self.nodes, |node| node.counts())
    }

    /// Makes a failure of each vote that another extension has made worthless for one that began at `started`.
    pub(super) fn discount(&self, started: Timestamp, reports: &mut [KeyReport]) {
        for (index, (node, report)) in self.nodes.iter().zip(reports).enumerate() {
            if node.is_worthless(&report.vote, self.last_undo(index), started) {
                report.vote = Vote::Failed(NodeError::silence()).into();
            }
        }
    }

    /// Notes the nodes that an extension has counted.
    pub(super) fn rely_on(&mut self, reports: &[KeyReport]) {
        for (node, report) in self.nodes.iter_mut().zip(reports) {
            node.is_relied_on |= report.vote.is_granted();
        }
    }

    /// Takes the right to heal. Returns false if another extension has it.
    pub(crate) fn take_healer(&mut self) -> bool {
        if replace(&mut self.has_healer, true) {
            return false;
        }
        for node in &mut self.nodes {
            node.is_relied_on = false;
        }
        true
    }

    pub(crate) fn return_healer(&mut self) {
        self.has_healer = false;
    }

    /// The nodes on which the key can be set again: those that answered that they have no key, those which nothing of the lock has
    /// reached, and those whose undo is answered.
    pub(crate) fn to_heal(&self, reports: &[KeyReport]) -> Places {
        let nodes = self.nodes.iter().zip(reports).enumerate();
        let healed = nodes.filter(|(index, (node, report))| {
            node.can_be_healed(&report.vote, self.last_undo(*index))
        });
        healed.map(|(index, _)| index).collect()
    }

    /// Begins to set the key on these nodes, unless an extension has counted one of them meanwhile. Returns whether it begins.
    pub(crate) fn begin_heal(&mut self, indexes: &[usize]) -> bool {
        // A command of the acquisition may have set the key after this extension has found none there, where a connection broke
        // and no undo follows it. Another extension relies on that key now, and the undo of a heal would delete it.
        let mut nodes = indexes.iter().filter_map(|index| self.nodes.get(*index));
        if nodes.any(|node| node.is_relied_on) {
            return false;
        }
        for (index, node) in self.nodes.iter_mut().enumerate() {
            node.is_being_healed |= indexes.contains(&index);
        }
        true
    }

    /// Ends a heal with what it has left on each of its nodes.
    pub(crate) fn end_heal(&mut self, leftovers: impl Iterator<Item = (usize, Leftover)>) {
        for (index, leftover) in leftovers {
            if let Some(node) = self.nodes.get_mut(index) {
                node.is_being_healed = false;
                let standing = Holding::from(&leftover).standing;
                if standing != Standing::Untouched {
                    node.standing = standing;
                }
            }
            self.note_undo(index, leftover);
        }
    }

    fn last_undo(&self, index: usize) -> Option<&Receipt> {
        let mut undos = self.undos.as_ref()?.iter();
        Some(&undos.find(|(node, _)| *node == index)?.1)
    }

    fn note_undo(&mut self, index: usize, leftover: Leftover) {
        if let Leftover::Undone(receipt) = leftover {
            let undos = self.undos.get_or_insert_default();
            undos.retain(|(node, _)| *node != index);
            undos.push((index, receipt));
        }
    }
}
