//! Requests at servers that take no connection, on a clock that a test moves.

#![expect(
    clippy::arithmetic_side_effects,
    reason = "a test that overflows fails, as it should"
)]

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;

use super::super::Node;
use super::super::command::probe;
use super::super::doubles::{self, Double, release_of};
use super::super::request::Verb;
use super::super::round::ask;
use super::Manner::{Asks, Examines, Insists, Listens};
use super::*;
use crate::clock::FakeClock;
use crate::error::NodeError;
use crate::health::answers::Question;
use crate::wire::resp::{Reply, ServerError};
use crate::wire::transport::{closed, unconnected};

const TIMEOUT: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

/// What a server does with a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Does {
    Works,
    Refuses,
    RejectsTheLogin,
    /// Before it says who it is.
    Closes,
    /// After that.
    ClosesAtTheCommand,
    /// With one error, and a close.
    TurnsAway,
    /// With an error to each command.
    Loads,
    IsInACluster,
    IsNoRedis,
    /// It answers nothing.
    Hangs,
}

/// What is no connection that can be used.
const REFUSALS: [Does; 7] = [
    Does::Refuses,
    Does::RejectsTheLogin,
    Does::Closes,
    Does::TurnsAway,
    Does::Loads,
    Does::IsInACluster,
    Does::IsNoRedis,
];

#[derive(Clone)]
struct Server {
    clock: FakeClock,
    does: Arc<Mutex<Does>>,
    connections: Arc<AtomicU32>,
    /// Of a connection: what the server does with it, and how many replies were read.
    line: (Does, u32),
    /// Whether the last command was the probe.
    is_probed: bool,
}

impl Server {
    fn does(&self, does: Does) {
        *self.does.lock() = does;
    }

    fn connections(&self) -> u32 {
        self.connections.load(Ordering::SeqCst)
    }
}

impl Double for Server {
    fn connected(&self) -> Result<Self, NodeError> {
        self.connections.fetch_add(1, Ordering::SeqCst);
        let does = *self.does.lock();
        if does == Does::Refuses {
            return Err(unconnected(io::ErrorKind::ConnectionRefused.into()));
        }
        if does == Does::RejectsTheLogin {
            return Err(NodeError::Login {
                command: "AUTH",
                code: "WRONGPASS".into(),
                message: String::new(),
            });
        }
        let line = (does, 0);
        let connection = self.clone();
        (does != Does::Hangs)
            .then_some(Self { line, ..connection })
            .ok_or(NodeError::TimedOut)
    }

    fn take_in(&mut self, bytes: &[u8]) -> Result<(), NodeError> {
        self.is_probed = bytes.ends_with(&probe().in_full());
        Ok(())
    }

    fn reply(&mut self, _: Timestamp) -> Result<Reply, NodeError> {
        let error = |text| Ok(Reply::Error(ServerError::new(text)));
        self.line.1 += 1;
        match self.line {
            (Does::IsNoRedis, _) => Err(NodeError::protocol(NO_REPLY)),
            (Does::IsInACluster, _) => Ok(Reply::Text("CLUSTER".into())),
            (Does::Loads, _) => error("LOADING wait"),
            (Does::TurnsAway, 1) => error("ERR max number of clients reached"),
            (Does::ClosesAtTheCommand, 1) => Ok(Reply::Bulk(b"a run id".to_vec())),
            (Does::Works, _) if self.is_probed => Ok(Reply::Int(1)),
            (Does::Works, _) => Ok(Reply::Array(vec![Reply::Int(-2)])),
            _ => Err(closed(io::ErrorKind::ConnectionReset)),
        }
    }
}

fn server(does: Does, timeout: Duration) -> (Server, Arc<Node>) {
    let server = Server {
        clock: FakeClock::new(),
        does: Arc::new(Mutex::new(does)),
        connections: Arc::default(),
        line: (does, 0),
        is_probed: false,
    };
    let clock = Clock::from(server.clock.clone());
    // The probes would be tries of their own, so their time stands still.
    let node = doubles::node_on(&clock, server.clone(), &FakeClock::new(), |setup| {
        setup.pool_size = 2;
        setup.timeout = timeout;
    });
    (server, node)
}

/// Asks as one that does not insist. Demands the answer of a server that does this.
#[track_caller]
fn assert_vote(node: &Node, does: Does) {
    assert_answer(node, &Verb::Probe, does);
}

/// Of a server that turns away, the first one gets the reply, and the others the error that is made of it.
#[track_caller]
fn assert_answer(node: &Node, verb: &Verb, does: Does) {
    let words = match does {
        Does::Works => "",
        Does::Refuses => "refused",
        Does::RejectsTheLogin => "WRONGPASS",
        Does::Closes | Does::ClosesAtTheCommand => "broke",
        Does::TurnsAway => "max number of clients",
        Does::Loads => "LOADING",
        Does::IsInACluster => "Cluster",
        Does::IsNoRedis => NO_REPLY,
        Does::Hangs => "no answer",
    };
    let is_probe = matches!(verb, Verb::Probe);
    let command = if is_probe { probe() } else { release_of("job") };
    let result = ask(node, &command, verb).result;
    let text = match &result {
        Ok(said) => said.clone().vote().0.to_string(),
        Err(error) => error.to_string(),
    };
    assert!(text.contains(words), "{does:?}: {text}");
    assert!(result.is_ok() || does != Does::Works, "{text}");
}

/// A server that does this, and a gate whose pauses are as long as they get.
fn shut_for_long(does: Does, timeout: Duration) -> (Server, Arc<Node>) {
    let (server, node) = server(does, timeout);
    for _ in 0..10 {
        server.clock.advance(LONGEST_PAUSE);
        assert_vote(&node, does);
    }
    (server, node)
}

#[test]
fn a_connection_that_ends_where_the_server_has_said_who_it_is_shuts_no_gate() {
    let (server, node) = server(Does::ClosesAtTheCommand, TIMEOUT);
    for tries in 1..=10 {
        assert_vote(&node, Does::ClosesAtTheCommand);
        assert_eq!(server.connections(), tries);
    }
}

#[test]
fn the_pauses_grow_up_to_a_bound() {
    for does in REFUSALS {
        let (server, node) = server(does, TIMEOUT);
        let mut tries = Vec::new();
        for ms in 0..=200 {
            let before = server.connections();
            assert_vote(&node, does);
            if server.connections() > before {
                tries.push(ms);
            }
            server.clock.advance(MS);
        }
        assert_eq!(tries, [0, 1, 5, 13, 29, 61, 125, 189], "{does:?}");
    }
}

#[test]
fn a_node_that_takes_connections_again_votes_after_one_pause_and_the_next_failure_pauses_briefly() {
    for does in REFUSALS {
        let (server, node) = shut_for_long(does, TIMEOUT);
        server.does(Does::Works);
        server.clock.advance(MS * 63);
        assert_vote(&node, does);
        server.clock.advance(MS);
        assert_vote(&node, Does::Works);

        node.retire(node.generation());
        server.does(does);
        let before = server.connections();
        for _ in 0..3 {
            assert_vote(&node, does);
            server.clock.advance(FIRST_PAUSE);
        }
        assert_eq!(server.connections(), before + 3, "{does:?}");
    }
}

#[test]
fn a_request_that_insists_reaches_a_node_that_is_back_within_half_of_its_time() {
    for does in REFUSALS {
        for (timeout, longest) in [(TIMEOUT, LONGEST_PAUSE), (10 * MS, 5 * MS)] {
            for verb in [Verb::Drop, Verb::Keep, Verb::Show] {
                let (server, node) = shut_for_long(does, timeout);
                server.does(Does::Works);
                let before = server.clock.elapsed();
                assert_answer(&node, &verb, Does::Works);
                assert_eq!(server.clock.elapsed(), before + longest, "{does:?}");
            }
        }
        // Of a node that is not back it is told after a few tries at most.
        for (timeout, most) in [(10 * MS, 1), (50 * MS, 1), (TIMEOUT, 4)] {
            let (server, node) = shut_for_long(does, timeout);
            let before = (server.connections(), server.clock.elapsed());
            assert_answer(&node, &Verb::Drop, does);
            let tries = server.connections() - before.0;
            assert!((1..=most).contains(&tries), "{does:?} {timeout:?}: {tries}");
            assert!(server.clock.elapsed() <= before.1 + timeout);
        }
    }
}

#[test]
fn while_one_tries_those_that_insist_wait_for_its_answer_and_the_others_get_the_last_one() {
    let at = |ms: u64| Timestamp::from_nanos(ms * 1_000_000);
    let shut = |failed| Shut {
        failure: NodeError::TimedOut,
        pause: LONGEST_PAUSE,
        next: at(2000),
        failed,
    };
    let (came, later) = (4, 5);
    let visit = |manner| Visit {
        manner,
        came,
        own_try: Some(at(500)),
        deadline: at(1000),
    };
    for (manner, failed, begun, now, step) in [
        (Insists, 4, came, 0, Step::Wait(at(500))),
        (Insists, 4, came, 500, Step::Try),
        // Another has begun a try meanwhile, and then it is known how that went.
        (Insists, 4, later, 500, Step::Wait(at(750))),
        (Insists, 4, later, 750, Step::Try),
        (Insists, 5, later, 500, Step::Fail),
        (Asks, 4, later, 1999, Step::Fail),
        (Asks, 4, later, 2000, Step::Try),
        (Asks, 5, later, 2000, Step::Fail),
        (Listens, 4, came, 2000, Step::Fail),
        (Examines, 5, later, 0, Step::Try),
    ] {
        let told = shut(failed).step(visit(manner), begun, at(now));
        assert_eq!(told, step, "{manner:?} {failed} {begun} {now}");
    }
}

#[test]
fn a_question_about_health_always_tries_and_who_waits_for_a_release_never_does() {
    let (server, node) = shut_for_long(Does::Closes, TIMEOUT);
    server.clock.advance(LONGEST_PAUSE);
    let before = server.connections();
    let listen = Verb::Listen {
        bell: "bell".into(),
        until: node.now().saturating_add(TIMEOUT),
        patience: TIMEOUT,
        given_up: None,
    };
    assert_answer(&node, &listen, Does::Closes);
    assert_eq!(server.connections(), before);
    server.does(Does::RejectsTheLogin);
    for tries in 1..=3 {
        let question = Verb::Ask(Question::Time);
        assert_answer(&node, &question, Does::RejectsTheLogin);
        assert_eq!(server.connections(), before + tries);
    }
}

#[test]
fn a_try_without_an_answer_in_time_opens_the_gate() {
    let (server, node) = shut_for_long(Does::Refuses, TIMEOUT);
    server.clock.advance(LONGEST_PAUSE);
    server.does(Does::Hangs);
    // Nobody is told what was so before.
    (0..3).for_each(|_| assert_vote(&node, Does::Hangs));
}

#[test]
fn one_who_was_turned_away_neither_opens_the_breaker_nor_discards_connections() {
    for does in REFUSALS {
        let (server, node) = server(Does::Works, TIMEOUT);
        assert_vote(&node, Does::Works);
        // The open connection is in use, and no other can be made.
        let taken = node.pool.get().unwrap();
        server.does(does);
        (0..2).for_each(|_| assert_vote(&node, does));
        node.close_breaker();
        let generation = node.generation();
        assert_vote(&node, does);
        assert_eq!(server.connections(), 3, "{does:?}");
        assert!(node.is_well(), "{does:?}");
        assert_eq!(node.generation(), generation, "{does:?}");
        drop(taken);
    }
}
