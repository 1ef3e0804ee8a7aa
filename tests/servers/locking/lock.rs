//! Acquiring and releasing on healthy servers.

use std::time::Duration;

use redlatch::{Error, LockManager, NodeError, Vote};
use redlatch_testing::{Server, eventually, now, pause};

use crate::managers::{PATIENCE, invalid_field, patient};

const TTL: Duration = Duration::from_secs(10);

fn manager(servers: &[Server]) -> LockManager {
    patient(servers.iter().map(Server::url))
}

#[test]
fn the_stored_value_is_the_token_on_every_node_and_its_ttl_is_right() {
    let servers = Server::cluster(5);
    let manager = manager(&servers);
    let guard = manager.lock("report", TTL).unwrap();
    assert_eq!(guard.token().len(), 40);
    assert!(guard.token().bytes().all(|b| b.is_ascii_hexdigit()));
    for server in &servers {
        assert_eq!(server.get("report").as_deref(), Some(guard.token()));
        let pttl = server.pttl("report");
        assert!((9_000..=10_000).contains(&pttl), "{pttl}");
    }
    // 1 % and 2 ms of drift are never promised.
    assert!(guard.remaining() < Duration::from_millis(9_898));
    assert!(guard.remaining() > Duration::from_secs(8));
    guard.unlock().unwrap();
    for server in &servers {
        assert_eq!(server.keys(), 0);
    }
}

#[test]
fn a_lock_is_had_exactly_when_a_quorum_is_free_and_foreign_keys_are_untouched() {
    let servers = Server::cluster(5);
    let manager = manager(&servers);
    for held in 0_u32..32 {
        let key = format!("subset-{held}");
        let is_held = |i: usize| held & (1 << i) != 0;
        for (i, server) in servers.iter().enumerate() {
            if is_held(i) {
                server.hold(&key, "foreign", 60_000);
            }
        }
        let result = manager.try_lock(&key, TTL);
        assert_eq!(
            result.is_ok(),
            held.count_ones() <= 2,
            "{held:05b}: {result:?}"
        );
        match result {
            Ok(guard) => {
                for (i, server) in servers.iter().enumerate() {
                    let expected = if is_held(i) { "foreign" } else { guard.token() };
                    assert_eq!(server.get(&key).as_deref(), Some(expected));
                }
                guard.unlock().unwrap();
            }
            Err(Error::Held { nodes, .. }) => {
                for report in &nodes {
                    if let Vote::Held { remaining, .. } = report.vote {
                        let left = remaining.expect("the release tells the PTTL");
                        assert!(left > Duration::from_secs(50) && left <= Duration::from_mins(1));
                    }
                }
            }
            Err(other) => panic!("{other}"),
        }
        for (i, server) in servers.iter().enumerate() {
            let expected = is_held(i).then_some("foreign");
            assert_eq!(
                server.get(&key).as_deref(),
                expected,
                "{held:05b} on node {i}"
            );
            if is_held(i) {
                assert!(server.pttl(&key) > 50_000);
            }
        }
    }
}

#[test]
fn a_round_stops_when_a_majority_is_impossible() {
    let servers = Server::cluster(5);
    let first = manager(&servers).try_lock("report", TTL).unwrap();
    let other = manager(&servers);
    let Err(Error::Held { nodes, .. }) = other.try_lock("report", TTL) else {
        panic!("two holders");
    };
    let asked: Vec<bool> = nodes
        .iter()
        .map(|r| !matches!(r.vote, Vote::NotAsked))
        .collect();
    assert_eq!(asked, [true, true, true, false, false]);
    first.unlock().unwrap();
}

#[test]
fn the_order_of_the_urls_does_not_matter() {
    let servers = Server::cluster(5);
    let names = |manager: &LockManager| {
        let guard = manager.lock("report", TTL).unwrap();
        guard
            .votes()
            .iter()
            .map(|r| r.node.to_string())
            .collect::<Vec<_>>()
    };
    let forwards = names(&manager(&servers));
    let backwards = names(&patient(servers.iter().rev().map(Server::url)));
    assert_eq!(forwards, backwards);
    let mut expected: Vec<String> = servers.iter().map(Server::name).collect();
    expected.sort();
    assert_eq!(forwards, expected);
}

#[test]
fn quorums_are_majorities_for_one_to_seven_nodes() {
    let servers = Server::cluster(7);
    for n in 1..=7 {
        let some = &servers[..n];
        let manager = manager(some);
        for held in 0..=n {
            let key = format!("quorum-{n}-{held}");
            for server in &some[..held] {
                server.hold(&key, "foreign", 60_000);
            }
            let free = n - held;
            let result = manager.try_lock(&key, TTL);
            assert_eq!(result.is_ok(), 2 * free > n, "{free} of {n} free");
        }
    }
}

#[test]
fn tiny_ttls_are_refused_or_never_over_claimed() {
    let servers = Server::cluster(5);
    let manager = manager(&servers);
    for ttl in [0, 1, 2] {
        let ttl = Duration::from_millis(ttl);
        assert_eq!(
            invalid_field(&manager.try_lock("tiny", ttl).unwrap_err()),
            "ttl"
        );
    }
    let mut acquired = 0;
    for _ in 0..50 {
        for ttl in [3, 5, 99] {
            let ttl = Duration::from_millis(ttl);
            match manager.try_lock("tiny", ttl) {
                Ok(guard) => {
                    acquired += 1;
                    let claimed = guard.remaining() + Duration::from_millis(2);
                    assert!(claimed < ttl, "{claimed:?} of {ttl:?}");
                    // While the guard is valid the key is there.
                    let holds = |s: &&Server| s.get("tiny").as_deref() == Some(guard.token());
                    let present = servers.iter().filter(holds).count();
                    assert!(guard.check().is_err() || present >= 3, "{present}");
                }
                Err(Error::TooSlow { .. } | Error::Held { .. }) => {}
                Err(other) => panic!("{other}"),
            }
        }
    }
    assert!(acquired > 0);
    assert!(eventually(Duration::from_secs(2), || servers
        .iter()
        .all(|s| s.keys() == 0)));
}

#[test]
fn expiry_frees_the_lock() {
    let servers = Server::cluster(3);
    let manager = manager(&servers);
    let first = manager.lock("report", Duration::from_millis(100)).unwrap();
    let second = manager
        .try_lock_for("report", TTL, Duration::from_secs(5))
        .unwrap();
    assert!(first.remaining().is_zero());
    assert!(matches!(first.check(), Err(Error::Lost { .. })));
    // The late release of the first is for its own token only.
    drop(first);
    // Of a minority, the first one's key may have ended a moment after the second one's attempt.
    let is_ours = |server: &&Server| server.get("report").as_deref() == Some(second.token());
    assert!(servers.iter().filter(is_ours).count() >= 2);
}

#[test]
fn a_waiter_gets_the_lock_when_it_is_given_back() {
    let servers = Server::cluster(3);
    let manager = manager(&servers);
    let guard = manager.lock("report", TTL).unwrap();
    let waiter = std::thread::spawn({
        let manager = manager.clone();
        // A wait without a bound does not overflow.
        move || manager.try_lock_for("report", TTL, Duration::MAX).map(drop)
    });
    pause(Duration::from_millis(100));
    assert!(!waiter.is_finished());
    guard.unlock().unwrap();
    waiter.join().unwrap().unwrap();
}

#[test]
fn waiting_ends_with_what_the_last_attempt_met() {
    let servers = Server::cluster(3);
    let manager = manager(&servers);
    let _guard = manager.lock("report", TTL).unwrap();
    let started = now();
    let limit = Duration::from_millis(300);
    let result = manager.try_lock_until("report", TTL, started + limit);
    assert!(matches!(result, Err(Error::Held { .. })), "{result:?}");
    assert!(started.elapsed() >= limit);
    assert!(started.elapsed() < Duration::from_secs(5));
    let result = manager.try_lock_until("report", TTL, started);
    assert!(matches!(result, Err(Error::Held { .. })), "{result:?}");
}

#[test]
fn a_request_takes_its_ttl_or_the_default() {
    let servers = Server::cluster(3);
    let manager = LockManager::builder()
        .nodes(servers.iter().map(Server::url))
        .node_timeout(PATIENCE)
        .default_ttl(Duration::from_secs(7))
        .key_prefix("app:")
        .build()
        .unwrap();
    let guard = manager.request("a").lock().unwrap();
    assert_eq!(guard.resource(), "a");
    assert!((6_000..=7_000).contains(&servers[0].pttl("app:a")));
    let guard = manager
        .request("b")
        .ttl(Duration::from_secs(20))
        .try_lock()
        .unwrap();
    assert!((19_000..=20_000).contains(&servers[0].pttl("app:b")));
    guard.unlock().unwrap();
}

#[test]
fn a_key_that_is_no_lock_is_a_failure_that_says_so_and_stays() {
    let servers = Server::cluster(3);
    let manager = manager(&servers);
    for server in &servers {
        server.command(&["LPUSH", "list", "x"]);
        server.command(&["SET", "forever", "x"]);
    }
    for (key, what) in [("list", "another type"), ("forever", "never expires")] {
        let waiting = manager.try_lock_for(key, TTL, Duration::from_millis(300));
        for error in [manager.try_lock(key, TTL), waiting].map(Result::unwrap_err) {
            let Error::NotALock { nodes, .. } = &error else {
                panic!("{error}");
            };
            let vote = &nodes[0].vote;
            assert!(
                matches!(vote, Vote::Failed(NodeError::NotALock { .. })),
                "{vote}"
            );
            let text = error.to_string();
            // What a program prints that returns the error from `main`.
            assert_eq!(format!("{error:?}"), text);
            let expected = format!("the key of {key:?} is in use by something else");
            assert!(text.starts_with(&expected), "{text}");
            // What several nodes say is told once.
            assert_eq!(text.matches(what).count(), 1, "{text}");
            assert!(text.contains("delete the key"), "{text}");
        }
        // Nobody can give it back either.
        let refused = manager.release(key, "another");
        assert!(
            matches!(refused, Err(Error::NotALock { .. })),
            "{refused:?}"
        );
    }
    for server in &servers {
        assert_eq!(server.keys(), 2);
        assert_eq!(server.pttl("forever"), -1);
    }
}

#[test]
fn a_resource_may_have_any_bytes_in_its_name() {
    let servers = Server::cluster(1);
    let manager = manager(&servers);
    for resource in [
        "with space",
        "line\r\nSET x y\r\n",
        "ünï",
        "\0",
        "{tag}:x",
        "$5\r\nhello",
    ] {
        let guard = manager.lock(resource, TTL).unwrap();
        assert_eq!(servers[0].get(resource).as_deref(), Some(guard.token()));
        guard.unlock().unwrap();
        assert_eq!(servers[0].keys(), 0);
    }
}

#[test]
fn a_request_outlives_the_text_of_its_name() {
    let nodes = redlatch::fake::FakeNode::cluster(3);
    let manager = LockManager::builder().fakes(&nodes).build().unwrap();
    let account = 7;
    let request = manager.request(&format!("account:{account}")).ttl(TTL);
    assert_eq!(request.lock().unwrap().resource(), "account:7");
    let permits = manager.semaphore(&format!("exports:{account}"), 2);
    assert_eq!(permits.lock().unwrap().resource(), "exports:7");
    let ledger = manager.rw_lock(&format!("ledger:{account}"));
    assert!(ledger.read().unwrap().is_read());
}
