//! docs/wire.md, played: the fenced protocol of the page against that of the library.

use std::time::Duration;

use redis::Value;
use redlatch::{Error, LockGuard, LockStatus, NodeError, Protocol, Vote};
use redlatch_testing::Server;

use crate::managers::{fenced, patient};
use crate::servers::interop::page::{Raw, TOKEN, TTL_MS, raw};
use crate::servers::interop::wire::{assert_held, over};
use crate::waiters::{TTL, cluster};

/// What the clients of the fenced protocol agree on while nothing is set: 1 h, 1 % and 2 ms, 24 h.
pub(crate) const QUARANTINE_MS: &str = "3636003";
pub(crate) const IDLE_MS: &str = "86400000";
pub(crate) const SETTINGS: &str = "3:2:3600000:3636003:86400000:v2";

/// The lock, its counter and the marker.
pub(crate) const KEYS: [&str; 3] = ["job", "job:fence", "redlatch:node"];

/// The wall clock of a server in microseconds.
pub(crate) fn micros(server: &Server) -> u64 {
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
fn is_taken(raw: &Raw<'_>, token: u64) -> bool {
    raw.agrees(&fenced_take(raw, token, SETTINGS), &Value::Okay)
}

/// Extends it to ten minutes.
#[track_caller]
fn is_extended(raw: &Raw<'_>, token: u64) -> bool {
    let arguments = [TOKEN, "600000", &token.to_string(), IDLE_MS];
    raw.is_done("fenced-extend", &KEYS, &arguments)
}

#[track_caller]
fn is_released(raw: &Raw<'_>, token: u64) -> bool {
    let arguments = [TOKEN, &token.to_string(), QUARANTINE_MS, IDLE_MS];
    raw.is_done("fenced-release", &KEYS[..2], &arguments)
}

fn fenced_read(raw: &Raw<'_>) -> Vec<Value> {
    let arguments = [TOKEN, TTL_MS, QUARANTINE_MS, SETTINGS];
    raw.call("fenced-read", &KEYS, &arguments)
}

#[track_caller]
fn is_read(raw: &Raw<'_>) -> bool {
    raw.agrees(&fenced_read(raw), &Value::Okay)
}

#[track_caller]
fn reads_no_more(raw: &Raw<'_>) {
    assert!(raw.is_done("unread", &["job"], &[TOKEN]));
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

pub(crate) fn counter(servers: &[Server]) -> Option<u64> {
    let counter = servers[0].get(KEYS[1]);
    counter.map(|counter| counter.parse().unwrap())
}

pub(crate) fn token_of(guard: &LockGuard) -> u64 {
    guard.fencing_token().unwrap()
}

/// The word with which the servers refuse.
#[track_caller]
pub(crate) fn word(replies: &[Value]) -> String {
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
    assert_eq!(word(&fenced_read(&raw)), "CLOSED");
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
    let refused = fenced_take(&raw, micros(&servers[0]), SETTINGS);
    assert_eq!(word(&refused), "COUNTER");
}

#[test]
fn a_lock_that_rests_is_not_set_again() {
    let servers = cluster(3);
    let manager = over(Protocol::Fenced, &servers);
    let raw = raw(&servers);
    let token = micros(&servers[0]);
    assert!(is_taken(&raw, token));
    assert!(raw.is_done("rest", &["job"], &[TOKEN, TTL_MS]));
    assert!(!is_released(&raw, token));
    let status = manager.status("job").unwrap();
    assert!(matches!(status, LockStatus::Resting { .. }), "{status}");
    to_every(&servers, &["DEL", "job"]);
    assert!(!is_extended(&raw, token));
}

#[test]
fn an_extension_is_seen_by_both() {
    let servers = cluster(3);
    let manager = over(Protocol::Fenced, &servers);
    let raw = raw(&servers);
    let token = micros(&servers[0]);
    assert!(is_taken(&raw, token));
    to_every(&servers, &["PEXPIRE", KEYS[1], TTL_MS]);
    assert!(is_extended(&raw, token));
    let status = manager.status("job").unwrap();
    let LockStatus::Held {
        token: value,
        remaining,
        ..
    } = &status
    else {
        panic!("{status}");
    };
    assert_eq!(value, TOKEN);
    assert!(*remaining > 2 * TTL, "{status}");
    assert!(servers.iter().all(|server| server.pttl(KEYS[1]) > 600_000));
    assert!(is_released(&raw, token) && !is_extended(&raw, token));

    let guard = manager.try_lock("job", TTL).unwrap();
    assert!(!is_extended(&raw, token_of(&guard)), "the value is another");
    guard.extend(Duration::from_mins(10)).unwrap();
    let refused = fenced_take(&raw, token_of(&guard) + 2, SETTINGS);
    let left = refused.into_iter().flat_map(|reply| {
        let items: Vec<i64> = redis::from_redis_value(reply).unwrap();
        items
    });
    let left: Vec<i64> = left.collect();
    assert!(left.iter().all(|left| *left > 120_000), "{left:?}");
    guard.unlock().unwrap();
}

#[test]
fn a_missing_key_is_set_again_only_where_nobody_can_have_been_granted_it() {
    let servers = cluster(3);
    let manager = over(Protocol::Fenced, &servers);
    let raw = raw(&servers);
    let lose = || to_every(&servers, &["DEL", "job"]);
    let token = micros(&servers[0]);
    assert!(is_taken(&raw, token));
    lose();
    assert!(is_extended(&raw, token));
    assert_held(manager.try_lock("job", TTL));

    // A writer was granted the lock, and readers were.
    lose();
    manager.try_lock("job", TTL).unwrap().unlock().unwrap();
    assert!(!is_extended(&raw, token));
    set_counter(&servers, Some(token));
    let reader = manager.rw_lock("job").ttl(TTL).try_read().unwrap();
    assert!(!is_extended(&raw, token));
    reader.unlock().unwrap();
    assert!(!is_extended(&raw, token));
    set_counter(&servers, Some(token));
    assert!(is_read(&raw));
    reads_no_more(&raw);
    assert!(!is_extended(&raw, token));
    // The counter is gone, and with it who was granted the lock.
    set_counter(&servers, None);
    assert!(!is_extended(&raw, token));

    // The marker is missing, of another process, or from after the grant.
    set_counter(&servers, Some(token));
    let mark = |process: Option<&str>, open: u64| {
        for server in &servers {
            let info = server.info("server");
            let run = info.lines().find_map(|line| line.strip_prefix("run_id:"));
            let process = process.unwrap_or(run.unwrap());
            let marker = format!("{process}|{SETTINGS}|{open}|reborn");
            server.command(&["SET", KEYS[2], &marker]);
        }
    };
    to_every(&servers, &["DEL", KEYS[2]]);
    assert!(!is_extended(&raw, token));
    mark(Some("another"), token - 1);
    assert!(!is_extended(&raw, token));
    mark(None, token);
    assert!(!is_extended(&raw, token));
    mark(None, token - 1);
    assert!(is_extended(&raw, token));
    assert!(is_released(&raw, token));

    // The library keeps to it beside a client of the page.
    let guard = manager.try_lock("job", TTL).unwrap();
    let next = token_of(&guard) + 2;
    lose();
    assert!(is_taken(&raw, next) && is_released(&raw, next));
    guard.extend(TTL).unwrap_err();
}

#[test]
fn fenced_readers_and_writers_exclude_each_other() {
    let servers = cluster(3);
    let manager = over(Protocol::Fenced, &servers);
    let raw = raw(&servers);
    let try_read = || manager.rw_lock("job").ttl(TTL).try_read();

    assert!(is_read(&raw));
    assert_eq!(counter(&servers), None, "there was no counter to raise");
    assert_held(manager.try_lock("job", TTL));
    assert!(!is_taken(&raw, micros(&servers[0])));
    let ours = try_read().unwrap();
    let status = manager.status("job").unwrap();
    let are_two = matches!(status, LockStatus::Read { readers: 2, .. });
    assert!(are_two, "{status}");
    reads_no_more(&raw);
    ours.unlock().unwrap();

    let writer = manager.try_lock("job", TTL).unwrap();
    let before = counter(&servers);
    assert!(!is_read(&raw));
    assert_eq!(counter(&servers), before, "who is refused raises nothing");
    writer.unlock().unwrap();
    let before = counter(&servers).unwrap();
    assert!(is_read(&raw));
    assert_eq!(counter(&servers), Some(before + 1));
    reads_no_more(&raw);

    assert!(is_taken(&raw, micros(&servers[0]).max(before + 2)));
    assert_held(try_read());
    assert!(!is_read(&raw));
}

/// Lines in front of a script, by which `INFO` has other bytes in place of those that match.
fn with_info(pattern: &str, bytes: &str) -> String {
    format!(
        "local real = redis
        local redis = {{pcall = real.pcall, status_reply = real.status_reply, call = function(name, ...)
            local reply = real.call(name, ...)
            if name == 'INFO' then reply = string.gsub(reply, '{pattern}', '{bytes}') end
            return reply
        end}}
        "
    )
}

#[test]
fn a_process_is_known_by_its_run_id_or_else_by_its_replication_id() {
    let servers = cluster(1);
    let raw = raw(&servers);
    let take = |lines: &str| {
        let arguments = [TOKEN, TTL_MS, "1", QUARANTINE_MS, IDLE_MS, SETTINGS];
        word(&raw.call_behind(lines, "fenced-take", &KEYS, &arguments))
    };
    // It says neither, or is a node of a Redis Cluster.
    assert_eq!(take(&with_info("[%w_]*id:", "x:")), "UNKNOWN");
    assert_eq!(take(&with_info("_mode:%w+", "_mode:cluster")), "UNKNOWN");
    assert_eq!(servers[0].get(KEYS[2]), None);

    let process_in = |section: &str, field: &str| {
        let info = servers[0].info(section);
        let process = info.lines().find_map(|line| line.strip_prefix(field));
        process.unwrap().to_owned() + "|"
    };
    for (lines, process) in [
        (
            with_info("run_id:", "x:"),
            process_in("replication", "master_replid:"),
        ),
        (String::new(), process_in("server", "run_id:")),
    ] {
        assert_eq!(take(&lines), "CLOSED");
        let marker = servers[0].get(KEYS[2]).unwrap();
        assert!(marker.starts_with(&process), "{marker}");
    }
}
