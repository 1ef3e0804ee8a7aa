//! Several resources over nodes that hang, lose replies, come back and break connections: all keys of a node, or none.

use std::time::Duration;

use redlatch::fake::{FakeClock, FakeNode};
use redlatch::{Error, Fanout, LockManager, LossCause, Protocol, Vote};
#[cfg(target_os = "linux")]
use redlatch_testing::is_alone;

use crate::servers::several::on_servers::take;
use crate::waiters::TTL;

const NAMES: [&str; 3] = ["a", "b", "c"];

struct World {
    clock: FakeClock,
    nodes: Vec<FakeNode>,
    manager: LockManager,
}

fn world(protocol: Protocol, fanout: Fanout) -> World {
    let clock = FakeClock::new();
    let nodes = FakeNode::cluster_on(5, &clock);
    let builder = LockManager::builder().fakes(&nodes);
    let manager = builder.protocol(protocol).fanout(fanout).build().unwrap();
    if protocol == Protocol::Fenced {
        manager.open_nodes().unwrap();
    }
    World {
        clock,
        nodes,
        manager,
    }
}

fn each_world(check: impl Fn(World)) {
    for protocol in [Protocol::Classic, Protocol::Fenced] {
        for fanout in [Fanout::Sequential, Fanout::Overlapped] {
            check(world(protocol, fanout));
        }
    }
}

/// How many of the keys a node has; the same token under all that it has.
#[track_caller]
fn count(node: &FakeNode) -> usize {
    let tokens: Vec<String> = NAMES
        .iter()
        .filter_map(|name| node.token_of(name))
        .collect();
    assert!(
        tokens.windows(2).all(|pair| pair[0] == pair[1]),
        "{tokens:?}"
    );
    tokens.len()
}

fn counts(nodes: &[FakeNode]) -> Vec<usize> {
    nodes.iter().map(count).collect()
}

#[test]
fn an_undo_takes_all_keys_back_where_no_reply_came() {
    each_world(|World { nodes, manager, .. }| {
        nodes[0].lose_replies();
        nodes[1].hang();
        let guard = take(&manager, &NAMES).unwrap();
        let votes = guard.votes().iter().map(|report| &report.vote);
        let failed = votes.filter(|vote| matches!(vote, Vote::Failed(_)));
        assert_eq!(failed.count(), 2);
        // What hangs executes the acquire and its undo later on, one after the other.
        nodes[1].recover();
        assert_eq!(counts(&nodes), [0, 0, 3, 3, 3]);
        nodes[0].recover();
        // They count no more, and are not healed.
        guard.extend(TTL * 2).unwrap();
        assert_eq!(counts(&nodes), [0, 0, 3, 3, 3]);
        guard.unlock().unwrap();
        assert_eq!(counts(&nodes), [0; 5]);
    });
}

#[test]
fn without_a_majority_no_node_keeps_a_key() {
    each_world(|World { nodes, manager, .. }| {
        nodes[1].lose_replies();
        nodes[2].hang();
        nodes[3].refuse();
        let error = take(&manager, &NAMES).unwrap_err();
        assert!(
            matches!(&error, Error::Unavailable { resource, .. } if &**resource == "a, b, c"),
            "{error}"
        );
        for node in &nodes {
            node.recover();
        }
        assert_eq!(counts(&nodes), [0; 5]);
    });
}

#[test]
fn nodes_refuse_for_different_resources_and_none_keeps_a_part() {
    each_world(|World { nodes, manager, .. }| {
        for (node, name) in nodes.iter().zip(["a", "c", "c"]) {
            node.hold(name, "another", TTL);
        }
        let error = take(&manager, &NAMES).unwrap_err();
        assert!(
            matches!(&error, Error::Held { resource, .. } if &**resource == "c"),
            "{error}"
        );
        assert_eq!(counts(&nodes), [1, 1, 1, 0, 0]);
    });
}

#[test]
fn connections_that_broke_while_nobody_asked_cost_no_vote() {
    for fanout in [Fanout::Sequential, Fanout::Overlapped] {
        let World { nodes, manager, .. } = world(Protocol::Classic, fanout);
        drop(take(&manager, &NAMES).unwrap());
        for node in &nodes {
            node.restart_persisted();
        }
        let guard = take(&manager, &NAMES).unwrap();
        assert_eq!(counts(&nodes), [3; 5]);
        for node in &nodes {
            node.restart_persisted();
        }
        guard.extend(TTL * 2).unwrap();
        for node in &nodes {
            node.restart_persisted();
        }
        guard.unlock().unwrap();
        assert_eq!(counts(&nodes), [0; 5]);
    }
}

#[test]
fn kept_locks_are_healed_where_nodes_came_back_empty() {
    let World {
        clock,
        nodes,
        manager,
    } = world(Protocol::Classic, Fanout::Overlapped);
    let request = manager.request_all(NAMES).ttl(TTL);
    let guard = request
        .keep_alive(redlatch::KeepAlive::unbounded())
        .lock()
        .unwrap();
    for node in &nodes {
        node.restart();
        clock.advance(TTL / 2);
        assert_eq!(count(node), 3);
        guard.check().unwrap();
    }
    // With two of five empty at a time as well, and with one key taken by another.
    nodes[0].flush();
    nodes[1].hold("b", "another", TTL * 10);
    clock.advance(TTL / 2);
    guard.check().unwrap();
    assert_eq!(count(&nodes[0]), 3);
    assert_eq!(nodes[1].token_of("b").as_deref(), Some("another"));
    for node in &nodes[2..4] {
        node.hold("c", "another", TTL * 10);
    }
    clock.advance(TTL / 2);
    let cause = guard.wait_lost(Duration::ZERO).unwrap();
    assert!(matches!(cause, LossCause::Taken { .. }), "{cause}");
}

#[test]
fn a_lock_ends_with_its_time_on_every_key() {
    each_world(
        |World {
             clock,
             nodes,
             manager,
         }| {
            let guard = take(&manager, &NAMES).unwrap();
            clock.advance(TTL);
            let error = guard.check().unwrap_err();
            assert!(
                matches!(
                    error,
                    Error::Lost {
                        cause: LossCause::Expired { .. },
                        ..
                    }
                ),
                "{error}"
            );
            clock.advance(Duration::from_millis(1));
            assert_eq!(counts(&nodes), [0; 5]);
            // The lines are free for the next ones while the guard still exists.
            let next = take(&manager, &["b", "c"]).unwrap();
            drop(guard);
            assert!(matches!(
                manager.try_lock("b", TTL),
                Err(Error::Held { .. })
            ));
            drop(next);
            drop(take(&manager, &NAMES).unwrap());
        },
    );
}

#[cfg(target_os = "linux")]
#[test]
fn a_forked_child_leaves_the_lock_and_the_lines_to_the_parent() {
    if !is_alone("several::faults::a_forked_child_leaves_the_lock_and_the_lines_to_the_parent") {
        return;
    }
    let nodes = FakeNode::cluster(3);
    let manager = LockManager::builder().fakes(&nodes).build().unwrap();
    let guard = take(&manager, &NAMES).unwrap();
    let held = [guard];
    crate::servers::threads::forks::in_a_child(|| {
        let is_forked = matches!(take(&manager, &["x", "y"]), Err(Error::Forked));
        let extends = held
            .iter()
            .all(|guard| matches!(guard.extend(TTL), Err(Error::Forked)));
        is_forked && extends && held[0].resources() == NAMES
    });
    assert!(nodes.iter().all(|node| count(node) == 3));
    assert!(matches!(
        manager.try_lock("c", TTL),
        Err(Error::Held { .. })
    ));
    let [guard] = held;
    guard.unlock().unwrap();
    drop(take(&manager, &NAMES).unwrap());
}
