//! How long a call over fake nodes waits, and what wakes it.

use std::thread;
use std::time::Duration;

use redlatch::fake::{FakeClock, FakeNode};
use redlatch::{Error, LockGuard, LockManager};
use redlatch_testing::{eventually, within};

use crate::managers::{PATIENCE, over_fakes};
use crate::waiters::{BOUND, TTL, got};

const HOUR: Duration = Duration::from_hours(1);

#[test]
fn a_call_that_sets_no_timeout_outlasts_the_key_of_a_holder_that_crashed_by_ten_seconds() {
    for ttl in [TTL, TTL * 10] {
        let (clock, nodes, manager) = over_fakes(5);
        let hold = |token, ttl| {
            for node in &nodes {
                node.hold("report", token, ttl);
            }
        };
        hold("crashed just now", ttl);
        let guard = manager.lock("report", ttl).unwrap();
        let waited = clock.elapsed();
        assert!(waited >= ttl && waited < ttl + Duration::from_secs(1));
        drop(guard);
        hold("goes on", ttl * 3);
        let result = manager.request("report").ttl(ttl).lock();
        assert!(matches!(result, Err(Error::Held { .. })), "{result:?}");
        assert_eq!(clock.elapsed(), waited + ttl + Duration::from_secs(10));
    }
}

#[test]
fn a_call_waits_for_the_acquire_timeout_of_the_builder_or_its_own() {
    let clock = FakeClock::new();
    let nodes = FakeNode::cluster_on(3, &clock);
    let builder = LockManager::builder().fakes(&nodes);
    let manager = builder.acquire_timeout(TTL / 20).build().unwrap();
    let _guard = manager.lock("report", TTL).unwrap();
    for (result, end) in [
        (manager.lock("report", TTL), TTL / 20),
        (manager.try_lock_for("report", TTL, TTL / 60), TTL / 15),
    ] {
        assert!(matches!(result, Err(Error::Held { .. })), "{result:?}");
        assert!(clock.elapsed() >= end);
    }
    assert_eq!(clock.elapsed(), TTL / 15);
}

/// Looks again after an hour, so that only a bell can end its wait in time.
fn patient(nodes: &[FakeNode]) -> LockManager {
    let builder = LockManager::builder().fakes(nodes);
    builder.retry_delay(HOUR, HOUR).build().unwrap()
}

/// One has the lock until the other waits for it, and then gives it back.
fn meet(one: &LockManager, other: &LockManager, give_back: impl FnOnce(LockGuard)) {
    let (guard, before) = (one.lock("report", HOUR).unwrap(), other.stats().contended);
    let waiting = other.clone();
    let waiting = thread::spawn(move || drop(waiting.try_lock_for("report", HOUR, HOUR).unwrap()));
    assert!(eventually(BOUND, || other.stats().contended > before));
    give_back(guard);
    got(waiting);
}

#[test]
fn a_release_wakes_one_who_waits_in_another_manager_also_where_it_is_executed_late() {
    let nodes = FakeNode::cluster(3);
    let (one, other) = (patient(&nodes), patient(&nodes));
    // The lock may be given back before the other listens, which then looks and takes it.
    assert!(eventually(BOUND, || {
        meet(&one, &other, |guard| guard.unlock().unwrap());
        other.stats().woken > 0
    }));
    let nodes = FakeNode::cluster(1);
    meet(&patient(&nodes), &patient(&nodes), |guard| {
        // One who does not hear from the node before it hangs is not announced there, and looks again after an hour.
        let is_announced = || nodes[0].ttl_of("report:redlatch:waiting").is_some();
        assert!(eventually(BOUND, is_announced));
        // The release is executed when the node goes on, and rings then.
        nodes[0].hang();
        guard.unlock().unwrap_err();
        nodes[0].recover();
    });
}

/// One listens at a node that hangs before the listening ends: by no clock does that take longer than a call may.
#[test]
fn a_node_that_hangs_while_one_listens_costs_a_time_out() {
    let (clock, nodes, manager) = over_fakes(1);
    let guard = manager.lock("report", BOUND / 6).unwrap();
    let node = nodes[0].clone();
    guard.on_lost(move |_| node.hang()).unwrap();
    let other = LockManager::builder().fakes(&nodes).build().unwrap();
    let result = within(BOUND, move || other.try_lock_for("report", BOUND, BOUND));
    let is_unavailable = matches!(result, Err(Error::Unavailable { .. }));
    assert!(is_unavailable, "{result:?}");
    assert!(clock.elapsed() >= BOUND);
}

#[cfg(target_os = "linux")]
#[test]
fn who_gets_a_lock_from_another_thread_counts_its_own_minimum() {
    let nodes = FakeNode::cluster(3);
    let builder = LockManager::builder().fakes(&nodes).node_timeout(PATIENCE);
    let manager = builder.build().unwrap();
    let first = manager.try_lock("job", TTL).unwrap();
    let waiting = manager.clone();
    let waiting = crate::waiters::line_up(move || {
        let request = waiting.request("job").ttl(TTL).at_least(TTL * 10);
        request.lock().unwrap()
    });
    first.unlock().unwrap();
    let second = got(waiting);
    let rest = Some(format!("rest:{}", second.token()));
    second.unlock().unwrap();
    for node in &nodes {
        assert_eq!(node.token_of("job"), rest);
        assert!(node.ttl_of("job") > Some(TTL * 5));
    }
}
