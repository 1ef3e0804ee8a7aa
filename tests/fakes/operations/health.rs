//! `LockManager::health` over fake nodes: what it finds and what it costs. What it says of each answer is tested beside its code.

use std::time::Duration;

use redlatch::fake::{FakeClock, FakeNode};
use redlatch::{Health, KeepAlive, LockManager, Protocol, Severity};

use crate::managers::{BOTH, over_fakes, processes_by};

pub(crate) const TTL: Duration = Duration::from_secs(10);
const NODE_TIMEOUT: Duration = Duration::from_millis(50);

#[track_caller]
pub(crate) fn assert_well(health: &Health) {
    assert!(health.findings.is_empty(), "{health}");
}

pub(crate) fn codes(health: &Health) -> Vec<&'static str> {
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
fn of_nodes_that_are_well_everything_is_known_and_each_question_goes_to_all_before_a_reply_is_read()
{
    let (clock, nodes, manager) = over_fakes(5);
    for node in &nodes {
        node.delay(Duration::from_millis(20));
    }
    clock.advance(Duration::from_secs(90));
    let health = manager.health().unwrap();
    // Six questions; a lock, its extension and its release; the same of a read lock, and a look at it; and a
    // list, which asks three nodes.
    assert_eq!(
        clock.elapsed(),
        Duration::from_secs(90) + Duration::from_millis(16 * 20)
    );
    assert_well(&health);
    assert!(health.nodes().eq(nodes.iter().map(FakeNode::name)));
    // A fake reads its clock when it is asked.
    let names = "state error round_trip_us server version mode role master uptime_s eviction persistence clock_ahead_us \
                 clock_uncertainty_us quarantine quarantine_remaining_ms settings no_such_fact";
    let expected =
        "up - 20000 fake 7.0.0 standalone master - 90 noeviction aof -10000 10000 no_marker - - -";
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
fn with_fencing_a_restart_ends_the_vote_and_a_look_begins_the_quarantine_of_nodes_in_use() {
    let clock = FakeClock::new();
    let nodes = FakeNode::cluster_on(3, &clock);
    let builder = LockManager::builder().fakes(&nodes).key_prefix("app:");
    let markers = || {
        let markers = nodes.iter().map(|node| node.token_of("app:redlatch:node"));
        markers.collect::<Vec<_>>()
    };
    let look = |manager: &LockManager| {
        let before = markers();
        let health = manager.health().unwrap();
        assert_eq!(markers(), before);
        health
    };
    let other = builder.clone().max_ttl(TTL).protocol(Protocol::Fenced);
    let other = other.build().unwrap();
    // On new nodes, its settings would be what all others are refused for.
    assert_eq!(look(&other).margin, -2);
    let [manager] = processes_by(&builder, Protocol::Fenced);
    let before = look(&manager);
    assert_well(&before);
    assert_eq!(
        codes(&look(&other)),
        ["no_majority", "refuses", "refuses", "refuses"]
    );
    clock.advance(Duration::from_mins(1));
    nodes[0].restart();
    nodes[1].restart_persisted();
    // That of a manager without the prefix is another.
    nodes[2].hold("redlatch:node", "x", TTL);
    clock.advance(Duration::from_secs(5));
    // Other settings begin nothing.
    assert_eq!(look(&other).margin, -2);
    let after = manager.health().unwrap();
    let found = ["no_majority", "quarantined", "quarantined"];
    assert_eq!(codes(&after), found, "{after}");
    let begun = [
        "5 quarantined 3636003",
        "5 quarantined 3636003",
        "65 open -",
    ];
    for (node, expected) in begun.iter().enumerate() {
        let is_same = facts(&before, node, "run_id") == facts(&after, node, "run_id");
        assert_eq!(is_same, node == 2);
        let names = "uptime_s quarantine quarantine_remaining_ms";
        assert_eq!(facts(&after, node, names), *expected);
    }
    clock.advance(Duration::from_secs(3637));
    assert_well(&look(&manager));
}

#[test]
fn a_hung_node_costs_a_second_and_later_a_node_timeout_each_time() {
    let (clock, nodes, manager) = over_fakes(5);
    nodes[1].hang();
    // A node that is merely slow would show its pace.
    let second = Duration::from_secs(1);
    for times in 0..3 {
        let health = manager.health().unwrap();
        assert_eq!(facts(&health, 1, "state"), "timed_out");
        assert_eq!(clock.elapsed(), second + NODE_TIMEOUT * times);
        // The look at one that is well does not count the time that was spent on it.
        for node in [0, 2, 4] {
            let micros: u64 = facts(&health, node, "clock_uncertainty_us")
                .parse()
                .unwrap();
            assert!(micros <= 2_000, "{health}");
        }
    }
    nodes[1].recover();
    assert_well(&manager.health().unwrap());
    // It has answered, and given a lock.
    clock.advance(Duration::from_secs(1));
    let guard = manager.try_lock("report", TTL).unwrap();
    let mut votes = guard.votes().into_iter();
    assert!(votes.all(|vote| vote.to_string().ends_with("granted")));
    assert_eq!(clock.elapsed(), NODE_TIMEOUT * 2 + second * 2);
}

#[test]
fn nodes_that_are_slower_than_the_clients_wait_are_shown_with_their_pace_and_do_not_vote() {
    let (_, nodes, manager) = over_fakes(3);
    for node in &nodes {
        node.delay(NODE_TIMEOUT * 2);
    }
    let health = manager.health().unwrap();
    assert_eq!(codes(&health), ["no_majority", "slow", "slow", "slow"]);
    assert_eq!((health.margin, health.severity), (-2, Severity::Critical));
    for node in 0..3 {
        assert_eq!(facts(&health, node, "state round_trip_us"), "up 100000");
    }
    let said =
        "an answer takes 100.0ms, and the node timeout is 50ms, so no majority answers in time";
    assert!(health.findings[1].message == said, "{health}");
    // No lock was tried, and none can be had.
    assert!(manager.try_lock("report", TTL).is_err());
    // One that is slow is one that fails.
    for node in &nodes[1..] {
        node.delay(NODE_TIMEOUT / 5);
    }
    let health = manager.health().unwrap();
    assert_eq!(
        (health.margin, health.severity),
        (0, Severity::Warning),
        "{health}"
    );
    assert!(manager.try_lock("report", TTL).is_ok());
}

#[test]
fn held_locks_on_fewer_nodes_than_can_vote_are_counted_until_they_are_released() {
    for protocol in BOTH {
        let clock = FakeClock::new();
        let nodes = FakeNode::cluster_on(3, &clock);
        let [manager] = processes_by(&LockManager::builder().fakes(&nodes), protocol);
        let take = |name: &str| manager.request(name).ttl(TTL * 100).try_lock().unwrap();
        let reader = manager.rw_lock("ledger").ttl(TTL * 100).try_read();
        let before = [take("a"), take("b"), reader.unwrap()];
        assert_eq!(manager.status("a").unwrap().margin(), Some(1));
        assert_well(&manager.health().unwrap());
        nodes[1].restart();
        // While it abstains, no lock survives less than the nodes do.
        let found = manager.health().unwrap();
        if protocol == Protocol::Fenced {
            assert_eq!(
                (codes(&found), found.margin),
                (vec!["quarantined"], 0),
                "{found}"
            );
            clock.advance(Duration::from_hours(2));
            for guard in before {
                drop(guard);
            }
            continue;
        }
        let after = take("c");
        let found = manager.health().unwrap();
        assert_eq!(found.margin, 1);
        let finding = &found.findings[0];
        let message =
            "3 of 4 held locks have their key on only 2 of 3 nodes: one more failure loses them";
        assert_eq!(
            (finding.code, &*finding.message),
            ("thin", message),
            "{found}"
        );
        assert_eq!(finding.nodes.join(" "), nodes[1].name());
        let margins = ["a", "ledger", "c"].map(|name| manager.status(name).unwrap().margin());
        assert_eq!(margins, [Some(0), Some(0), Some(1)]);
        drop(before);
        assert_well(&manager.health().unwrap());
        assert_eq!(manager.status("a").unwrap().margin(), None);
        drop(after);
    }
}

/// As the page says: the servers of a fenced deployment are replaced one after the other, while a lock is kept.
#[test]
fn a_kept_lock_that_the_next_replacement_would_end_is_warned_of_with_fencing() {
    let clock = FakeClock::new();
    let nodes = FakeNode::cluster_on(3, &clock);
    let builder = LockManager::builder().fakes(&nodes).max_ttl(TTL);
    let [manager] = processes_by(&builder, Protocol::Fenced);
    let request = manager.request("report").ttl(TTL);
    let guard = request.keep_alive(KeepAlive::unbounded()).try_lock();
    let guard = guard.unwrap();
    nodes[0].restart();
    (0..3).for_each(|_| clock.advance(TTL));
    let found = manager.health().unwrap();
    assert_eq!((found.margin, codes(&found)), (1, vec!["thin"]), "{found}");
    let words = "1 of 1 held locks has its key on only 2 of 3 nodes: one more failure loses it";
    assert_eq!(found.findings[0].message, words);
    nodes[1].restart();
    (0..3).for_each(|_| clock.advance(TTL));
    guard.check().unwrap_err();
}

/// A lock of a rival that is being taken, and a key of another program.
#[test]
fn what_is_on_a_majority_for_a_moment_or_is_no_lock_is_not_counted_as_thin() {
    let (_, nodes, manager) = over_fakes(3);
    for node in &nodes[..2] {
        let token = "0123456789abcdef0123456789abcdef01234567";
        node.hold("moment", token, NODE_TIMEOUT / 2);
        node.hold("cache", "42", TTL);
    }
    assert_well(&manager.health().unwrap());
}

#[cfg(feature = "serde")]
#[test]
fn as_json_it_has_what_is_known_under_names_that_stay() {
    let (_, nodes, manager) = over_fakes(3);
    nodes[1].hang();
    let health = manager.health().unwrap();
    let json = serde_json::to_value(&health).unwrap();
    let finding = &health.findings[0];
    let message = "no answer within the node timeout of 50ms; raise node_timeout or --node-timeout";
    let expected = serde_json::json!([{
        "code": "unreachable", "severity": "warning", "nodes": [nodes[1].name()],
        "message": message, "advice": finding.advice, "text": finding.to_string(),
    }]);
    assert_eq!(json["findings"], expected);
    let numbers = |json: &serde_json::Value| {
        let names = "severity margin survives_failures missing_votes voters quorum".split(' ');
        names
            .map(|name| json[name].to_string())
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(numbers(&json), "\"warning\" 0 0 0 2 2");
    let unknown = serde_json::Value::Null;
    let expected = serde_json::json!({
        "node": nodes[1].name(), "state": "timed_out", "error": message, "round_trip_us": unknown, "connection_us": 0, "server": unknown,
        "version": unknown, "mode": unknown, "role": unknown, "master": unknown, "run_id": unknown, "uptime_s": unknown,
        "eviction": unknown, "persistence": unknown, "clock_ahead_us": unknown, "clock_uncertainty_us": unknown,
        "quarantine": unknown, "quarantine_remaining_ms": unknown, "settings": unknown,
    });
    assert_eq!(json["nodes"][1], expected);
    assert_eq!(json["nodes"][0]["role"], "master");
    assert_eq!(json["nodes"][0]["round_trip_us"], 0);
    nodes[0].refuse();
    let json = serde_json::to_value(manager.health().unwrap()).unwrap();
    assert_eq!(numbers(&json), "\"critical\" -1 null 1 1 2");
}
