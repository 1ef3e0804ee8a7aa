//! A fenced node that was restarted begins its quarantine with the first command of a fenced client, also where locks are only kept.

use redlatch::fake::{FakeClock, FakeNode};
use redlatch::{KeepAlive, LockManager, Protocol, Vote};

use crate::fakes::keeping::schedule::TTL;
use crate::managers::processes_by;

/// How a node comes back: empty, or with its keys and an old marker.
const RESTARTS: [fn(&FakeNode); 2] = [FakeNode::restart, FakeNode::restart_persisted];

fn fenced() -> (FakeClock, Vec<FakeNode>, LockManager) {
    let clock = FakeClock::new();
    let nodes = FakeNode::cluster_on(3, &clock);
    let builder = LockManager::builder().fakes(&nodes).max_ttl(TTL * 6);
    let [manager] = processes_by(&builder, Protocol::Fenced);
    (clock, nodes, manager)
}

#[test]
fn a_restarted_node_votes_again_while_locks_are_only_kept() {
    for restart in RESTARTS {
        for is_read in [false, true] {
            let (clock, nodes, manager) = fenced();
            let kept = KeepAlive::unbounded();
            let guard = if is_read {
                let lock = manager.rw_lock("report").ttl(TTL).keep_alive(kept);
                lock.try_read().unwrap()
            } else {
                let lock = manager.request("report").ttl(TTL).keep_alive(kept);
                lock.try_lock().unwrap()
            };
            restart(&nodes[2]);
            // It abstains for max_ttl and the drift, from the first renewal on.
            for _ in 0..8 {
                clock.advance(TTL);
            }
            guard.check().unwrap();
            let other = manager.try_lock("other", TTL).unwrap();
            let votes = other.votes();
            let is_granted = |place: usize| matches!(votes[place].vote, Vote::Granted);
            assert!(is_granted(2), "reader: {is_read}: {votes:?}");
        }
    }
}
