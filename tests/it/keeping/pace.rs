//! How often a lock is renewed, and how much time that takes.

use redlatch::fake::{FakeClock, FakeNode};
use redlatch::{Error, KeepAlive, LockManager};

use super::schedule::{TTL, cluster, kept, ms};

/// Half of the ttl and 2 ms are the drift, and the node timeout is 50 ms.
#[test]
fn two_node_timeouts_are_left_when_the_drift_is_taken_off() {
    let nodes = FakeNode::cluster_on(3, &FakeClock::new());
    let builder = LockManager::builder().fakes(&nodes).drift_factor(0.5);
    let manager = builder.build().unwrap();
    let keep = |ttl| {
        let request = manager.request("report").ttl(ms(ttl));
        request.keep_alive(KeepAlive::unbounded()).try_lock()
    };
    match keep(204) {
        Err(Error::InvalidTtl { reason, .. }) => {
            assert!(reason.contains("when the drift is taken off"), "{reason}");
        }
        other => panic!("{other:?}"),
    }
    keep(205).unwrap().check().unwrap();
}

/// The time until the next one is counted from before the first send.
#[test]
fn renewals_that_take_long_are_as_many_as_others() {
    let renewals = [0, 40].map(|delay| {
        let (clock, nodes, manager) = cluster();
        let guard = kept(&manager, KeepAlive::unbounded());
        nodes.iter().for_each(|node| node.delay(ms(delay)));
        clock.advance(TTL * 100);
        guard.check().unwrap();
        manager.stats().renewed
    });
    assert!(renewals[0] > 300, "{renewals:?}");
    assert_eq!(renewals[0], renewals[1]);
}
