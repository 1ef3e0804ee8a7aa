//! What a manager and its guards share.

use std::sync::Arc;

use super::LockGuard;
use super::held::Held;
use crate::cluster::Cluster;
use crate::contend::courtesy::Courtesy;
use crate::contend::queue::Queue;
use crate::contend::slots::Slots;
use crate::lease::state::LeaseState;
use crate::renewal::Keeper;

/// Dropped with the last clone of the manager or the last guard, whichever is later.
pub(crate) struct Shared {
    pub(crate) keeper: Keeper,
    pub(crate) queue: Arc<Queue<LockGuard>>,
    pub(crate) slots: Arc<Slots>,
    pub(crate) held: Held,
    pub(crate) courtesy: Courtesy,
}

impl Shared {
    pub(crate) fn new(cluster: Cluster) -> Arc<Self> {
        Arc::new(Self {
            keeper: Keeper::new(cluster),
            queue: Queue::new(),
            slots: Slots::new(),
            held: Held::default(),
            courtesy: Courtesy::default(),
        })
    }

    pub(crate) fn cluster(&self) -> &Cluster {
        self.keeper.cluster()
    }

    /// Ends what is done for a lock as long as its guard has it.
    pub(super) fn forget(&self, lease: &LeaseState) {
        self.keeper.forget(lease);
        self.held.remove(lease);
    }
}
