//! Locks over fake nodes, on a clock that the test moves: no test here waits for real time.

use std::time::Duration;

use redlatch::fake::{FakeClock, FakeNode};
use redlatch::{Error, LockManager, LossCause, Vote};

pub(crate) const TTL: Duration = Duration::from_secs(10);

pub(crate) fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Five nodes on a clock, and a manager over them.
pub(crate) fn cluster() -> (FakeClock, Vec<FakeNode>, LockManager) {
    let clock = FakeClock::new();
    let nodes = FakeNode::cluster_on(5, &clock);
    let manager = LockManager::builder().fakes(&nodes).build().unwrap();
    (clock, nodes, manager)
}

#[track_caller]
pub(crate) fn assert_no_keys(nodes: &[FakeNode], resource: &str) {
    for node in nodes {
        assert_eq!(node.token_of(resource), None, "{node:?}");
    }
}

#[test]
fn the_token_and_the_ttl_are_on_every_node() {
    let (_, nodes, manager) = cluster();
    let guard = manager.try_lock("report", TTL).unwrap();
    for node in &nodes {
        assert_eq!(node.token_of("report").as_deref(), Some(guard.token()));
        assert_eq!(node.ttl_of("report"), Some(TTL));
    }
    // Exactly the ttl less 1 % and 2 ms, because no time has passed, and 100 ns for rounding.
    assert_eq!(guard.remaining() + Duration::from_nanos(100), ms(9_898));
    guard.unlock().unwrap();
    assert_no_keys(&nodes, "report");
}

#[test]
fn the_lease_runs_out_without_sleeping() {
    let (clock, nodes, manager) = cluster();
    let guard = manager.try_lock("report", TTL).unwrap();
    clock.advance(ms(9_897));
    guard.check().unwrap();
    clock.advance(ms(1));
    assert!(matches!(
        guard.check(),
        Err(Error::Lost {
            cause: LossCause::Expired { .. },
            ..
        })
    ));
    // The nodes still have it for the drift that the guard does not claim.
    assert!(matches!(
        manager.try_lock("report", TTL),
        Err(Error::Held { .. })
    ));
    clock.advance(ms(102));
    assert_no_keys(&nodes, "report");
    manager.try_lock("report", TTL).unwrap().unlock().unwrap();
}

#[test]
fn a_foreign_holder_is_respected_until_it_expires() {
    let (clock, nodes, manager) = cluster();
    for node in &nodes[..3] {
        node.hold("report", "someone", ms(700));
    }
    let Err(Error::Held { nodes: reports, .. }) = manager.try_lock("report", TTL) else {
        panic!("a second holder");
    };
    assert!(matches!(reports[0].vote, Vote::Held { remaining: Some(left), .. } if left == ms(700)));
    // The wait is on the same clock, so it takes no time here.
    let guard = manager.lock("report", TTL).unwrap();
    assert!(clock.elapsed() >= ms(700) && clock.elapsed() <= ms(700 + 250));
    assert_eq!(nodes[0].token_of("report").as_deref(), Some(guard.token()));
}

#[test]
fn those_who_wait_look_a_retry_delay_apart_and_ask_when_the_key_has_expired() {
    let clock = FakeClock::new();
    let nodes = FakeNode::cluster_on(3, &clock);
    let builder = LockManager::builder().fakes(&nodes);
    let manager = builder.retry_delay(ms(100), ms(100)).build().unwrap();
    for node in &nodes {
        node.hold("report", "another", ms(950));
    }
    let _guard = manager.lock("report", TTL).unwrap();
    // Not at 1,000, a delay after the last look, but when the key has to be gone, and 2 ms later.
    assert_eq!(clock.elapsed(), ms(952));
}

#[test]
fn a_key_that_is_left_over_on_the_first_node_is_in_the_way_for_eight_looks() {
    let clock = FakeClock::new();
    let nodes = FakeNode::cluster_on(3, &clock);
    let builder = LockManager::builder().fakes(&nodes);
    let manager = builder.retry_delay(ms(100), ms(100)).build().unwrap();
    nodes[0].hold("report", "nobody", ms(60_000));
    for node in &nodes[1..] {
        node.hold("report", "another", ms(10));
    }
    let guard = manager.lock("report", TTL).unwrap();
    assert_eq!(clock.elapsed(), ms(800));
    assert!(matches!(guard.votes()[0].vote, Vote::Held { .. }));
}

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

#[test]
fn real_time_nodes_need_no_clock() {
    let nodes = FakeNode::cluster(3);
    let manager = LockManager::builder().fakes(&nodes).build().unwrap();
    let guard = manager.lock("report", TTL).unwrap();
    let waiter = std::thread::spawn({
        let manager = manager.clone();
        move || {
            manager
                .lock("report", TTL)
                .map(|guard| guard.token().to_owned())
        }
    });
    let token = guard.token().to_owned();
    guard.unlock().unwrap();
    assert_ne!(waiter.join().unwrap().unwrap(), token);
}
