//! The status of several locks, where a node that was left out decides some of them.

use std::time::Duration;

use crate::claim::slot_key;
use crate::fake::{FakeClock, FakeNode};
use crate::{LockManager, LockStatus};

const TTL: Duration = Duration::from_secs(10);

#[test]
fn a_node_that_was_left_out_is_asked_where_any_of_the_locks_needs_it() {
    // Of two slots, one is on the nodes that did not fail, and the other one, in either place, is not.
    for (decided, undecided) in [(0, 1), (1, 0)] {
        let nodes = FakeNode::cluster_on(3, &FakeClock::new());
        let manager = LockManager::builder().fakes(&nodes).build().unwrap();
        for (slot, places) in [(decided, [1, 2]), (undecided, [0, 1])] {
            for place in places {
                nodes[place].hold(&slot_key("jobs", slot), &format!("of-slot-{slot}"), TTL);
            }
        }
        nodes[0].refuse();
        drop(manager.try_lock("another", TTL).unwrap());
        nodes[0].recover();
        let status = manager.semaphore_status("jobs", 2).unwrap();
        for slot in &status {
            assert!(matches!(slot, LockStatus::Held { .. }), "{status:?}");
        }
    }
}
