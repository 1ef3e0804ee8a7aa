//! `LockManager::stats`: what each counter counts, and the wait times.

use std::time::Duration;

use redlatch::fake::{FakeClock, FakeNode};
use redlatch::{Error, LockManager, Protocol, Stats};
use redlatch_testing::Server;

use crate::managers::patient;

pub(crate) const TTL: Duration = Duration::from_secs(10);

pub(crate) struct Fixture {
    pub(crate) clock: FakeClock,
    pub(crate) nodes: Vec<FakeNode>,
    pub(crate) manager: LockManager,
}

pub(crate) fn fixture() -> Fixture {
    let clock = FakeClock::new();
    let nodes = FakeNode::cluster_on(3, &clock);
    let manager = LockManager::builder().fakes(&nodes).build().unwrap();
    Fixture {
        clock,
        nodes,
        manager,
    }
}

/// Has another client hold the lock for so long.
fn hold(nodes: &[FakeNode], span: Duration) {
    for node in nodes {
        node.hold("job", "another", span);
    }
}

/// The counters that are not zero, by their names.
fn counted(stats: &Stats) -> Vec<(&'static str, u64)> {
    macro_rules! fields {
        ($($name:ident)*) => { vec![$((stringify!($name), stats.$name)),*] };
    }
    let mut all = fields!(
        attempts acquired contended queued woken failed_held failed_unavailable failed_too_slow adopted extended
        renewed healed failed_renewals released unconfirmed passed_on lost
    );
    all.push(("held", stats.held()));
    all.retain(|(_, count)| *count > 0);
    all
}

#[track_caller]
pub(crate) fn assert_counted(manager: &LockManager, expected: &[(&'static str, u64)]) {
    assert_eq!(counted(&manager.stats()), expected);
}

#[test]
fn a_lock_is_acquired_extended_healed_and_released() {
    let Fixture { nodes, manager, .. } = fixture();
    let guard = manager.lock("job", TTL).unwrap();
    nodes[1].flush();
    guard.extend(TTL * 2).unwrap();
    let before = [
        ("attempts", 1),
        ("acquired", 1),
        ("extended", 1),
        ("healed", 1),
        ("held", 1),
    ];
    assert_counted(&manager.clone(), &before);
    guard.unlock().unwrap();
    drop(manager.lock("job", TTL).unwrap());
    let after = [
        ("attempts", 2),
        ("acquired", 2),
        ("extended", 1),
        ("healed", 1),
        ("released", 2),
    ];
    assert_counted(&manager, &after);
}

#[test]
fn a_call_that_is_refused_before_it_asks_is_not_counted() {
    let Fixture { manager, .. } = fixture();
    assert!(manager.lock("job", Duration::ZERO).is_err());
    assert!(manager.lock("", TTL).is_err());
    assert_counted(&manager, &[]);
}

#[test]
fn a_call_that_waits_is_contended_once_and_its_wait_is_kept() {
    let Fixture { nodes, manager, .. } = fixture();
    hold(&nodes, Duration::from_secs(5));
    let guard = manager.lock("job", TTL).unwrap();
    let stats = manager.stats();
    assert!(stats.attempts > 1, "{stats}");
    assert_eq!(
        (stats.acquired, stats.contended, stats.failed_held),
        (1, 1, 0)
    );
    let quantiles = [0.0, 0.99, 1.0].map(|part| stats.wait_quantile(part));
    for time in quantiles.into_iter().chain([stats.wait_mean()]) {
        let range = Duration::from_millis(4950)..Duration::from_millis(5400);
        assert!(range.contains(&time), "{stats}");
    }

    let refused = manager.try_lock_for("job", TTL, Duration::from_secs(1));
    assert!(matches!(refused, Err(Error::Held { .. })));
    let stats = manager.stats();
    // By this manager itself.
    assert_eq!((stats.acquired, stats.failed_held), (1, 1));
    assert_eq!((stats.contended, stats.queued), (1, 1));
    // The call that failed has no wait time.
    assert!(
        stats.wait_quantile(0.0) >= Duration::from_millis(4950),
        "{stats}"
    );
    drop(guard);
}

#[test]
fn a_quantile_is_that_part_of_the_calls_whatever_is_asked_for() {
    let Fixture { nodes, manager, .. } = fixture();
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

#[test]
fn each_way_to_fail_has_a_counter() {
    let Fixture { nodes, manager, .. } = fixture();
    nodes[0].refuse();
    nodes[1].refuse();
    assert!(manager.try_lock("job", TTL).is_err());
    assert_counted(&manager, &[("attempts", 1), ("failed_unavailable", 1)]);

    let Fixture { nodes, manager, .. } = fixture();
    for node in &nodes {
        node.delay(Duration::from_millis(30));
    }
    let slow = manager.try_lock("job", Duration::from_millis(60));
    assert!(matches!(slow, Err(Error::TooSlow { .. })), "{slow:?}");
    // The guard that was never given out is neither released nor lost.
    assert_counted(&manager, &[("attempts", 1), ("failed_too_slow", 1)]);
}

#[test]
fn each_node_has_its_own_votes_and_its_own_breaker() {
    let Fixture {
        clock,
        nodes,
        manager,
    } = fixture();
    let of_first = |manager: &LockManager| {
        let stats = manager.stats();
        let node = &stats.nodes[0];
        assert_eq!(&*node.node, nodes[0].name());
        [
            node.granted,
            node.refused,
            node.failed,
            node.opened,
            node.closed,
        ]
    };
    drop(manager.lock("job", TTL).unwrap());
    assert_eq!(of_first(&manager), [1, 0, 0, 0, 0]);
    nodes[0].hold("job", "another", TTL);
    drop(manager.lock("job", TTL).unwrap());
    assert_eq!(of_first(&manager), [1, 1, 0, 0, 0]);
    // Three more, of which the last two leave it out.
    nodes[0].refuse();
    for _ in 0..3 {
        drop(manager.lock("job", TTL).unwrap());
    }
    assert_eq!(of_first(&manager), [1, 1, 1, 1, 0]);
    nodes[0].recover();
    clock.advance(Duration::from_secs(1));
    assert_eq!(of_first(&manager), [1, 1, 1, 1, 1]);
    let stats = manager.stats();
    assert!(
        stats.nodes[1..].iter().all(|node| node.granted == 5),
        "{stats}"
    );
}

#[test]
fn a_proposal_that_is_raised_is_an_attempt_and_no_contention() {
    let nodes = FakeNode::cluster(3);
    let manager = || {
        let builder = LockManager::builder().fakes(&nodes);
        builder.protocol(Protocol::Fenced).build().unwrap()
    };
    let (first, second) = (manager(), manager());
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
    let Fixture { nodes, manager, .. } = fixture();
    let guard = manager.lock("job", TTL).unwrap();
    assert!(manager.try_lock("job", TTL).is_err());
    nodes[2].refuse();
    drop(guard);
    let text = manager.stats().to_string();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[..5],
        [
            "locks     1 acquired, 0 adopted, 1 released, 0 unconfirmed, 0 passed on, 0 lost",
            "calls     1 attempts, 0 contended, 1 queued, 0 woken",
            "failures  1 held, 0 unavailable, 0 too slow, 0 renewals",
            "leases    0 extended, 0 renewed, 0 healed",
            "held      0 now",
        ]
    );
    assert!(lines[5].contains("99 % within"), "{text}");
    assert!(lines[8].contains(nodes[2].name()), "{text}");
    assert!(
        lines[8].ends_with("left out 1 times, back 0 times"),
        "{text}"
    );
}

#[test]
fn real_servers_and_many_threads_lose_no_count() {
    let servers = Server::cluster(3);
    let manager = &patient(servers.iter().map(Server::url));
    std::thread::scope(|scope| {
        for worker in 0..8 {
            scope.spawn(move || {
                for _ in 0..50 {
                    let guard = manager.lock(&format!("job-{worker}"), TTL).unwrap();
                    guard.unlock().unwrap();
                }
            });
        }
    });
    let stats = manager.stats();
    let counted = (stats.acquired, stats.released, stats.held());
    assert_eq!(counted, (400, 400, 0), "{stats}");
}
