//! The fenced protocol while no server forgets: tokens in order, tombstones, healing, and the keys that it leaves.

use std::collections::HashSet;
use std::thread;
use std::time::Duration;

use redlatch::fake::{FakeClock, FakeNode};
use redlatch::{Error, LockManager, Vote};
use redlatch_testing::Server;

use crate::managers::{fenced, fenced_over, patient};

const TTL: Duration = Duration::from_secs(10);

fn over_fakes(n: usize) -> (Vec<FakeNode>, FakeClock, LockManager) {
    let clock = FakeClock::new();
    let nodes = FakeNode::cluster_on(n, &clock);
    let manager = fenced()
        .fakes(&nodes)
        .node_timeout(Duration::from_millis(50))
        .build()
        .unwrap();
    manager.open_nodes().unwrap();
    (nodes, clock, manager)
}

#[track_caller]
fn counter(server: &Server, resource: &str) -> u64 {
    let text = server.get(&format!("{resource}:fence")).unwrap();
    text.parse().unwrap()
}

#[test]
fn tokens_grow_from_guard_to_guard_and_classic_guards_have_none() {
    let (nodes, _, manager) = over_fakes(3);
    let mut last = None;
    for _ in 0..50 {
        let guard = manager.try_lock("job", TTL).unwrap();
        let token = guard.fencing_token();
        assert!(token > last, "{token:?} after {last:?}");
        last = token;
    }
    assert_eq!(last.unwrap().to_string(), last.unwrap().to_string());
    let classic = LockManager::builder().fakes(&nodes).build().unwrap();
    assert_eq!(classic.try_lock("job", TTL).unwrap().fencing_token(), None);
}

#[test]
fn tokens_of_eight_threads_on_real_servers_are_unique_and_in_order() {
    let servers = Server::cluster(3);
    fenced_over(&servers);
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let urls: Vec<String> = servers.iter().map(Server::url).collect();
            thread::spawn(move || {
                // Each with a hybrid clock of its own, as in processes of their own.
                let manager = fenced().nodes(urls).build().unwrap();
                let mut tokens = Vec::new();
                for _ in 0..10 {
                    let guard = manager
                        .try_lock_for("job", TTL, Duration::from_mins(1))
                        .unwrap();
                    // Later than the first, so that the order of these pairs is that of the lock.
                    tokens.push(guard.fencing_token().unwrap());
                    guard.unlock().unwrap();
                }
                tokens
            })
        })
        .collect();
    let mut seen = HashSet::new();
    for thread in threads {
        let tokens = thread.join().unwrap();
        assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
        assert!(tokens.into_iter().all(|token| seen.insert(token)));
    }
    assert_eq!(seen.len(), 80);
}

#[test]
fn the_keys_are_the_classic_lock_a_counter_for_a_day_and_a_marker() {
    let servers = Server::cluster(3);
    let manager = fenced_over(&servers);
    let guard = manager.try_lock("job", TTL).unwrap();
    let token = guard.fencing_token().unwrap();
    let assert_idle = |server: &Server| {
        let (day, idle) = (24 * 3600 * 1000, server.pttl("job:fence"));
        assert!((day - 60_000..=day).contains(&idle), "{idle}");
    };
    for server in &servers {
        assert_eq!(server.get("job").as_deref(), Some(guard.token()));
        assert_eq!(counter(server, "job"), token);
        assert_idle(server);
        assert_eq!(server.pttl("redlatch:node"), -1);
        assert_eq!(server.keys(), 3);
    }
    guard.unlock().unwrap();
    for server in &servers {
        // The tombstone, by which what is late of this attempt is refused.
        assert_eq!(counter(server, "job"), token + 1);
        assert_idle(server);
        assert_eq!(server.keys(), 2);
    }
    // That of an attempt without a majority stays as long.
    servers[1].hold("job", "another", 60_000);
    servers[2].hold("job", "another", 60_000);
    manager.try_lock("job", TTL).unwrap_err();
    assert!(counter(&servers[0], "job") > token + 1);
    servers.iter().for_each(assert_idle);
}

#[test]
fn classic_and_fenced_managers_exclude_each_other() {
    let servers = Server::cluster(3);
    let fenced = fenced_over(&servers);
    let classic = patient(servers.iter().map(Server::url));

    let guard = fenced.try_lock("job", TTL).unwrap();
    assert!(matches!(
        classic.try_lock("job", TTL),
        Err(Error::Held { .. })
    ));
    guard.unlock().unwrap();
    let guard = classic.try_lock("job", TTL).unwrap();
    let error = fenced.try_lock("job", TTL).unwrap_err();
    let Error::Held { nodes, .. } = &error else {
        panic!("{error}");
    };
    let left =
        |vote: &Vote| matches!(vote, Vote::Held { remaining: Some(left), .. } if !left.is_zero());
    assert!(
        nodes.iter().filter(|node| left(&node.vote)).count() >= 2,
        "{error}"
    );
    guard.unlock().unwrap();
    assert!(fenced.try_lock("job", TTL).is_ok());
}

#[test]
fn a_proposal_that_is_too_small_is_raised_at_once_also_in_a_single_try() {
    let (nodes, clock, manager) = over_fakes(3);
    let first = manager.try_lock("job", TTL).unwrap();
    let ahead = first.fencing_token().unwrap() + 60_000_000;
    drop(first);
    let before = clock.elapsed();
    // A client whose clock is a minute ahead was here.
    for node in &nodes {
        node.hold("job:fence", &ahead.to_string(), Duration::from_hours(1));
    }
    let guard = manager.try_lock("job", TTL).unwrap();
    assert_eq!(guard.fencing_token(), Some(ahead + 1));
    assert_eq!(clock.elapsed(), before, "it has waited, as for a holder");
}
