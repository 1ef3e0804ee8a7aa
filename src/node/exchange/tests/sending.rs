//! An exchange whose connection takes nothing in, and the times of its requests.

use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

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

/// Checks an exchange of these requests with an open connection, whose slot came so long after the round began. Returns what the
/// answers say that they have left behind.
fn traces(
    server: &Slow,
    verbs: Vec<Verb>,
    waited: Duration,
    check: impl FnOnce(&mut Exchange<'_>),
) -> Vec<Trace> {
    let clock = FakeClock::new();
    let node = doubles::node(server.clone(), &clock, |_| ());
    let began = node.now();
    clock.advance(waited);
    with_exchange(&node, verbs, began, |exchange| {
        exchange.set_slot(None, node.now());
        let transport = Box::new(server.clone());
        let connection = OpenConnection::new(transport, 0, Timestamp::from_nanos(0));
        exchange.connection = Some(Box::new(connection));
        check(exchange);
        let answers = exchange
            .requests
            .iter()
            .filter_map(|one| one.answer.as_ref());
        answers.map(|answer| answer.trace).collect()
    })
}

fn fail(exchange: &mut Exchange<'_>) {
    exchange.send();
    assert_eq!(exchange.state, State::Ended);
    assert!(exchange.requests.iter().all(|one| {
        let result = one.answer.as_ref().map(|answer| &answer.result);
        matches!(result, Some(Err(NodeError::TimedOut)))
    }));
}

#[test]
fn a_write_that_takes_too_long_is_not_repeated_on_another_connection() {
    let server = Slow::default();
    let left = traces(&server, vec![Verb::Keep], Duration::ZERO, fail);
    assert_eq!(left, [Trace::None]);
    assert_eq!(server.0.load(Ordering::SeqCst), 0);
}

#[test]
fn of_several_requests_in_a_write_that_was_cut_each_may_have_arrived() {
    let verbs = vec![Verb::Keep, Verb::Drop];
    let left = traces(&Slow::default(), verbs, Duration::ZERO, fail);
    assert_eq!(left, [Trace::Possible; 2]);
}

#[test]
fn a_time_out_is_excused_if_more_than_a_quarter_of_the_time_went_by_before_there_was_a_slot() {
    let quarter = SECOND / 4;
    let more = quarter + Duration::from_nanos(1);
    for (waited, expected) in [(Duration::ZERO, false), (quarter, false), (more, true)] {
        traces(&Slow::default(), vec![Verb::Probe], waited, |exchange| {
            let request = exchange.request(0).unwrap();
            assert_eq!(exchange.excuses_time_out(request), expected, "{waited:?}");
        });
    }
}

#[test]
fn no_step_of_a_request_that_can_be_given_up_takes_as_long_as_it_may_wait() {
    let flag = Arc::new(AtomicBool::new(false));
    let patience = SECOND * 60;
    for (given_up, expected) in [(None, patience), (Some(flag), SECOND + POLL_INTERVAL)] {
        let listen = Verb::Listen {
            bell: "bell".into(),
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
    for (verbs, expected) in [
        (vec![Verb::Probe], SECOND),
        (vec![Verb::Probe, Verb::Keep], SECOND + half),
        (vec![Verb::Keep, Verb::Probe], SECOND + half),
    ] {
        traces(&Slow::default(), verbs, half, |exchange| {
            let deadline = exchange.last_deadline();
            assert_eq!(deadline.saturating_since(exchange.began), expected);
        });
    }
}

/// Begins an exchange of these requests while the only slot is in use.
fn without_slot(verbs: Vec<Verb>, then: impl FnOnce(&mut Exchange<'_>, PooledConnection<Slots>)) {
    let node = doubles::node(Slow::default(), &FakeClock::new(), |setup| {
        setup.timeout = Duration::from_millis(10);
    });
    let taken = node.pool.try_get().unwrap();
    with_exchange(&node, verbs, node.now(), |exchange| {
        assert_eq!(exchange.state, State::NoSlot);
        then(exchange, taken);
    });
}

#[test]
fn a_slot_that_comes_free_is_taken() {
    without_slot(vec![Verb::Probe], |exchange, taken| {
        exchange.try_slot();
        assert_eq!(exchange.state, State::NoSlot);
        drop(taken);
        exchange.try_slot();
        assert_eq!(exchange.state, State::Idle);
    });
}

#[test]
fn without_a_slot_in_time_those_that_insist_get_one_beside_the_pool_and_the_others_are_answered() {
    without_slot(vec![Verb::Probe, Verb::Keep], |exchange, _taken| {
        exchange.wait_for_slot();
        assert_eq!(exchange.state, State::Idle);
        let [first, second] = &exchange.requests[..] else {
            panic!("two requests");
        };
        let result = first.answer.as_ref().map(|answer| &answer.result);
        assert!(matches!(result, Some(Err(NodeError::PoolExhausted))));
        assert!(second.answer.is_none());
    });
    without_slot(vec![Verb::Probe, Verb::Probe], |exchange, _taken| {
        exchange.wait_for_slot();
        assert_eq!(exchange.state, State::Ended);
    });
}
