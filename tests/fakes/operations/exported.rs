//! Status and figures as data for other programs. The export of health is tested in `health`.

use std::time::Duration;

use crate::managers::over_fakes;

const TTL: Duration = Duration::from_secs(10);

/// `recorded` compares all counters.
#[test]
fn the_figures_are_data_for_other_programs() {
    let (_, nodes, manager) = over_fakes(3);
    let guard = manager.lock("job", TTL).unwrap();
    assert!(manager.try_lock("job", TTL).is_err());
    let json = serde_json::to_value(manager.stats()).unwrap();
    for name in ["attempts", "acquired", "failed_held", "held"] {
        assert_eq!(json[name], 1, "{name}: {json}");
    }
    assert_eq!(json["wait"]["count"], 1, "{json}");
    assert_eq!(json["wait"]["p99_us"], json["wait"]["max_us"], "{json}");
    let granted = serde_json::json!({
        "node": nodes[0].name(), "granted": 1, "refused": 0, "failed": 0, "opened": 0, "closed": 0,
    });
    assert_eq!(json["nodes"][0], granted);
    guard.unlock().unwrap();
}

#[test]
fn the_status_is_data_for_other_programs() {
    let (_, nodes, manager) = over_fakes(3);
    let guard = manager.lock("job", TTL).unwrap();
    nodes[2].hang();
    let json = serde_json::to_value(manager.status("job").unwrap()).unwrap();
    assert_eq!(json["state"], "held", "{json}");
    assert_eq!(json["token"], guard.token(), "{json}");
    assert!(json["remaining_ms"].as_u64().unwrap() <= 10_000, "{json}");
    assert_eq!(json["nodes"][0]["view"], "held", "{json}");
    assert_eq!(json["nodes"][2]["view"], "timed_out", "{json}");
    assert!(json["nodes"][2]["token"].is_null(), "{json}");
    assert!(json["holder"].is_null() && json["nodes"][0]["holder"].is_null());
    let json = serde_json::to_value(guard.votes()).unwrap();
    assert_eq!(json[0]["view"], "granted", "{json}");
}

#[test]
fn the_holder_is_a_part_of_the_status() {
    let (_, nodes, manager) = over_fakes(3);
    let token = "00112233445566778899aabbccddeeff00112233";
    let labels = [
        "web-3 4711 since=2026-11-22T05:52:53Z",
        "web-3 4711 since=2026-11-22T05:52:53Z",
        "web-3",
    ];
    for (node, label) in nodes.iter().zip(labels) {
        node.hold("job", &format!("{token} {label}"), TTL);
    }
    let json = serde_json::to_value(manager.status("job").unwrap()).unwrap();
    let holder = serde_json::json!({ "label": "web-3 4711", "since": "2026-11-22T05:52:53Z" });
    assert_eq!(json["token"], token, "{json}");
    assert_eq!(json["holder"], holder, "{json}");
    assert_eq!(json["nodes"][0]["holder"], holder, "{json}");
    let holder = serde_json::json!({ "label": "web-3", "since": null });
    assert_eq!(json["nodes"][2]["holder"], holder, "{json}");
}

#[test]
fn the_status_of_a_semaphore_is_data_for_other_programs() {
    let (_, _, manager) = over_fakes(3);
    let guard = manager.semaphore("job", 3).lock().unwrap();
    let json = serde_json::to_value(manager.semaphore_status("job", 3).unwrap()).unwrap();
    assert_eq!(json.as_array().map(Vec::len), Some(3), "{json}");
    let slot = usize::try_from(guard.slot().unwrap()).unwrap();
    assert_eq!(json[slot]["token"], guard.token(), "{json}");
    let free = &json[(slot + 1) % 3];
    assert_eq!(free["state"], "free", "{json}");
}
