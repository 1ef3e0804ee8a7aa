//! `LockManager::health` over fake nodes: what it finds and what it costs. What it says of each answer is tested beside its code.

use std::time::Duration;

use redlatch::fake::{FakeClock, FakeNode};
use redlatch::{Health, LockManager, Protocol, Severity};

use crate::managers::over_fakes;

const TTL: Duration = Duration::from_secs(10);
const NODE_TIMEOUT: Duration = Duration::from_millis(50);

#[track_caller]
pub(crate) fn assert_well(health: &Health) {
    assert!(health.findings.is_empty(), "{health}");
    assert_eq!(health.severity, Severity::Ok);
}

pub(crate) fn codes(health: &Health) -> Vec<&str> {
    let findings = health.findings.iter();
    findings.map(|finding| finding.code).collect()
}

/// Facts about the node in this place, with a dash for what is unknown.
fn facts(health: &Health, node: usize, names: &str) -> String {
    let node = health.nodes().nth(node).unwrap();
    let fact = |name| health.fact(node, name).unwrap_or("-".into());
    names.split(' ').map(fact).collect::<Vec<_>>().join(" ")
}

#[test]
fn of_nodes_that_are_well_everything_is_known_and_nothing_is_found() {
    let (clock, nodes, manager) = over_fakes(5);
    clock.advance(Duration::from_secs(90));
    let health = manager.health().unwrap();
    assert_well(&health);
    assert_eq!(health.margin, 2);
    assert!(health.nodes().eq(nodes.iter().map(FakeNode::name)));
    let names = "state error round_trip_us server version mode role master uptime_s eviction persistence clock_ahead_us \
                 clock_uncertainty_us quarantine quarantine_remaining_ms settings no_such_fact";
    let expected = "up - 0 fake 7.0.0 standalone master - 90 noeviction aof 0 0 no_marker - - -";
    for node in 0..5 {
        assert_eq!(facts(&health, node, names), expected);
    }
    assert_eq!(health.fact("no such node", "state"), None);
    let text = health.to_string();
    assert_eq!(text.lines().count(), 7, "{text}");
    let verdict = "verdict: ok; 5 of 5 can vote, 3 have to: 2 more failures are survived";
    assert!(text.ends_with(verdict));
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
    for (node, expected) in ["5 no_marker", "5 other_process", "65 open"]
        .iter()
        .enumerate()
    {
        let is_same = facts(&before, node, "run_id") == facts(&after, node, "run_id");
        assert_eq!(is_same, node == 2);
        assert_eq!(facts(&after, node, "uptime_s quarantine"), *expected);
    }
    let found = ["no_majority", "quarantined", "quarantined"];
    assert_eq!(codes(&after), found, "{after}");
}

#[test]
fn a_hung_node_costs_one_node_timeout_each_time_and_is_asked_though_locks_leave_it_out() {
    let (clock, nodes, manager) = over_fakes(5);
    nodes[1].hang();
    for times in 1..=3 {
        let health = manager.health().unwrap();
        assert_eq!(facts(&health, 1, "state"), "timed_out");
        assert_eq!(clock.elapsed(), NODE_TIMEOUT * times);
    }
    nodes[1].recover();
    assert_well(&manager.health().unwrap());
    // It has answered, and given a lock.
    clock.advance(Duration::from_secs(1));
    let guard = manager.try_lock("report", TTL).unwrap();
    let mut votes = guard.votes().into_iter();
    assert!(votes.all(|vote| vote.to_string().ends_with("granted")));
    assert_eq!(clock.elapsed(), NODE_TIMEOUT * 3 + Duration::from_secs(1));
}

#[test]
fn each_question_goes_to_all_nodes_before_a_reply_is_read_and_the_clock_is_as_sure_as_that_allows()
{
    let (clock, nodes, manager) = over_fakes(5);
    for node in &nodes {
        node.delay(Duration::from_millis(30));
    }
    let health = manager.health().unwrap();
    // Six questions, a lock, and its release.
    assert_eq!(clock.elapsed(), Duration::from_millis(8 * 30));
    assert_well(&health);
    // A fake reads its clock when it is asked.
    let names = "round_trip_us clock_ahead_us clock_uncertainty_us";
    assert_eq!(facts(&health, 4, names), "30000 -15000 15000");
}

#[cfg(feature = "serde")]
#[test]
fn as_json_it_has_what_is_known_under_names_that_stay() {
    let (_, nodes, manager) = over_fakes(3);
    nodes[1].hang();
    let health = manager.health().unwrap();
    let json = serde_json::to_value(&health).unwrap();
    let (name, advice) = (nodes[1].name(), &health.findings[0].advice);
    let message = "no answer within the node timeout";
    let text = format!("{name}: {message}; {advice}");
    assert_eq!(health.findings[0].to_string(), text);
    let expected = serde_json::json!([{
        "code": "unreachable", "severity": "warning", "nodes": [name],
        "message": message, "advice": advice, "text": text,
    }]);
    assert_eq!(json["findings"], expected);
    assert_eq!(json["severity"], "warning");
    let numbers = "margin survives_failures missing_votes voters quorum".split(' ');
    let numbers: Vec<_> = numbers.map(|key| json[key].as_i64().unwrap()).collect();
    assert_eq!(numbers, [0, 0, 0, 2, 2]);
    let unknown = serde_json::Value::Null;
    let expected = serde_json::json!({
        "node": name, "state": "timed_out", "error": message, "round_trip_us": unknown, "server": unknown,
        "version": unknown, "mode": unknown, "role": unknown, "master": unknown, "run_id": unknown, "uptime_s": unknown,
        "eviction": unknown, "persistence": unknown, "clock_ahead_us": unknown, "clock_uncertainty_us": unknown,
        "quarantine": unknown, "quarantine_remaining_ms": unknown, "settings": unknown,
    });
    assert_eq!(json["nodes"][1], expected);
    assert_eq!(json["nodes"][0]["role"], "master");
    assert_eq!(json["nodes"][0]["round_trip_us"], 0);

    nodes[0].refuse();
    let json = serde_json::to_value(manager.health().unwrap()).unwrap();
    assert_eq!(json["margin"], -1);
    assert!(json["survives_failures"].is_null());
    assert_eq!(json["missing_votes"], 1);
}
