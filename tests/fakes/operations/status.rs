//! `LockManager::status` over fake nodes: what a look costs, and its JSON. What it tells of a lock is in `kinds::shown`, and what it
//! makes of every set of answers is tested beside the verdict.

use std::time::Duration;

use redlatch::fake::FakeNode;
use redlatch::{LockManager, LockStatus, NodeError, NodeReport, Vote};

use crate::managers::over_fakes;

const TTL: Duration = Duration::from_secs(10);
const NODE_TIMEOUT: Duration = Duration::from_millis(50);

/// Who holds it.
#[track_caller]
fn holder(status: &LockStatus) -> &str {
    let LockStatus::Held { token, .. } = status else {
        panic!("{status}");
    };
    token
}

#[track_caller]
fn assert_free(status: &LockStatus) {
    assert!(matches!(status, LockStatus::Free { .. }), "{status}");
}

fn is_silent(node: &NodeReport) -> bool {
    matches!(node.vote, Vote::Failed(NodeError::TimedOut { .. }))
}

#[test]
fn a_hung_node_costs_one_node_timeout_and_is_then_left_out_unless_it_is_needed() {
    let (clock, nodes, manager) = over_fakes(5);
    let guard = manager.lock("report", TTL).unwrap();
    nodes[1].hang();
    let status = manager.status("report").unwrap();
    assert!(is_silent(&status.nodes()[1]), "{status}");
    assert_eq!(clock.elapsed(), NODE_TIMEOUT);
    let status = manager.status("report").unwrap();
    let node = status.nodes()[1].to_string();
    assert!(node.contains("left out, it failed a moment ago: no answer"));
    assert_eq!(holder(&status), guard.token());
    assert_eq!(clock.elapsed(), NODE_TIMEOUT);

    // Two, two and one that may decide.
    for (node, token) in [(0, "a"), (2, "a"), (3, "b")] {
        nodes[node].hold("close", token, TTL);
    }
    let status = manager.status("close").unwrap();
    assert!(is_silent(&status.nodes()[1]), "{status}");
    assert!(matches!(status, LockStatus::Unknown { .. }), "{status}");
    assert_eq!(clock.elapsed(), NODE_TIMEOUT * 2);
}

#[test]
fn a_look_asks_all_nodes_before_it_reads_a_reply_and_changes_nothing() {
    let (clock, nodes, manager) = over_fakes(5);
    let builder = LockManager::builder().fakes(&nodes).key_prefix("app:");
    let prefixed = builder.build().unwrap();
    let guard = prefixed.lock("report", TTL).unwrap();
    nodes[4].hold("app:report", "someone else", TTL);
    let keys = |resource: &str| {
        let key = |node: &FakeNode| (node.token_of(resource), node.ttl_of(resource));
        nodes.iter().map(key).collect::<Vec<_>>()
    };
    let before = keys("app:report");
    for _ in 0..100 {
        for (manager, name) in [(&prefixed, "report"), (&manager, "app:report")] {
            assert_eq!(holder(&manager.status(name).unwrap()), guard.token());
        }
        assert_free(&manager.status("report").unwrap());
        assert_free(&manager.status("line\r\nSET x y\r\n").unwrap());
    }
    assert_eq!(keys("app:report"), before);
    assert_eq!(keys("report"), vec![(None, None); 5]);
    assert_eq!(clock.elapsed(), Duration::ZERO);
    guard.extend(TTL * 2).unwrap();
    guard.unlock().unwrap();

    let span = Duration::from_millis(30);
    for node in &nodes {
        node.delay(span);
    }
    assert_free(&manager.status("report").unwrap());
    assert_eq!(clock.elapsed(), span);
}

/// Of two slots, one is on the nodes that did not fail, and the other one, in either place, is not.
#[test]
fn a_node_that_was_left_out_is_asked_where_any_of_the_locks_needs_it() {
    for (decided, undecided) in [(0, 1), (1, 0)] {
        let (_, nodes, manager) = over_fakes(3);
        for (slot, places) in [(decided, [1, 2]), (undecided, [0, 1])] {
            for place in places {
                let key = format!("jobs:redlatch:slot:{slot}");
                nodes[place].hold(&key, &format!("of-slot-{slot}"), TTL);
            }
        }
        nodes[0].refuse();
        drop(manager.try_lock("another", TTL).unwrap());
        nodes[0].recover();
        let status = manager.semaphore_status("jobs", 2).unwrap();
        let is_held = |slot: &LockStatus| matches!(slot, LockStatus::Held { .. });
        assert!(status.iter().all(is_held), "{status:?}");
    }
}

#[cfg(feature = "serde")]
#[test]
fn as_json_it_has_what_each_node_says_under_names_that_stay() {
    use serde_json::{Value, to_value};

    const TOKEN: &str = "00112233445566778899aabbccddeeff00112233";
    let told = |json: &Value| {
        let names = "state view token holder error readers last_ms".split(' ');
        let told = names.map(|name| json[name].to_string());
        told.collect::<Vec<_>>().join(" ").replace(TOKEN, "T")
    };
    let (_, nodes, manager) = over_fakes(6);
    let label = "web-3 4711 since=2026-11-22T05:52:53Z";
    nodes[0].hold("job", &format!("{TOKEN} {label}"), TTL);
    nodes[1].hold("job", &format!("{TOKEN} web-3"), TTL);
    nodes[2].hold("job", TOKEN, Duration::MAX);
    nodes[3].hold("job", "settings", Duration::MAX);
    nodes[4].hang();
    let json = to_value(manager.status("job").unwrap()).unwrap();
    for (place, expected) in [
        r#"null "held" "T" {"label":"web-3 4711","since":"2026-11-22T05:52:53Z"} null null null"#,
        r#"null "held" "T" {"label":"web-3","since":null} null null null"#,
        r#"null "never_expires" null null "the key is a lock that lost its time to live; delete it only if its holder is gone" null null"#,
        r#"null "never_expires" null null null null null"#,
        r#"null "timed_out" null null null null null"#,
        r#"null "free" null null null null null"#,
    ]
    .into_iter()
    .enumerate()
    {
        let node = &json["nodes"][place];
        assert_eq!(told(node), expected);
        assert_eq!(node["node"], nodes[place].name());
    }
    assert_eq!(json["nodes"][0]["remaining_ms"], 10_000);

    nodes.iter().for_each(FakeNode::restart);
    let _reader = manager.rw_lock("job").ttl(TTL).read().unwrap();
    let json = to_value(manager.status("job").unwrap()).unwrap();
    assert_eq!(told(&json), r#""read" null null null null 1 10000"#);
    assert_eq!(json["remaining_ms"], 9_897);
    let guard = manager.semaphore("job", 1).ttl(TTL).lock().unwrap();
    let json = to_value(manager.semaphore_status("job", 1).unwrap()).unwrap();
    assert_eq!(json[0]["token"], guard.token(), "{json}");
    assert_eq!(to_value(guard.votes()).unwrap()[0]["view"], "granted");
}

#[cfg(feature = "serde")]
#[test]
fn a_listed_lock_is_its_status_as_json_with_its_name_and_its_slot() {
    use serde_json::{Value, to_value};

    let (_, _, manager) = over_fakes(3);
    let _lock = manager.lock("job", TTL).unwrap();
    let permit = manager.semaphore("exports", 2).ttl(TTL).lock().unwrap();
    let mut found: Vec<Value> = manager
        .locks("")
        .unwrap()
        .map(|lock| to_value(lock.unwrap()).unwrap())
        .collect();
    found.sort_by_key(|lock| lock["resource"].to_string());
    let named = found
        .iter()
        .map(|lock| format!("{} {}", lock["resource"], lock["slot"]));
    let slot = permit.slot().unwrap();
    let expected = [format!("\"exports\" {slot}"), "\"job\" null".to_owned()];
    assert_eq!(named.collect::<Vec<_>>(), expected);
    let mut status = to_value(manager.status("job").unwrap()).unwrap();
    let fields = |lock: &Value| {
        lock.as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect::<Vec<_>>()
    };
    status["resource"] = "job".into();
    status["slot"] = Value::Null;
    assert_eq!(fields(&found[1]), fields(&status));
    assert_eq!(found[1]["token"], status["token"]);
}
