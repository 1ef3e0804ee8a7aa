//! Several resources with the fenced protocol: one token, which is larger than every earlier one of each resource.

use redlatch::{LockManager, Vote};
use redlatch_testing::Server;

use crate::managers::fenced_over;
use crate::servers::several::on_servers::{keys, take};
use crate::waiters::cluster;

const NAMES: [&str; 3] = ["a", "b", "c"];

fn token(manager: &LockManager, names: &[&str]) -> u64 {
    let guard = take(manager, names).unwrap();
    let token = guard.fencing_token().unwrap();
    guard.unlock().unwrap();
    token
}

fn counter(server: &Server, name: &str) -> u64 {
    let counter = server.get(&format!("{name}:fence"));
    counter.unwrap().parse().unwrap()
}

/// The time of a server in microseconds.
fn micros(server: &Server) -> u64 {
    let redis::Value::Array(parts) = server.command(&["TIME"]) else {
        panic!("no time");
    };
    let number = |part: &redis::Value| -> u64 { redis::from_redis_value(part.clone()).unwrap() };
    number(&parts[0]) * 1_000_000 + number(&parts[1])
}

#[test]
fn a_token_is_larger_than_every_counter_also_where_one_is_ahead() {
    let servers = cluster(3);
    let manager = fenced_over(&servers);
    let first = token(&manager, &NAMES);
    for (server, name) in servers.iter().zip(["b", "c", "a"]) {
        // Five seconds ahead: another client's clock is.
        let ahead = (micros(server) + 5_000_000).to_string();
        server.command(&["SET", &format!("{name}:fence"), &ahead, "PX", "600000"]);
    }
    let guard = take(&manager, &NAMES).unwrap();
    let token = guard.fencing_token().unwrap();
    assert!(token > first);
    let granted = guard
        .votes()
        .iter()
        .filter(|report| matches!(report.vote, Vote::Granted));
    assert!(granted.count() >= 2);
    for server in servers
        .iter()
        .filter(|server| keys(server, &NAMES) == NAMES)
    {
        let counters = NAMES.map(|name| counter(server, name));
        assert_eq!(counters, [token; 3]);
    }
    guard.unlock().unwrap();
    // A tombstone for each, so that nothing late sets a key again.
    for server in &servers {
        assert!(NAMES.iter().all(|name| counter(server, name) > token));
    }
}

#[test]
fn a_counter_that_is_none_is_named() {
    let servers = cluster(3);
    let manager = fenced_over(&servers);
    for server in &servers {
        server.command(&["SET", "b:fence", "not a number"]);
    }
    let error = take(&manager, &NAMES).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("the key \"b:fence\" is in the way: it is not a counter of fencing tokens"),
        "{text}"
    );
    assert!(servers.iter().all(|server| keys(server, &NAMES).is_empty()));
}
