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

/// The lock, its counter and the marker.
const KEYS: [&str; 3] = ["job", "job:fence", "redlatch:node"];

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
    raw.call("fenced-take", &KEYS, &arguments)
}

#[track_caller]
fn is_released(raw: &Raw<'_>, token: u64) -> bool {
    let arguments = [TOKEN, &token.to_string(), QUARANTINE_MS, IDLE_MS];
    raw.is_done("fenced-release", &KEYS[..2], &arguments)
}

/// Sends the same command to every server.
fn to_every(servers: &[Server], words: &[&str]) {
    for server in servers {
        server.command(words);
    }
}

fn set_counter(servers: &[Server], counter: Option<u64>) {
    match counter {
        Some(counter) => to_every(
            servers,
            &["SET", KEYS[1], &counter.to_string(), "PX", IDLE_MS],
        ),
        None => to_every(servers, &["DEL", KEYS[1]]),
    }
}

fn counter(servers: &[Server]) -> Option<u64> {
    let counter = servers[0].get(KEYS[1]);
    counter.map(|counter| counter.parse().unwrap())
}

fn token_of(guard: &LockGuard) -> u64 {
    u64::from(guard.fencing_token().unwrap())
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

    let first = token_of(&manager.try_lock("job", TTL).unwrap());
    assert_eq!(word(&fenced_take(&raw, first, SETTINGS)), "STALE");
    let second = micros(&servers[0]).max(first + 2);
    assert!(raw.agrees(&fenced_take(&raw, second, SETTINGS), &Value::Okay));
    assert_held(manager.try_lock("job", TTL));
    let plain = patient(servers.iter().map(Server::url));
    assert_held(plain.try_lock("job", TTL));

    assert!(is_released(&raw, second));
    // A command of the same attempt that comes late is refused.
    assert_eq!(word(&fenced_take(&raw, second, SETTINGS)), "STALE");
    let guard = manager.try_lock("job", TTL).unwrap();
    assert!(token_of(&guard) > second);
    let held = fenced_take(&raw, token_of(&guard) + 2, SETTINGS);
    assert!(!raw.agrees(&held, &Value::Okay));
    assert!(!is_released(&raw, second));
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

#[test]
fn a_take_that_arrives_after_its_release_is_refused() {
    let servers = cluster(3);
    let manager = over(Protocol::Fenced, &servers);
    let raw = raw(&servers);
    for before in [None, Some(1)] {
        set_counter(&servers, before);
        let token = micros(&servers[0]);
        assert!(!is_released(&raw, token), "the take is still on its way");
        assert_eq!(word(&fenced_take(&raw, token, SETTINGS)), "STALE");

        // The same with a release of the library.
        let guard = manager.try_lock("job", TTL).unwrap();
        let token = token_of(&guard);
        to_every(&servers, &["DEL", "job"]);
        set_counter(&servers, before);
        guard.unlock().unwrap_err();
        assert_eq!(word(&fenced_take(&raw, token, SETTINGS)), "STALE");

        // The same with a take of the library.
        set_counter(&servers, before);
        let ahead = micros(&servers[0]) + 60_000_000;
        assert!(!is_released(&raw, ahead));
        let guard = manager.try_lock("job", TTL).unwrap();
        assert!(token_of(&guard) > ahead);
        guard.unlock().unwrap();
    }

    // No take with that token is granted, so its release must not be in the way of others.
    let before = counter(&servers);
    assert!(!is_released(&raw, micros(&servers[0]) + 7_200_000_000));
    assert_eq!(counter(&servers), before);
    // What is no counter is left alone.
    to_every(&servers, &["SET", KEYS[1], "1x"]);
    assert!(!is_released(&raw, micros(&servers[0])));
    assert_eq!(servers[0].get(KEYS[1]).as_deref(), Some("1x"));
}
