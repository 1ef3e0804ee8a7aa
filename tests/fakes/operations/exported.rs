//! Status and figures as data for other programs. The export of health is tested in `health`, and `recorded` compares all counters.

use std::time::Duration;

use redlatch::fake::FakeNode;
use serde_json::{Value, json, to_value};

use crate::managers::over_fakes;

const TTL: Duration = Duration::from_secs(10);
const TOKEN: &str = "00112233445566778899aabbccddeeff00112233";

#[test]
fn the_figures_are_data_for_other_programs() {
    let (_, nodes, manager) = over_fakes(3);
    let _guard = manager.lock("job", TTL).unwrap();
    assert!(manager.try_lock("job", TTL).is_err());
    let json = to_value(manager.stats()).unwrap();
    for name in ["attempts", "acquired", "failed_held", "held"] {
        assert_eq!(json[name], 1, "{name}: {json}");
    }
    assert_eq!(json["wait"]["count"], 1, "{json}");
    assert_eq!(json["wait"]["p99_us"], json["wait"]["max_us"], "{json}");
    let granted = json!({
        "node": nodes[0].name(), "granted": 1, "refused": 0, "failed": 0, "opened": 0, "closed": 0,
    });
    assert_eq!(json["nodes"][0], granted);
}

#[test]
fn the_status_of_a_lock_and_what_each_node_says_is_data_for_other_programs() {
    let (_, nodes, manager) = over_fakes(9);
    let label = "web-3 4711 since=2026-11-22T05:52:53Z";
    for (node, label) in nodes.iter().zip([label, label, label, label, "web-3"]) {
        node.hold("job", &format!("{TOKEN} {label}"), TTL);
    }
    nodes[5].hold("job", TOKEN, Duration::MAX);
    nodes[6].hold("job", "settings", Duration::MAX);
    nodes[7].hang();
    let json = to_value(manager.status("job").unwrap()).unwrap();
    let labelled = json!({ "label": "web-3 4711", "since": "2026-11-22T05:52:53Z" });
    let bare = json!({ "label": "web-3", "since": null });
    let advice =
        "the key is a lock that lost its time to live; delete it only if its holder is gone";
    let status = |json: &Value| {
        let names = "state view token holder error readers last_ms".split(' ');
        json!(names.map(|name| json[name].clone()).collect::<Vec<_>>())
    };
    for (node, expected) in [
        (0, json!([null, "held", TOKEN, labelled, null, null, null])),
        (4, json!([null, "held", TOKEN, bare, null, null, null])),
        (
            5,
            json!([null, "never_expires", null, null, advice, null, null]),
        ),
        (
            6,
            json!([null, "never_expires", null, null, null, null, null]),
        ),
        (7, json!([null, "timed_out", null, null, null, null, null])),
        (8, json!([null, "free", null, null, null, null, null])),
    ] {
        assert_eq!(status(&json["nodes"][node]), expected, "{json}");
        assert_eq!(json["nodes"][node]["node"], nodes[node].name());
    }
    assert!(json["nodes"][0]["remaining_ms"].as_u64().unwrap() <= 10_000);
    assert_eq!(json["state"], "unknown", "{json}");

    nodes.iter().for_each(FakeNode::restart);
    let guard = manager.lock("job", TTL).unwrap();
    let json = to_value(manager.status("job").unwrap()).unwrap();
    assert_eq!(
        status(&json),
        json!(["held", null, guard.token(), null, null, null, null])
    );
    assert!(json["remaining_ms"].as_u64().unwrap() <= 10_000);
    assert_eq!(to_value(guard.votes()).unwrap()[0]["view"], "granted");
    let guard = manager.semaphore("job", 3).lock().unwrap();
    let json = to_value(manager.semaphore_status("job", 3).unwrap()).unwrap();
    let slot = usize::try_from(guard.slot().unwrap()).unwrap();
    assert_eq!(json[slot]["token"], guard.token(), "{json}");
    assert_eq!(json[(slot + 1) % 3]["state"], "free", "{json}");
}
