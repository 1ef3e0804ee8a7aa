//! Requests that were sent to a server that does as a list says.

use std::array;
use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;

use super::super::command::probe;
use super::super::doubles::{self, Double, SECOND};
use super::super::request::Verb;
use super::super::round::exchange;
use super::*;
use crate::clock::FakeClock;
use crate::error::Vote;
use crate::spans::Caller;
use crate::sync::AtomicBool;
use crate::wire::resp::{Reply, ServerError};
use crate::wire::transport::closed;

mod sending;

enum Event {
    /// No reply comes in time.
    Late,
    Reply(Reply),
    Closes,
    Panics,
}

use Event::{Closes, Late, Panics};

/// Of a key that another holder has for so many milliseconds.
fn number(number: i64) -> Event {
    Event::Reply(Reply::Array(vec![Reply::Int(number)]))
}

fn number_of(result: Result<Said, NodeError>) -> u128 {
    let (vote, _) = result.unwrap().vote();
    let Vote::Held { remaining, .. } = vote else {
        panic!("{vote}");
    };
    remaining.unwrap().as_millis()
}

fn error(text: &str) -> Event {
    Event::Reply(Reply::Error(ServerError::new(text)))
}

/// What happens next, on whichever connection, but for the introductions; and what has happened.
#[derive(Clone, Default)]
struct Server {
    events: Arc<Mutex<VecDeque<Event>>>,
    sent: Arc<Mutex<Vec<Vec<u8>>>>,
    connections: Arc<AtomicU32>,
    received: Arc<AtomicU32>,
    is_introduced: bool,
}

impl Double for Server {
    fn connected(&self) -> Result<Self, NodeError> {
        self.connections.fetch_add(1, Ordering::SeqCst);
        Ok(self.clone())
    }

    fn take_in(&mut self, bytes: &[u8]) -> Result<(), NodeError> {
        self.sent.lock().push(bytes.to_vec());
        Ok(())
    }

    fn has_a_reply(&mut self, _: Timestamp) -> bool {
        let mut events = self.events.lock();
        let is_late = matches!(events.front(), Some(Late));
        if is_late {
            events.pop_front();
        }
        !is_late
    }

    fn reply(&mut self, _: Timestamp) -> Result<Reply, NodeError> {
        self.received.fetch_add(1, Ordering::SeqCst);
        if !self.is_introduced {
            self.is_introduced = true;
            return Ok(Reply::Nil);
        }
        let event = self.events.lock().pop_front();
        match event {
            Some(Event::Reply(reply)) => Ok(reply),
            Some(Closes) => Err(closed(io::ErrorKind::ConnectionReset)),
            Some(Panics) => panic!("as the list says"),
            Some(Late) | None => Err(NodeError::TimedOut),
        }
    }
}

fn server(events: impl IntoIterator<Item = Event>) -> (Server, Arc<Node>) {
    let server = Server::default();
    server.events.lock().extend(events);
    let node = doubles::node(server.clone(), &FakeClock::new(), |_| ());
    (server, node)
}

fn ask(node: &Node, packed: &Packed, verb: Verb) -> Result<Said, NodeError> {
    exchange(node, &Request::new(packed, verb)).result
}

/// Does something with an exchange of these requests, which began at that time.
fn with_exchange<T>(
    node: &Node,
    verbs: impl IntoIterator<Item = Verb>,
    began: Timestamp,
    then: impl FnOnce(&mut Exchange<'_>) -> T,
) -> T {
    let (packed, caller) = (probe(), Caller::here());
    let requests = verbs.into_iter().map(|verb| Request::new(&packed, verb));
    let requests: Vec<Request<'_>> = requests.collect();
    let asked = |request| Asked {
        request,
        since: began,
        caller: &caller,
    };
    let all: Vec<Asked<'_>> = requests.iter().map(asked).collect();
    let mut lane = Lane::none();
    lane.began = began;
    then(&mut Exchange::begin(node, &all, &lane))
}

/// What requests come to that go together.
fn ask_together<const N: usize>(node: &Node, verbs: [Verb; N]) -> [Answer; N] {
    with_exchange(node, verbs, node.now(), |exchange| {
        exchange.send();
        exchange.receive();
        assert_eq!(exchange.state, State::Ended);
        array::from_fn(|place| exchange.take_answer(place).unwrap())
    })
}

#[test]
fn a_reply_answers_the_oldest_request_without_one_and_last_come_those_sent_again() {
    let (_, node) = server([
        error("NOSCRIPT"),
        number(2),
        error("NOSCRIPT"),
        number(1),
        number(3),
    ]);
    let answers = ask_together(&node, [(); 3].map(|()| Verb::Drop));
    let replies = answers.map(|answer| number_of(answer.result));
    assert_eq!(replies, [1, 2, 3]);
}

#[test]
fn a_connection_whose_first_answer_is_an_error_is_not_used_again_and_an_older_one_is() {
    let events = [error("ERR no"), number(1), error("ERR no"), number(1)];
    let (server, node) = server(events);
    for connections in [1, 2, 2, 2] {
        ask(&node, &probe(), Verb::Keep).unwrap();
        assert_eq!(server.connections.load(Ordering::SeqCst), connections);
    }
}

#[test]
fn a_script_that_the_server_never_knows_is_sent_again_once() {
    let (_, node) = server([error("NOSCRIPT"), error("NOSCRIPT"), number(1)]);
    let said = ask(&node, &doubles::release_of("job"), Verb::Drop);
    let (vote, _) = said.unwrap().vote();
    assert!(
        matches!(&vote, Vote::Failed(NodeError::Refused { code, .. }) if code == "NOSCRIPT"),
        "{vote}"
    );
}

#[test]
fn requests_go_on_three_further_connections_if_they_break_and_those_with_an_answer_do_not() {
    let events = [Closes, number(7), Closes, Closes, number(1)];
    let (server, node) = server(events);
    let answers = ask_together(&node, [Verb::Keep, Verb::Keep]);
    assert_eq!(answers.map(|answer| number_of(answer.result)), [7, 1]);
    assert_eq!(server.connections.load(Ordering::SeqCst), 4);
}

#[test]
fn a_request_that_is_left_without_an_answer_by_a_panic_is_undone() {
    let (server, node) = server([Panics]);
    let undo = doubles::undo_of("job");
    let panics = AssertUnwindSafe(|| ask(&node, &probe(), doubles::acquire_of("job")));
    assert!(catch_unwind(panics).is_err());
    assert_eq!(**server.sent.lock().last().unwrap(), *undo.in_full());
}

#[test]
fn a_wait_that_is_given_up_reads_nothing_more() {
    let (server, node) = server([Late]);
    let given_up = Arc::new(AtomicBool::new(true));
    let listen = Verb::Listen {
        bell: "bell".into(),
        until: Timestamp::from_nanos(0),
        patience: SECOND * 60,
        given_up: Some(given_up),
    };
    let result = ask(&node, &probe(), listen);
    assert!(matches!(result, Err(NodeError::TimedOut)), "{result:?}");
    assert_eq!(server.received.load(Ordering::SeqCst), 0);
}

#[test]
fn at_the_deadline_of_a_batch_those_without_a_reply_fail_and_each_is_undone_behind_the_others() {
    let (server, node) = server([number(1), Late]);
    let [first, last] = ["first", "last"].map(doubles::acquire_of);
    let [first, extension, last] = ask_together(&node, [first, Verb::Keep, last]);
    assert_eq!(number_of(first.result), 1);
    for (answer, trace) in [(extension, Trace::Possible), (last, Trace::Undone)] {
        assert!(matches!(answer.result, Err(NodeError::TimedOut)));
        assert_eq!(answer.trace, trace);
    }
    let undo = doubles::undo_of("last");
    assert_eq!(**server.sent.lock().last().unwrap(), *undo.in_full());
    // The next request finds no connection in the slot.
    server.events.lock().extend([number(1), number(1)]);
    ask(&node, &probe(), Verb::Keep).unwrap();
    assert_eq!(server.connections.load(Ordering::SeqCst), 2);
}

#[test]
fn where_a_new_connection_breaks_those_with_repetitions_go_again_and_the_others_are_answered() {
    let (server, node) = server([Closes, number(1)]);
    let verbs = [doubles::acquire_of("job"), Verb::Keep];
    let [acquire, extension] = ask_together(&node, verbs);
    assert!(matches!(acquire.result, Err(NodeError::Closed { .. })));
    assert_eq!(acquire.trace, Trace::Possible);
    assert_eq!(number_of(extension.result), 1);
    assert_eq!(server.connections.load(Ordering::SeqCst), 2);
}
