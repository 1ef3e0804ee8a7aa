//! Releases that are repeated in batches: how many go in one write, and what comes while a try is under way.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::super::super::command;
use super::super::super::connection::OpenConnection;
use super::super::super::doubles::Write;
use super::*;
use crate::claim::{Claim, Kind};
use crate::clock::VirtualTime;
use crate::wire::transport::Connect;

/// How many releases went in each write.
fn writes(server: &Server) -> Vec<usize> {
    let sent = server.sent.lock();
    let is_release = |command: &&Vec<u8>| String::from_utf8_lossy(command).contains("job ");
    let counts = sent
        .iter()
        .map(|(_, write)| write.iter().filter(is_release).count());
    counts.filter(|count| *count > 0).collect()
}

#[test]
fn releases_go_again_128_in_one_write_until_the_try_is_over() {
    let (server, node) = start(AWAY);
    (0..1000).for_each(|name| fail_to_release(&node, &name.to_string(), SECOND * 3600));
    server.set(WELL);
    *server.distance.lock() = SECOND / 50;
    let tries = || {
        server.clock.advance(SECOND);
        writes(&server).len()
    };
    let counts: Vec<usize> = std::iter::repeat_with(tries).take(6).collect();
    // A try of 50 ms has three writes.
    assert_eq!(counts.iter().find(|count| **count > 0), Some(&3));
    assert_eq!(writes(&server), [128, 128, 128, 128, 128, 128, 128, 104]);
    assert!(!node.has_releases_before(Timestamp::from_nanos(u64::MAX)));
}

#[test]
fn a_release_that_comes_while_others_are_repeated_is_repeated_too() {
    let (server, node) = start(AWAY);
    fail_to_release(&node, "a", SECOND * 3600);
    let late = Arc::downgrade(&node);
    let sent = Arc::clone(&server.sent);
    let is_first = AtomicBool::new(true);
    server.set(move |_| {
        let is_release = |(_, write): &Write| {
            write
                .iter()
                .any(|command| command.windows(4).any(|w| w == b"job "))
        };
        if sent.lock().last().is_some_and(is_release) && is_first.swap(false, Ordering::SeqCst) {
            let node = late.upgrade().unwrap();
            node.release_later(release_of("b").to_repeat(), node.now(), SECOND * 60);
        }
        Says(Reply::Int(1))
    });
    (0..5).for_each(|_| server.clock.advance(SECOND));
    assert_released(&server, &["a", "b"]);
}

#[test]
fn a_release_is_repeated_if_the_node_tells_of_one_key_alone() {
    let (server, node) = start(WELL);
    let another_has_it = Reply::Array(vec![Reply::Int(1500)]);
    let Says(refused) = error("OOM no memory") else {
        unreachable!()
    };
    let rows = [refused, another_has_it.clone()];
    server
        .events
        .lock()
        .push_back(Says(Reply::Array(rows.into())));
    let names = ["job a", "job b"].map(Into::into).into();
    let release = command::release(&Claim::of_kind("job a", Kind::Several(names)));
    let released = release_all(Asked::one(&node), &release, SECOND * 60);
    assert!(matches!(*released[0].vote, Vote::Held { .. }));
    assert!(node.has_releases_before(Timestamp::from_nanos(u64::MAX)));
    // The other row says as much as before.
    server.set(move |_| Says(Reply::Array(vec![Reply::Int(1), another_has_it.clone()])));
    server.clock.advance(SECOND);
    assert!(!node.has_releases_before(Timestamp::from_nanos(u64::MAX)));
    assert_eq!(writes(&server), [1, 1]);
}

#[test]
fn beyond_8_mib_the_releases_whose_keys_end_first_are_left_to_their_time_to_live() {
    let (server, node) = start(AWAY);
    let long = "x".repeat(1 << 20);
    for (name, seconds) in ["g", "a", "b", "c", "d", "e", "f", "h"]
        .into_iter()
        .zip([50, 60, 70, 80, 90, 100, 55, 95])
    {
        fail_to_release(&node, &format!("{name} {long}"), SECOND * seconds);
    }
    server.set(WELL);
    (0..10).for_each(|_| server.clock.advance(SECOND));
    let released = released(&server);
    let mut names: Vec<&str> = released.iter().map(|name| &name[..1]).collect();
    names.sort_unstable();
    // Each is a little more than a MiB, so that seven of them have room, and the one that ends first has to go.
    assert_eq!(names, ["a", "b", "c", "d", "e", "f", "h"]);
    assert_eq!(node.retry_queue.lock().kept, 0);
}

#[test]
fn the_nodes_share_the_bytes_of_a_release() {
    let servers: [Arc<Server>; 2] = Server::cluster(1, |_, _| is_away());
    let nodes = servers
        .each_ref()
        .map(|server| doubles::node(server, |_| ()));
    let asked = Asked {
        nodes: &nodes,
        indexes: &[0, 1],
    };
    release_all(asked, &release_of("a"), SECOND * 60);
    let [one, other] = nodes
        .each_ref()
        .map(|node| node.retry_queue.lock().releases[0].command.clone());
    assert_eq!(one.bytes.as_ptr(), other.bytes.as_ptr());
}

#[test]
fn an_undo_that_comes_while_others_are_read_goes_again_too() {
    let (server, node) = start(WELL);
    // The server is silent, so the undo of this connection is still to be answered.
    let silent = Server::new(SILENT);
    let now = silent.clock.now();
    let transport = silent.connect(now).unwrap();
    let mut connection = Box::new(OpenConnection::new(transport, 0, now));
    let other = release_of("b");
    connection.send([&other].into_iter(), now).unwrap();
    let late = Mutex::new(Some((connection, other)));

    undo(&server, &node, "a");
    // A probe would be the first that is answered.
    node.close_breaker();
    let of_node = Arc::downgrade(&node);
    server.set(move |_| {
        if let Some((connection, other)) = late.lock().take() {
            let node = of_node.upgrade().unwrap();
            node.keep_undos(
                Some(connection),
                vec![Undo {
                    command: other,
                    receipt: Receipt::new(now),
                }],
            );
        }
        Says(Reply::Int(1))
    });
    (0..5).for_each(|_| server.clock.advance(SECOND));
    assert_released(&server, &["a", "b"]);
}

#[test]
fn a_node_that_has_no_time_for_all_releases_gets_fewer_at_once() {
    let (server, node) = start(AWAY);
    (0..128).for_each(|name| fail_to_release(&node, &name.to_string(), SECOND * 3600));
    let sent = Arc::clone(&server.sent);
    server.set(move |step| {
        let is_long = sent
            .lock()
            .last()
            .is_some_and(|(_, write)| write.len() > 20);
        if step > 0 && is_long {
            Late
        } else {
            Says(Reply::Int(1))
        }
    });
    (0..200).for_each(|_| server.clock.advance(SECOND));
    let mut released = released(&server);
    released.sort();
    released.dedup();
    assert_eq!(released.len(), 128);
    assert!(!node.has_releases_before(Timestamp::from_nanos(u64::MAX)));
    assert!(writes(&server).len() < 40, "{:?}", writes(&server));

    // Later it has the time again.
    let before = writes(&server).len();
    server.set(AWAY);
    (0..600).for_each(|name| fail_to_release(&node, &name.to_string(), SECOND * 3600));
    server.set(WELL);
    (0..10).for_each(|_| server.clock.advance(SECOND));
    let later = writes(&server).split_off(before);
    assert!(later.contains(&128), "{later:?}");
}

#[test]
fn releases_without_an_answer_go_behind_all_others() {
    let (server, node) = start(AWAY);
    (0..130).for_each(|name| fail_to_release(&node, &name.to_string(), SECOND * 3600));
    let now = server.clock.now();
    let mut queue = node.retry_queue.lock();
    let first = queue.begin_write(now);
    let silence = [(); 128].map(|()| KeyReports::new());
    assert_eq!((first.len(), queue.end_write(&silence)), (128, 0));
    let second = queue.begin_write(now);
    let names =
        [&second[0], &second[1], &second[2]].map(|release| release.keys_of_call()[0].clone());
    assert_eq!(names, [&b"job 128"[..], b"job 129", b"job 0"]);
}
