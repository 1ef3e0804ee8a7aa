//! Connections that were idle: closed by the server, or forgotten on the way.

use std::sync::atomic::Ordering;

use super::super::super::doubles::{self, Breaks, KEEP, Late, Server, answered, asked, closes};
use super::*;

/// A node with two connections in its pool.
fn two_idle() -> (Arc<Server>, Arc<Node>) {
    let server = Server::of_list([]);
    let node = doubles::node(&server, |setup| setup.pool_size = 2);
    let other = node.pool.try_get().unwrap();
    assert!(answered(&server, &node, &Verb::Probe));
    let first = node.pool.try_get().unwrap();
    drop(other);
    assert!(answered(&server, &node, &Verb::Probe));
    drop(first);
    assert_eq!(server.connections(), 2);
    (server, node)
}

/// How many connections in the pool may be used again.
fn usable(node: &Node) -> usize {
    let slots = [(); 2].map(|()| node.pool.try_get().unwrap());
    let (generation, now) = (node.generation(), node.now());
    let connections = slots.iter().filter_map(|slot| slot.as_ref());
    connections
        .filter(|connection| connection.is_current(generation, now))
        .count()
}

#[test]
fn where_an_old_connection_is_silent_those_that_were_idle_with_it_are_not_used_again() {
    for verb in [Verb::Probe, acquire_of("job"), KEEP] {
        let (server, node) = two_idle();
        server.clock.advance(SUSPICIOUS_IDLE);
        server.forgotten.store(2, Ordering::SeqCst);
        let asks_again = verb.asked_again_after().is_some();
        assert_eq!(answered(&server, &node, &verb), asks_again, "{verb:?}");
        server.events.lock().clear();
        // The next request is on a new connection.
        assert!(answered(&server, &node, &Verb::Probe), "{verb:?}");
        assert_eq!(server.connections(), 3, "{verb:?}");
        assert_eq!(usable(&node), 1, "{verb:?}");
    }
}

#[test]
fn where_a_connection_is_silent_that_was_in_use_a_moment_ago_the_others_stay() {
    let (server, node) = two_idle();
    server
        .clock
        .advance(SUSPICIOUS_IDLE.saturating_sub(Duration::from_nanos(1)));
    server.events.lock().push_back(Late);
    assert!(is_time_out(&asked(&node, &Verb::Probe)));
    assert_eq!(usable(&node), 1);
    assert!(answered(&server, &node, &Verb::Probe));
    assert_eq!(server.connections(), 2);
}

#[test]
fn where_an_idle_connection_was_closed_those_that_were_idle_with_it_are_not_used_again() {
    let closed_before: fn(&Server) = |server| server.closed.store(2, Ordering::SeqCst);
    let at_the_write: fn(&Server) = |server| server.events.lock().push_back(Breaks);
    let at_the_reply: fn(&Server) = |server| server.events.lock().push_back(closes());
    for close in [closed_before, at_the_write, at_the_reply] {
        for verb in [Verb::Probe, acquire_of("job"), KEEP] {
            let (server, node) = two_idle();
            close(&server);
            assert!(answered(&server, &node, &verb), "{verb:?}");
            assert_eq!(usable(&node), 1, "{verb:?}");
            assert_eq!(server.connections(), 3, "{verb:?}");
        }
    }
}
