//! Requests that were sent to a server that does as a list says.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;

use super::super::command::probe;
use super::super::doubles::{self, Double, SECOND, release_of};
use super::super::request::Verb;
use super::super::round::{ask, lead};
use super::super::verbs::release_all;
use super::*;
use crate::clock::FakeClock;
use crate::error::Vote;
use crate::spans::Caller;
use crate::sync::AtomicBool;
use crate::wire::resp::{Reply, ServerError};
use crate::wire::transport::closed;

enum Event {
    /// No reply comes in time.
    Late,
    Reply(Reply),
    Closes,
    Panics,
    /// It takes nothing in, in time.
    Stuck,
}

use Event::{Closes, Late, Panics, Stuck};

/// Of a key that another holder has for so many milliseconds.
fn number(number: i64) -> Event {
    Event::Reply(Reply::Array(vec![Reply::Int(number)]))
}

fn number_of(answer: Answer) -> u128 {
    let (vote, _) = answer.result.unwrap().vote();
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

impl Server {
    fn connections(&self) -> u32 {
        self.connections.load(Ordering::SeqCst)
    }

    /// Whether this undo was sent last, with the text of the script or behind one that has it.
    fn has_got_last(&self, undo: &Packed) -> bool {
        let sent = self.sent.lock();
        let last = &**sent.last().unwrap();
        *last == *undo.in_full() || last == &*undo.bytes
    }
}

impl Double for Server {
    fn connected(&self) -> Result<Self, NodeError> {
        self.connections.fetch_add(1, Ordering::SeqCst);
        Ok(self.clone())
    }

    fn take_in(&mut self, bytes: &[u8]) -> Result<(), NodeError> {
        if let Some(Stuck) = self.events.lock().front() {
            return Err(NodeError::TimedOut);
        }
        self.sent.lock().push(bytes.to_vec());
        Ok(())
    }

    fn has_a_reply(&mut self, _: Timestamp) -> bool {
        if !self.is_introduced {
            return true;
        }
        let mut events = self.events.lock();
        let is_late = matches!(events.front(), Some(Late) | None);
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
            Some(Late | Stuck) | None => Err(NodeError::TimedOut),
        }
    }
}

fn server(events: impl IntoIterator<Item = Event>) -> (Server, Arc<Node>) {
    let server = Server::default();
    server.events.lock().extend(events);
    let node = doubles::node(server.clone(), &FakeClock::new(), |_| ());
    (server, node)
}

/// What requests come to that go together.
fn ask_together<const N: usize>(node: &Node, verbs: &[Verb; N]) -> [Answer; N] {
    let answers = with_requests(node, verbs, |requests, lane| {
        let heard = lead(&[(node, true)], requests, lane, &[]);
        let answers = heard.into_iter().flat_map(|one| one.answers);
        answers.collect::<Vec<_>>()
    });
    answers.try_into().ok().unwrap()
}

/// Requests that have no lane.
fn with_requests<R>(
    node: &Node,
    verbs: &[Verb],
    act: impl FnOnce(&[Request<'_>], &Lane<'_>) -> R,
) -> R {
    let (packed, caller, since) = (probe(), Caller::here(), node.now());
    let request = |verb| Request {
        packed: &packed,
        verb,
        since,
        caller: &caller,
    };
    let all: Vec<Request<'_>> = verbs.iter().map(request).collect();
    act(&all, &Lane::none(since))
}

fn is_time_out(answer: &Answer) -> bool {
    matches!(answer.result, Err(NodeError::TimedOut))
}

fn listen(patience: Duration, given_up: Option<Arc<AtomicBool>>) -> Verb {
    Verb::Listen {
        bell: "bell".into(),
        until: Timestamp::from_nanos(0),
        patience,
        given_up,
    }
}

#[test]
fn a_reply_answers_the_oldest_request_without_one_and_last_come_those_sent_again() {
    let missing = || error("NOSCRIPT");
    let (_, node) = server([missing(), number(2), missing(), number(1), number(3)]);
    let answers = ask_together(&node, &[(); 3].map(|()| Verb::Drop));
    assert_eq!(answers.map(number_of), [1, 2, 3]);
}

#[test]
fn a_connection_whose_first_answer_is_an_error_is_not_used_again_and_an_older_one_is() {
    let events = [error("ERR no"), number(1), error("ERR no"), number(1)];
    let (server, node) = server(events);
    for connections in [1, 2, 2, 2] {
        ask(&node, &probe(), &Verb::Keep).result.unwrap();
        assert_eq!(server.connections(), connections);
    }
}

#[test]
fn a_script_that_the_server_never_knows_is_sent_again_once() {
    let (_, node) = server([error("NOSCRIPT"), error("NOSCRIPT"), number(1)]);
    let answer = ask(&node, &release_of("job"), &Verb::Drop);
    let (vote, _) = answer.result.unwrap().vote();
    assert!(
        matches!(&vote, Vote::Failed(NodeError::Refused { code, .. }) if code == "NOSCRIPT"),
        "{vote}"
    );
}

#[test]
fn requests_go_on_three_further_connections_if_they_break_and_those_with_an_answer_do_not() {
    let (server, node) = server([Closes, number(7), Closes, Closes, number(1)]);
    let answers = ask_together(&node, &[Verb::Keep, Verb::Keep]);
    assert_eq!(answers.map(number_of), [7, 1]);
    assert_eq!(server.connections(), 4);
}

#[test]
fn a_release_that_was_sent_twice_says_nothing_of_a_key_that_is_not_ours() {
    let release = |node: &Node| {
        let nodes = [(node, true)].into_iter();
        let mut released = release_all(nodes, &release_of("job"), SECOND);
        released.nodes.remove(0).vote
    };
    // The first one may have deleted our key, and others may have set theirs since.
    for (reply, is_ours) in [
        (number(-2), false),
        (number(-3), false),
        (number(5), false),
        (Event::Reply(Reply::Int(1)), true),
    ] {
        let (_, node) = server([Closes, reply]);
        let vote = release(&node);
        let is_told = !matches!(vote, Vote::Failed(NodeError::Closed { .. }));
        assert_eq!(is_told, is_ours, "{vote}");
    }
    // One that was sent once does.
    let (_, node) = server([number(-2)]);
    let vote = release(&node);
    assert!(matches!(vote, Vote::Missing), "{vote}");
}

#[test]
fn a_request_that_is_left_without_an_answer_by_a_panic_is_undone() {
    let (server, node) = server([Panics]);
    let panics = AssertUnwindSafe(|| ask(&node, &probe(), &doubles::acquire_of("job")));
    assert!(catch_unwind(panics).is_err());
    assert!(server.has_got_last(&doubles::undo_of("job")));
}

#[test]
fn a_wait_that_is_given_up_reads_nothing_more() {
    let (server, node) = server([Late]);
    let given_up = Arc::new(AtomicBool::new(true));
    let answer = ask(&node, &probe(), &listen(SECOND * 60, Some(given_up)));
    assert!(is_time_out(&answer));
    assert_eq!(server.received.load(Ordering::SeqCst), 0);
}

#[test]
fn at_the_deadline_of_a_batch_those_without_a_reply_fail_and_each_is_undone_behind_the_others() {
    // A reply that comes later answers nothing.
    let (server, node) = server([number(1), Late, number(9)]);
    let [first, last] = ["first", "last"].map(doubles::acquire_of);
    let [first, extension, last] = ask_together(&node, &[first, Verb::Keep, last]);
    assert_eq!(number_of(first), 1);
    assert!(is_time_out(&extension) && is_time_out(&last));
    assert_eq!(
        (extension.leftover, last.leftover),
        (Leftover::Possible, Leftover::Undone)
    );
    assert!(server.has_got_last(&doubles::undo_of("last")));
    // The next request finds no connection in the slot.
    server.events.lock().extend([number(1)]);
    ask(&node, &probe(), &Verb::Keep).result.unwrap();
    assert_eq!(server.connections(), 2);
}

#[test]
fn those_behind_a_reply_that_is_none_are_undone_and_those_before_it_keep_their_answers() {
    let (server, node) = server([number(1), Event::Reply(Reply::Int(7)), number(3)]);
    let verbs = ["first", "second", "third"].map(doubles::acquire_of);
    let [first, others @ ..] = ask_together(&node, &verbs);
    assert_eq!(number_of(first), 1);
    for answer in &others {
        assert!(matches!(answer.result, Err(NodeError::Protocol { .. })));
        assert_eq!(answer.leftover, Leftover::Undone);
    }
    assert!(server.has_got_last(&doubles::undo_of("third")));
    // What is wrong with the node is told once.
    assert_eq!(node.stats.snapshot(Arc::clone(node.name())).opened, 1);
}

#[test]
fn where_a_new_connection_breaks_those_with_repetitions_go_again_and_the_others_are_answered() {
    let (server, node) = server([Closes, number(1)]);
    let verbs = [doubles::acquire_of("job"), Verb::Keep];
    let [acquire, extension] = ask_together(&node, &verbs);
    assert!(matches!(acquire.result, Err(NodeError::Closed { .. })));
    assert_eq!(acquire.leftover, Leftover::Possible);
    assert_eq!(number_of(extension), 1);
    assert_eq!(server.connections(), 2);
}

#[test]
fn a_write_that_takes_too_long_is_not_repeated_and_a_cut_one_of_several_requests_may_have_arrived()
{
    let (server, node) = server([number(1), Stuck]);
    ask(&node, &probe(), &Verb::Keep).result.unwrap();
    let [alone] = ask_together(&node, &[Verb::Keep]);
    assert!(is_time_out(&alone));
    assert_eq!((alone.leftover, server.connections()), (Leftover::None, 1));
    for answer in ask_together(&node, &[Verb::Keep, Verb::Drop]) {
        assert!(is_time_out(&answer));
        assert_eq!(answer.leftover, Leftover::Possible);
    }
}

/// An exchange of these requests that has waited so long for a slot, with a node timeout of a second, when it sends.
fn sent(verbs: &[Verb], waited: Duration, check: impl FnOnce(&mut Exchange<'_>)) {
    let (_, node) = server([]);
    with_requests(&node, verbs, |requests, lane| {
        let mut exchange = Exchange::begin(&node, requests, lane);
        exchange.waited = waited;
        exchange.send();
        check(&mut exchange);
    });
}

#[test]
fn a_time_out_is_excused_if_more_than_a_quarter_of_the_time_went_by_before_there_was_a_slot() {
    let quarter = SECOND / 4;
    let more = quarter + Duration::from_nanos(1);
    for (waited, is_excused) in [(Duration::ZERO, false), (quarter, false), (more, true)] {
        sent(&[Verb::Probe], waited, |exchange| {
            exchange.tell(0, Some(&NodeError::TimedOut));
            assert_eq!(exchange.node.is_well(), is_excused, "{waited:?}");
        });
    }
}

#[test]
fn requests_have_the_time_of_the_most_patient_one_and_no_step_of_a_long_wait_takes_all_of_it() {
    let (half, minute, step) = (SECOND / 2, SECOND * 60, SECOND + POLL_INTERVAL);
    let flag = Arc::new(AtomicBool::new(false));
    for (verbs, time, longest_step) in [
        // The wait for a slot is a part of the time of a vote or a probe.
        (vec![Verb::Probe], half, half),
        (vec![Verb::Probe, Verb::Keep], SECOND, SECOND),
        (vec![Verb::Keep, doubles::acquire_of("a")], SECOND, SECOND),
        (vec![listen(minute, None)], minute, minute),
        (vec![listen(minute, Some(flag))], minute, step),
    ] {
        sent(&verbs, half, |exchange| {
            let now = exchange.node.now();
            assert_eq!(exchange.deadline.saturating_since(now), time);
            let step = exchange.step_deadline().saturating_since(now);
            assert_eq!(step, longest_step);
        });
    }
}

#[test]
fn a_slot_that_comes_free_is_taken_and_without_one_those_that_insist_get_a_connection_beside() {
    let node = doubles::node(Server::default(), &FakeClock::new(), |setup| {
        setup.timeout = Duration::from_millis(10);
    });
    let taken = node.pool.try_get().unwrap();
    let answers = ask_together(&node, &[Verb::Probe, Verb::Keep, Verb::Probe]);
    let is_without = |answer: &Answer| matches!(answer.result, Err(NodeError::PoolExhausted));
    let without = answers.each_ref().map(is_without);
    assert_eq!(without, [true, false, true]);

    with_requests(&node, &[Verb::Probe], |requests, lane| {
        let mut exchange = Exchange::begin(&node, requests, lane);
        exchange.try_slot();
        assert_eq!(exchange.state, State::NoSlot);
        drop(taken);
        exchange.try_slot();
        assert_eq!(exchange.state, State::Idle);
    });
}
