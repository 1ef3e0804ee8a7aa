//! Locks over fake nodes, on a clock that the test moves: no test here waits for real time.

use std::time::Duration;

use redlatch::fake::{FakeClock, FakeNode};
use redlatch::{Error, LockManager};

use crate::fakes::keeping::schedule::{TTL, cluster, ms};

#[test]
fn waiting_ends_at_the_acquire_timeout() {
    let clock = FakeClock::new();
    let nodes = FakeNode::cluster_on(3, &clock);
    let manager = LockManager::builder()
        .fakes(&nodes)
        .acquire_timeout(Duration::from_secs(3))
        .build()
        .unwrap();
    let _guard = manager.lock("report", TTL).unwrap();
    assert!(matches!(
        manager.lock("report", TTL),
        Err(Error::Held { .. })
    ));
    assert_eq!(clock.elapsed(), Duration::from_secs(3));
    let wait = ms(500);
    assert!(matches!(
        manager.try_lock_for("report", TTL, wait),
        Err(Error::Held { .. })
    ));
    assert_eq!(clock.elapsed(), ms(3_500));
}

/// A call that says nothing of its timeout, and one that sets its ttl in the request.
#[test]
fn the_key_of_a_holder_that_crashed_ends_before_a_call_gives_up_that_sets_no_timeout() {
    for ttl in [TTL, Duration::from_mins(10)] {
        let (clock, nodes, manager) = cluster();
        // Its holder has crashed just now.
        for node in &nodes {
            node.hold("report", "crashed", ttl);
        }
        let guard = manager.lock("report", ttl).unwrap();
        let waited = clock.elapsed();
        assert!(waited >= ttl && waited < ttl + Duration::from_secs(1));
        drop(guard);
        // A holder that goes on ends the call ten seconds after that.
        for node in &nodes {
            node.hold("report", "alive", ttl * 3);
        }
        let request = manager.request("report").ttl(ttl);
        assert!(matches!(request.lock(), Err(Error::Held { .. })));
        assert_eq!(clock.elapsed(), waited + ttl + Duration::from_secs(10));
    }
}

#[test]
fn years_pass_at_once_also_with_nodes_that_are_down() {
    let (clock, nodes, manager) = cluster();
    nodes[0].hang();
    nodes[1].refuse();
    drop(manager.try_lock("report", TTL).unwrap());
    for _ in 0..3 {
        clock.advance(Duration::from_hours(24 * 365));
    }
    clock.advance(Duration::MAX);
    let wait = Duration::from_secs(1);
    let guard = manager.try_lock_for("report", TTL, wait).unwrap();
    assert!(matches!(
        manager.try_lock_for("report", TTL, wait),
        Err(Error::Held { .. })
    ));
    guard.check().unwrap();
}
