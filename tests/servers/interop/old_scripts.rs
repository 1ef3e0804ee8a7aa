//! A client with the scripts of earlier versions beside one of this version: during an upgrade, both are about.
//!
//! Earlier versions had a script for each kind of lock, and named the counter and the marker as keys. What is under the keys is
//! the same.

use std::collections::HashMap;
use std::thread;

use redis::Value;
use redlatch::{Error, LockStatus, Protocol};
use redlatch_testing::{Server, eventually, side_by_side};

use crate::servers::interop::page::{OTHER, Raw, TOKEN, TTL_MS};
use crate::servers::interop::wire::{assert_held, over};
use crate::servers::interop::wire_fenced::{
    IDLE_MS, KEYS, QUARANTINE_MS, SETTINGS, counter, micros, token_of, word,
};
use crate::waiters::{BOUND, TTL, Waiting, cluster, process};

/// The parts of the scripts. Each begins with its name.
const PARTS: &str = include_str!("old_scripts.lua");

const ONE: &str = "local function one(KEYS, ARGV)";
const READ: &str = "local function read(KEYS, ARGV)";

/// What the scripts are made of: parts, and lines between them.
const SCRIPTS: [(&str, &[&str]); 16] = [
    ("release", &["refusal", "ring", "give_back", "release"]),
    ("rest", &["refusal", "rest", "release"]),
    ("extend", &["refusal", "extend"]),
    ("retake", &["retake"]),
    ("look", &["announce", "look"]),
    (
        "acquire_all",
        &["set_all", "all_free", "refusal", "missing", "acquire_all"],
    ),
    (
        "release_all",
        &[
            "refusal",
            "ring",
            "give_back",
            ONE,
            "release",
            "end",
            "each",
            "release_all",
        ],
    ),
    (
        "extend_all",
        &[
            "refusal",
            ONE,
            "extend",
            "end",
            "each",
            "return each(KEYS, ARGV)",
        ],
    ),
    ("read", &["refusal", "readers", "read"]),
    ("unread", &["refusal", "ring", "readers", "unread"]),
    ("reread", &["refusal", "readers", "reread"]),
    (
        "fenced_acquire",
        &[
            "server",
            "refusal",
            "fenced_gate",
            "fenced_floor",
            "fenced_acquire",
        ],
    ),
    ("fenced_extend", &["server", "refusal", "fenced_extend"]),
    (
        "fenced_release",
        &["refusal", "ring", "give_back", "fenced_release"],
    ),
    ("fenced_rest", &["refusal", "rest", "fenced_release"]),
    (
        "fenced_read",
        &[
            "server",
            "refusal",
            "readers",
            "fenced_gate",
            READ,
            "read",
            "end",
            "fenced_read",
        ],
    ),
];

/// A client of an earlier version.
fn old(servers: &[Server]) -> Raw<'_> {
    let parts = PARTS.split("--- ").skip(1);
    let parts: HashMap<&str, &str> = parts.filter_map(|part| part.split_once('\n')).collect();
    let text = |part: &&str| match parts.get(part) {
        Some(text) => (*text).to_owned(),
        None => format!("{part}\n"),
    };
    let scripts = SCRIPTS.map(|(name, made_of)| (name, made_of.iter().map(text).collect()));
    Raw::with(servers, HashMap::from(scripts))
}

fn is_gone() -> Value {
    Value::Array(vec![Value::Int(-2)])
}

/// What an old client reads in a reply about several locks.
fn rows(rows: &[Value]) -> Value {
    Value::Array(rows.to_vec())
}

#[test]
fn plain_locks_of_old_and_new_clients_keep_each_other_out() {
    let servers = cluster(3);
    let manager = over(Protocol::Classic, &servers);
    let old = old(&servers);

    assert!(old.take("job", TOKEN));
    assert_held(manager.try_lock("job", TTL));
    assert!(old.is_done("extend", &["job"], &[TOKEN, "120000"]));
    assert!(servers.iter().all(|server| server.pttl("job") > 60_000));
    assert!(old.is_granted("retake", &["job"], &[TOKEN, TTL_MS]));
    assert!(old.is_done("release", &["job"], &[TOKEN]));

    let guard = manager.try_lock("job", TTL).unwrap();
    assert!(!old.take("job", TOKEN));
    assert!(!old.is_granted("retake", &["job"], &[TOKEN, TTL_MS]));
    assert!(!old.is_done("extend", &["job"], &[TOKEN, TTL_MS]));
    assert!(!old.is_done("release", &["job"], &[TOKEN]));
    assert!(!old.is_done("rest", &["job"], &[TOKEN, TTL_MS]));
    // A holder may be extended and released by a process of the other version that has its value.
    assert!(old.is_done("extend", &["job"], &[guard.token(), "600000"]));
    guard.extend(TTL).unwrap();
    assert!(servers.iter().all(|server| server.pttl("job") > 300_000));
    guard.unlock().unwrap();

    assert!(old.take("job", TOKEN));
    assert!(old.is_done("rest", &["job"], &[TOKEN, TTL_MS]));
    assert_held(manager.try_lock("job", TTL));
    let status = manager.status("job").unwrap();
    assert!(matches!(status, LockStatus::Resting { .. }), "{status}");
    assert!(old.is_done("release", &["job"], &[&format!("rest:{TOKEN}")]));
    let request = manager.request("job").ttl(TTL).at_least(TTL);
    let guard = request.try_lock().unwrap();
    let rests = format!("rest:{}", guard.token());
    guard.unlock().unwrap();
    assert!(!old.take("job", TOKEN));
    assert!(old.is_done("release", &["job"], &[&rests]));
    assert!(old.take("job", TOKEN));
}

#[test]
fn old_and_new_clients_wake_each_other() {
    let servers = cluster(3);
    // It would look again after five minutes.
    let manager = process(&servers, BOUND * 5);
    let old = old(&servers);
    assert!(old.take("job", TOKEN));
    let waiting = Waiting::listen(&manager, &servers[0]);
    let replies = old.call("release", &["job"], &[TOKEN]);
    assert!(replies.contains(&Value::Int(2)), "{replies:?}");
    assert!(eventually(BOUND / 2, || waiting.is_over()));
    waiting.end().0.unlock().unwrap();

    let guard = manager.try_lock("next", TTL).unwrap();
    // An old client says that it waits.
    for look in old.call("look", &["next"], &[TTL_MS, "0"]) {
        let parts: Vec<i64> = redis::from_redis_value(look).unwrap();
        assert_eq!(parts[1], 1, "{parts:?}");
    }
    let first = &servers[0];
    let heard = thread::scope(|scope| {
        let listen = scope.spawn(|| first.command(&["BLPOP", "next:redlatch:bell", "20"]));
        assert!(eventually(BOUND, || first.blocked() == 1));
        guard.unlock().unwrap();
        listen.join().unwrap()
    });
    assert_ne!(heard, Value::Nil);
}

#[test]
fn several_locks_of_old_and_new_clients_keep_each_other_out() {
    let servers = cluster(3);
    let manager = over(Protocol::Classic, &servers);
    let old = old(&servers);
    let both = || manager.request_all(["a", "b"]).ttl(TTL).try_lock();
    let all_done = rows(&[Value::Int(1), Value::Int(1)]);

    assert!(old.is_granted("acquire_all", &["a", "b"], &[TOKEN, TTL_MS, "0"]));
    assert_held(both());
    assert_held(manager.try_lock("b", TTL));
    let extended = old.call("extend_all", &["a", "b"], &[TOKEN, "600000"]);
    assert!(old.agrees(&extended, &all_done));
    let released = old.call("release_all", &["a", "b"], &[TOKEN]);
    assert!(old.agrees(&released, &all_done));

    let guard = both().unwrap();
    for again in ["0", "1"] {
        assert!(!old.is_granted("acquire_all", &["b", "c"], &[TOKEN, TTL_MS, again]));
    }
    assert!(servers.iter().all(|server| server.get("c").is_none()));
    let extended = old.call("extend_all", &["a", "b"], &[guard.token(), "600000"]);
    assert!(old.agrees(&extended, &all_done));
    guard.extend(TTL).unwrap();
    guard.unlock().unwrap();
    // What is gone is not set again by a late command of an old client.
    let late = old.call("extend_all", &["a", "b"], &[TOKEN, TTL_MS]);
    assert!(old.agrees(&late, &rows(&[is_gone(), is_gone()])));
    assert!(old.is_granted("acquire_all", &["a", "b"], &[TOKEN, TTL_MS, "0"]));
}

#[test]
fn readers_of_both_share_and_keep_writers_of_both_out() {
    side_by_side([Protocol::Classic, Protocol::Fenced], |protocol| {
        let servers = cluster(3);
        let manager = over(protocol, &servers);
        let old = old(&servers);
        let job = || manager.rw_lock("job").ttl(TTL);
        let read = |value| {
            if protocol == Protocol::Classic {
                return old.is_granted("read", &["job"], &[value, TTL_MS, "0"]);
            }
            let words = [value, TTL_MS, "0", QUARANTINE_MS, SETTINGS];
            old.is_granted("fenced_read", &KEYS, &words)
        };
        let other = format!("{OTHER} web-3");

        assert!(read(TOKEN));
        let ours = job().try_read().unwrap();
        assert!(read(&other));
        let status = manager.status("job").unwrap();
        let are_three = matches!(status, LockStatus::Read { readers: 3, .. });
        assert!(are_three, "{status}");
        assert_held(job().try_write());
        assert!(!old.take("job", TOKEN));
        assert!(old.is_done("reread", &["job"], &[TOKEN, "600000"]));
        assert!(old.is_done("unread", &["job"], &[TOKEN]));
        assert!(old.is_done("unread", &["job"], &[&other]));
        ours.extend(TTL).unwrap();

        // A writer that waits, of the other version, keeps new readers out.
        old.call("look", &["job"], &[TTL_MS, "0"]);
        let refused = job().try_read();
        assert!(
            refused.as_ref().is_err_and(Error::writer_waits),
            "{refused:?}"
        );
        assert!(!read(TOKEN));
        ours.unlock().unwrap();
        for server in &servers {
            for beside in ["intent", "bell", "waiting"] {
                server.command(&["DEL", &format!("job:redlatch:{beside}")]);
            }
        }

        let writer = job().try_write().unwrap();
        assert!(!read(TOKEN));
        writer.unlock().unwrap();
        assert!(read(TOKEN));
        assert!(old.is_done("unread", &["job"], &[TOKEN]));
        job().try_write().unwrap().unlock().unwrap();
    });
}

/// Asks for "job" with a token, as an old client.
fn fenced_acquire(old: &Raw<'_>, token: u64) -> Vec<Value> {
    let token = token.to_string();
    let words = [
        TOKEN,
        TTL_MS,
        &token,
        QUARANTINE_MS,
        IDLE_MS,
        SETTINGS,
        "0",
        "0",
    ];
    old.call("fenced_acquire", &KEYS, &words)
}

fn is_acquired(old: &Raw<'_>, token: u64) -> bool {
    old.agrees(&fenced_acquire(old, token), &Value::Okay)
}

fn is_extended(old: &Raw<'_>, token: u64) -> bool {
    let words = [TOKEN, "600000", &token.to_string(), IDLE_MS];
    old.is_done("fenced_extend", &KEYS, &words)
}

/// Gives "job" back, by this script of the old client.
fn is_given_back(old: &Raw<'_>, script: &str, token: u64) -> bool {
    let tombstone = (token + 1).to_string();
    let words = [TOKEN, &tombstone, QUARANTINE_MS, IDLE_MS, TTL_MS];
    let count = if script == "fenced_rest" { 5 } else { 4 };
    old.is_done(script, &KEYS[..2], &words[..count])
}

#[test]
fn fencing_tokens_of_old_and_new_clients_grow_together() {
    let servers = cluster(3);
    let manager = over(Protocol::Fenced, &servers);
    let old = old(&servers);

    let token = micros(&servers[0]);
    assert!(is_acquired(&old, token));
    assert_held(manager.try_lock("job", TTL));
    assert!(is_extended(&old, token));
    assert!(is_given_back(&old, "fenced_release", token));
    let guard = manager.try_lock("job", TTL).unwrap();
    let ours = token_of(&guard);
    assert!(ours > token);
    assert_eq!(counter(&servers), Some(ours));

    // While it is held, and with a token from before its end.
    assert!(!is_acquired(&old, ours + 2));
    assert!(!is_extended(&old, ours));
    assert!(!is_given_back(&old, "fenced_release", ours - 1));
    guard.extend(TTL).unwrap();
    guard.unlock().unwrap();
    assert_eq!(counter(&servers), Some(ours + 1));
    assert_eq!(word(&fenced_acquire(&old, ours)), "STALE");
    let next = micros(&servers[0]).max(ours + 2);
    assert!(is_acquired(&old, next));

    // A key that is gone is set again only where nobody was granted it since then.
    let lose = || {
        for server in &servers {
            server.command(&["DEL", "job"]);
        }
    };
    lose();
    assert!(is_extended(&old, next));
    lose();
    let guard = manager.try_lock("job", TTL).unwrap();
    lose();
    assert!(!is_extended(&old, next));
    guard.extend(TTL).unwrap();
    lose();
    let later = token_of(&guard) + 2;
    assert!(is_acquired(&old, later));
    assert!(is_given_back(&old, "fenced_release", later));
    guard.extend(TTL).unwrap_err();

    let rests = micros(&servers[0]).max(later + 2);
    assert!(is_acquired(&old, rests));
    assert!(is_given_back(&old, "fenced_rest", rests));
    assert_held(manager.try_lock("job", TTL));
    let status = manager.status("job").unwrap();
    assert!(matches!(status, LockStatus::Resting { .. }), "{status}");
}
