//! docs/wire.md, played: a client that knows the page and nothing of the library, against the library, on real servers.

use std::thread;

use redis::Value;
use redlatch::{Error, LockGuard, LockManager, LockStatus, Protocol};
use redlatch_testing::{Server, eventually, side_by_side};

use crate::managers::{fenced_over, patient};
use crate::servers::interop::page::{Block, OTHER, TOKEN, TTL_MS, blocks, raw};
use crate::waiters::{BOUND, TTL, Waiting, cluster, process};

#[track_caller]
pub(crate) fn assert_held(result: Result<LockGuard, Error>) {
    match result {
        Err(Error::Held { .. }) => {}
        other => panic!("{other:?}"),
    }
}

pub(crate) fn over(protocol: Protocol, servers: &[Server]) -> LockManager {
    match protocol {
        Protocol::Fenced => fenced_over(servers),
        Protocol::Classic => patient(servers.iter().map(Server::url)),
        other => panic!("{other:?}"),
    }
}

const BOTH: [Protocol; 2] = [Protocol::Classic, Protocol::Fenced];

#[test]
fn every_script_of_the_page_is_played() {
    let (scripts, others): (Vec<Block>, Vec<Block>) =
        blocks().into_iter().partition(Block::is_script);
    let names: Vec<&str> = scripts.iter().map(|script| script.name).collect();
    let behind: Vec<&str> = scripts.iter().flat_map(Block::behind).collect();
    let here = concat!(include_str!("wire.rs"), include_str!("wire_fenced.rs"));
    for name in &names {
        assert!(
            here.contains(&format!("\"{name}\"")),
            "{name} is not called"
        );
    }
    assert_eq!(names.len(), 13, "{names:?}");
    assert!(others.iter().all(|block| behind.contains(&block.name)));
    assert_eq!(others.len(), 2);
}

#[test]
fn plain_locks_are_taken_extended_handed_on_and_released() {
    side_by_side(BOTH, |protocol| {
        let servers = cluster(3);
        let manager = over(protocol, &servers);
        let raw = raw(&servers);

        assert!(raw.take("job", TOKEN) && !raw.take("job", OTHER));
        assert_held(manager.try_lock("job", TTL));
        assert!(raw.is_done("extend", &["job"], &[TOKEN, "120000"]));
        assert!(servers.iter().all(|server| server.pttl("job") > 60_000));
        assert!(!raw.is_done("extend", &["job"], &[OTHER, "120000"]));
        assert!(!raw.is_done("hand-on", &["job"], &[OTHER, "x", TTL_MS]));
        assert!(raw.is_done("hand-on", &["job"], &[TOKEN, OTHER, TTL_MS]));
        assert!(!raw.is_done("release", &["job"], &[TOKEN]));
        assert_held(manager.try_lock("job", TTL));
        raw.release("job", OTHER);

        let guard = manager.try_lock("job", TTL).unwrap();
        assert!(!raw.take("job", TOKEN));
        assert!(!raw.is_done("extend", &["job"], &[OTHER, TTL_MS]));
        assert!(!raw.is_done("release", &["job"], &[OTHER]));
        assert!(!raw.is_done("rest", &["job"], &[OTHER, TTL_MS]));
        // With the value of its holder, a key can be released by anybody.
        assert_eq!(servers[0].get("job").as_deref(), Some(guard.token()));
        guard.unlock().unwrap();
        assert!(raw.take("job", TOKEN));
    });
}

#[test]
fn a_label_is_read_by_both() {
    let servers = cluster(3);
    let raw = raw(&servers);
    let value = format!("{TOKEN} web-3 4711 since=2026-11-22T05:52:53Z");
    assert!(raw.take("job", &value));
    let urls = || servers.iter().map(Server::url);
    let manager = patient(urls());
    let status = manager.status("job").unwrap();
    let LockStatus::Held { token, holder, .. } = &status else {
        panic!("{status}");
    };
    assert_eq!(
        (token.as_str(), &*holder.as_ref().unwrap().label),
        (TOKEN, "web-3 4711")
    );
    raw.release("job", &value);

    let guard = manager
        .request("job")
        .ttl(TTL)
        .holder("db-1")
        .try_lock()
        .unwrap();
    let value = servers[0].get("job").unwrap();
    let since = value.strip_prefix(&format!("{} db-1 since=", guard.token()));
    assert_eq!(since.unwrap().len(), "2026-11-22T05:52:53Z".len());
    assert!(!raw.is_done("release", &["job"], &[guard.token()]));
    raw.release("job", &value);
    assert!(guard.unlock().is_err());
}

#[test]
fn a_lock_that_rests_is_nobodys_and_nobody_gets_it() {
    side_by_side(BOTH, |protocol| {
        let servers = cluster(3);
        let manager = over(protocol, &servers);
        let raw = raw(&servers);
        assert!(raw.take("job", TOKEN));
        assert!(raw.is_done("rest", &["job"], &[TOKEN, TTL_MS]));
        assert!(!raw.is_done("release", &["job"], &[TOKEN]));
        assert_held(manager.try_lock("job", TTL));
        let status = manager.status("job").unwrap();
        assert!(matches!(status, LockStatus::Resting { .. }), "{status}");
        raw.release("job", &format!("rest:{TOKEN}"));

        let request = manager.request("job").ttl(TTL).at_least(TTL);
        let guard = request.try_lock().unwrap();
        let value = format!("rest:{}", guard.token());
        guard.unlock().unwrap();
        assert_eq!(servers[0].get("job"), Some(value.clone()));
        assert!(!raw.take("job", TOKEN));
        raw.release("job", &value);
        assert!(raw.take("job", TOKEN));
    });
}

#[test]
fn several_resources_are_plain_locks_to_all_others() {
    side_by_side(BOTH, |protocol| {
        let servers = cluster(3);
        let manager = over(protocol, &servers);
        let raw = raw(&servers);
        let both = || manager.request_all(["a", "b"]).ttl(TTL).try_lock();

        assert!(raw.is_granted("take-all", &["a", "b"], &[TOKEN, TTL_MS]));
        assert_held(both());
        assert_held(manager.try_lock("b", TTL));
        raw.release("a", TOKEN);
        assert_held(both());
        raw.release("b", TOKEN);

        let guard = both().unwrap();
        assert!(!raw.is_granted("take-all", &["b", "c"], &[TOKEN, TTL_MS]));
        assert!(
            raw.take("c", OTHER),
            "nothing was set for a lock that is refused"
        );
        for key in ["a", "b"] {
            assert_eq!(servers[0].get(key).as_deref(), Some(guard.token()));
            assert!(!raw.take(key, TOKEN));
        }
        guard.unlock().unwrap();
        assert!(raw.is_granted("take-all", &["a", "b"], &[TOKEN, TTL_MS]));
    });
}

#[test]
fn a_permit_is_a_plain_lock_on_a_slot() {
    side_by_side(BOTH, |protocol| {
        let servers = cluster(3);
        let manager = over(protocol, &servers);
        let raw = raw(&servers);
        let slots = ["exports:redlatch:slot:0", "exports:redlatch:slot:1"];
        let permit = || manager.semaphore("exports", 2).ttl(TTL).try_lock();

        assert!(raw.take(slots[0], TOKEN));
        let ours = permit().unwrap();
        assert_eq!(ours.slot(), Some(1));
        assert!(!raw.take(slots[1], OTHER));
        assert_held(permit());
        raw.release(slots[0], TOKEN);
        assert_eq!(permit().unwrap().slot(), Some(0));
        ours.unlock().unwrap();
        assert!(slots.iter().all(|slot| raw.take(slot, OTHER)));
        assert_held(permit());
    });
}

#[test]
fn readers_share_and_exclude_writers_and_plain_locks() {
    side_by_side(BOTH, |protocol| {
        let servers = cluster(3);
        let manager = over(protocol, &servers);
        let raw = raw(&servers);
        let ledger = || manager.rw_lock("ledger").ttl(TTL);

        assert!(raw.is_granted("read", &["ledger"], &[TOKEN, TTL_MS]));
        let ours = ledger().try_read().unwrap();
        let other = format!("{OTHER} web-3");
        assert!(raw.is_granted("read", &["ledger"], &[&other, TTL_MS]));
        let status = manager.status("ledger").unwrap();
        assert!(
            matches!(status, LockStatus::Read { readers: 3, .. }),
            "{status}"
        );
        assert_held(ledger().try_write());
        assert_held(manager.try_lock("ledger", TTL));
        assert!(!raw.take("ledger", TOKEN));

        assert!(raw.is_done("unread", &["ledger"], &[TOKEN]));
        assert!(raw.is_done("unread", &["ledger"], &[&other]));
        assert!(!raw.is_done("unread", &["ledger"], &[&other]));
        assert!(!raw.take("ledger", TOKEN), "ours reads on");
        ours.check().unwrap();
        ours.unlock().unwrap();

        let writer = ledger().try_write().unwrap();
        assert!(!raw.is_granted("read", &["ledger"], &[TOKEN, TTL_MS]));
        writer.unlock().unwrap();
        // The last reader takes the key away.
        assert!(raw.is_granted("read", &["ledger"], &[TOKEN, TTL_MS]));
        assert!(raw.is_done("unread", &["ledger"], &[TOKEN]));
        assert!(raw.take("ledger", TOKEN));
        assert_held(ledger().try_read());
    });
}

#[test]
fn a_reader_extends_its_own_entry_alone() {
    let servers = cluster(3);
    let manager = over(Protocol::Classic, &servers);
    let raw = raw(&servers);
    let minutes = || {
        let status = manager.status("ledger").unwrap();
        let LockStatus::Read { last, .. } = &status else {
            panic!("{status}");
        };
        last.as_secs() / 60
    };
    let reread = |ttl_ms| raw.is_done("reread", &["ledger"], &[TOKEN, ttl_ms]);

    assert!(!reread(TTL_MS));
    let ours = manager.rw_lock("ledger").ttl(TTL).try_read().unwrap();
    assert!(!reread("3600000"), "the entry is not there");
    assert!(raw.is_granted("read", &["ledger"], &[TOKEN, TTL_MS]));
    assert!(reread("3600000"));
    assert!(minutes() > 50);
    assert!(reread(TTL_MS));
    assert!(minutes() > 50, "an extension makes nothing shorter");
    assert!(raw.is_done("unread", &["ledger"], &[TOKEN]));
    assert!(minutes() < 10, "the key ends with the reader that is left");
    ours.unlock().unwrap();
}

#[test]
fn a_set_of_another_program_is_left_alone() {
    let servers = cluster(1);
    let (server, raw) = (&servers[0], raw(&servers));
    let content = || server.command(&["ZRANGE", "queue", "0", "-1", "WITHSCORES"]);
    let longer = format!("{TOKEN}0");
    // The last member is no value, or does not end at a whole millisecond; or the set does not end.
    for (last, score, ttl_ms) in [
        ("task", "9000000000001", Some(TTL_MS)),
        (longer.as_str(), "9000000000001", Some(TTL_MS)),
        (TOKEN, "9000000000000.5", Some(TTL_MS)),
        (TOKEN, "9000000000000001", Some(TTL_MS)),
        (TOKEN, "9000000000001", None),
    ] {
        server.command(&["DEL", "queue"]);
        let members = ["1", "old", "9000000000000", OTHER, score, last];
        server.command(&[&["ZADD", "queue"][..], &members].concat());
        if let Some(ttl_ms) = ttl_ms {
            server.command(&["PEXPIRE", "queue", ttl_ms]);
        }
        let before = content();
        let call = |name| raw.call(name, &["queue"], &[OTHER, "600000"]).remove(0);
        assert_eq!(
            call("read"),
            Value::Array(vec![Value::Int(-3)]),
            "{last} {score}"
        );
        assert_eq!(call("reread"), Value::Int(0), "{last} {score}");
        assert_eq!(call("unread"), Value::Int(0), "{last} {score}");
        assert_eq!(content(), before);
        assert_eq!(server.pttl("queue") > 0, ttl_ms.is_some());
        assert!(server.pttl("queue") <= 60_000);
    }
}

#[test]
fn an_intent_keeps_readers_of_both_out() {
    let servers = cluster(3);
    let manager = over(Protocol::Classic, &servers);
    let raw = raw(&servers);
    let ours = manager.rw_lock("ledger").ttl(TTL).try_read().unwrap();
    for server in &servers {
        server.command(&["SET", "ledger:redlatch:intent", "1", "PX", "60000"]);
    }
    assert!(!raw.is_granted("read", &["ledger"], &[TOKEN, TTL_MS]));
    let refused = manager.rw_lock("ledger").ttl(TTL).try_read();
    assert!(
        refused.as_ref().is_err_and(Error::writer_waits),
        "{refused:?}"
    );
    ours.unlock().unwrap();
    // An attempt of the writer that is undone is not its turn, and its release is.
    servers[0].command(&["SADD", "ledger:redlatch:waiting", "r"]);
    let left = || {
        let waiting = servers[0].command(&["SCARD", "ledger:redlatch:waiting"]);
        (servers[0].get("ledger:redlatch:intent"), waiting)
    };
    assert!(raw.is_done_somewhere("ring", &["ledger"], &["1"]));
    assert_eq!(left(), (Some("1".to_owned()), Value::Int(1)));
    assert!(raw.is_done_somewhere("ring", &["ledger"], &[]));
    assert_eq!(left(), (None, Value::Int(0)));
    // Also where nobody is announced.
    servers[0].command(&["SET", "ledger:redlatch:intent", "1", "PX", "60000"]);
    assert!(!raw.is_done_somewhere("ring", &["ledger"], &[]));
    assert_eq!(left(), (None, Value::Int(0)));
}

#[test]
fn the_bell_wakes_a_client_of_the_library() {
    let servers = cluster(3);
    // It would look again after five minutes.
    let manager = process(&servers, BOUND * 5);
    let raw = raw(&servers);
    assert!(raw.take("job", TOKEN));
    let waiting = Waiting::listen(&manager, &servers[0]);
    raw.release("job", TOKEN);
    assert!(raw.is_done_somewhere("ring", &["job"], &[]));
    let woken = eventually(BOUND / 2, || waiting.is_over());
    assert!(woken, "the bell was not heard");
    waiting.end().0.unlock().unwrap();
}

#[test]
fn a_release_of_the_library_rings_for_a_client_that_is_announced() {
    side_by_side(BOTH, |protocol| {
        let servers = cluster(3);
        let manager = over(protocol, &servers);
        let guard = manager.try_lock("job", TTL).unwrap();
        let first = &servers[0];
        first.command(&["SADD", "job:redlatch:waiting", "1"]);
        first.command(&["PEXPIRE", "job:redlatch:waiting", TTL_MS]);
        let heard = thread::scope(|scope| {
            let listen = scope.spawn(|| first.command(&["BLPOP", "job:redlatch:bell", "20"]));
            assert!(eventually(BOUND, || first.blocked() == 1));
            guard.unlock().unwrap();
            listen.join().unwrap()
        });
        let heard: Option<(String, String)> = redis::from_redis_value(heard).unwrap();
        assert_eq!(
            heard,
            Some(("job:redlatch:bell".to_owned(), "1".to_owned()))
        );
    });
}
