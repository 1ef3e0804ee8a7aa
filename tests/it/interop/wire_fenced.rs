//! docs/wire.md, played: the fenced protocol of the page against that of the library.

use redis::Value;
use redlatch::{Error, LockGuard, NodeError, Protocol, Vote};
use redlatch_testing::Server;

use super::page::{Raw, TOKEN, TTL_MS, raw};
use super::wire::{assert_held, over};
use crate::managers::{fenced, patient};
use crate::waiting::wake_up::{TTL, cluster};

/// What the clients of the fenced protocol agree on while nothing is set: 1 h, 1 % and 2 ms, 24 h.
const QUARANTINE_MS: &str = "3636003";
const IDLE_MS: &str = "86400000";
const SETTINGS: &str = "3:2:3600000:3636003:86400000:v2";

/// The wall clock of a server in microseconds.
fn micros(server: &Server) -> u64 {
    let time = server.command(&["TIME"]);
    let (seconds, micros): (u64, u64) = redis::from_redis_value(time).unwrap();
    seconds * 1_000_000 + micros
}

/// Asks for "job" by the fenced protocol of the page.
fn fenced_take(raw: &Raw<'_>, token: u64, settings: &str) -> Vec<Value> {
    let token = token.to_string();
    let arguments = [TOKEN, TTL_MS, &token, QUARANTINE_MS, IDLE_MS, settings];
    raw.call(
        "fenced-take",
        &["job", "job:fence", "redlatch:node"],
        &arguments,
    )
}

/// The word with which the servers refuse.
#[track_caller]
fn word(replies: &[Value]) -> String {
    let Some(Value::Array(items)) = replies.first() else {
        panic!("{replies:?}");
    };
    redis::from_redis_value(items[0].clone()).unwrap()
}

#[test]
fn fencing_tokens_grow_from_client_to_client() {
    let servers = cluster(3);
    let manager = over(Protocol::Fenced, &servers);
    let raw = raw(&servers);
    let token_of = |guard: &LockGuard| u64::from(guard.fencing_token().unwrap());

    let first = token_of(&manager.try_lock("job", TTL).unwrap());
    assert_eq!(word(&fenced_take(&raw, first, SETTINGS)), "STALE");
    let second = micros(&servers[0]).max(first + 2);
    assert!(raw.agrees(&fenced_take(&raw, second, SETTINGS), &Value::Okay));
    assert_held(manager.try_lock("job", TTL));
    let plain = patient(servers.iter().map(Server::url));
    assert_held(plain.try_lock("job", TTL));

    let released = second.to_string();
    let arguments = [TOKEN, released.as_str(), IDLE_MS];
    assert!(raw.is_done("fenced-release", &["job", "job:fence"], &arguments));
    // A command of the same attempt that comes late is refused.
    assert_eq!(word(&fenced_take(&raw, second, SETTINGS)), "STALE");
    let guard = manager.try_lock("job", TTL).unwrap();
    assert!(token_of(&guard) > second);
    let held = fenced_take(&raw, token_of(&guard) + 2, SETTINGS);
    assert!(!raw.agrees(&held, &Value::Okay));
    assert!(!raw.is_done("fenced-release", &["job", "job:fence"], &arguments));
    guard.unlock().unwrap();
}

#[test]
fn a_server_without_a_marker_abstains_for_both_and_other_settings_are_refused() {
    let servers = cluster(3);
    let raw = raw(&servers);
    assert_eq!(
        word(&fenced_take(&raw, micros(&servers[0]), SETTINGS)),
        "CLOSED"
    );
    let manager = fenced().nodes(servers.iter().map(Server::url));
    let manager = manager.build().unwrap();
    let refused = manager.try_lock("job", TTL);
    let Err(Error::Unavailable { nodes, .. }) = &refused else {
        panic!("{refused:?}");
    };
    let abstains = |vote: &Vote| matches!(vote, Vote::Failed(NodeError::Quarantined { .. }));
    assert!(nodes.iter().all(|node| abstains(&node.vote)), "{nodes:?}");

    // The marker that the page's client has left is one of a new deployment to the library.
    manager.open_nodes().unwrap();
    manager.try_lock("job", TTL).unwrap().unlock().unwrap();
    let other = SETTINGS.replace("3600000", "60000");
    assert_eq!(
        word(&fenced_take(&raw, micros(&servers[0]), &other)),
        "CONFIG"
    );
    assert!(raw.agrees(
        &fenced_take(&raw, micros(&servers[0]), SETTINGS),
        &Value::Okay
    ));
    assert_held(manager.try_lock("job", TTL));
}
