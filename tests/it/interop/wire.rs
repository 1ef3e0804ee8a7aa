//! docs/wire.md, played: a client that knows the page and nothing of the library, against the library, on real servers.

use std::collections::HashMap;
use std::thread;

use redis::Value;
use redlatch::{Error, LockGuard, LockManager, LockStatus, Protocol};
use redlatch_testing::{Server, eventually, side_by_side};

use crate::managers::{fenced_over, patient};
use crate::waiting::wake_up::{BOUND, TTL, Waiting, cluster, process};

pub(super) const TOKEN: &str = "00112233445566778899aabbccddeeff00112233";
const OTHER: &str = "ffeeddccbbaa99887766554433221100ffeeddcc";
pub(super) const TTL_MS: &str = "60000";

/// The scripts of the page by their names, which are the first words in them.
fn scripts() -> HashMap<&'static str, &'static str> {
    let page = include_str!("../../../docs/wire.md");
    let blocks = page.split("```lua\n-- ").skip(1);
    let scripts = blocks.map(|block| {
        let script = block.split("```").next().unwrap();
        script.split_once("   ").unwrap()
    });
    scripts
        .map(|(name, rest)| (name, rest.split_once('\n').unwrap().1))
        .collect()
}

/// A client that sends what the page says.
pub(super) struct Raw<'a> {
    servers: &'a [Server],
    scripts: HashMap<&'static str, &'static str>,
}

pub(super) fn raw(servers: &[Server]) -> Raw<'_> {
    let scripts = scripts();
    Raw { servers, scripts }
}

impl Raw<'_> {
    /// Calls a script of the page on every server.
    #[track_caller]
    pub(super) fn call(&self, name: &str, keys: &[&str], arguments: &[&str]) -> Vec<Value> {
        let count = keys.len().to_string();
        let words = [&["EVAL", self.scripts[name], &count], keys, arguments].concat();
        let servers = self.servers.iter();
        servers.map(|server| server.command(&words)).collect()
    }

    /// Whether a majority says so.
    #[track_caller]
    pub(super) fn agrees(&self, replies: &[Value], yes: &Value) -> bool {
        let votes = replies.iter().filter(|reply| *reply == yes).count();
        // No other client is at it meanwhile, so the servers agree.
        assert!(votes == 0 || votes == self.servers.len(), "{replies:?}");
        votes > 0
    }

    #[track_caller]
    fn take(&self, key: &str, value: &str) -> bool {
        let words = ["SET", key, value, "NX", "PX", TTL_MS];
        let replies: Vec<Value> = self.servers.iter().map(|s| s.command(&words)).collect();
        self.agrees(&replies, &Value::Okay)
    }

    #[track_caller]
    pub(super) fn is_done(&self, name: &str, keys: &[&str], arguments: &[&str]) -> bool {
        self.agrees(&self.call(name, keys, arguments), &Value::Int(1))
    }

    #[track_caller]
    fn is_granted(&self, name: &str, keys: &[&str], arguments: &[&str]) -> bool {
        self.agrees(&self.call(name, keys, arguments), &Value::Okay)
    }

    /// Whether one server says so at least.
    #[track_caller]
    fn is_done_somewhere(&self, name: &str, keys: &[&str]) -> bool {
        self.call(name, keys, &[]).contains(&Value::Int(1))
    }

    #[track_caller]
    fn release(&self, key: &str, value: &str) {
        assert!(self.is_done("release", &[key], &[value]));
    }
}

#[track_caller]
pub(super) fn assert_held(result: Result<LockGuard, Error>) {
    match result {
        Err(Error::Held { .. }) => {}
        other => panic!("{other:?}"),
    }
}

pub(super) fn over(protocol: Protocol, servers: &[Server]) -> LockManager {
    match protocol {
        Protocol::Fenced => fenced_over(servers),
        Protocol::Classic => patient(servers.iter().map(Server::url)),
        other => panic!("{other:?}"),
    }
}

const BOTH: [Protocol; 2] = [Protocol::Classic, Protocol::Fenced];

#[test]
fn every_script_of_the_page_is_played() {
    let mut names: Vec<&str> = scripts().into_keys().collect();
    names.sort_unstable();
    let here = concat!(include_str!("wire.rs"), include_str!("wire_fenced.rs"));
    for name in &names {
        assert!(
            here.contains(&format!("\"{name}\"")),
            "{name} is not called"
        );
    }
    assert_eq!(names.len(), 10, "{names:?}");
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
        assert!(raw.is_granted("read", &["ledger"], &[OTHER, TTL_MS]));
        let status = manager.status("ledger").unwrap();
        assert!(
            matches!(status, LockStatus::Read { readers: 3, .. }),
            "{status}"
        );
        assert_held(ledger().try_write());
        assert_held(manager.try_lock("ledger", TTL));
        assert!(!raw.take("ledger", TOKEN));

        assert!(raw.is_done("unread", &["ledger"], &[TOKEN]));
        assert!(raw.is_done("unread", &["ledger"], &[OTHER]));
        assert!(!raw.is_done("unread", &["ledger"], &[OTHER]));
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
    assert!(raw.is_done_somewhere("ring", &["job"]));
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
