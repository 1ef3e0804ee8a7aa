//! What is left behind in a process when all guards of its manager were given back. For the simulation.

use super::LockManager;

impl LockManager {
    /// What should not be there, if anything is. Guards on so many resources were neither given back nor dropped.
    pub(crate) fn left_behind(&self, abandoned: usize) -> Option<String> {
        let shared = &self.shared;
        let [lines, waiting, _] = shared.queue.census();
        if lines > abandoned || waiting > 0 {
            return Some(format!("{lines} lines, and {waiting} threads in them"));
        }
        let held = shared.held.count();
        if held > abandoned {
            return Some(format!("{held} locks"));
        }
        let [renewals, hooks] = shared.keeper.planned();
        if renewals > 0 || hooks > abandoned {
            return Some(format!("{renewals} renewals and {hooks} hooks"));
        }
        let stats = self.stats();
        let began = stats.acquired.saturating_add(stats.adopted);
        let ends = [
            stats.released,
            stats.unconfirmed,
            stats.passed_on,
            stats.lost,
        ];
        let ended = ends.into_iter().fold(0, u64::saturating_add);
        let open = u64::try_from(abandoned).unwrap_or(u64::MAX);
        if ended > began || began.saturating_sub(ended) > open {
            return Some(format!(
                "{began} locks, and {ended} ends of locks: {ends:?}"
            ));
        }
        let cluster = self.shared.cluster();
        cluster.nodes().iter().find_map(|node| node.remains())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::KeepAlive;
    use crate::fake::{FakeClock, FakeNode};

    #[test]
    fn of_a_kept_lock_that_is_given_back_nothing_is_planned() {
        let nodes = FakeNode::cluster_on(3, &FakeClock::new());
        let manager = LockManager::builder().fakes(&nodes).build().unwrap();
        let request = manager.request("job").ttl(Duration::from_secs(10));
        let guard = request.keep_alive(KeepAlive::unbounded()).lock().unwrap();
        guard.on_lost(|_| {}).unwrap();
        let planned = || manager.shared.keeper.planned();
        assert_eq!(planned(), [1, 1]);
        guard.unlock().unwrap();
        assert_eq!(planned(), [0, 0]);
    }
}
