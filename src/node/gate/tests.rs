//! Requests at servers that take no connection, on a clock that a test moves.

#![expect(
    clippy::arithmetic_side_effects,
    reason = "a test that overflows fails, as it should"
)]

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::super::Node;
use super::super::command::probe;
use super::super::doubles::{self, Double, release_of};
use super::super::reply::Said;
use super::super::request::{Request, Verb};
use super::super::round::exchange;
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
    /// Asked for a vote while the next connection is made.
    meanwhile: Arc<Mutex<Option<Weak<Node>>>>,
    answer: Arc<Mutex<Option<Result<Said, NodeError>>>>,
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
        let meanwhile = self.meanwhile.lock().take();
        if let Some(node) = meanwhile.and_then(|node| node.upgrade()) {
            let answer = vote(&node);
            *self.answer.lock() = Some(answer);
        }
        let does = *self.does.lock();
        match does {
            Does::Refuses => Err(unconnected(io::ErrorKind::ConnectionRefused.into())),
            Does::RejectsTheLogin => Err(NodeError::Login {
                command: "AUTH",
                code: "WRONGPASS".into(),
                message: String::new(),
            }),
            Does::Hangs => Err(NodeError::TimedOut),
            Does::Works
            | Does::Closes
            | Does::ClosesAtTheCommand
            | Does::TurnsAway
            | Does::Loads
            | Does::IsInACluster
            | Does::IsNoRedis => Ok(Self {
                line: (does, 0),
                ..self.clone()
            }),
        }
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
    let clock = FakeClock::new();
    let server = Server {
        clock: clock.clone(),
        does: Arc::new(Mutex::new(does)),
        connections: Arc::default(),
        meanwhile: Arc::default(),
        answer: Arc::default(),
        line: (does, 0),
        is_probed: false,
    };
    // The probes would be tries of their own.
    let time = FakeClock::new();
    let clock = Clock::from(clock);
    let node = doubles::node_on(&clock, server.clone(), &time, |setup| {
        setup.pool_size = 2;
        setup.timeout = timeout;
    });
    (server, node)
}

fn ask(node: &Node, verb: Verb) -> Result<Said, NodeError> {
    exchange(node, &Request::new(&release_of("job"), verb)).result
}

/// It is asked as one that does not insist.
fn vote(node: &Node) -> Result<Said, NodeError> {
    exchange(node, &Request::new(&probe(), Verb::Probe)).result
}

fn listen(node: &Node) -> Result<Said, NodeError> {
    let listen = Verb::Listen {
        bell: "bell".into(),
        until: node.now().saturating_add(TIMEOUT),
        patience: TIMEOUT,
        given_up: None,
    };
    ask(node, listen)
}

/// Whether it is the answer of a server that does this.
fn is_answer_of(does: Does, result: &Result<Said, NodeError>) -> bool {
    match does {
        Does::Works => result.is_ok(),
        Does::Refuses => matches!(result, Err(NodeError::Connect { .. })),
        Does::RejectsTheLogin => {
            matches!(result, Err(NodeError::Login { code, .. }) if code == "WRONGPASS")
        }
        Does::Closes | Does::ClosesAtTheCommand => matches!(result, Err(NodeError::Closed { .. })),
        Does::TurnsAway => is_error(result, "max number of clients"),
        Does::Loads => is_error(result, "LOADING"),
        Does::IsInACluster => matches!(result, Err(NodeError::InCluster)),
        Does::IsNoRedis => matches!(result, Err(NodeError::Protocol { .. })),
        Does::Hangs => matches!(result, Err(NodeError::TimedOut)),
    }
}

/// The first one gets the reply, and the others the error that is made of it.
fn is_error(result: &Result<Said, NodeError>, words: &str) -> bool {
    match result {
        Ok(said) => said.clone().vote().0.to_string().contains(words),
        Err(error) => error.to_string().contains(words),
    }
}

/// Makes the pauses as long as they get.
fn shut_for_long(server: &Server, node: &Node) {
    for _ in 0..10 {
        server.clock.advance(LONGEST_PAUSE);
        let result = vote(node);
        assert!(is_answer_of(*server.does.lock(), &result), "{result:?}");
    }
}

#[test]
fn a_connection_that_ends_where_the_server_has_said_who_it_is_shuts_no_gate() {
    let (server, node) = server(Does::ClosesAtTheCommand, TIMEOUT);
    for tries in 1..=10 {
        assert!(is_answer_of(Does::ClosesAtTheCommand, &vote(&node)));
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
            assert!(is_answer_of(does, &vote(&node)), "{does:?}");
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
        let (server, node) = server(does, TIMEOUT);
        shut_for_long(&server, &node);
        server.does(Does::Works);
        server.clock.advance(MS * 63);
        assert!(is_answer_of(does, &vote(&node)), "{does:?}");
        server.clock.advance(MS);
        assert!(vote(&node).is_ok(), "{does:?}");

        node.retire(node.generation());
        server.does(does);
        let before = server.connections();
        for _ in 0..3 {
            assert!(is_answer_of(does, &vote(&node)), "{does:?}");
            server.clock.advance(FIRST_PAUSE);
        }
        assert_eq!(server.connections(), before + 3, "{does:?}");
    }
}

#[test]
fn while_one_thread_tries_the_others_get_the_last_answer() {
    let (server, node) = server(Does::RejectsTheLogin, TIMEOUT);
    assert!(vote(&node).is_err());
    server.clock.advance(LONGEST_PAUSE);
    server.does(Does::Works);
    *server.meanwhile.lock() = Some(Arc::downgrade(&node));
    assert!(vote(&node).is_ok());
    assert_eq!(server.connections(), 2);
    let answer = server.answer.lock().take().unwrap();
    let is_told = is_answer_of(Does::RejectsTheLogin, &answer);
    assert!(is_told, "{answer:?}");
}

#[test]
fn a_request_that_insists_reaches_a_node_that_is_back_within_half_of_its_time() {
    for does in REFUSALS {
        for (timeout, longest) in [(TIMEOUT, LONGEST_PAUSE), (10 * MS, 5 * MS)] {
            for verb in [Verb::Drop, Verb::Keep, Verb::Show] {
                let (server, node) = server(does, timeout);
                shut_for_long(&server, &node);
                server.does(Does::Works);
                let before = server.clock.elapsed();
                let result = ask(&node, verb);
                assert!(is_answer_of(Does::Works, &result), "{does:?}: {result:?}");
                assert_eq!(server.clock.elapsed(), before + longest, "{does:?}");
            }
        }
        // Of a node that is not back it is told after a few tries at most.
        for (timeout, most) in [(10 * MS, 1), (50 * MS, 1), (TIMEOUT, 4)] {
            let (server, node) = server(does, timeout);
            shut_for_long(&server, &node);
            let before = (server.connections(), server.clock.elapsed());
            let result = ask(&node, Verb::Drop);
            assert!(is_answer_of(does, &result), "{does:?}: {result:?}");
            let tries = server.connections() - before.0;
            assert!((1..=most).contains(&tries), "{does:?} {timeout:?}: {tries}");
            assert!(server.clock.elapsed() <= before.1 + timeout);
        }
    }
}

#[test]
fn those_that_insist_at_the_same_time_have_one_try_in_common() {
    let at = |ms: u64| Timestamp::from_nanos(ms * 1_000_000);
    let shut = Shut {
        failure: NodeError::TimedOut,
        pause: LONGEST_PAUSE,
        next: at(2000),
        failed: 4,
    };
    let manner = Manner::Insists {
        own_try: Some(at(500)),
        deadline: at(1000),
    };
    let (came, later) = (4, 5);
    for (begun, now, step) in [
        (came, 0, Step::Wait(at(500))),
        (came, 500, Step::Try),
        // Another has begun a try meanwhile.
        (later, 500, Step::Wait(at(750))),
        (later, 750, Step::Try),
    ] {
        assert_eq!(
            shut.step(manner, came, begun, at(now)),
            step,
            "{begun} {now}"
        );
    }
    let answered = Shut { failed: 5, ..shut };
    assert_eq!(answered.step(manner, came, later, at(500)), Step::Fail);
}

#[test]
fn who_waits_for_a_release_never_tries_and_a_question_about_health_always_does() {
    let (server, node) = server(Does::Closes, TIMEOUT);
    shut_for_long(&server, &node);
    server.clock.advance(LONGEST_PAUSE);
    let before = server.connections();
    assert!(is_answer_of(Does::Closes, &listen(&node)));
    assert_eq!(server.connections(), before);
    server.does(Does::RejectsTheLogin);
    for tries in 1..=3 {
        let result = ask(&node, Verb::Ask(Question::Time));
        assert!(is_answer_of(Does::RejectsTheLogin, &result), "{result:?}");
        assert_eq!(server.connections(), before + tries);
    }
}

#[test]
fn a_try_without_an_answer_in_time_opens_the_gate() {
    for does in REFUSALS {
        let (server, node) = server(does, TIMEOUT);
        shut_for_long(&server, &node);
        server.clock.advance(LONGEST_PAUSE);
        server.does(Does::Hangs);
        // Nobody is told what was so before.
        for _ in 0..3 {
            let result = vote(&node);
            assert!(is_answer_of(Does::Hangs, &result), "{does:?}: {result:?}");
        }
    }
}

#[test]
fn one_who_was_turned_away_neither_opens_the_breaker_nor_discards_connections() {
    for does in REFUSALS {
        let (server, node) = server(Does::Works, TIMEOUT);
        assert!(vote(&node).is_ok());
        // The open connection is in use, and no other can be made.
        let taken = node.pool.get().unwrap();
        server.does(does);
        for _ in 0..2 {
            assert!(is_answer_of(does, &vote(&node)), "{does:?}");
        }
        node.answered();
        let generation = node.generation();
        assert!(is_answer_of(does, &vote(&node)), "{does:?}");
        assert_eq!(server.connections(), 3, "{does:?}");
        assert!(node.is_closed(), "{does:?}");
        assert_eq!(node.generation(), generation, "{does:?}");
        drop(taken);
    }
}
