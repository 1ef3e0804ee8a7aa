//! A lock with a label goes through every verb as one without does.

use std::time::Duration;

use redlatch::fake::{FakeClock, FakeNode};
use redlatch::{Builder, Error, KeepAlive, LockManager, Protocol};
use redlatch_testing::Server;
use redlatch_testing::scripted::Scripted;

use crate::managers::{PATIENCE, fenced_over, invalid_field};
use crate::waiters::{heard, listeners};

const TTL: Duration = Duration::from_mins(1);
const LABEL: &str = "web-3 4711 J\u{fc}rgen's \"job\" \\o/";
const PROTOCOLS: [Protocol; 2] = [Protocol::Classic, Protocol::Fenced];

fn builder(servers: &[Server], protocol: Protocol) -> Builder {
    if protocol == Protocol::Fenced && servers[0].keys() == 0 {
        drop(fenced_over(servers));
    }
    let builder = LockManager::builder().nodes(servers.iter().map(Server::url));
    builder.node_timeout(PATIENCE).protocol(protocol)
}

fn labelled(servers: &[Server], protocol: Protocol) -> LockManager {
    builder(servers, protocol).holder(LABEL).build().unwrap()
}

/// Whether no server has a key of this lock.
fn is_free(servers: &[Server], name: &str) -> bool {
    servers.iter().all(|server| server.get(name).is_none())
}

#[test]
fn a_label_is_in_the_value_on_every_node_and_without_one_the_value_is_the_token() {
    for protocol in PROTOCOLS {
        let servers = Server::cluster(3);
        let manager = labelled(&servers, protocol);
        let guard = manager.lock("job", TTL).unwrap();
        assert_eq!(guard.token().len(), 40);
        let beginning = format!("{} {LABEL} since=20", guard.token());
        for server in &servers {
            let value = server.get("job").unwrap();
            assert!(value.starts_with(&beginning), "{value}");
            assert_eq!(value.len(), beginning.len() + "26-11-22T05:52:53Z".len());
            assert_eq!(server.get("job"), servers[0].get("job"));
        }
        guard.unlock().unwrap();
        assert!(is_free(&servers, "job"));

        // A call may have another one.
        let guard = manager.request("job").holder("nightly").lock().unwrap();
        let value = servers[0].get("job").unwrap();
        assert!(value.contains(" nightly since="), "{value}");
        drop(guard);

        let plain = builder(&servers, protocol).build().unwrap();
        let guard = plain.lock("job", TTL).unwrap();
        assert_eq!(servers[0].get("job").as_deref(), Some(guard.token()));
        drop(guard);
        let guard = plain.request("job").holder("once").lock().unwrap();
        let value = servers[0].get("job").unwrap();
        assert!(value.contains(" once since="), "{value}");
        drop(guard);
        assert!(is_free(&servers, "job"));
    }
}

#[test]
fn renewals_of_many_locks_with_and_without_labels_keep_them_all() {
    let clock = FakeClock::new();
    let nodes = FakeNode::cluster_on(3, &clock);
    let manager = LockManager::builder().fakes(&nodes).build().unwrap();
    let guard = |i: u32| {
        let (name, label) = (format!("job {i}"), format!("worker {i}"));
        let request = manager.request(&name).ttl(TTL);
        let request = request.keep_alive(KeepAlive::unbounded());
        let request = if i.is_multiple_of(2) {
            request.holder(&label)
        } else {
            request
        };
        request.lock().unwrap()
    };
    let guards: Vec<_> = (0..300).map(guard).collect();
    clock.advance(TTL * 5);
    for guard in guards {
        guard.unlock().unwrap();
    }
}

#[test]
fn an_operator_releases_a_lock_with_a_label_by_its_token_or_its_whole_value() {
    for protocol in PROTOCOLS {
        let servers = Server::cluster(3);
        let (holder, operator) = (labelled(&servers, protocol), builder(&servers, protocol));
        let operator = operator.build().unwrap();
        for whole in [false, true] {
            let lease = holder.lock("job", TTL).unwrap().into_lease();
            let value = servers[0].get("job").unwrap();
            // As `status` shows a value of any program.
            let whole_value = value.replace('\\', "\\\\");
            let other: String = lease.token().chars().rev().collect();
            assert_ne!(other, lease.token());
            let is_lost = |given: &str| {
                let result = operator.release("job", given);
                matches!(result, Err(Error::Lost { .. }))
            };
            assert!(is_lost(&other) && is_lost(&whole_value.replace("web-3", "web-4")));
            assert!(servers.iter().all(|server| server.get("job").is_some()));
            let given = if whole { &whole_value } else { lease.token() };
            operator.release("job", given).unwrap();
            assert!(is_free(&servers, "job"));
            assert!(is_lost(given));
        }
        // What the release of a fenced lock leaves behind does not stop the next holder.
        operator.lock("job", TTL).unwrap().unlock().unwrap();
    }
}

#[test]
fn a_token_stands_for_all_values_that_begin_with_it_and_for_itself_where_a_node_is_silent() {
    let nodes = FakeNode::cluster(5);
    let manager = LockManager::builder().fakes(&nodes).build().unwrap();
    let token = "00112233445566778899aabbccddeeff00112233";
    let labelled = |label: &str| format!("{token} {label}");
    let hold = |values: [&str; 5]| {
        for (node, value) in nodes.iter().zip(values) {
            node.hold("job", value, TTL);
        }
    };
    let left = || -> Vec<bool> { nodes.iter().map(|n| n.token_of("job").is_some()).collect() };

    let (web, db) = (labelled("web-3"), labelled("db since=2026-11-22T05:52:53Z"));
    hold([&web, &db, token, &web, "another program's"]);
    manager.release("job", token).unwrap();
    assert_eq!(left(), [false, false, false, false, true]);

    // Where nobody has a value to tell, the token itself is tried.
    hold([token; 5]);
    nodes[0].lose_replies();
    manager.release("job", token).unwrap();
    nodes[0].recover();
    assert_eq!(left(), [false; 5]);

    // Of a longer token, or of a lock that rests, this is not the token.
    let (longer, resting) = (format!("{token}0"), format!("rest:{web}"));
    hold([&longer, &longer, &resting, &resting, &resting]);
    assert!(manager.release("job", token).is_err());
    assert_eq!(left(), [true; 5]);
    manager.release("job", &format!("rest:{token}")).unwrap();
    assert_eq!(left(), [true, true, false, false, false]);
}

/// As the published algorithm is written in other libraries.
#[test]
fn clients_of_other_libraries_are_neither_disturbed_nor_do_they_disturb() {
    const RELEASE: &str = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";
    const EXTEND: &str = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) else return 0 end";
    let servers = Server::cluster(3);
    let manager = labelled(&servers, Protocol::Classic);
    let theirs = "5e884898da28047151d0e56f8dc6292773603d0d";
    let all = |words: &[&str]| -> Vec<redis::Value> {
        servers.iter().map(|server| server.command(words)).collect()
    };
    let set = ["SET", "job", theirs, "NX", "PX", "60000"];
    let (no, none) = (redis::Value::Int(0), redis::Value::Nil);

    let guard = manager.lock("job", TTL).unwrap();
    assert_eq!(all(&set), vec![none; 3]);
    assert_eq!(
        all(&["EVAL", RELEASE, "1", "job", theirs]),
        vec![no.clone(); 3]
    );
    let extend = ["EVAL", EXTEND, "1", "job", guard.token(), "90000"];
    assert_eq!(all(&extend), vec![no; 3]);
    guard.check().unwrap();
    guard.unlock().unwrap();

    assert_eq!(all(&set), vec![redis::Value::Okay; 3]);
    let error = manager.try_lock("job", TTL).unwrap_err();
    assert!(
        matches!(error, Error::Held { .. }) && error.holder().is_none(),
        "{error}"
    );
    assert!(
        servers
            .iter()
            .all(|server| server.get("job").as_deref() == Some(theirs))
    );
    let yes = redis::Value::Int(1);
    assert_eq!(all(&["EVAL", RELEASE, "1", "job", theirs]), vec![yes; 3]);
    manager.lock("job", TTL).unwrap().unlock().unwrap();
}

#[test]
fn a_label_costs_no_command() {
    let count = |builder: fn(Builder) -> Builder| {
        let nodes = listeners(5);
        let over = LockManager::builder().nodes(nodes.iter().map(Scripted::url));
        let manager = builder(over).node_timeout(PATIENCE).build().unwrap();
        for _ in 0..3 {
            let guard = manager.lock("job", TTL).unwrap();
            guard.extend(TTL).unwrap();
            guard.unlock().unwrap();
        }
        let asked: Vec<usize> = heard(&nodes);
        let told: Vec<usize> = nodes.iter().map(Scripted::connections).collect();
        (asked, told)
    };
    assert_eq!(
        count(|builder| builder.holder(LABEL)),
        count(|builder| builder)
    );
}

#[test]
fn a_label_that_can_not_be_used_is_refused_before_a_node_is_asked() {
    let nodes = listeners(1);
    let over = || LockManager::builder().nodes(nodes.iter().map(Scripted::url));
    let manager = over().build().unwrap();
    for (label, reason) in [
        (String::new(), "the label is empty"),
        ("web\n3".to_owned(), "the character \\u{a}"),
        ("web\u{7f}".to_owned(), "the character \\u{7f}"),
        ("x".repeat(201), "at most 200 bytes, this has 201"),
        ("x".repeat(10_000), "at most 200 bytes, this has 10000"),
        (" web".to_owned(), "begins or ends with a space"),
    ] {
        let error = over().holder(&*label).build().unwrap_err();
        assert_eq!(invalid_field(&error), "holder", "{error}");
        assert!(error.to_string().contains(reason), "{error}");

        let error = manager.request("job").holder(&label).lock().unwrap_err();
        assert_eq!(invalid_field(&error), "holder", "{error}");
        assert!(error.to_string().contains(reason), "{error}");
    }
    assert_eq!(heard(&nodes), [0]);
}
