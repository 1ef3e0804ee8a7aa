//! What is left to do for locks that are renewed together, until no other lock is due.

use std::sync::Arc;

use crate::lease::state::LeaseState;
use crate::protocol::extend::Extension;
use crate::verdict::Verdict;

/// The unfinished renewals of a round.
#[derive(Default)]
pub(super) struct Unfinished {
    /// Locks that got no majority from the nodes that have not failed lately.
    pub(super) undecided: Vec<Arc<LeaseState>>,
    /// Extensions of locks whose key is missing on some nodes. They have succeeded, or the votes of nodes that are healed may
    /// decide.
    pub(super) heals: Vec<Extension>,
}

impl Unfinished {
    pub(super) fn is_empty(&self) -> bool {
        self.undecided.is_empty() && self.heals.is_empty()
    }

    pub(super) fn has(&self, lease: &Arc<LeaseState>) -> bool {
        let heals = self.heals.iter().map(|heal| &heal.lease);
        let mut all = heals.chain(&self.undecided);
        all.any(|other| Arc::ptr_eq(lease, other))
    }

    pub(super) fn append(&mut self, mut other: Self) {
        self.undecided.append(&mut other.undecided);
        self.heals.append(&mut other.heals);
    }

    /// Takes the most urgent heal: of those that may decide, and else of the others, the one of the lock that ends first.
    pub(super) fn next_heal(&mut self) -> Option<Extension> {
        let urgency =
            |heal: &Extension| (heal.verdict() == Verdict::Confirmed, heal.lease.deadline());
        let heals = self.heals.iter().map(urgency).enumerate();
        let (first, _) = heals.min_by_key(|(_, urgency)| *urgency)?;
        Some(self.heals.swap_remove(first))
    }
}
