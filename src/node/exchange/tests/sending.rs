//! An exchange whose connection takes nothing in, and the times of its requests.

use std::sync::atomic::{AtomicU32, Ordering};

use r2d2::PooledConnection;

use super::*;
use crate::node::request::Trace;
use crate::node::slot::{Slot, Slots};

/// A server that takes in nothing in time, and how often it was connected to.
#[derive(Clone, Default)]
struct Slow(Arc<AtomicU32>);

impl Double for Slow {
    fn connected(&self) -> Result<Self, NodeError> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(self.clone())
    }

    fn take_in(&mut self, _: &[u8]) -> Result<(), NodeError> {
        Err(NodeError::TimedOut)
    }

    fn reply(&mut self, _: Timestamp) -> Result<Reply, NodeError> {
        Err(NodeError::TimedOut)
    }
}

/// Checks an exchange of these requests, which began at that time. Returns what the answers say that they have left behind.
fn check_exchange(
    node: &Node,
    kinds: Vec<Kind<'_>>,
    began: Timestamp,
    check: impl FnOnce(&mut Exchange<'_>),
) -> Vec<Trace> {
    let (packed, caller) = (probe(), Caller::here());
    let request = |kind| Request::new(&packed, kind, Verb::Other);
    let requests: Vec<Request<'_>> = kinds.into_iter().map(request).collect();
    let asked = |request| Asked {
        request,
        since: began,
        caller: &caller,
    };
    let all: Vec<Asked<'_>> = requests.iter().map(asked).collect();
    let mut answers: Vec<Option<Answer>> = all.iter().map(|_| None).collect();
    let pacer = Pacer::new(None, &node.clock, began);
    check(&mut Exchange::begin(node, &all, &mut answers, &pacer));
    let answers = answers.into_iter().flatten();
    answers.map(|answer| answer.trace).collect()
}

/// The same with an open connection, whose slot came so long after the round began.
fn traces(
    server: &Slow,
    kinds: Vec<Kind<'_>>,
    waited: Duration,
    check: impl FnOnce(&mut Exchange<'_>),
) -> Vec<Trace> {
    let clock = FakeClock::new();
    let node = doubles::node(server.clone(), &clock, |_| ());
    let began = node.now();
    clock.advance(waited);
    check_exchange(&node, kinds, began, |exchange| {
        let mut slot = Slot::default();
        slot.open(Box::new(server.clone()), 0, Timestamp::from_nanos(0));
        exchange.set_slot(SlotInUse::Extra(slot), node.now());
        check(exchange);
    })
}

fn fail(exchange: &mut Exchange<'_>) {
    exchange.send();
    assert_eq!(exchange.state, State::Ended);
    assert!(exchange.answers.iter().all(|answer| {
        let result = answer.as_ref().map(|answer| &answer.result);
        matches!(result, Some(Err(NodeError::TimedOut)))
    }));
}

#[test]
fn a_write_that_takes_too_long_is_not_repeated_on_another_connection() {
    let server = Slow::default();
    let left = traces(&server, vec![Kind::Extend], Duration::ZERO, fail);
    assert_eq!(left, [Trace::None]);
    assert_eq!(server.0.load(Ordering::SeqCst), 0);
}

#[test]
fn of_several_requests_in_a_write_that_was_cut_each_may_have_arrived() {
    let kinds = vec![Kind::Extend, Kind::Release];
    let left = traces(&Slow::default(), kinds, Duration::ZERO, fail);
    assert_eq!(left, [Trace::Possible; 2]);
}

#[test]
fn a_time_out_is_excused_if_more_than_a_quarter_of_the_time_went_by_before_there_was_a_slot() {
    let quarter = SECOND / 4;
    let more = quarter + Duration::from_nanos(1);
    for (waited, expected) in [(Duration::ZERO, false), (quarter, false), (more, true)] {
        traces(&Slow::default(), vec![Kind::Brief], waited, |exchange| {
            let request = exchange.all[0].request;
            assert_eq!(exchange.excuses_time_out(request), expected, "{waited:?}");
        });
    }
}

#[test]
fn no_step_of_a_request_that_can_be_given_up_takes_as_long_as_it_may_wait() {
    let flag = AtomicBool::new(false);
    let patience = SECOND * 60;
    for (given_up, expected) in [(None, patience), (Some(&flag), SECOND + POLL_INTERVAL)] {
        let listen = Kind::Listen {
            bell: "bell",
            until: Timestamp::from_nanos(0),
            patience,
            given_up,
        };
        traces(&Slow::default(), vec![listen], Duration::ZERO, |exchange| {
            exchange.deadline = exchange.last_deadline();
            let now = exchange.node.now();
            let deadline = exchange.step_deadline();
            assert_eq!(deadline.saturating_since(now), expected);
        });
    }
}

#[test]
fn requests_that_go_together_have_the_time_of_the_most_patient_one() {
    // The wait for a slot is a part of the time of the first.
    let half = SECOND / 2;
    for (kinds, expected) in [
        (vec![Kind::Brief], SECOND),
        (vec![Kind::Brief, Kind::Extend], SECOND + half),
        (vec![Kind::Extend, Kind::Brief], SECOND + half),
    ] {
        traces(&Slow::default(), kinds, half, |exchange| {
            let deadline = exchange.last_deadline();
            assert_eq!(deadline.saturating_since(exchange.began), expected);
        });
    }
}

/// Begins an exchange of these requests while the only slot is in use.
fn without_slot(
    kinds: Vec<Kind<'_>>,
    then: impl FnOnce(&mut Exchange<'_>, PooledConnection<Slots>),
) {
    let node = doubles::node(Slow::default(), &FakeClock::new(), |setup| {
        setup.timeout = Duration::from_millis(10);
    });
    let taken = node.pool.try_get().unwrap();
    check_exchange(&node, kinds, node.now(), |exchange| {
        assert_eq!(exchange.state, State::NoSlot);
        then(exchange, taken);
    });
}

#[test]
fn a_slot_that_comes_free_is_taken() {
    without_slot(vec![Kind::Brief], |exchange, taken| {
        exchange.try_slot();
        assert_eq!(exchange.state, State::NoSlot);
        drop(taken);
        exchange.try_slot();
        assert_eq!(exchange.state, State::Idle);
    });
}

#[test]
fn without_a_slot_in_time_those_that_insist_get_one_beside_the_pool_and_the_others_are_answered() {
    without_slot(vec![Kind::Brief, Kind::Extend], |exchange, _taken| {
        exchange.wait_for_slot();
        assert_eq!(exchange.state, State::Idle);
        let [Some(answer), None] = exchange.answers else {
            panic!("one is to be sent");
        };
        assert!(matches!(answer.result, Err(NodeError::PoolExhausted)));
    });
    without_slot(vec![Kind::Brief, Kind::Brief], |exchange, _taken| {
        exchange.wait_for_slot();
        assert_eq!(exchange.state, State::Ended);
    });
}
