//! What each node may have of a lock, and who may set its key again on nodes that have none.
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

use std::sync::Arc;

use smallvec::SmallVec;

use super::LeaseState;
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
