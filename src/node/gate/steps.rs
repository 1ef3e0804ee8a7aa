//! The steps of a thread at a gate that is shut, and what shuts it.

use std::io;
use std::sync::Arc;

use super::*;
use crate::wire::transport::unconnected;

const MS: Duration = Duration::from_millis(1);

#[test]
fn a_failure_of_this_process_shuts_no_gate() {
    let of_this_process = [
        unconnected(io::ErrorKind::AddrNotAvailable.into()),
        NodeError::NoCredentials {
            source: Arc::new(io::Error::other("the vault is sealed")),
        },
        NodeError::PoolExhausted,
        NodeError::TimedOut,
        NodeError::protocol("an integer"),
    ];
    assert!(!of_this_process.iter().any(is_refusal));
}

/// A gate that has been shut, with so many tries begun, the last of which has failed or is under way.
fn shut(begun: u64, failed: u64, under_way: Option<u64>) -> State {
    let shut = Some(Shut {
        failure: NodeError::InCluster,
        pause: LONGEST_PAUSE,
        next: at(100),
        under_way,
        failed,
    });
    State { shut, begun }
}

fn at(ms: u32) -> Timestamp {
    Timestamp::from_nanos(0).saturating_add(MS.saturating_mul(ms))
}

#[test]
fn those_that_insist_at_the_same_time_have_one_try_in_common() {
    let insists = |has_tried| Manner::Insists {
        since: at(0),
        deadline: at(52),
        has_tried,
    };
    let (first, again) = (insists(false), insists(true));
    let none = shut(7, 7, None);
    for (state, manner, now, expected) in [
        // It waits for its half, and tries.
        (&none, first, 0, Step::Wait(at(26))),
        (&none, first, 26, Step::Try),
        // It has tried, and no pause ends in its time.
        (&none, again, 0, Step::Fail),
        // Another one has begun a try since: it waits for the end of that, and is told. It tries if the end does not come.
        (&shut(8, 7, Some(8)), first, 0, Step::Wait(at(39))),
        (&shut(8, 7, Some(8)), first, 26, Step::Wait(at(39))),
        (&shut(8, 7, Some(8)), first, 39, Step::Try),
        (&shut(8, 7, Some(8)), again, 51, Step::Wait(at(52))),
        (&shut(8, 7, Some(8)), again, 52, Step::Fail),
        (&shut(8, 8, None), first, 0, Step::Fail),
        // A try from before it came tells it nothing.
        (&shut(7, 6, Some(7)), first, 0, Step::Wait(at(26))),
        (&shut(7, 6, Some(7)), first, 26, Step::Try),
        (&shut(7, 6, Some(7)), again, 0, Step::Wait(at(52))),
        // The pause is over.
        (&none, again, 100, Step::Try),
    ] {
        let step = state.step(manner, 7, at(now));
        assert_eq!(step, expected, "{state:?} {manner:?} {now}");
    }
}

#[test]
fn a_failure_from_before_the_gate_was_shut_makes_no_pause_longer() {
    let (gate, error) = (Gate::default(), NodeError::InCluster);
    gate.shut(None, &error, at(0));
    let first = gate.state.lock().begin();
    gate.shut(first, &error, at(0));
    for _ in 0..64 {
        gate.shut(None, &error, at(3));
    }
    let state = gate.state.lock();
    assert_eq!(state.step(Manner::Asks, 0, at(3)), Step::Fail);
    assert_eq!(state.step(Manner::Asks, 0, at(4)), Step::Try);
}
