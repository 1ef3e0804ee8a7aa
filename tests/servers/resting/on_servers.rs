//! Locks with a minimum on real servers, and somebody who wants them all the time.

use std::thread;
use std::time::Duration;

use redlatch::{Builder, Fanout, LockManager, Protocol};
use redlatch_testing::{Server, eventually, within};

use crate::managers::PATIENCE;

const TTL: Duration = Duration::from_secs(30);
const BOUND: Duration = Duration::from_mins(1);

fn builder(servers: &[Server], protocol: Protocol, fanout: Fanout) -> Builder {
    let builder = LockManager::builder().nodes(servers.iter().map(Server::url));
    let builder = builder.protocol(protocol).fanout(fanout);
    builder.node_timeout(PATIENCE)
}

fn ways() -> Vec<(Protocol, Fanout)> {
    let protocols = [Protocol::Classic, Protocol::Fenced];
    let both = |protocol| [Fanout::Sequential, Fanout::Overlapped].map(|way| (protocol, way));
    protocols.into_iter().flat_map(both).collect()
}

#[test]
fn a_rest_wakes_nobody_and_its_end_by_an_operator_does() {
    let servers = Server::cluster(3);
    let build = || {
        let builder = builder(&servers, Protocol::Classic, Fanout::Sequential);
        builder.retry_delay(BOUND, BOUND).build().unwrap()
    };
    let (manager, other) = (build(), build());
    let request = manager.request("job").ttl(TTL).at_least(TTL * 20);
    let guard = request.lock().unwrap();
    let token = guard.token().to_owned();
    let waiting = thread::spawn(move || {
        let guard = other.try_lock_for("job", TTL, BOUND).unwrap();
        guard.unlock().unwrap();
        other.stats()
    });
    let is_listening = || servers.iter().any(|server| server.blocked() > 0);
    assert!(eventually(BOUND, is_listening));
    guard.unlock().unwrap();
    for server in &servers {
        let bells = server.command(&["EXISTS", "job:redlatch:bell"]);
        assert_eq!(bells, redis::Value::Int(0));
    }
    assert!(is_listening());
    manager.release("job", &format!("rest:{token}")).unwrap();
    let stats = within(BOUND, move || waiting.join().unwrap());
    assert_eq!(stats.woken, 1);
}

#[test]
fn a_lock_with_a_minimum_makes_no_more_round_trips() {
    for (protocol, fanout) in ways() {
        let servers = Server::cluster(3);
        let manager = builder(&servers, protocol, fanout).build().unwrap();
        if protocol == Protocol::Fenced {
            manager.open_nodes().unwrap();
        }
        let commands = || -> Vec<u64> {
            let names = ["eval", "evalsha"];
            let of = |server: &Server| names.iter().map(|name| server.count(name)).sum();
            servers.iter().map(of).collect()
        };
        let pair = |resource: &str, minimum: Option<Duration>| {
            let before = commands();
            let request = manager.request(resource).ttl(TTL);
            let request = minimum.map_or(request.clone(), |minimum| request.at_least(minimum));
            request.lock().unwrap().unlock().unwrap();
            let pairs = commands().into_iter().zip(before);
            pairs
                .map(|(after, before)| after - before)
                .collect::<Vec<u64>>()
        };
        // Once each, for the connections and the texts of the scripts.
        pair("a", None);
        pair("b", Some(TTL));
        assert_eq!(
            pair("c", None),
            pair("d", Some(TTL)),
            "{protocol:?} {fanout:?}"
        );
    }
}
