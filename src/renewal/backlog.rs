//! The backlog of the renewals of many locks: what waits until no other lock is due.

use std::sync::Arc;

use crate::lease::state::LeaseState;
use crate::protocol::extend::Extension;

#[derive(Default)]
pub(super) struct Backlog {
    /// Locks that got no majority from the nodes that have not failed lately.
    pub(super) undecided: Vec<Arc<LeaseState>>,
    /// Extensions without a majority, for which the votes of nodes that are healed may decide.
    pub(super) decisive: Vec<Extension>,
    /// Extensions that have succeeded, of locks whose key is missing on some nodes.
    pub(super) further: Vec<Extension>,
}

/// An extension of a lock that is to be healed.
pub(super) enum Pending {
    Decisive(Extension),
    Further(Extension),
}

impl Backlog {
    pub(super) fn is_empty(&self) -> bool {
        self.undecided.is_empty() && self.decisive.is_empty() && self.further.is_empty()
    }

    pub(super) fn has(&self, lease: &Arc<LeaseState>) -> bool {
        let heals = self.decisive.iter().chain(&self.further);
        let mut all = heals.map(|one| &one.lease).chain(&self.undecided);
        all.any(|other| Arc::ptr_eq(lease, other))
    }

    pub(super) fn append(&mut self, mut other: Self) {
        self.undecided.append(&mut other.undecided);
        self.decisive.append(&mut other.decisive);
        self.further.append(&mut other.further);
    }

    /// Takes the most urgent heal.
    pub(super) fn next_heal(&mut self) -> Option<Pending> {
        let decisive = take_first(&mut self.decisive).map(Pending::Decisive);
        decisive.or_else(|| take_first(&mut self.further).map(Pending::Further))
    }
}

impl Pending {
    pub(super) fn extension(&self) -> &Extension {
        match self {
            Self::Decisive(extension) | Self::Further(extension) => extension,
        }
    }
}

/// Takes the extension of the lock that ends first.
fn take_first(heals: &mut Vec<Extension>) -> Option<Extension> {
    let ends = heals.iter().map(|heal| heal.lease.deadline()).enumerate();
    let (first, _) = ends.min_by_key(|(_, end)| *end)?;
    Some(heals.swap_remove(first))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::Trace;
    use crate::renewal::agenda::tests::lease;

    #[test]
    fn a_lock_that_is_undecided_waits_and_no_other() {
        let [one, other] = ["job"; 2].map(|name| lease(name, 1, [Trace::Possible; 3]).into());
        let mut backlog = Backlog::default();
        assert!(backlog.is_empty() && !backlog.has(&one));
        backlog.undecided.push(Arc::clone(&one));
        assert!(!backlog.is_empty() && backlog.has(&one) && !backlog.has(&other));
    }
}
