//! What remains in a process when all guards of its manager were given back. For the simulation.

use super::LockManager;

impl LockManager {
    /// What should not be there, if anything is. Guards on so many resources were neither given back nor dropped.
    pub(crate) fn remains(&self, abandoned: usize) -> Option<String> {
        let shared = &self.shared;
        let [lines, waiting, _] = shared.queue.census();
        if lines > abandoned || waiting > 0 {
            return Some(format!("{lines} lines, and {waiting} threads in them"));
        }
        let slots = shared.slots.count();
        if slots > abandoned {
            return Some(format!("{slots} slots of semaphores"));
        }
        let [renewals, hooks] = shared.keeper.planned();
        if renewals > 0 || hooks > abandoned {
            return Some(format!("{renewals} renewals and {hooks} hooks"));
        }
        let stats = self.stats();
        let began = stats.acquired.saturating_add(stats.adopted);
        let ends = [stats.released, stats.passed_on, stats.lost];
        let ended = ends.into_iter().fold(0, u64::saturating_add);
        let open = u64::try_from(abandoned).unwrap_or(u64::MAX);
        if ended > began || began.saturating_sub(ended) > open {
            return Some(format!(
                "{began} locks, and {ended} ends of locks: {ends:?}"
            ));
        }
        self.cluster().each().find_map(crate::node::Node::remains)
    }
}
