//! `LockManager::health` over fake nodes: what it finds and what it costs. It leaves nothing.

use std::time::Duration;

use redlatch::fake::{FakeClock, FakeNode};
use redlatch::{Health, LockManager, Protocol, Severity};

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
    assert_eq!(health.severity, Severity::Ok);
}

/// One fact about the node in this place; empty if it is unknown.
fn fact(health: &Health, node: usize, name: &str) -> String {
    let node = health.nodes().nth(node).unwrap();
    health.fact(node, name).unwrap_or_default()
}

pub(crate) fn codes(health: &Health) -> Vec<&str> {
    let findings = health.findings.iter();
    findings.map(|finding| finding.code).collect()
}

#[test]
fn of_nodes_that_are_well_everything_is_known_and_nothing_is_found() {
    let (clock, nodes, manager) = cluster(5);
    clock.advance(Duration::from_secs(90));
    let health = manager.health().unwrap();
    assert_well(&health);
    assert_eq!(health.margin, 2);
    let names: Vec<&str> = nodes.iter().map(FakeNode::name).collect();
    assert_eq!(health.nodes().collect::<Vec<_>>(), names);
    for node in 0..5 {
        for (name, expected) in [
            ("state", "up"),
            ("error", ""),
            ("round_trip_us", "0"),
            ("server", "fake"),
            ("version", "7.0.0"),
            ("mode", "standalone"),
            ("role", "master"),
            ("master", ""),
            ("uptime_s", "90"),
            ("eviction", "noeviction"),
            ("persistence", "aof"),
            ("clock_ahead_us", "0"),
            ("clock_uncertainty_us", "0"),
            ("quarantine", "no_marker"),
            ("quarantine_remaining_ms", ""),
            ("settings", ""),
            ("no such fact", ""),
        ] {
            assert_eq!(fact(&health, node, name), expected, "{name}");
        }
    }
    assert_eq!(health.fact("no such node", "state"), None);
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
    for (node, seconds) in [(0, "5"), (1, "5"), (2, "65")] {
        let is_same = fact(&before, node, "run_id") == fact(&after, node, "run_id");
        assert_eq!(is_same, node == 2);
        assert_eq!(fact(&after, node, "uptime_s"), seconds);
    }
    assert_well(&after);
}

#[test]
fn nodes_that_fail_are_counted_down_to_no_majority() {
    let (_, nodes, manager) = cluster(5);
    let margins = [
        (0, 1, Severity::Warning),
        (1, 0, Severity::Warning),
        (2, -1, Severity::Critical),
        (3, -2, Severity::Critical),
        (4, -3, Severity::Critical),
    ];
    for (node, margin, severity) in margins {
        nodes[node].refuse();
        let health = manager.health().unwrap();
        assert_eq!(health.margin, margin, "{health}");
        assert_eq!(health.severity, severity);
        assert_eq!(fact(&health, node, "state"), "failed");
        let error = fact(&health, node, "error");
        assert!(error.starts_with("no connection: "), "{error}");
        let can_lock = manager.try_lock("report", TTL).is_ok();
        assert_eq!(can_lock, severity < Severity::Critical);
    }
    let health = manager.health().unwrap();
    let mut expected = vec!["no_majority"];
    expected.extend(["unreachable"; 5]);
    assert_eq!(codes(&health), expected);
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
        assert_eq!(fact(&health, 1, "state"), "timed_out");
        assert_eq!(clock.elapsed(), NODE_TIMEOUT * times);
    }
    nodes[1].recover();
    assert_well(&manager.health().unwrap());
    // It has answered, and given a lock.
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
    // Six questions, a lock, and its release.
    assert_eq!(clock.elapsed(), Duration::from_millis(8 * 30));
    assert_well(&health);
    assert_eq!(fact(&health, 4, "round_trip_us"), "30000");
    // A fake reads its clock when it is asked.
    assert_eq!(fact(&health, 4, "clock_ahead_us"), "-15000");
    assert_eq!(fact(&health, 4, "clock_uncertainty_us"), "15000");
}

#[test]
fn a_clock_that_jumped_is_found() {
    let (_, nodes, manager) = cluster(3);
    nodes[0].advance(Duration::from_millis(999));
    assert_well(&manager.health().unwrap());
    nodes[0].advance(Duration::from_secs(4));
    let health = manager.health().unwrap();
    assert_eq!(fact(&health, 0, "clock_ahead_us"), "4999000");
    assert_eq!(codes(&health), ["clock_differs"], "{health}");
    assert_eq!(*health.findings[0].nodes[0], *nodes[0].name());
    assert_eq!(health.severity, Severity::Warning);
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
    let run_id = |node| fact(&unmarked, node, "run_id");
    mark(0, &run_id(0), EPOCH_US, "opened");
    mark(1, &run_id(1), EPOCH_US + 5_000_000, "reborn");
    mark(2, &run_id(3), EPOCH_US, "new");
    nodes[3].hold(&key, "someone's lock", year);
    // That of a manager without the prefix is another.
    nodes[4].hold(MARKER, "x", year);
    mark(5, &run_id(5), EPOCH_US, "new");
    // Who does not fence is given the vote of each of them.
    let health = manager.health().unwrap();
    assert_eq!(health.margin, 2);
    assert_eq!(codes(&health), ["marked"], "{health}");
    assert_eq!(health.severity, Severity::Notice);

    let fenced = builder.protocol(Protocol::Fenced);
    let manager = fenced.build().unwrap();
    let health = manager.health().unwrap();
    let remaining = Duration::from_secs(5);
    let quarantine = |health: &Health, node| fact(health, node, "quarantine");
    let states: Vec<String> = (0..6).map(|node| quarantine(&health, node)).collect();
    assert_eq!(
        states,
        [
            "open",
            "quarantined",
            "other_process",
            "unreadable",
            "no_marker",
            "open"
        ]
    );
    assert_eq!(fact(&health, 1, "quarantine_remaining_ms"), "5000");
    assert!(health.to_string().contains("  quarantine 5s\n"), "{health}");
    assert_eq!(health.margin, -2);
    let mut expected = vec!["no_majority"];
    expected.extend(["quarantined"; 4]);
    assert_eq!(codes(&health), expected, "{health}");
    assert_eq!(
        fact(&health, 0, "settings"),
        "6:4:3600000:3636003:86400000:v2"
    );

    clock.advance(remaining);
    let health = manager.health().unwrap();
    assert_eq!(quarantine(&health, 1), "open");
    assert_eq!(health.margin, -1);
    // The marker of a node that was restarted is one of another process.
    nodes[0].restart_persisted();
    nodes[1].restart();
    let health = manager.health().unwrap();
    assert_eq!(quarantine(&health, 0), "other_process");
    assert_eq!(quarantine(&health, 1), "no_marker");
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

#[expect(clippy::too_many_lines, reason = "one list of all cases")]
#[cfg(feature = "serde")]
#[test]
fn as_json_it_has_what_is_known_under_names_that_stay() {
    let (_, nodes, manager) = cluster(3);
    nodes[1].hang();
    let health = manager.health().unwrap();
    let json = serde_json::to_value(&health).unwrap();
    let name = nodes[1].name();
    let text = health.findings[0].to_string();
    let advice = health.findings[0].advice.as_str();
    assert_eq!(
        text,
        format!("{name}: no answer within the node timeout; {advice}")
    );
    let finding = serde_json::json!({
        "code": "unreachable",
        "severity": "warning",
        "nodes": [name],
        "message": "no answer within the node timeout",
        "advice": advice,
        "text": text,
    });
    assert_eq!(json["findings"], serde_json::json!([finding]));
    assert_eq!(json["severity"], "warning");
    for (key, number) in [
        ("margin", Some(0)),
        ("survives_failures", Some(0)),
        ("missing_votes", Some(0)),
        ("voters", Some(2)),
        ("quorum", Some(2)),
    ] {
        assert_eq!(json[key].as_i64(), number, "{key}");
    }
    let silent = &json["nodes"][1];
    let names = [
        "node",
        "state",
        "error",
        "round_trip_us",
        "server",
        "version",
        "mode",
        "role",
        "master",
        "run_id",
        "uptime_s",
        "eviction",
        "persistence",
        "clock_ahead_us",
        "clock_uncertainty_us",
        "quarantine",
        "quarantine_remaining_ms",
        "settings",
    ];
    assert_eq!(silent.as_object().unwrap().len(), names.len());
    for name in names {
        let is_known = ["node", "state", "error"].contains(&name);
        assert_eq!(silent[name].is_string(), is_known, "{name}");
        assert_eq!(silent[name].is_null(), !is_known, "{name}");
    }
    assert_eq!(json["nodes"][0]["role"], "master");
    assert_eq!(json["nodes"][0]["round_trip_us"], 0);

    nodes[0].refuse();
    let json = serde_json::to_value(manager.health().unwrap()).unwrap();
    assert_eq!(json["margin"], -1);
    assert!(json["survives_failures"].is_null());
    assert_eq!(json["missing_votes"], 1);
}
