//! Who may set the key of a lock again on nodes that have none.

use std::mem::replace;
use std::sync::Arc;

use super::LeaseState;
use super::holding::{Holding, Standing};
use crate::cluster::{Places, places};
use crate::node::Leftover;
use crate::node::key_report::KeyReport;

/// The right to heal a lock. One extension at a time has it, from before its first send. Otherwise one could set the key on
/// a node where it has found none, and undo it, after another one has set it there and counted it.
pub(crate) struct Healer {
    lease: Arc<LeaseState>,
}

impl Healer {
    /// The nodes on which the key can be set again: those that answered that they have no key, those which nothing of the lock has
    /// reached, and those whose undo is answered.
    pub(crate) fn wanted(&self, reports: &[KeyReport]) -> Places {
        let state = self.lease.state.lock();
        let nodes = state.nodes.iter().zip(reports).enumerate();
        let wanted = nodes.filter(|(place, (node, report))| {
            node.can_be_healed(&report.vote, state.undos.last(*place))
        });
        wanted.map(|(place, _)| place).collect()
    }

    /// Begins to set the key on these nodes, if the lock is still held, and no extension has counted one of them meanwhile. From
    /// now on, a guard that ends does not pass them on. Returns whether it begins.
    pub(crate) fn begin(&self, places: &[usize]) -> bool {
        let mut state = self.lease.state.lock();
        // A command of the acquisition may have set the key after this extension has found none there, where a connection broke
        // and no undo follows it. Another extension relies on that key now, and the undo of a heal would delete it.
        let mut nodes = places.iter().filter_map(|place| state.nodes.get(*place));
        if state.is_lost() || nodes.any(|node| node.is_relied_on) {
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
    pub(crate) fn end(self, leftovers: impl Iterator<Item = (usize, Leftover)>) -> bool {
        let mut state = self.lease.state.lock();
        if state.is_lost() {
            return true;
        }
        for (place, leftover) in leftovers {
            if let Some(node) = state.nodes.get_mut(place) {
                node.is_being_healed = false;
                let standing = Holding::from(&leftover).standing;
                if standing != Standing::Untouched {
                    node.standing = standing;
                }
            }
            state.undos.note(place, leftover);
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
