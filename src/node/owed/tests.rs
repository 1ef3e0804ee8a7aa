//! What a server that was away, silent or cut off hears when it is back, on virtual time.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::super::doubles::{
    self, Event, Late, SECOND, Says, Server, Write, closes, error, is_away,
};
use super::super::verbs::{release_all, release_and};
use super::super::{Leftover, Node, command};
use super::*;
use crate::claim::{Claim, Kind};
use crate::clock::VirtualTime;
use crate::error::{NodeError, Vote};
use crate::wire::transport::Connect;
use parking_lot::Mutex;

/// What a server may do at each step of a connection.
type Mood = fn(usize) -> Event;

const WELL: Mood = |_| Says(Reply::Int(1));
const AWAY: Mood = |_| is_away();
/// It executes what it hears, and keeps its replies to itself.
const SILENT: Mood = |_| Late;
const CUT: Mood = |_| closes();
const REFUSES: Mood = |_| error("LOADING wait");

fn start(mood: Mood) -> (Arc<Server>, Arc<Node>) {
    let server = Server::new(mood);
    // A probe runs while a request of the same thread waits for its reply, and needs a connection as well.
    let node = doubles::node(&server, |setup| setup.pool_size = 2);
    (server, node)
}

/// The names of the locks that were released, in their order.
fn released(server: &Server) -> Vec<String> {
    let sent = server.sent.lock();
    let commands = sent.iter().flat_map(|(_, commands)| commands);
    let names = commands.filter_map(|command| {
        let text = String::from_utf8_lossy(command);
        let name = text.split("job ").nth(1)?.split('\r').next()?;
        text.contains("EVAL").then(|| name.to_owned())
    });
    names.collect()
}

/// These locks were released, and in the next minute no other.
#[track_caller]
fn assert_released(server: &Server, names: &[&str]) {
    assert_eq!(released(server), names);
    server.clock.advance(Duration::from_mins(1));
    assert_eq!(released(server), names);
}

fn release_of(name: &str) -> Packed {
    doubles::release_of(&format!("job {name}"))
}

/// Releases a lock, which the server does not answer.
#[track_caller]
fn fail_to_release(node: &Node, name: &str, life: Duration) {
    let released = release_all([(node, true)].into_iter(), &release_of(name), life);
    let vote = &released.nodes[0].vote;
    assert!(matches!(vote, Vote::Failed(_)), "{vote}");
}

#[test]
fn a_release_is_repeated_until_the_node_has_answered_it_once() {
    let (server, node) = start(AWAY);
    fail_to_release(&node, "a", SECOND * 3600);
    fail_to_release(&node, "b", SECOND * 3600);
    server.clock.advance(SECOND * 10);
    assert_eq!(released(&server), [""; 0]);
    // An error is no answer.
    server.set(REFUSES);
    server.clock.advance(SECOND * 2);
    let before = released(&server).len();
    assert!(before > 2, "{before}");
    server.set(WELL);
    server.clock.advance(SECOND * 62);
    assert_eq!(released(&server).len(), before + 2);
}

#[test]
fn the_release_of_a_lock_that_rests_does_not_go_before_the_rest_is_over() {
    let (server, node) = start(AWAY);
    let nodes = [(&*node, true)].into_iter();
    let until = node.now().saturating_add(SECOND * 60);
    release_and(nodes, &[release_of("rest")], |node| {
        node.owe(release_of("a").to_repeat(), until, SECOND * 60);
    });
    server.set(WELL);
    server.clock.advance(SECOND * 59);
    assert_eq!(released(&server), [""; 0]);
    server.clock.advance(SECOND * 2);
    assert_eq!(released(&server), ["a"]);
}

#[test]
fn a_release_is_given_up_when_its_key_has_ended_and_gives_way_to_those_of_keys_that_live() {
    let (server, node) = start(AWAY);
    fail_to_release(&node, "a", SECOND * 3600);
    for _ in 0..MOST_RELEASES {
        fail_to_release(&node, "short", SECOND * 10);
    }
    server.clock.advance(SECOND * 12);
    server.set(WELL);
    server.clock.advance(SECOND * 2);
    assert_eq!(released(&server), ["a"]);
}

/// Asks for a lock of a server that is silent, so that an undo goes behind it.
#[track_caller]
fn undo(server: &Arc<Server>, node: &Node, name: &str) {
    server.set(SILENT);
    let verb = doubles::acquire_of(&format!("job {name}"));
    assert_eq!(doubles::asked(node, &verb).leftover, Leftover::Undone);
    server.set(WELL);
}

#[test]
fn a_connection_stays_open_until_the_undo_on_it_is_answered() {
    let (server, node) = start(WELL);
    undo(&server, &node, "a");
    assert_eq!((server.open(), released(&server)), (1, vec!["a".into()]));
    server.set(SILENT);
    server.clock.advance(SECOND * 60);
    let open = server.open();
    server.set(WELL);
    server.clock.advance(SECOND * 2);
    // That of the probe is left.
    assert_eq!((open, server.open()), (1, 1));
    assert_eq!(released(&server), ["a"]);
}

#[test]
fn an_undo_goes_again_if_its_connection_is_silent_and_the_node_answers_on_others() {
    let (server, node) = start(WELL);
    undo(&server, &node, "a");
    // The first connection is forgotten on the way; those that come are not.
    let made = server.connections();
    server.forgotten.store(made, Ordering::SeqCst);
    server.clock.advance(SECOND * 5);
    assert_released(&server, &["a", "a"]);
}

#[test]
fn an_undo_goes_again_on_another_connection_if_its_own_ends_or_it_is_refused() {
    for mood in [CUT, REFUSES] {
        let (server, node) = start(WELL);
        undo(&server, &node, "a");
        server.set(mood);
        server.clock.advance(SECOND / 10);
        server.set(WELL);
        server.clock.advance(SECOND * 5);
        let released = released(&server);
        assert!(released.len() > 1 && released.iter().all(|name| name == "a"));
        let released: Vec<&str> = released.iter().map(String::as_str).collect();
        assert_released(&server, &released);
    }
}

#[test]
fn no_more_than_so_many_connections_stay_open_and_the_undos_of_the_others_go_again() {
    let (server, node) = start(WELL);
    for number in 0..=MOST_CONNECTIONS {
        undo(&server, &node, &number.to_string());
    }
    assert!(server.open() <= MOST_CONNECTIONS, "{}", server.open());
    server.clock.advance(SECOND * 5);
    let of_the_first = released(&server).into_iter().filter(|name| name == "0");
    assert_eq!(of_the_first.count(), 2);
}

#[test]
fn a_node_that_failed_is_probed_after_pauses_that_double_up_to_a_bound_until_it_is_back() {
    let (server, node) = start(AWAY);
    // The breaker opens, closes and opens again: that makes one chain of probes.
    for _ in 0..2 {
        node.close_breaker();
        assert!(node.open_breaker(&NodeError::TimedOut));
    }
    (0..800).for_each(|_| server.clock.advance(SECOND / 1000));
    let tries = server.connects.lock().clone();
    let tries: Vec<u128> = tries.iter().map(|(at, _)| at.as_millis()).collect();
    assert_eq!(tries, [20, 60, 140, 300, 500, 700]);
    server.set(WELL);
    server.clock.advance(SECOND / 5);
    assert!(node.is_well());
}

#[test]
fn nothing_is_planned_for_a_node_that_is_gone() {
    let (server, node) = start(AWAY);
    fail_to_release(&node, "a", SECOND * 3600);
    drop(node);
    server.set(WELL);
    server.clock.advance(SECOND * 60);
    assert_eq!(released(&server), [""; 0]);
}

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
    assert!(!node.is_owed_before(Timestamp::from_nanos(u64::MAX)));
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
            node.owe(release_of("b").to_repeat(), node.now(), SECOND * 60);
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
    let released = release_all([(&*node, true)].into_iter(), &release, SECOND * 60);
    assert!(matches!(released.nodes[0].vote, Vote::Held { .. }));
    assert!(node.is_owed_before(Timestamp::from_nanos(u64::MAX)));
    // The other row says as much as before.
    server.set(move |_| Says(Reply::Array(vec![Reply::Int(1), another_has_it.clone()])));
    server.clock.advance(SECOND);
    assert!(!node.is_owed_before(Timestamp::from_nanos(u64::MAX)));
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
    assert_eq!(node.owed.lock().bytes, 0);
}

#[test]
fn the_nodes_share_the_bytes_of_a_release() {
    let servers: [Arc<Server>; 2] = Server::cluster(1, |_, _| is_away());
    let nodes = servers
        .each_ref()
        .map(|server| doubles::node(server, |_| ()));
    let asked = nodes.iter().map(|node| (&**node, true));
    release_all(asked, &release_of("a"), SECOND * 60);
    let [one, other] = nodes
        .each_ref()
        .map(|node| Arc::clone(&node.owed.lock().releases[0].command));
    assert!(Arc::ptr_eq(&one, &other));
}

#[test]
fn an_undo_that_comes_while_others_are_read_goes_again_too() {
    let (server, node) = start(WELL);
    // It is silent, so its undo is still to be answered.
    let silent = Server::new(SILENT);
    let now = silent.clock.now();
    let transport = silent.connect(now).unwrap();
    let mut connection = Box::new(OpenConnection::new(transport, 0, now));
    let other = release_of("b");
    connection.send(&[Cow::Borrowed(&other)], now).unwrap();
    let late = Mutex::new(Some((connection, other)));

    undo(&server, &node, "a");
    // A probe would be the first that is answered.
    node.close_breaker();
    let of_node = Arc::downgrade(&node);
    server.set(move |_| {
        if let Some((connection, other)) = late.lock().take() {
            let node = of_node.upgrade().unwrap();
            node.close_behind(connection, vec![other]);
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
    assert!(!node.is_owed_before(Timestamp::from_nanos(u64::MAX)));
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
    let mut owed = node.owed.lock();
    let first = owed.begin_write(now);
    assert_eq!((first.len(), owed.end_write(&[])), (128, 0));
    let second = owed.begin_write(now);
    let names =
        [&second[0], &second[1], &second[2]].map(|release| release.keys_of_call()[0].clone());
    assert_eq!(names, [&b"job 128"[..], b"job 129", b"job 0"]);
}
