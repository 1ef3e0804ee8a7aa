//! Those who wait for a lock on fake nodes are woken by its release, as by servers.

use std::thread;
use std::time::Duration;

use redlatch::fake::{FakeClock, FakeNode};
use redlatch::{Error, LockManager};
use redlatch_testing::{eventually, within};

const HOUR: Duration = Duration::from_hours(1);
const BOUND: Duration = Duration::from_mins(1);

/// Looks again after an hour, so that only a bell can end its wait in time.
fn patient(nodes: &[FakeNode]) -> LockManager {
    let builder = LockManager::builder().fakes(nodes);
    builder.retry_delay(HOUR, HOUR).build().unwrap()
}

/// One has the lock until the other waits for it, and gives it back.
fn one_gives_way_to(one: &LockManager, other: &LockManager) {
    let (guard, before) = (one.lock("report", HOUR).unwrap(), other.stats().contended);
    let waiting = other.clone();
    let waiting = thread::spawn(move || drop(waiting.try_lock_for("report", HOUR, HOUR).unwrap()));
    assert!(eventually(BOUND, || other.stats().contended > before));
    guard.unlock().unwrap();
    within(BOUND, || waiting.join().unwrap());
}

#[test]
fn a_release_wakes_one_who_waits_in_another_manager() {
    let nodes = FakeNode::cluster(3);
    let (one, other) = (patient(&nodes), patient(&nodes));
    // The lock may be given back before the other listens, which then looks and takes it.
    assert!(eventually(BOUND, || {
        one_gives_way_to(&one, &other);
        other.stats().woken > 0
    }));
}

/// One listens at a node that hangs before the listening ends: by no clock does that take longer than a call may.
#[test]
fn a_node_that_hangs_while_one_listens_costs_a_time_out() {
    let clock = FakeClock::new();
    let nodes = FakeNode::cluster_on(1, &clock);
    let manager = LockManager::builder().fakes(&nodes).build().unwrap();
    let guard = manager.lock("report", BOUND / 6).unwrap();
    let node = nodes[0].clone();
    guard.on_lost(move |_| node.hang());
    let other = LockManager::builder().fakes(&nodes).build().unwrap();
    let result = within(BOUND, move || other.try_lock_for("report", BOUND, BOUND));
    assert!(
        matches!(result, Err(Error::Unavailable { .. })),
        "{result:?}"
    );
    assert!(clock.elapsed() >= BOUND);
    drop(guard);
}

#[test]
fn a_node_that_hangs_wakes_nobody_until_it_goes_on() {
    let nodes = FakeNode::cluster(1);
    let (one, other) = (patient(&nodes), patient(&nodes));
    let guard = one.lock("report", HOUR).unwrap();
    let waiting = other.clone();
    let waiting = thread::spawn(move || drop(waiting.try_lock_for("report", HOUR, HOUR).unwrap()));
    assert!(eventually(BOUND, || other.stats().contended > 0));
    nodes[0].hang();
    // The release is executed when the node goes on, and rings then.
    guard.unlock().unwrap_err();
    nodes[0].recover();
    within(BOUND, || waiting.join().unwrap());
}
