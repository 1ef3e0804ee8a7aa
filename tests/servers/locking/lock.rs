//! Acquiring and releasing on healthy servers.

use std::time::Duration;

use redlatch::{Error, LockManager, NodeError, Protocol, Vote};
use redlatch_testing::Server;

use crate::managers::{BOTH, PATIENCE, patient, two_processes, with_protocol};

const TTL: Duration = Duration::from_secs(10);

fn manager(servers: &[Server]) -> LockManager {
    patient(servers.iter().map(Server::url))
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
    let (servers, _) = two_processes(Protocol::Fenced);
    for server in &servers {
        server.command(&["LPUSH", "list", "x"]);
        server.command(&["SET", "forever", "x"]);
    }
    let keys = [("list", "another type"), ("forever", "never expires")];
    for (protocol, (key, what)) in BOTH.into_iter().flat_map(|one| keys.map(|key| (one, key))) {
        let manager = with_protocol(protocol).nodes(servers.iter().map(Server::url));
        let manager = manager.build().unwrap();
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
        assert_eq!(server.pttl("list"), -1);
        assert_eq!(server.pttl("forever"), -1);
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
