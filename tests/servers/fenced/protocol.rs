//! The fenced protocol while no server forgets: tokens in order, tombstones, and the keys that it leaves.

use std::collections::HashSet;
use std::time::Duration;

use redlatch::{Error, Protocol, Vote};
use redlatch_testing::{Server, side_by_side};

use crate::managers::{fenced, fenced_over, over, patient};
use crate::servers::fenced::setup::TTL;
use crate::waiters::BOUND;

#[test]
fn tokens_of_eight_threads_on_real_servers_are_unique_and_in_order() {
    let servers = Server::cluster(3);
    fenced_over(&servers);
    let seen = parking_lot::Mutex::new(HashSet::new());
    side_by_side(0..8, |_| {
        // Each with a hybrid clock of its own, as in processes of their own.
        let builder = over(&servers).protocol(Protocol::Fenced);
        let manager = builder.build().unwrap();
        let mut last = None;
        for _ in 0..10 {
            let guard = manager.try_lock_for("job", TTL, BOUND).unwrap();
            let token = guard.fencing_token();
            assert!(token > last, "{token:?} after {last:?}");
            assert!(seen.lock().insert(token), "{token:?} twice");
            last = token;
            guard.unlock().unwrap();
        }
    });
}

#[test]
fn the_keys_are_the_classic_lock_a_counter_for_a_day_and_a_marker() {
    let servers = Server::cluster(3);
    let manager = fenced_over(&servers);
    let counter = |server: &Server| -> u64 { server.get("job:fence").unwrap().parse().unwrap() };
    let assert_idle = |server: &Server| {
        let (day, idle) = (24 * 3600 * 1000, server.pttl("job:fence"));
        assert!((day - 60_000..=day).contains(&idle), "{idle}");
    };
    let guard = manager.try_lock("job", TTL).unwrap();
    let token = guard.fencing_token().unwrap();
    for server in &servers {
        assert_eq!(server.get("job").as_deref(), Some(guard.token()));
        assert_eq!(counter(server), token);
        assert_idle(server);
        assert_eq!(server.pttl("redlatch:node"), -1);
        assert_eq!(server.keys(), 3);
    }
    guard.unlock().unwrap();
    for server in &servers {
        // The tombstone, by which what is late of this attempt is refused.
        assert_eq!(counter(server), token + 1);
        assert_idle(server);
        assert_eq!(server.keys(), 2);
    }
    // That of an attempt without a majority stays as long.
    servers[1].hold("job", "another", 60_000);
    servers[2].hold("job", "another", 60_000);
    manager.try_lock("job", TTL).unwrap_err();
    assert!(counter(&servers[0]) > token + 1);
    servers.iter().for_each(assert_idle);
}

#[test]
fn classic_and_fenced_managers_exclude_each_other() {
    let servers = Server::cluster(3);
    let fenced = fenced_over(&servers);
    let classic = patient(servers.iter().map(Server::url));
    for [holder, other] in [[&fenced, &classic], [&classic, &fenced]] {
        let guard = holder.try_lock("job", TTL).unwrap();
        let error = other.try_lock("job", TTL).unwrap_err();
        let Error::Held { nodes, .. } = &error else {
            panic!("{error}");
        };
        let left = |vote: &Vote| matches!(vote, Vote::Held { remaining: Some(left), .. } if !left.is_zero());
        let told = nodes.iter().filter(|node| left(&node.vote));
        assert!(told.count() >= 2, "{error}");
        guard.unlock().unwrap();
    }
    drop(fenced.try_lock("job", TTL).unwrap());
}

#[test]
fn a_proposal_that_is_too_small_is_raised_at_once_also_in_a_single_try() {
    let clock = redlatch::fake::FakeClock::new();
    let nodes = redlatch::fake::FakeNode::cluster_on(3, &clock);
    let manager = fenced().fakes(&nodes).build().unwrap();
    manager.open_nodes().unwrap();
    let first = manager.try_lock("job", TTL).unwrap().fencing_token();
    let ahead = first.unwrap() + 60_000_000;
    let before = clock.elapsed();
    // A client whose clock is a minute ahead was here.
    for node in &nodes {
        node.hold("job:fence", &ahead.to_string(), Duration::from_hours(1));
    }
    let guard = manager.try_lock("job", TTL).unwrap();
    assert_eq!(guard.fencing_token(), Some(ahead + 1));
    assert_eq!(clock.elapsed(), before, "it has waited, as for a holder");
}
