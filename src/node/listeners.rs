//! How many connections of a node are busy with listening for releases, and whether its server forbids that.

use std::sync::atomic::Ordering;

use crate::sync::{AtomicU32, AtomicU64};

#[derive(Default)]
pub(super) struct Listeners {
    count: AtomicU32,
    /// The generation of the connections in which the server refused to block, plus one; or zero.
    refused: AtomicU64,
}

impl Listeners {
    /// Counts one more, unless there are `most` already or the server refused in this generation.
    pub(super) fn join(&self, most: u32, generation: u64) -> bool {
        if self.refused.load(Ordering::Relaxed) == generation.wrapping_add(1) {
            return false;
        }
        let one_more = |count: u32| (count < most).then(|| count.saturating_add(1));
        let joined = self
            .count
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more);
        joined.is_ok()
    }

    pub(super) fn leave(&self) {
        self.count.fetch_sub(1, Ordering::AcqRel);
    }

    /// Whether everybody who has joined has left.
    #[cfg(test)]
    pub(super) fn are_none(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// Lets nobody join until the connections of this generation are gone.
    pub(super) fn refuse(&self, generation: u64) {
        let refused = generation.wrapping_add(1);
        self.refused.store(refused, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_than_so_many_join_and_who_leaves_makes_room() {
        let listeners = Listeners::default();
        assert!(!listeners.join(0, 0) && listeners.are_none());
        assert!(listeners.join(2, 0) && listeners.join(2, 0) && !listeners.join(2, 0));
        listeners.leave();
        assert!(!listeners.are_none() && listeners.join(2, 0) && !listeners.join(2, 0));
        listeners.leave();
        listeners.leave();
        assert!(listeners.are_none());
    }

    #[test]
    fn nobody_joins_where_the_server_refused_until_there_are_other_connections() {
        let listeners = Listeners::default();
        for generation in [0, 7, 8] {
            assert!(listeners.join(10, generation));
        }
        listeners.refuse(7);
        assert!(!listeners.join(10, 7));
        assert!(listeners.join(10, 8));
    }
}
