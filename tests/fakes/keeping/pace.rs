//! How much time a lock needs to be kept.

use std::time::Duration;

use redlatch::fake::{FakeClock, FakeNode};
use redlatch::{Error, KeepAlive, LockManager};

use crate::fakes::keeping::schedule::ms;

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
        Err(Error::Invalid {
            field: "ttl",
            reason,
            ..
        }) => {
            assert!(reason.contains("when the drift is taken off"), "{reason}");
        }
        other => panic!("{other:?}"),
    }
    keep(205).unwrap().check().unwrap();
}

/// Half of the ttl, 2 ms and the rounding of 100 ns are the drift.
#[test]
fn exactly_two_node_timeouts_are_enough() {
    for (nanos, is_enough) in [(49_999_950, true), (49_999_951, false)] {
        let nodes = FakeNode::cluster_on(3, &FakeClock::new());
        let builder = LockManager::builder().fakes(&nodes).drift_factor(0.5);
        let builder = builder.node_timeout(Duration::from_nanos(nanos));
        let manager = builder.build().unwrap();
        let request = manager.request("report").ttl(ms(204));
        let result = request.keep_alive(KeepAlive::unbounded()).try_lock();
        assert_eq!(result.is_ok(), is_enough, "{result:?}");
    }
}
