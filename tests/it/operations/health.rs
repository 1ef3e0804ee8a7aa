//! Looking at the nodes over fakes: what is found, what it costs, and that nothing comes of it.

use std::time::Duration;

use redlatch::fake::{FakeClock, FakeNode};
use redlatch::{
    ClockDifference, Finding, Health, LockManager, Margin, NodeError, Persistence, Protocol,
    Quarantine, Reach, Role, Severity,
};

const TTL: Duration = Duration::from_secs(10);
const NODE_TIMEOUT: Duration = Duration::from_millis(50);
const MARKER: &str = "redlatch:node";
/// When the wall clock of virtual time begins, in microseconds since the Unix epoch.
const EPOCH_US: u64 = 1_700_000_000_000_000;

fn cluster(n: usize) -> (FakeClock, Vec<FakeNode>, LockManager) {
    let clock = FakeClock::new();
    let nodes = FakeNode::cluster_on(n, &clock);
    let manager = LockManager::builder().fakes(&nodes).build().unwrap();
    (clock, nodes, manager)
}

#[track_caller]
fn assert_well(health: &Health) {
    assert!(health.findings.is_empty(), "{health}");
    assert_eq!(health.severity(), Severity::Ok);
}

fn run_id(health: &Health, node: usize) -> &str {
    health.nodes[node].run_id.as_deref().unwrap()
}

#[test]
fn of_nodes_that_are_well_everything_is_known_and_nothing_is_found() {
    let (clock, nodes, manager) = cluster(5);
    clock.advance(Duration::from_secs(90));
    let health = manager.health().unwrap();
    assert_well(&health);
    assert_eq!((health.voters, health.quorum), (5, 3));
    assert_eq!(health.margin(), Margin::Survives { failures: 2 });
    for (node, fake) in health.nodes.iter().zip(&nodes) {
        assert_eq!(*node.node, *fake.name());
        assert!(matches!(node.reach, Reach::Answers));
        assert_eq!(node.round_trip, Some(Duration::ZERO));
        assert_eq!(node.server.as_deref(), Some("fake"));
        assert_eq!(node.version.as_deref(), Some("7.0.0"));
        assert_eq!(node.mode.as_deref(), Some("standalone"));
        assert_eq!(node.role, Role::Master);
        assert_eq!(node.uptime, Some(Duration::from_secs(90)));
        assert_eq!(node.eviction.as_deref(), Some("noeviction"));
        assert_eq!(node.persistence, Some(Persistence::AppendOnly));
        assert_eq!(node.clock.unwrap().by(), Duration::ZERO);
        assert_eq!(node.quarantine, Quarantine::NoMarker);
    }
    let text = health.to_string();
    assert_eq!(text.lines().count(), 7, "{text}");
    assert!(
        text.ends_with("verdict: ok; 5 of 5 can vote, 3 have to: 2 more failures are survived")
    );
}

#[test]
fn nodes_on_real_time_are_well_too() {
    let nodes = FakeNode::cluster(3);
    let manager = LockManager::builder().fakes(&nodes).build().unwrap();
    assert_well(&manager.health().unwrap());
}

#[test]
fn a_restart_is_another_process_that_is_up_since_then() {
    let (clock, nodes, manager) = cluster(3);
    let before = manager.health().unwrap();
    clock.advance(Duration::from_mins(1));
    nodes[0].restart();
    nodes[1].restart_persisted();
    clock.advance(Duration::from_secs(5));
    let after = manager.health().unwrap();
    for (node, seconds) in [(0, 5), (1, 5), (2, 65)] {
        let is_same = run_id(&before, node) == run_id(&after, node);
        assert_eq!(is_same, node == 2);
        assert_eq!(after.nodes[node].uptime, Some(Duration::from_secs(seconds)));
    }
    assert_well(&after);
}

#[test]
fn nodes_that_fail_are_counted_down_to_no_majority() {
    let (_, nodes, manager) = cluster(5);
    let margins = [
        (0, Margin::Survives { failures: 1 }, Severity::Warning),
        (1, Margin::Survives { failures: 0 }, Severity::Warning),
        (2, Margin::NoMajority { missing: 1 }, Severity::Critical),
        (3, Margin::NoMajority { missing: 2 }, Severity::Critical),
        (4, Margin::NoMajority { missing: 3 }, Severity::Critical),
    ];
    for (node, margin, severity) in margins {
        nodes[node].refuse();
        let health = manager.health().unwrap();
        assert_eq!(health.margin(), margin, "{health}");
        assert_eq!(health.severity(), severity);
        let reach = &health.nodes[node].reach;
        assert!(matches!(reach, Reach::Failed(NodeError::Connect { .. })));
        let can_lock = manager.try_lock("report", TTL).is_ok();
        assert_eq!(can_lock, severity < Severity::Critical);
    }
    let health = manager.health().unwrap();
    assert!(matches!(health.findings[0], Finding::NoMajority { .. }));
    for node in nodes {
        node.recover();
    }
    assert_well(&manager.health().unwrap());
}

#[test]
fn a_hung_node_costs_one_node_timeout_each_time_and_is_asked_though_locks_leave_it_out() {
    let (clock, nodes, manager) = cluster(5);
    nodes[1].hang();
    for times in 1..=3 {
        let health = manager.health().unwrap();
        assert!(matches!(health.nodes[1].reach, Reach::TimedOut));
        assert_eq!(clock.elapsed(), NODE_TIMEOUT * times);
    }
    nodes[1].recover();
    assert_well(&manager.health().unwrap());
    // It has answered. Whether it gives locks, too, is for a probe to find out.
    clock.advance(Duration::from_secs(1));
    let guard = manager.try_lock("report", TTL).unwrap();
    assert!(
        guard
            .votes()
            .iter()
            .all(|vote| vote.to_string().ends_with("granted"))
    );
    assert_eq!(clock.elapsed(), NODE_TIMEOUT * 3 + Duration::from_secs(1));
}

#[test]
fn each_question_goes_to_all_nodes_before_a_reply_is_read_and_the_clock_is_as_sure_as_that_allows()
{
    let (clock, nodes, manager) = cluster(5);
    for node in &nodes {
        node.delay(Duration::from_millis(30));
    }
    let health = manager.health().unwrap();
    assert_eq!(clock.elapsed(), Duration::from_millis(6 * 30));
    assert_well(&health);
    let node = &health.nodes[4];
    assert_eq!(node.round_trip, Some(Duration::from_millis(30)));
    let difference = node.clock.unwrap();
    // A fake reads its clock when it is asked.
    assert!(matches!(difference, ClockDifference::Behind { .. }));
    assert_eq!(difference.by(), Duration::from_millis(15));
    assert_eq!(difference.uncertainty(), Duration::from_millis(15));
}

#[test]
fn a_clock_that_jumped_is_found() {
    let (_, nodes, manager) = cluster(3);
    nodes[0].advance(Duration::from_millis(999));
    assert_well(&manager.health().unwrap());
    nodes[0].advance(Duration::from_secs(4));
    let health = manager.health().unwrap();
    assert_eq!(
        health.nodes[0].clock.unwrap().by(),
        Duration::from_millis(4_999)
    );
    let [Finding::ClockDiffers { node, .. }] = &health.findings[..] else {
        panic!("{health}");
    };
    assert_eq!(**node, *nodes[0].name());
    assert_eq!(health.severity(), Severity::Warning);
}

#[test]
fn markers_say_which_nodes_clients_with_fencing_leave_out() {
    let clock = FakeClock::new();
    let nodes = FakeNode::cluster_on(6, &clock);
    let builder = LockManager::builder().fakes(&nodes).key_prefix("app:");
    let manager = builder.clone().build().unwrap();
    let unmarked = manager.health().unwrap();
    let key = ["app:", MARKER].concat();
    let year = Duration::from_hours(24 * 365);
    let mark = |node: usize, run_id: &str, open_us: u64, how: &str| {
        let marker = format!("{run_id}|6:4:3600000:3636003:86400000:v2|{open_us}|{how}");
        nodes[node].hold(&key, &marker, year);
    };
    mark(0, run_id(&unmarked, 0), EPOCH_US, "opened");
    mark(1, run_id(&unmarked, 1), EPOCH_US + 5_000_000, "reborn");
    mark(2, run_id(&unmarked, 3), EPOCH_US, "new");
    nodes[3].hold(&key, "someone's lock", year);
    // That of a manager without the prefix is another.
    nodes[4].hold(MARKER, "x", year);
    mark(5, run_id(&unmarked, 5), EPOCH_US, "new");
    // Who does not fence is given the vote of each of them.
    let health = manager.health().unwrap();
    assert_eq!(health.voters, 6);
    assert!(
        matches!(health.findings[..], [Finding::Marked { .. }]),
        "{health}"
    );
    assert_eq!(health.severity(), Severity::Notice);

    let fenced = builder.protocol(Protocol::Fenced);
    let manager = fenced.build().unwrap();
    let health = manager.health().unwrap();
    let remaining = Duration::from_secs(5);
    let states: Vec<String> = health
        .nodes
        .iter()
        .map(|node| node.quarantine.to_string())
        .collect();
    assert_eq!(
        states,
        [
            "open",
            "quarantine 5s",
            "other process",
            "unreadable",
            "no marker",
            "open"
        ]
    );
    assert_eq!(health.voters, 2);
    assert_eq!(health.margin(), Margin::NoMajority { missing: 2 });
    let closed = |finding: &&Finding| matches!(finding, Finding::Quarantined { .. });
    assert_eq!(health.findings.iter().filter(closed).count(), 4, "{health}");
    assert_eq!(
        health.nodes[0].settings.as_deref(),
        Some("6:4:3600000:3636003:86400000:v2")
    );

    clock.advance(remaining);
    let health = manager.health().unwrap();
    assert_eq!(health.nodes[1].quarantine, Quarantine::Open);
    assert_eq!(health.voters, 3);
    // The marker of a node that was restarted is one of another process.
    nodes[0].restart_persisted();
    nodes[1].restart();
    let health = manager.health().unwrap();
    assert_eq!(health.nodes[0].quarantine, Quarantine::OtherProcess);
    assert_eq!(health.nodes[1].quarantine, Quarantine::NoMarker);
}

#[test]
fn to_look_changes_no_key_no_time_and_no_lock() {
    let (clock, nodes, manager) = cluster(5);
    let guard = manager.lock("report", TTL).unwrap();
    let keys = |resource: &str| -> Vec<_> {
        let key = |node: &FakeNode| (node.token_of(resource), node.ttl_of(resource));
        nodes.iter().map(key).collect()
    };
    let before = keys("report");
    for _ in 0..100 {
        assert_well(&manager.health().unwrap());
    }
    assert_eq!(keys("report"), before);
    assert_eq!(keys(MARKER), vec![(None, None); 5]);
    assert_eq!(clock.elapsed(), Duration::ZERO);
    guard.extend(TTL * 2).unwrap();
    guard.unlock().unwrap();
}
