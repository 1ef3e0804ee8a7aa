//! A checkout whose connection takes nothing in, and the times of its requests.

use std::sync::atomic::{AtomicU32, Ordering};

use super::super::command::probe;
use super::super::doubles::{self, Double, Nobody, SECOND};
use super::super::exchange::Asked;
use super::super::reply::Verb;
use super::super::request::Kind;
use super::super::slot::Slot;
use super::*;
use crate::clock::FakeClock;
use crate::spans::Caller;
use crate::sync::AtomicBool;
use crate::wire::resp::Reply;

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

/// Checks a checkout for these requests, with an open connection, whose slot came so long after the round began. Returns what
/// the answers say that the requests have left behind.
fn traces(
    server: &Slow,
    kinds: Vec<Kind<'_>>,
    waited: Duration,
    check: impl FnOnce(Checkout<'_>),
) -> Vec<Trace> {
    let node = doubles::node(server.clone(), &FakeClock::new(), |_| ());
    let (packed, caller, began) = (probe(), Caller::here(), node.now());
    let request = |kind| Request::new(&packed, kind, Verb::Other);
    let requests: Vec<Request<'_>> = kinds.into_iter().map(request).collect();
    let asked = |request| Asked {
        request,
        since: began,
        caller: &caller,
    };
    let all: Vec<Asked<'_>> = requests.iter().map(asked).collect();
    let mut answers: Vec<Option<Answer>> = all.iter().map(|_| None).collect();
    let call = Call {
        node: &node,
        all: &all,
        answers: &mut answers,
        began,
        pacer: &Nobody,
        news: Vec::new(),
    };
    let mut slot = Slot::default();
    slot.open(Box::new(server.clone()), 0, Timestamp::from_nanos(0));
    let since = began.saturating_add(waited);
    check(Checkout::new(call, SlotInUse::Extra(slot), since));
    let answers = answers.into_iter().flatten();
    answers.map(|answer| answer.trace).collect()
}

fn fail(mut checkout: Checkout<'_>) {
    let error = checkout.send().err().unwrap();
    assert!(matches!(error, NodeError::TimedOut), "{error}");
    checkout.fail_all(&error);
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
        traces(&Slow::default(), vec![Kind::Brief], waited, |checkout| {
            let request = checkout.call.all[0].request;
            assert_eq!(checkout.excuses_time_out(request), expected, "{waited:?}");
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
        traces(&Slow::default(), vec![listen], Duration::ZERO, |checkout| {
            let now = checkout.node().now();
            let deadline = checkout.step_deadline();
            assert_eq!(deadline.saturating_since(now), expected);
        });
    }
}
