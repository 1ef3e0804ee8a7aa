//! Locks with a minimum on real servers, and somebody who wants them all the time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use redlatch::{Builder, Error, Fanout, LockManager, Protocol};
use redlatch_testing::{Server, eventually, now, side_by_side, within};

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

/// Asks again and again, and returns when it got the lock, and the lock's fencing token.
fn contend(manager: &LockManager, stop: &AtomicBool) -> Option<(Instant, Option<u64>)> {
    while !stop.load(Ordering::SeqCst) {
        match manager.try_lock("job", TTL) {
            Ok(guard) => {
                let got = now();
                let token = guard.fencing_token();
                guard.unlock().unwrap();
                return Some((got, token));
            }
            Err(Error::Held { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    None
}

#[test]
fn nobody_gets_a_lock_that_rests_before_its_end_and_everybody_after_it() {
    const MINIMUM: Duration = Duration::from_millis(1_500);
    side_by_side(ways(), |(protocol, fanout)| {
        let servers = Server::cluster(3);
        let build = || builder(&servers, protocol, fanout).build().unwrap();
        let (manager, contender, waiting) = (build(), build(), build());
        if protocol == Protocol::Fenced {
            manager.open_nodes().unwrap();
        }
        let before = now();
        let request = manager.request("job").ttl(TTL).at_least(MINIMUM);
        let guard = request.try_lock().unwrap();
        let fencing = guard.fencing_token();
        let stop = AtomicBool::new(false);
        let (first, second) = thread::scope(|scope| {
            // One that asks all nodes all the time, and one that waits at one of them.
            let first = scope.spawn(|| contend(&contender, &stop));
            let second = scope.spawn(|| {
                let guard = waiting.try_lock_for("job", TTL, BOUND).unwrap();
                let got = (now(), guard.fencing_token());
                guard.unlock().unwrap();
                got
            });
            guard.unlock().unwrap();
            let results = (first.join().unwrap(), second.join().unwrap());
            stop.store(true, Ordering::SeqCst);
            results
        });
        for (got, token) in [first.unwrap(), second] {
            let waited = got.duration_since(before);
            assert!(waited >= MINIMUM, "{protocol:?} {fanout:?}: {waited:?}");
            assert!(token >= fencing && (token.is_none() || token > fencing));
        }
        // Nothing is left behind.
        let is_clean = |server: &Server| server.get("job").is_none();
        assert!(eventually(BOUND, || servers.iter().all(is_clean)));
        let left: i64 = match protocol {
            Protocol::Fenced => 2,
            Protocol::Classic | _ => 0,
        };
        let keys = |server: &Server| server.keys();
        assert!(
            eventually(BOUND, || servers.iter().all(|server| keys(server) == left)),
            "{:?}",
            servers.iter().map(keys).collect::<Vec<_>>()
        );
    });
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

/// The command is sent to servers that stand still as well, and they execute it when they go on.
#[test]
fn servers_that_are_killed_or_stopped_while_a_lock_is_to_rest() {
    for protocol in [Protocol::Classic, Protocol::Fenced] {
        let mut servers = Server::cluster(5);
        let urls: Vec<String> = servers.iter().map(Server::url).collect();
        let build = |patience| {
            let builder = LockManager::builder().nodes(&urls).protocol(protocol);
            builder.node_timeout(patience).build().unwrap()
        };
        if protocol == Protocol::Fenced {
            build(PATIENCE).open_nodes().unwrap();
        }
        // The other three answer within this, or it is no test of the two that don't.
        let manager = build(Duration::from_secs(2));
        let request = manager.request("job").ttl(TTL * 4).at_least(TTL * 20);
        let guard = request.lock().unwrap();
        let rest = Some(format!("rest:{}", guard.token()));
        servers[1].stop();
        servers[3].kill();
        guard.unlock().unwrap();
        servers[1].resume();
        servers[3].restart();
        let rests = || servers[1].get("job") == rest;
        assert!(eventually(BOUND, rests), "{:?}", servers[1].get("job"));
        assert_eq!(servers[3].get("job"), None);
        for server in [&servers[0], &servers[2], &servers[4]] {
            assert_eq!(server.get("job"), rest);
        }
        let result = build(PATIENCE).try_lock("job", TTL);
        assert!(matches!(result, Err(Error::Held { .. })), "{result:?}");
    }
}
