//! `LockManager::stats`: wait times, what is counted of nodes, and what people read.

use std::time::Duration;

use redlatch::fake::FakeNode;
use redlatch::{Error, LockManager, Protocol};

use crate::managers::over_fakes;

const TTL: Duration = Duration::from_secs(10);

/// Has another client hold the lock for so long.
fn hold(nodes: &[FakeNode], span: Duration) {
    for node in nodes {
        node.hold("job", "another", span);
    }
}

#[test]
fn a_call_that_waits_is_contended_once_and_its_wait_is_kept() {
    let (_, nodes, manager) = over_fakes(3);
    hold(&nodes, Duration::from_secs(5));
    let guard = manager.lock("job", TTL).unwrap();
    let stats = manager.stats();
    assert!(stats.attempts > 1, "{stats}");
    let outcomes = (stats.acquired, stats.contended, stats.failed_held);
    assert_eq!(outcomes, (1, 1, 0));
    let quantiles = [0.0, 0.99, 1.0].map(|part| stats.wait_quantile(part));
    let range = Duration::from_millis(4950)..Duration::from_millis(5400);
    for time in quantiles.into_iter().chain([stats.wait_mean()]) {
        assert!(range.contains(&time), "{stats}");
    }

    let refused = manager.try_lock_for("job", TTL, Duration::from_secs(1));
    assert!(matches!(refused, Err(Error::Held { .. })));
    let stats = manager.stats();
    // By this manager itself.
    assert_eq!((stats.acquired, stats.failed_held), (1, 1));
    assert_eq!((stats.contended, stats.queued), (1, 1));
    // The call that failed has no wait time.
    assert!(stats.wait_quantile(0.0) >= range.start, "{stats}");
    drop(guard);
}

#[test]
fn a_quantile_is_that_part_of_the_calls_whatever_is_asked_for() {
    let (_, nodes, manager) = over_fakes(3);
    for second in [0, 0, 0, 6] {
        hold(&nodes, Duration::from_secs(second));
        drop(manager.lock("job", TTL).unwrap());
    }
    let stats = manager.stats();
    let short = Duration::from_secs(1);
    for part in [f64::NAN, -1.0, 0.0, 0.5, 0.75] {
        assert!(stats.wait_quantile(part) < short, "{part}: {stats}");
    }
    for part in [0.76, 1.0, 2.0, f64::INFINITY] {
        assert!(stats.wait_quantile(part) > short, "{part}: {stats}");
    }
    let mean = stats.wait_mean();
    assert!(mean > short && mean < short * 2, "{stats}");
}

/// What is counted of the first node.
#[track_caller]
fn assert_first(manager: &LockManager, expected: &str) {
    let text = manager.stats().nodes[0].to_string();
    assert_eq!(text.split_once(": ").unwrap().1, expected);
}

#[test]
fn each_node_has_its_own_votes_and_its_own_breaker() {
    let (clock, nodes, manager) = over_fakes(3);
    assert_eq!(*manager.stats().nodes[0].node, *nodes[0].name());
    let lock = || drop(manager.lock("job", TTL).unwrap());
    lock();
    let well = "left out 0 times, back 0 times";
    assert_first(&manager, &format!("1 granted, 0 refused, 0 failed; {well}"));
    nodes[0].hold("job", "another", TTL);
    lock();
    assert_first(&manager, &format!("1 granted, 1 refused, 0 failed; {well}"));
    // Three more, of which the last two leave it out.
    nodes[0].refuse();
    (0..3).for_each(|_| lock());
    let votes = "1 granted, 1 refused, 1 failed";
    assert_first(
        &manager,
        &format!("{votes}; left out 1 times, back 0 times"),
    );
    nodes[0].recover();
    clock.advance(Duration::from_secs(1));
    assert_first(
        &manager,
        &format!("{votes}; left out 1 times, back 1 times"),
    );
    let stats = manager.stats();
    let mut others = stats.nodes[1..].iter();
    assert!(others.all(|node| node.granted == 5), "{stats}");
}

#[test]
fn a_proposal_that_is_raised_is_an_attempt_and_no_contention() {
    let nodes = FakeNode::cluster(3);
    let manager = |()| {
        let builder = LockManager::builder().fakes(&nodes);
        builder.protocol(Protocol::Fenced).build().unwrap()
    };
    let [first, second] = [(); 2].map(manager);
    first.open_nodes().unwrap();
    for _ in 0..20 {
        drop(first.lock("job", TTL).unwrap());
        drop(second.lock("job", TTL).unwrap());
    }
    let stats = second.stats();
    assert_eq!((stats.acquired, stats.contended), (20, 0), "{stats}");
}

#[test]
fn a_person_can_read_them() {
    let (_, nodes, manager) = over_fakes(3);
    let guard = manager.lock("job", TTL).unwrap();
    assert!(manager.try_lock("job", TTL).is_err());
    nodes[2].refuse();
    drop(guard);
    let text = manager.stats().to_string();
    let lines: Vec<&str> = text.lines().collect();
    let counters = "\
locks     1 acquired, 0 adopted, 1 released, 0 unconfirmed, 0 passed on, 0 lost
calls     1 attempts, 0 contended, 1 queued, 0 woken
failures  1 held, 0 unavailable, 0 too slow, 0 renewals
leases    0 extended, 0 renewed, 0 healed
held      0 now";
    assert_eq!(lines[..5].join("\n"), counters);
    assert!(lines[5].contains("99 % within"), "{text}");
    assert_eq!(lines.len(), 6 + 3, "{text}");
    assert!(lines[8].contains(nodes[2].name()), "{text}");
    let breaker = "left out 1 times, back 0 times";
    assert!(lines[8].ends_with(breaker), "{text}");
}
