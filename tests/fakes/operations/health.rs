//! `LockManager::health` over fake nodes: what it finds and what it costs. It leaves nothing.

use std::time::Duration;

use redlatch::fake::{FakeClock, FakeNode};
use redlatch::{Health, LockManager, Protocol, Severity};

const TTL: Duration = Duration::from_secs(10);
const NODE_TIMEOUT: Duration = Duration::from_millis(50);

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
fn a_restart_is_another_process_that_is_up_since_then_and_has_no_open_marker() {
    let clock = FakeClock::new();
    let nodes = FakeNode::cluster_on(3, &clock);
    let builder = LockManager::builder().fakes(&nodes).key_prefix("app:");
    let manager = builder.protocol(Protocol::Fenced).build().unwrap();
    manager.open_nodes().unwrap();
    let before = manager.health().unwrap();
    assert_well(&before);
    clock.advance(Duration::from_mins(1));
    nodes[0].restart();
    nodes[1].restart_persisted();
    // That of a manager without the prefix is another.
    nodes[2].hold("redlatch:node", "x", TTL);
    clock.advance(Duration::from_secs(5));
    let after = manager.health().unwrap();
    for (node, seconds, quarantine) in [
        (0, "5", "no_marker"),
        (1, "5", "other_process"),
        (2, "65", "open"),
    ] {
        let is_same = fact(&before, node, "run_id") == fact(&after, node, "run_id");
        assert_eq!(is_same, node == 2);
        assert_eq!(fact(&after, node, "uptime_s"), seconds);
        assert_eq!(fact(&after, node, "quarantine"), quarantine);
    }
    assert_eq!(
        codes(&after),
        ["no_majority", "quarantined", "quarantined"],
        "{after}"
    );
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

#[cfg(feature = "serde")]
#[test]
fn as_json_it_has_what_is_known_under_names_that_stay() {
    let (_, nodes, manager) = cluster(3);
    nodes[1].hang();
    let health = manager.health().unwrap();
    let json = serde_json::to_value(&health).unwrap();
    let (name, finding) = (nodes[1].name(), &health.findings[0]);
    let (message, advice) = ("no answer within the node timeout", &finding.advice);
    let text = format!("{name}: {message}; {advice}");
    assert_eq!(finding.to_string(), text);
    let finding = serde_json::json!({
        "code": "unreachable", "severity": "warning", "nodes": [name],
        "message": message, "advice": advice, "text": text,
    });
    assert_eq!(json["findings"], serde_json::json!([finding]));
    assert_eq!(json["severity"], "warning");
    let numbers = [
        "margin",
        "survives_failures",
        "missing_votes",
        "voters",
        "quorum",
    ];
    assert_eq!(
        numbers.map(|key| json[key].as_i64().unwrap()),
        [0, 0, 0, 2, 2]
    );
    let silent = &json["nodes"][1];
    let known = ["node", "state", "error"];
    let unknown = "round_trip_us server version mode role master run_id uptime_s eviction persistence \
                   clock_ahead_us clock_uncertainty_us quarantine quarantine_remaining_ms settings";
    let unknown: Vec<&str> = unknown.split(' ').collect();
    assert_eq!(
        silent.as_object().unwrap().len(),
        known.len() + unknown.len()
    );
    assert!(
        known.iter().all(|name| silent[name].is_string()),
        "{silent}"
    );
    assert!(
        unknown.iter().all(|name| silent[name].is_null()),
        "{silent}"
    );
    assert_eq!(json["nodes"][0]["role"], "master");
    assert_eq!(json["nodes"][0]["round_trip_us"], 0);

    nodes[0].refuse();
    let json = serde_json::to_value(manager.health().unwrap()).unwrap();
    assert_eq!(json["margin"], -1);
    assert!(json["survives_failures"].is_null());
    assert_eq!(json["missing_votes"], 1);
}
