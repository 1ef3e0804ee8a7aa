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
use crate::sync::{Condvar, Mutex};
use crate::wire::transport::NO_REPLY;

/// The pause after the second failure in succession. The first one may be that of one connection alone, and has none.
const FIRST_PAUSE: Duration = Duration::from_millis(4);

/// The longest pause, which makes 16 tries a second. A password that was put right works after this time at the latest.
const LONGEST_PAUSE: Duration = Duration::from_millis(64);

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
    /// The last try that has failed.
    failed: u64,
}

/// What a thread does at a gate that is shut. The later one is more insistent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Manner {
    /// It tries if the pause is over. Else it takes the answer of the last try.
    Asks,
    /// It waits for the answer of a try that begins after it came.
    Insists,
}

/// A thread at the gate.
#[derive(Clone, Copy)]
struct Visit {
    manner: Manner,
    /// How many tries had begun when it came.
    came: u64,
    /// When it tries if it insists, whatever the pause; later if another try is under way; never if it has tried before.
    own_try: Option<Timestamp>,
    deadline: Timestamp,
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

/// What a thread does next at a gate that is shut.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Try,
    Wait(Timestamp),
    Fail,
}

impl Gate {
    /// Lets the thread make a connection; or returns how the last try failed.
    pub(super) fn enter(
        &self,
        manner: Manner,
        own_try: Option<Timestamp>,
        deadline: Timestamp,
        clock: &Clock,
    ) -> Result<Passage, NodeError> {
        let visit = Visit {
            manner,
            came: self.state.lock().begun,
            own_try,
            deadline,
        };
        loop {
            // Not under the mutex: in a simulation, another client may go on here.
            let now = clock.now();
            let mut state = self.state.lock();
            let begun = state.begun;
            let Some(shut) = &mut state.shut else {
                return Ok(Passage::New(None));
            };
            match shut.step(visit, begun, now) {
                Step::Try => {
                    shut.next = now.saturating_add(LONGEST_PAUSE);
                    state.begun = begun.saturating_add(1);
                    return Ok(Passage::New(Some(state.begun)));
                }
                Step::Wait(until) if !clock.has_ended() => {
                    clock.wait(&self.ended, &mut state, until);
                }
                Step::Wait(_) | Step::Fail => return Err(shut.failure.clone()),
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
        let (pause, failed) = match (&state.shut, number) {
            (None, _) => (Duration::ZERO, 0),
            // It is older than the failure that is known.
            (Some(_), None) => return,
            (Some(shut), Some(number)) if number <= shut.failed => return,
            (Some(shut), Some(number)) => (
                shut.pause
                    .saturating_mul(2)
                    .clamp(FIRST_PAUSE, LONGEST_PAUSE),
                shut.failed.max(number),
            ),
        };
        state.shut = Some(Shut {
            failure: failure.clone(),
            pause,
            next: now.saturating_add(pause),
            failed,
        });
        drop(state);
        self.ended.notify_all();
    }
}

impl Shut {
    /// What a thread does now that so many tries have begun.
    fn step(&self, visit: Visit, begun: u64, now: Timestamp) -> Step {
        let insists = visit.manner == Manner::Insists;
        let mut next = self.next;
        if let Some(mut own_try) = visit.own_try.filter(|_| insists) {
            if begun > visit.came {
                // The answer of a try that is under way may come soon.
                let rest = visit.deadline.saturating_since(own_try).checked_div(2);
                own_try = own_try.saturating_add(rest.unwrap_or_default());
            }
            next = next.min(own_try);
        }
        let is_answered = self.failed > visit.came;
        match visit.manner {
            _ if is_answered => Step::Fail,
            _ if next <= now => Step::Try,
            Manner::Insists if next <= visit.deadline => Step::Wait(next),
            Manner::Asks | Manner::Insists => Step::Fail,
        }
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
