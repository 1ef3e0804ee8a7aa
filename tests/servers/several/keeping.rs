//! Several resources that are held: extended, healed, kept alive, at rest, and given back by a panic or a fork.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use redlatch::{Error, Fanout, KeepAlive, LockGuard, LockManager, LossCause, Protocol, Vote};
use redlatch_testing::{Server, eventually, within};

use crate::managers::{PATIENCE, patient};
use crate::servers::several::on_servers::{held, keys, over, take};
use crate::waiters::{BOUND, TTL, cluster};

const NAMES: [&str; 3] = ["a", "b", "c"];

fn at_once(servers: &[Server]) -> LockManager {
    let builder = LockManager::builder().nodes(servers.iter().map(Server::url));
    let builder = builder.node_timeout(PATIENCE).fanout(Fanout::Overlapped);
    builder.build().unwrap()
}

#[track_caller]
fn assert_all_have(servers: &[Server], guard: &LockGuard, least: Duration) {
    for server in servers {
        for name in NAMES {
            assert_eq!(server.get(name).as_deref(), Some(guard.token()), "{name}");
            let left = Duration::from_millis(server.pttl(name).try_into().unwrap());
            assert!(left > least, "{name}: {left:?}");
        }
    }
}

#[test]
fn an_extension_makes_every_key_live_longer() {
    let servers = cluster(3);
    let manager = at_once(&servers);
    let guard = take(&manager, &NAMES).unwrap();
    guard.extend(TTL * 10).unwrap();
    assert!(guard.remaining() > TTL * 9);
    assert_all_have(&servers, &guard, TTL * 9);
    // It is never made shorter.
    guard.extend(TTL).unwrap();
    assert_all_have(&servers, &guard, TTL * 9);
}

#[test]
fn one_key_that_is_gone_is_set_again_with_the_time_of_the_others() {
    let servers = cluster(5);
    let manager = at_once(&servers);
    let guard = take(&manager, &NAMES).unwrap();
    servers[0].command(&["DEL", "b"]);
    servers[2].command(&["FLUSHALL"]);
    guard.extend(TTL * 10).unwrap();
    assert_all_have(&servers, &guard, TTL * 9);
    assert_eq!(manager.stats().healed, 2);
    // A lock of which too much is gone is not healed: others may have had it.
    for server in &servers[..3] {
        server.command(&["DEL", "a"]);
    }
    let error = guard.extend(TTL).unwrap_err();
    assert!(
        matches!(
            error,
            Error::Lost {
                cause: LossCause::Vanished { .. },
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn a_key_that_another_has_taken_is_not_touched_by_a_heal() {
    let servers = cluster(5);
    let manager = at_once(&servers);
    let guard = take(&manager, &NAMES).unwrap();
    servers[0].command(&["DEL", "a"]);
    servers[0].hold("b", "another", 60_000);
    servers[1].command(&["DEL", "c"]);
    guard.extend(TTL).unwrap();
    assert_eq!(servers[0].get("a"), None);
    assert_eq!(servers[0].get("b").as_deref(), Some("another"));
    assert_eq!(servers[1].get("c").as_deref(), Some(guard.token()));
    guard.unlock().unwrap();
    assert_eq!(keys(&servers[0], &NAMES), ["b"]);
    assert!(
        servers[1..]
            .iter()
            .all(|server| keys(server, &NAMES).is_empty())
    );
}

#[test]
fn a_lock_that_is_kept_outlives_the_restart_of_every_server() {
    let mut servers = cluster(3);
    let builder = LockManager::builder().nodes(servers.iter().map(Server::url));
    let manager = builder
        .node_timeout(Duration::from_millis(500))
        .build()
        .unwrap();
    let ttl = Duration::from_secs(3);
    let request = manager
        .request_all(NAMES)
        .ttl(ttl)
        .keep_alive(KeepAlive::unbounded());
    let guard = request.lock().unwrap();
    for server in &mut servers {
        server.kill();
        server.restart();
        let is_back = || {
            NAMES
                .iter()
                .all(|name| server.get(name).as_deref() == Some(guard.token()))
        };
        assert!(eventually(BOUND, is_back), "{:?}", keys(server, &NAMES));
        guard.check().unwrap();
    }
    guard.unlock().unwrap();
    assert!(servers.iter().all(|server| keys(server, &NAMES).is_empty()));
}

#[test]
fn one_renewal_is_for_locks_on_one_and_on_several_resources() {
    for protocol in [Protocol::Classic, Protocol::Fenced] {
        let servers = cluster(3);
        let builder = crate::managers::fenced().protocol(protocol);
        let manager = builder
            .node_timeout(Duration::from_millis(500))
            .nodes(servers.iter().map(Server::url));
        let manager = manager.build().unwrap();
        if protocol == Protocol::Fenced {
            manager.open_nodes().unwrap();
        }
        let ttl = Duration::from_secs(2);
        let kept = |names: &[&str]| {
            let request = manager.request_all(names).ttl(ttl);
            request.keep_alive(KeepAlive::unbounded()).lock().unwrap()
        };
        let many: Vec<String> = (0..64).map(|n| format!("of-many:{n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let guards = [
            kept(&["x"]),
            kept(&NAMES),
            kept(&["y"]),
            kept(&["d", "e"]),
            kept(&many),
        ];
        // Longer than any of them lives without.
        assert!(eventually(BOUND, || manager.stats().renewed >= 5 * 4));
        for guard in &guards {
            guard.check().unwrap();
            for name in guard.resources() {
                let with = servers
                    .iter()
                    .filter(|server| server.get(name).as_deref() == Some(guard.token()));
                assert!(with.count() >= 2, "{name}");
            }
        }
        // One is lost, and the others of its batch are not.
        for server in &servers {
            server.command(&["SET", "e", "another", "PX", "60000"]);
        }
        let cause = guards[3].wait_lost(BOUND).unwrap();
        assert!(matches!(cause, LossCause::Taken { .. }), "{cause}");
        for guard in [&guards[0], &guards[1], &guards[2], &guards[4]] {
            guard.check().unwrap();
        }
    }
}

#[test]
fn every_resource_rests_until_the_minimum_is_over() {
    for protocol in [Protocol::Classic, Protocol::Fenced] {
        let servers = cluster(3);
        let manager = over(&servers, protocol);
        let other = patient(servers.iter().map(Server::url));
        let request = manager.request_all(NAMES).ttl(TTL).at_least(TTL * 2);
        request.lock().unwrap().unlock().unwrap();
        for server in servers
            .iter()
            .filter(|server| !keys(server, &NAMES).is_empty())
        {
            let rests = |name: &&str| {
                server
                    .get(name)
                    .is_some_and(|value| value.starts_with("rest:"))
            };
            assert!(NAMES.iter().all(rests));
            assert!(server.pttl("b") > 60_000);
        }
        for name in NAMES {
            let error = other.try_lock(name, TTL).unwrap_err();
            assert!(error.is_resting(), "{error}");
        }
        let error = take(&manager, &["b", "x"]).unwrap_err();
        assert!(
            error.is_resting() && error.to_string().starts_with("the lock on \"b\" rests"),
            "{error}"
        );

        let names = ["d", "e"];
        let request = manager.request_all(names).ttl(TTL).at_least(TTL * 2);
        request.lock().unwrap().unlock_now().unwrap();
        drop(take(&manager, &names).unwrap());
    }
}

#[test]
fn the_label_is_under_every_key_and_in_what_others_are_told() {
    let servers = cluster(3);
    let manager = at_once(&servers);
    let guard = manager
        .request_all(NAMES)
        .ttl(TTL)
        .holder("web-3")
        .lock()
        .unwrap();
    let value = servers[0].get("a").unwrap();
    assert!(
        value.starts_with(&format!("{} web-3 since=", guard.token())),
        "{value}"
    );
    assert!(servers.iter().all(|server| {
        NAMES
            .iter()
            .all(|name| server.get(name).as_ref() == Some(&value))
    }));
    let error = at_once(&servers)
        .try_lock_for("c", TTL, Duration::from_millis(50))
        .unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("the lock on \"c\" is held by web-3 since "),
        "{error}"
    );
    let error = take(&at_once(&servers), &["c", "x"]).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("the lock on \"c\" is held by web-3 since "),
        "{error}"
    );
}

#[test]
fn a_panic_gives_back_all_of_them_and_their_turns() {
    let servers = cluster(3);
    let manager = at_once(&servers);
    let panicking = manager.clone();
    let result = thread::spawn(move || {
        let _guard = panicking.request_all(NAMES).at_least(TTL).lock().unwrap();
        panic!("on purpose");
    });
    let result = result.join();
    assert!(result.is_err());
    assert!(servers.iter().all(|server| keys(server, &NAMES).is_empty()));
    drop(take(&manager, &NAMES).unwrap());
}

#[test]
fn a_loss_is_told_once_for_all() {
    let servers = cluster(3);
    let builder = LockManager::builder().nodes(servers.iter().map(Server::url));
    let manager = builder
        .node_timeout(Duration::from_millis(500))
        .build()
        .unwrap();
    let request = manager.request_all(NAMES).ttl(Duration::from_secs(2));
    let guard = request.keep_alive(KeepAlive::unbounded()).lock().unwrap();
    let (tell, told) = mpsc::channel();
    guard.on_lost(move |cause| tell.send(cause).unwrap());
    for server in &servers {
        server.command(&["SET", "b", "another", "PX", "60000"]);
    }
    let cause = within(BOUND, move || {
        let cause = told.recv().unwrap();
        assert!(told.recv().is_err());
        cause
    });
    assert!(
        matches!(&cause, LossCause::Taken { nodes, .. } if nodes.iter().any(|node| node.to_string().contains("\"b\" held by another"))),
        "{cause}"
    );
    let names = ["b"];
    assert_eq!(
        held(take(&patient(servers.iter().map(Server::url)), &["b", "x"])).0,
        names[0]
    );
    drop(guard);
}

#[test]
fn a_guard_that_another_thread_drops_gives_every_line_its_next_thread() {
    let servers = cluster(3);
    let manager = at_once(&servers);
    let guard = take(&manager, &NAMES).unwrap();
    let votes: Vec<Vote> = guard
        .votes()
        .iter()
        .map(|report| report.vote.clone())
        .collect();
    assert!(votes.iter().all(|vote| matches!(vote, Vote::Granted)));
    let waiting = NAMES.map(|name| {
        let manager = manager.clone();
        thread::spawn(move || manager.try_lock_for(name, TTL, BOUND).unwrap())
    });
    thread::spawn(move || drop(guard)).join().unwrap();
    for thread in waiting {
        drop(within(BOUND, || thread.join().unwrap()));
    }
}
