//! What a server that was away, silent or cut off hears when it is back, on virtual time.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::super::command::probe;
use super::super::doubles::{self, Double, SECOND};
use super::super::round::ask;
use super::super::verbs::{release_all, release_and};
use super::super::{Leftover, Node, Setup};
use super::*;
use crate::clock::{Clock, FakeClock};
use crate::error::{NodeError, Vote};
use crate::wire::resp::{Reply, ServerError};
use crate::wire::transport::{closed, unconnected};

/// A server that executes what it hears, and keeps its replies to itself while it is silent.
#[derive(Clone, Default)]
struct Server {
    shared: Arc<Shared>,
    /// Of a connection: its number, and what is there as long as it is open.
    link: Option<(u32, Arc<()>)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Mood {
    #[default]
    Well,
    /// It takes no connections.
    Away,
    Silent,
    /// Connections end before the next reply.
    Cut,
    /// It answers with an error.
    Refuses,
}

use Mood::{Away, Cut, Refuses, Silent, Well};

#[derive(Default)]
struct Shared {
    clock: FakeClock,
    mood: Mutex<Mood>,
    /// The names of the locks that were released, in their order.
    released: Mutex<Vec<String>>,
    links: Arc<()>,
    made: AtomicU32,
    /// When connections were asked for.
    tries: Mutex<Vec<Duration>>,
    /// Connections before this one are silent for good.
    forgotten: AtomicU32,
}

impl Server {
    fn start() -> (Self, Arc<Node>) {
        let server = Self::default();
        // A probe runs while a request of the same thread waits for its reply, and needs a connection as well.
        let adapt = |setup: &mut Setup<'_>| setup.pool_size = 2;
        let node = doubles::node(server.clone(), &server.shared.clock, adapt);
        (server, node)
    }

    fn away() -> (Self, Arc<Node>) {
        let (server, node) = Self::start();
        server.set(Away);
        (server, node)
    }

    fn set(&self, mood: Mood) {
        *self.shared.mood.lock() = mood;
    }

    fn mood(&self) -> Mood {
        *self.shared.mood.lock()
    }

    /// These locks were released, and in the next minute no other.
    #[track_caller]
    fn assert_released(&self, names: &[&str]) {
        assert_eq!(self.released(), names);
        self.advance(Duration::from_mins(1));
        assert_eq!(self.released(), names);
    }

    fn advance(&self, span: Duration) {
        self.shared.clock.advance(span);
    }

    fn released(&self) -> Vec<String> {
        self.shared.released.lock().clone()
    }

    fn open(&self) -> usize {
        Arc::strong_count(&self.shared.links).saturating_sub(1)
    }
}

impl Double for Server {
    fn connected(&self) -> Result<Self, NodeError> {
        let tried_at = self.shared.clock.elapsed();
        self.shared.tries.lock().push(tried_at);
        if self.mood() == Away {
            return Err(unconnected(io::ErrorKind::ConnectionRefused.into()));
        }
        let number = self.shared.made.fetch_add(1, Ordering::SeqCst);
        Ok(Self {
            shared: Arc::clone(&self.shared),
            link: Some((number, Arc::clone(&self.shared.links))),
        })
    }

    fn take_in(&mut self, bytes: &[u8]) -> Result<(), NodeError> {
        let text = String::from_utf8_lossy(bytes);
        let name = text.split("job ").nth(1);
        if let Some(name) = name.filter(|_| text.contains("EVAL")) {
            let name = name.split('\r').next().unwrap_or_default();
            self.shared.released.lock().push(name.to_owned());
        }
        Ok(())
    }

    fn has_a_reply(&mut self, until: Timestamp) -> bool {
        let forgotten = self.shared.forgotten.load(Ordering::SeqCst);
        let is_forgotten = self
            .link
            .as_ref()
            .is_some_and(|(number, _)| *number < forgotten);
        if !is_forgotten && self.mood() != Silent {
            return true;
        }
        let now = Clock::from(self.shared.clock.clone()).now();
        self.advance(until.saturating_since(now));
        false
    }

    fn reply(&mut self, deadline: Timestamp) -> Result<Reply, NodeError> {
        if !self.has_a_reply(deadline) {
            return Err(NodeError::TimedOut);
        }
        match self.mood() {
            Cut => Err(closed(io::ErrorKind::ConnectionReset)),
            Refuses => Ok(Reply::Error(ServerError::new("LOADING wait"))),
            Well | Away | Silent => Ok(Reply::Int(1)),
        }
    }
}

fn release_of(name: &str) -> Packed {
    doubles::release_of(&format!("job {name}"))
}

/// Releases a lock, which the server does not answer.
#[track_caller]
fn fail_to_release(node: &Node, name: &str) {
    let released = release_all(
        [(node, true)].into_iter(),
        &release_of(name),
        Duration::from_secs(3600),
    );
    let vote = &released.nodes[0].vote;
    assert!(matches!(vote, Vote::Failed(_)), "{vote}");
}

#[test]
fn a_release_is_repeated_until_the_node_has_answered_it_once() {
    let (server, node) = Server::away();
    fail_to_release(&node, "a");
    fail_to_release(&node, "b");
    server.advance(SECOND * 10);
    assert_eq!(server.released(), [""; 0]);
    server.set(Well);
    server.advance(SECOND * 2);
    server.assert_released(&["a", "b"]);
}

#[test]
fn an_error_is_no_answer_to_a_release() {
    let (server, node) = Server::start();
    server.set(Refuses);
    fail_to_release(&node, "a");
    server.advance(SECOND * 2);
    let before = server.released().len();
    assert!(before > 2, "{before}");
    server.set(Well);
    server.advance(SECOND * 2);
    assert_eq!(server.released().len(), before + 1);
    server.advance(SECOND * 60);
    assert_eq!(server.released().len(), before + 1);
}

#[test]
fn the_release_of_a_lock_that_rests_does_not_go_before_the_rest_is_over() {
    let (server, node) = Server::away();
    let nodes = [(&*node, true)].into_iter();
    let until = node.now().saturating_add(SECOND * 60);
    release_and(nodes, &[release_of("rest")], |node| {
        node.owe(release_of("a"), until, SECOND * 60);
    });
    server.set(Well);
    server.advance(SECOND * 59);
    assert_eq!(server.released(), [""; 0]);
    server.advance(SECOND * 2);
    assert_eq!(server.released(), ["a"]);
}

#[test]
fn a_release_is_given_up_when_its_key_has_ended_and_gives_way_to_those_of_keys_that_live() {
    let (server, node) = Server::away();
    fail_to_release(&node, "a");
    let short = release_of("short");
    for _ in 0..MOST_RELEASES {
        release_all([(&*node, true)].into_iter(), &short, SECOND * 10);
    }
    server.advance(SECOND * 12);
    server.set(Well);
    server.advance(SECOND * 2);
    assert_eq!(server.released(), ["a"]);
}

/// Asks for a lock of a server that is silent, so that an undo goes behind it.
#[track_caller]
fn is_undone(server: &Server, node: &Node, name: &str) {
    server.set(Silent);
    let command = probe();
    let verb = doubles::acquire_of(&format!("job {name}"));
    assert_eq!(ask(node, &command, &verb).leftover, Leftover::Undone);
    server.set(Well);
}

#[test]
fn a_connection_stays_open_until_the_undo_on_it_is_answered() {
    let (server, node) = Server::start();
    is_undone(&server, &node, "a");
    assert_eq!(
        (server.open(), server.released()),
        (1, vec!["a".to_owned()])
    );
    server.set(Silent);
    server.advance(SECOND * 60);
    let open = server.open();
    server.set(Well);
    server.advance(SECOND * 2);
    // That of the probe is left.
    assert_eq!((open, server.open()), (1, 1));
    assert_eq!(server.released(), ["a"]);
}

#[test]
fn an_undo_goes_again_if_its_connection_is_silent_and_the_node_answers_on_others() {
    let (server, node) = Server::start();
    is_undone(&server, &node, "a");
    // The first connection is forgotten on the way; those that come are not.
    let made = server.shared.made.load(Ordering::SeqCst);
    server.shared.forgotten.store(made, Ordering::SeqCst);
    server.advance(SECOND * 5);
    server.assert_released(&["a", "a"]);
}

#[test]
fn an_undo_goes_again_on_another_connection_if_its_own_ends_or_it_is_refused() {
    for mood in [Cut, Refuses] {
        let (server, node) = Server::start();
        is_undone(&server, &node, "a");
        server.set(mood);
        server.advance(SECOND / 10);
        server.set(Well);
        server.advance(SECOND * 5);
        let released = server.released();
        assert!(released.len() > 1 && released.iter().all(|name| name == "a"));
        server.advance(SECOND * 60);
        assert_eq!(server.released(), released);
    }
}

#[test]
fn no_more_than_so_many_connections_stay_open_and_the_undos_of_the_others_go_again() {
    let (server, node) = Server::start();
    for number in 0..=MOST_CONNECTIONS {
        is_undone(&server, &node, &number.to_string());
    }
    assert!(server.open() <= MOST_CONNECTIONS, "{}", server.open());
    server.advance(SECOND * 5);
    let of_the_first = server.released().into_iter().filter(|name| name == "0");
    assert_eq!(of_the_first.count(), 2);
}

#[test]
fn a_node_that_failed_is_probed_after_pauses_that_double_up_to_a_bound_until_it_is_back() {
    let (server, node) = Server::away();
    // The breaker opens, closes and opens again: that makes one chain of probes.
    for _ in 0..2 {
        node.close_breaker();
        assert!(node.open_breaker(&NodeError::TimedOut));
    }
    (0..800).for_each(|_| server.advance(SECOND / 1000));
    let tries: Vec<u128> = server
        .shared
        .tries
        .lock()
        .iter()
        .map(Duration::as_millis)
        .collect();
    assert_eq!(tries, [20, 60, 140, 300, 500, 700]);
    server.set(Well);
    server.advance(SECOND / 5);
    assert!(node.is_well());
}

#[test]
fn nothing_is_planned_for_a_node_that_is_gone() {
    let (server, node) = Server::away();
    fail_to_release(&node, "a");
    drop(node);
    server.set(Well);
    server.advance(SECOND * 60);
    assert_eq!(server.released(), [""; 0]);
}
