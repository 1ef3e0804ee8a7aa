//! Requests that were sent to a server that does as a list says.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::super::command::probe;
use super::super::doubles::{
    self, Event, KEEP, Late, Panics, SECOND, Says, Server, Stuck, Tears, acquire_of, asked,
    attempt_on, closes, error, listen, number, number_of, release_of,
};
use super::super::request::Verb;
use super::super::round::lead;
use super::super::verbs::{Asked, release_all};
use super::*;
use crate::clock::{Clock, FakeClock};
use crate::error::Vote;
use crate::spans::Caller;
use crate::sync::AtomicBool;
use crate::wire::resp::Reply;

mod connecting;
mod old;

fn server(events: impl IntoIterator<Item = Event>) -> (Arc<Server>, Arc<Node>) {
    let server = Server::of_list(events);
    let node = doubles::node(&server, |_| ());
    (server, node)
}

/// Whether the undo of an attempt on this key was sent last, with the text of the script or behind one that has it.
fn has_got_undo_last(server: &Server, key: &str) -> bool {
    let (undo, sent) = (attempt_on(key).undo(), server.sent.lock());
    let (_, last) = sent.last().unwrap();
    let last = last.last().unwrap();
    *last == *undo.in_full() || *last == *undo.bytes
}

/// The reports on requests that go together.
fn ask_together<const N: usize>(node: &Arc<Node>, verbs: &[Verb; N]) -> [KeyReport; N] {
    let asked = Asked::one(node);
    let mut reports = verbs.each_ref().map(|_| asked.unasked());
    with_requests(node, verbs, |requests, lane| {
        lead(asked, requests, &mut reports, lane, &[]);
    });
    reports.map(|mut reports| reports.remove(0))
}

/// Requests that have no lane.
fn with_requests<R>(
    node: &Node,
    verbs: &[Verb],
    act: impl FnOnce(&[Request], &Lane<'_>) -> R,
) -> R {
    let since = node.now();
    let request = |verb: &Verb| Request {
        packed: probe(),
        verb: verb.clone(),
        since,
        caller: Some(Caller::here()),
    };
    let all: Vec<Request> = verbs.iter().map(request).collect();
    act(&all, &Lane::none(since))
}

pub(super) fn failure(report: &KeyReport) -> Option<&NodeError> {
    report.vote.failure().filter(|_| !report.has_replied)
}

fn is_time_out(answer: &KeyReport) -> bool {
    matches!(failure(answer), Some(NodeError::TimedOut { .. }))
}

#[test]
fn a_reply_answers_the_oldest_request_without_one_and_last_come_those_sent_again() {
    let missing = || error("NOSCRIPT");
    let (_, node) = server([missing(), number(2), missing(), number(1), number(3)]);
    let answers = ask_together(&node, &[(); 3].map(|()| Verb::Drop));
    assert_eq!(answers.map(number_of), [1, 2, 3]);
    // A script that the server never knows is sent again once.
    let (_, node) = server([missing(), missing(), number(1)]);
    let vote = asked(&node, &Verb::Drop).vote.to_string();
    assert!(vote.contains("NOSCRIPT"), "{vote}");
}

#[test]
fn a_connection_whose_first_answer_is_an_error_is_not_used_again_and_an_older_one_is() {
    let events = [error("ERR no"), number(1), error("ERR no"), number(1)];
    let (server, node) = server(events);
    for connections in [1, 2, 2, 2] {
        assert!(asked(&node, &KEEP).has_replied);
        assert_eq!(server.connections(), connections);
    }
}

#[test]
fn where_connections_break_requests_with_repetitions_go_on_three_more_and_answers_stay() {
    let events = [closes(), number(7), closes(), closes(), number(1)];
    let (server, node) = server(events);
    let answers = ask_together(&node, &[KEEP, KEEP]);
    assert_eq!(answers.map(number_of), [7, 1]);
    assert_eq!(server.connections(), 4);

    let (server, node) = self::server([closes(), number(1)]);
    let [acquire, extension] = ask_together(&node, &[acquire_of("job"), KEEP]);
    assert!(matches!(failure(&acquire), Some(NodeError::Closed { .. })));
    assert!(matches!(acquire.leftover, Leftover::Possible));
    assert_eq!(number_of(extension), 1);
    assert_eq!(server.connections(), 2);
}

#[test]
fn a_release_that_was_sent_twice_says_nothing_of_a_key_that_is_not_ours() {
    // The first one may have deleted our key, and others may have set theirs since.
    for (events, is_told) in [
        (vec![closes(), number(-2)], false),
        (vec![closes(), number(-3)], false),
        (vec![closes(), number(5)], false),
        (vec![closes(), Says(Reply::Int(1))], true),
        (vec![number(-2)], true),
    ] {
        let (_, node) = server(events);
        let released = release_all(Asked::one(&node), &release_of("job"), SECOND);
        let vote = &*released[0].vote;
        let is_lost = matches!(vote, Vote::Failed(NodeError::Closed { .. }));
        assert_eq!(is_lost, !is_told, "{vote}");
    }
}

#[test]
fn a_request_that_is_left_without_an_answer_by_a_panic_is_undone() {
    let (server, node) = server([Panics]);
    let panics = AssertUnwindSafe(|| asked(&node, &acquire_of("job")));
    assert!(catch_unwind(panics).is_err());
    assert!(has_got_undo_last(&server, "job"));
}

#[test]
fn nothing_goes_behind_a_write_that_a_panic_has_cut() {
    let (server, node) = server([number(1), Tears]);
    assert!(asked(&node, &KEEP).has_replied);
    let before = server.sent.lock().len();
    let panics = AssertUnwindSafe(|| asked(&node, &acquire_of("job")));
    assert!(catch_unwind(panics).is_err());
    assert_eq!((server.sent.lock().len(), server.open()), (before, 0));
}

#[test]
fn at_the_deadline_of_a_batch_those_without_a_reply_fail_and_each_is_undone_behind_the_others() {
    // A reply that comes later answers nothing.
    let (server, node) = server([number(1), Late, number(9)]);
    let verbs = [acquire_of("first"), KEEP, acquire_of("last")];
    let [first, extension, last] = ask_together(&node, &verbs);
    assert_eq!(number_of(first), 1);
    assert!(is_time_out(&extension) && is_time_out(&last));
    assert!(matches!(extension.leftover, Leftover::Possible));
    assert!(matches!(last.leftover, Leftover::Undone(_)));
    assert!(has_got_undo_last(&server, "last"));
    // The next request finds no connection in the slot.
    server.events.lock().extend([number(1)]);
    assert!(asked(&node, &KEEP).has_replied);
    assert_eq!(server.connections(), 2);
}

#[test]
fn those_behind_a_reply_that_is_none_are_undone_and_those_before_it_keep_their_answers() {
    let (server, node) = server([number(1), Says(Reply::Int(7)), number(3)]);
    let verbs = ["first", "second", "third"].map(acquire_of);
    let [first, others @ ..] = ask_together(&node, &verbs);
    assert_eq!(number_of(first), 1);
    for answer in &others {
        assert!(matches!(failure(answer), Some(NodeError::Protocol { .. })));
        assert!(matches!(answer.leftover, Leftover::Undone(_)));
    }
    assert!(has_got_undo_last(&server, "third"));
    // What is wrong with the node is told once.
    assert_eq!(node.stats.snapshot(Arc::clone(node.name())).opened, 1);
}

#[test]
fn a_write_that_takes_too_long_is_not_repeated_and_what_was_in_it_may_have_arrived() {
    let (server, node) = server([number(1), Stuck]);
    assert!(asked(&node, &KEEP).has_replied);
    let alone = asked(&node, &KEEP);
    assert!(is_time_out(&alone));
    assert!(matches!(alone.leftover, Leftover::Possible));
    assert_eq!(server.connections(), 1);
    for answer in ask_together(&node, &[KEEP, Verb::Drop]) {
        assert!(is_time_out(&answer));
        assert!(matches!(answer.leftover, Leftover::Possible));
    }
}

/// An exchange of these requests that has waited so long for a slot, with a node timeout of a second, when it sends.
fn sent(verbs: &[Verb], waited: Duration, check: impl FnOnce(&mut Exchange<'_>)) {
    let (_, node) = server([]);
    with_requests(&node, verbs, |requests, lane| {
        let requests: Vec<&Request> = requests.iter().collect();
        let batch = Batch::new(&requests);
        let mut exchange = Exchange::new(&node, &batch, lane);
        exchange.take_slot(lane.began);
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
            exchange.tell(0, Some(&NodeError::silence()));
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
        (vec![Verb::Probe, KEEP], SECOND, SECOND),
        (vec![KEEP, acquire_of("a")], SECOND, SECOND),
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
    let node = doubles::node(&Server::of_list([]), |setup| {
        setup.timeout = Duration::from_millis(10);
    });
    let taken = node.pool.try_get().unwrap();
    let pass = Verb::Pass(attempt_on("job"));
    let verbs = [Verb::Probe, KEEP, Verb::Drop, pass, Verb::Probe];
    let answers = ask_together(&node, &verbs);
    let is_without = |answer: &KeyReport| matches!(failure(answer), Some(NodeError::PoolExhausted));
    let without = answers.each_ref().map(is_without);
    assert_eq!(without, [true, false, false, false, true]);

    with_requests(&node, &[Verb::Probe], |requests, lane| {
        let requests: Vec<&Request> = requests.iter().collect();
        let batch = Batch::new(&requests);
        let mut exchange = Exchange::new(&node, &batch, lane);
        exchange.take_slot(lane.began);
        exchange.try_slot();
        assert_eq!(exchange.state, State::NoSlot);
        drop(taken);
        exchange.try_slot();
        assert_eq!(exchange.state, State::Idle);
    });
}
