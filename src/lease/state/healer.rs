//! Who may set the key of a lock again on nodes that have none.

use std::sync::Arc;

use super::LeaseState;
use super::standing::{Standing, Standings};
use crate::error::{NodeReport, Vote};
use crate::node::Trace;

/// The right to heal a lock. One extension at a time has it, from before its first send. Otherwise one could set the key on
/// a node where it has found none, and undo it, after another one has set it there and counted it.
pub(crate) struct Healer {
    lease: Arc<LeaseState>,
}

impl Healer {
    /// The nodes, if any, on which the key can be set again: the nodes that answered that they have no key, and those which
    /// nothing of the lock has reached.
    pub(crate) fn wanted(&self, nodes: &[NodeReport]) -> Option<Box<[bool]>> {
        if nodes.iter().all(|node| node.vote.is_granted()) {
            return None;
        }
        let state = self.lease.state.lock();
        let wanted = state.standings.iter().zip(nodes);
        let wanted: Box<[bool]> = wanted
            .map(|(standing, node)| is_wanted(*standing, node))
            .collect();
        wanted.contains(&true).then_some(wanted)
    }

    /// Begins to set the key on these nodes, if the lock is still held, and no extension has counted one of them meanwhile. From now on, a guard that ends does not pass them on.
    pub(crate) fn begin(&self, asked: &[bool]) -> Option<Heal<'_>> {
        let mut state = self.lease.state.lock();
        // A command of the acquisition may have set the key after this extension has found none there, where a connection broke
        // and no undo follows it. Another extension relies on that key now, and the undo of a heal would delete it.
        let counted = state.rare().and_then(|rare| rare.counted.as_deref());
        let was_counted = asked
            .iter()
            .zip(counted.unwrap_or_default())
            .any(|(a, c)| *a && *c);
        if state.is_lost() || was_counted {
            return None;
        }
        let before = state.standings.clone();
        for (standing, asked) in state.standings.iter_mut().zip(asked) {
            if *asked {
                *standing = Standing::Healing;
            }
        }
        drop(state);
        Some(Heal {
            healer: self,
            before,
        })
    }
}

/// A heal that is under way.
pub(crate) struct Heal<'h> {
    healer: &'h Healer,
    before: Standings,
}

impl Heal<'_> {
    /// Ends it with what it has left on the nodes that were asked. Returns the nodes that the caller has to release: the
    /// guard has ended meanwhile, and nobody else will release them.
    pub(crate) fn end(self, traces: &[Option<Trace>]) -> Option<Box<[bool]>> {
        let mut state = self.healer.lease.state.lock();
        if state.has_ended {
            let is_left = |trace: &Option<Trace>| *trace == Some(Trace::Possible);
            return Some(traces.iter().map(is_left).collect());
        }
        let standings = state
            .standings
            .iter_mut()
            .zip(self.before.iter())
            .zip(traces);
        for ((standing, before), trace) in standings {
            *standing = match trace {
                None => continue,
                Some(Trace::None) => *before,
                Some(trace) => (*trace).into(),
            };
        }
        None
    }
}

impl Drop for Healer {
    fn drop(&mut self) {
        if let Some(rare) = self.lease.state.lock().rare_mut() {
            rare.counted = None;
        }
    }
}

fn is_wanted(standing: Standing, node: &NodeReport) -> bool {
    match standing {
        Standing::MayHaveKey => matches!(node.vote, Vote::Missing),
        Standing::Untouched => matches!(node.vote, Vote::NotAsked),
        Standing::Healing | Standing::Undone => false,
    }
}

impl LeaseState {
    /// For each node in the canonical order, whether the lock may rely on a key there.
    pub(crate) fn counted(&self) -> Box<[bool]> {
        let state = self.state.lock();
        state
            .standings
            .iter()
            .map(|standing| standing.counts())
            .collect()
    }

    /// The right to heal the lock, unless another extension has it.
    pub(crate) fn healer(self: &Arc<Self>) -> Option<Healer> {
        let mut state = self.state.lock();
        let none_counted = vec![false; state.standings.len()];
        let counted = &mut state.make_rare().counted;
        if counted.is_some() {
            return None;
        }
        *counted = Some(none_counted.into());
        drop(state);
        Some(Healer {
            lease: Arc::clone(self),
        })
    }
}
