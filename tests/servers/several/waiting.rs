//! Waiting for several resources that other processes have: at one node, woken by the bell of what is in the way.
//!
//! Two managers stand for two processes.

use redlatch::LockManager;
use redlatch_testing::{Server, eventually, now};

use crate::waiters::{BOUND, LONG, SOON, TTL, Waiting, assert_nothing_is_left, cluster, process};

const NAMES: [&str; 3] = ["a", "b", "c"];

/// One who waits for all of them on a thread, and listens at the server.
#[track_caller]
fn listen(manager: &LockManager, server: &Server) -> Waiting {
    let manager = manager.clone();
    Waiting::at(server, move || {
        manager.request_all(NAMES).ttl(TTL).try_lock_for(BOUND)
    })
}

/// Whether somebody has announced that it waits for this resource.
fn is_announced(server: &Server, name: &str) -> bool {
    server.command(&["EXISTS", &format!("{name}:redlatch:waiting")]) == redis::Value::Int(1)
}

#[test]
fn the_bell_of_what_is_in_the_way_wakes_and_no_other() {
    let servers = cluster(3);
    let [holder, other, waiter] = [(); 3].map(|()| process(&servers, LONG));
    let b = holder.lock("b", TTL).unwrap();
    let waiting = listen(&waiter, &servers[0]);
    assert!(is_announced(&servers[0], "b"));
    assert!(!is_announced(&servers[0], "a") && !is_announced(&servers[0], "c"));
    // It has none of the others meanwhile, and nobody's release of these is for it.
    for name in ["a", "c"] {
        other.try_lock(name, TTL).unwrap().unlock().unwrap();
    }
    assert_eq!(waiter.stats().woken, 0);
    let released = now();
    b.unlock().unwrap();
    let (guard, got) = waiting.end();
    assert!(got - released < SOON, "{:?}", got - released);
    assert_eq!(waiter.stats().woken, 1);
    assert_eq!(guard.resources(), NAMES);
    drop(guard);
    assert_nothing_is_left(&servers);
}

#[test]
fn who_finds_the_next_one_held_waits_for_that_one() {
    let servers = cluster(3);
    let [holder, waiter] = [(); 2].map(|()| process(&servers, LONG));
    let [a, b, c] = NAMES.map(|name| holder.lock(name, TTL).unwrap());
    let waiting = listen(&waiter, &servers[0]);
    for (woken, (guard, next)) in (1..).zip([(a, "b"), (b, "c")]) {
        assert!(!is_announced(&servers[0], next));
        guard.unlock().unwrap();
        assert!(eventually(BOUND, || is_announced(&servers[0], next)));
        assert!(eventually(BOUND, || servers[0].blocked() == 1));
        assert_eq!(waiter.stats().woken, woken);
    }
    let released = now();
    c.unlock().unwrap();
    let (guard, got) = waiting.end();
    assert!(got - released < SOON, "{:?}", got - released);
    // The first attempt was refused, and the next one got it: in between it only looked.
    assert_eq!(waiter.stats().attempts, 2);
    drop(guard);
    assert_nothing_is_left(&servers);
}
