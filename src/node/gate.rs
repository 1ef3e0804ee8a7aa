//! Lets one thread try a node that refuses connections, closes them or rejects the login. The others get its answer.
//!
//! A connection that can't be made, or that ends before the server has said who it is, shuts the gate. While the gate is shut,
//! a try may begin at once after the first failure, and after a pause that grows with each further one. A reply on a new
//! connection opens the gate. Requests on open connections don't come here.
//!
//! What a thread does at a gate that is shut depends on its request:
//!
//! - A vote, a look, a wait or a probe fails at once, with the answer of the last try. Its caller asks again later.
//! - A release, an undo, an extension, a status or a question about health must not be told what was so before it came: the
//!   node may be back, and may have the key. So it waits for the answer of a try that begins after it came, its own or that of another
//!   thread. At half of its time it tries itself, whatever the pause, or after three quarters if another try is under way. So it
//!   reaches a node that is back, or that stands still, as it would without the gate, and no key stays. Those that wait at the same
//!   time have one try in common, so they make no storm.
//!
//! A node that does not answer in time shuts no gate: its time-outs are the pauses.

use std::time::Duration;

use crate::clock::{Clock, Timestamp};
use crate::error::NodeError;
use crate::retry::BackOff;
use crate::sync::{Condvar, Mutex};
use crate::wire::transport::NO_REPLY;

/// The pauses from the second failure in succession on. The first failure has none, because it may be that of one connection alone.
/// The longest pause makes 16 tries a second. A password that was corrected works after this time at the latest.
const PAUSES: BackOff = BackOff {
    first: Duration::from_millis(4),
    longest: Duration::from_millis(64),
};

#[derive(Default)]
pub(super) struct Gate {
    state: Mutex<State>,
    /// A try has ended.
    ended: Condvar,
}

#[derive(Default)]
struct State {
    /// None while the gate is open.
    shut: Option<Shut>,
    /// How many tries have begun. Each has its number.
    begun: u64,
}

struct Shut {
    /// How the last try failed.
    failure: NodeError,
    pause: Duration,
    /// When the next try may begin.
    next: Timestamp,
    /// The last try that has failed. None if the gate was open then.
    failed: Option<u64>,
}

/// What a thread does at a gate that is shut. The later one is more insistent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Manner {
    /// It tries if the pause is over. Else it takes the answer of the last try.
    Asks,
    /// It waits for the answer of a try that begins after it came.
    Insists,
}

/// A request for a connection.
pub(super) struct Visit {
    pub(super) manner: Manner,
    /// Whether a try was made for this request before. Then the request makes no other one.
    pub(super) has_tried: bool,
    pub(super) since: Timestamp,
    pub(super) deadline: Timestamp,
}

/// What the connection of an exchange has to do with the gate.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Passage {
    /// It is of an earlier exchange.
    Earlier,
    /// It is new, and nothing is known of it. With the number of the try, if the gate was shut.
    New(Option<u64>),
    /// The gate knows what has become of it.
    Known,
    /// The gate was shut, so there is no connection.
    Shut,
}

impl Gate {
    /// Lets the thread make a connection, and returns the number of its try if the gate is shut; or returns how the last try failed.
    pub(super) fn enter(&self, visit: &Visit, clock: &Clock) -> Result<Option<u64>, NodeError> {
        let came = self.state.lock().begun;
        loop {
            // Not under the mutex: in a simulation, another client may go on here.
            let now = clock.now();
            let mut state = self.state.lock();
            let begun = state.begun;
            let Some(shut) = &mut state.shut else {
                return Ok(None);
            };
            match shut.next_try(visit, came, begun, now) {
                Some(next) if next <= now => {
                    shut.next = now.saturating_add(PAUSES.longest);
                    state.begun = begun.saturating_add(1);
                    return Ok(Some(state.begun));
                }
                Some(next) if !clock.has_ended() => clock.wait(&self.ended, &mut state, next),
                _ => return Err(shut.failure.clone()),
            }
        }
    }

    /// The server has answered on a connection that was made.
    pub(super) fn open(&self) {
        self.state.lock().shut = None;
        self.ended.notify_all();
    }

    /// A connection has failed before the server has said who it is. It was made in the try of this number, or when the gate was
    /// open.
    pub(super) fn failed(&self, number: Option<u64>, failure: &NodeError, now: Timestamp) {
        if !is_refusal(failure) {
            // A try without an answer in time: the node refuses no longer.
            return number.map_or((), |_| self.open());
        }
        let mut state = self.state.lock();
        let shut = state.shut.as_ref();
        if shut.is_some_and(|shut| number <= shut.failed) {
            // It is older than the failure that is known.
            return;
        }
        let pause = shut.map_or(Duration::ZERO, |shut| PAUSES.after(shut.pause));
        state.shut = Some(Shut {
            failure: failure.clone(),
            pause,
            next: now.saturating_add(pause),
            failed: number,
        });
        drop(state);
        self.ended.notify_all();
    }
}

impl Shut {
    /// When the thread may try. By now `begun` tries have begun, and `came` had when the thread came. None if the thread has to
    /// take the result of the last try.
    fn next_try(&self, visit: &Visit, came: u64, begun: u64, now: Timestamp) -> Option<Timestamp> {
        let insists = visit.manner == Manner::Insists;
        let mut next = self.next;
        if insists && !visit.has_tried {
            let mut own_try = visit.since.half_way_to(visit.deadline);
            if begun > came {
                // The answer of a try that is under way may come soon.
                own_try = own_try.half_way_to(visit.deadline);
            }
            next = next.min(own_try);
        }
        let patience = if insists { visit.deadline } else { now };
        let is_answered = self.failed > Some(came);
        (!is_answered && next <= patience.max(now)).then_some(next)
    }
}

/// Whether the node takes no connection, by what has become of one.
fn is_refusal(error: &NodeError) -> bool {
    if let NodeError::Protocol { got } = error {
        return got == NO_REPLY;
    }
    let is_known = matches!(
        error,
        NodeError::Connect { .. }
            | NodeError::Login { .. }
            | NodeError::Closed { .. }
            | NodeError::Broken { .. }
            | NodeError::Refused { .. }
            | NodeError::InCluster
    );
    is_known && error.is_of_node()
}

#[cfg(test)]
mod tests;
