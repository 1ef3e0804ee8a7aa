//! Several resources over real servers: all or nothing on each node, and each key an ordinary lock to everybody else.

use std::io::{self, Write};
use std::time::Duration;

use redlatch::{Error, Fanout, LockGuard, LockManager, Vote};
use redlatch_testing::{Server, eventually, now, side_by_side};

use crate::managers::{BOTH, over, patient, two_processes};
use crate::waiters::{BOUND, LONG, SOON, TTL, Waiting, assert_nothing_is_left, cluster, process};

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

fn overlapped(servers: &[Server]) -> LockManager {
    over(servers).fanout(Fanout::Overlapped).build().unwrap()
}

fn take(manager: &LockManager, names: &[&str]) -> Result<LockGuard, Error> {
    manager.request_all(names).ttl(TTL).try_lock()
}

/// Which of the four a server has.
fn keys(server: &Server) -> Vec<&str> {
    let has = |name: &&str| server.get(name).is_some();
    NAMES.into_iter().filter(has).collect()
}

#[test]
fn the_resource_that_most_nodes_name_is_in_the_way_and_its_holder_is_named() {
    let servers = cluster(3);
    let (manager, holder) = (overlapped(&servers), overlapped(&servers));
    let _b = holder.request("b").holder("worker of b").lock().unwrap();
    // A remainder, which no majority has.
    servers[0].hold("a", "another", 60_000);
    let error = take(&manager, &NAMES).unwrap_err();
    let text = error.to_string();
    let head = "the lock on \"b\" is held by worker of b since ";
    assert!(text.starts_with(head), "{text}");
    for part in [
        ": \"a\" held by another, for another ",
        ": \"b\" held by worker of b since ",
    ] {
        assert!(text.contains(part), "{text}");
    }
    assert_eq!(&*error.holder().unwrap().label, "worker of b");
    assert_eq!(keys(&servers[0]), ["a", "b"]);
}

#[test]
fn a_key_that_may_not_be_written_leaves_none_of_the_others() {
    let servers = cluster(3);
    if servers[0].info("server").contains("redis_version:6.") {
        // Unlike eprintln, this is seen although the test passes.
        let line = "a key that may only be read: not tested, because Redis 6 has no such rule\n";
        io::stderr().write_all(line.as_bytes()).unwrap();
        return;
    }
    for server in &servers {
        let user = ["ACL", "SETUSER", "worker", "on", ">secret", "+@all"];
        server.command(&[&user[..], &["~a*", "~b*", "%R~c*"]].concat());
    }
    let url = |server: &Server| format!("redis://worker:secret@{}", server.name());
    let manager = patient(servers.iter().map(url));
    let error = take(&manager, &["a", "b", "c"]).unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    assert!(servers.iter().all(|server| keys(server).is_empty()));
    drop(take(&manager, &["a", "b"]).unwrap());
}

#[test]
fn sixty_four_names_of_the_greatest_length_are_locked_and_given_back() {
    let servers = cluster(3);
    let manager = overlapped(&servers);
    let long = "x".repeat(64 * 1024 - 2);
    let names: Vec<String> = (0..64).map(|n| format!("{long}{n:02}")).collect();
    let guard = manager.lock_all(&names, TTL).unwrap();
    let is_granted = |vote: &Vote| matches!(vote, Vote::Granted);
    assert!(guard.votes().iter().all(|report| is_granted(&report.vote)));
    guard.extend(TTL).unwrap();
    assert!(servers.iter().all(|server| server.keys() == 64));
    let error = manager.try_lock(&names[63], TTL).unwrap_err();
    assert!(matches!(error, Error::Held { .. }));
    guard.unlock().unwrap();
    assert!(servers.iter().all(|server| server.keys() == 0));
}

#[test]
fn an_adopted_lock_lasts_as_long_as_the_key_that_ends_first() {
    side_by_side(BOTH, |protocol| {
        let (servers, [one, other]) = two_processes(protocol);
        let text = take(&one, &NAMES).unwrap().into_lease().to_string();
        for server in &servers {
            server.command(&["PEXPIRE", "b", "5000"]);
        }
        let adopted = other.adopt(&text.parse().unwrap()).unwrap();
        // A majority has the other keys for longer, and no such time counts.
        assert!(adopted.remaining() < Duration::from_secs(5));
        adopted.extend(TTL).unwrap();
        assert!(adopted.remaining() > Duration::from_secs(5));
    });
}

/// Whether somebody has announced that it waits for this resource.
fn is_announced(server: &Server, name: &str) -> bool {
    server.command(&["EXISTS", &format!("{name}:redlatch:waiting")]) == redis::Value::Int(1)
}

#[test]
fn who_waits_listens_for_what_is_in_the_way_and_for_the_next_that_it_finds_held() {
    let servers = cluster(3);
    let [holder, other, waiter] = [(); 3].map(|()| process(&servers, LONG));
    let [b, c] = ["b", "c"].map(|name| holder.lock(name, TTL).unwrap());
    let asks = waiter.clone();
    let waiting = Waiting::at(&servers[0], move || {
        asks.request_all(NAMES).ttl(TTL).try_lock_for(BOUND)
    });
    // It has none of the others meanwhile, and nobody's release of these is for it.
    assert!(is_announced(&servers[0], "b"));
    for name in ["a", "d"] {
        other.try_lock(name, TTL).unwrap().unlock().unwrap();
    }
    assert!(
        ["a", "c", "d"]
            .iter()
            .all(|name| !is_announced(&servers[0], name))
    );
    assert_eq!(waiter.stats().woken, 0);
    b.unlock().unwrap();
    assert!(eventually(BOUND, || is_announced(&servers[0], "c")));
    assert!(eventually(BOUND, || servers[0].blocked() == 1));
    assert_eq!(waiter.stats().woken, 1);
    let released = now();
    c.unlock().unwrap();
    let (guard, got) = waiting.end();
    assert!(got - released < SOON, "{:?}", got - released);
    assert_eq!(guard.resources(), NAMES);
    // The first attempt was refused, and the next one got it: in between it only looked.
    assert_eq!((waiter.stats().woken, waiter.stats().attempts), (2, 2));
    drop(guard);
    assert_nothing_is_left(&servers);
}
