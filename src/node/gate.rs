//! Lets one thread at a time try a node that refuses connections, closes them or rejects the login. The others get its answer.
//!
//! A connection that can't be made, or that ends before the server has said who it is, shuts the gate. While the gate is shut,
//! one thread may try at a time: at once after the first failure, and after a pause that grows with each further one. A reply
//! on a new connection opens the gate. Requests on open connections don't come here.
//!
//! What a thread does at a gate that is shut depends on its request:
//!
//! - A vote, a look or a probe fails at once, with the answer of the last try. Its caller asks again later.
//! - A release, an undo, an extension or a status must not be told what was so before it came: the node may be back, and may
//!   have the key. So it waits for the answer of a try that begins after it came, its own or that of another thread. If nobody
//!   has begun one by half of its time, or if no answer has come by three quarters of it, it tries itself, whatever the pause. So
//!   it reaches a node that is back, or that stands still, as it would without the gate, and no key stays. Those that wait at the
//!   same time have one try in common, so they make no storm.
//! - A wait for a release of another client never tries, because its reply may take long.
//! - A question about the health of a server always tries, because it has to find out what is so now.
//!
//! A node that does not answer in time shuts no gate: its time-outs are the pauses.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::clock::{Clock, Timestamp};
use crate::error::NodeError;
use crate::sync::{AtomicBool, Condvar, Mutex, MutexGuard};
use crate::wire::transport::NO_REPLY;

/// The pause after the second failure in succession. The first one may be that of one connection alone, and has none.
const FIRST_PAUSE: Duration = Duration::from_millis(4);

/// The longest pause, which makes 16 tries a second. A password that was put right works after this time at the latest.
const LONGEST_PAUSE: Duration = Duration::from_millis(64);

#[derive(Debug, Default)]
pub(super) struct Gate {
    /// A copy of `state.shut.is_some()`, so that callers take no lock while the gate is open.
    is_shut: AtomicBool,
    state: Mutex<State>,
    /// A try has ended.
    ended: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// None while the gate is open.
    shut: Option<Shut>,
    /// How many tries have begun. Each has its number.
    begun: u64,
}

#[derive(Debug)]
struct Shut {
    /// How the last try failed.
    failure: NodeError,
    pause: Duration,
    /// When the next try may begin.
    next: Timestamp,
    /// The try that is under way.
    under_way: Option<u64>,
    /// The last try that has failed.
    failed: u64,
}

/// What a thread does at a gate that is shut.
#[derive(Debug, Clone, Copy)]
pub(super) enum Manner {
    /// It tries if the pause is over. Else it takes the answer of the last try.
    Asks,
    /// It waits for the answer of a try that begins after it came.
    Insists {
        since: Timestamp,
        deadline: Timestamp,
        /// Whether it has tried before. Then it does not try before the pause is over.
        has_tried: bool,
    },
    /// It takes the answer of the last try.
    Listens,
    /// It tries.
    Examines,
}

/// What a thread does next at a gate that is shut.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Try,
    Wait(Timestamp),
    Fail,
}

/// The right to make a connection. The thread says what has become of it.
pub(super) struct Visit<'n> {
    gate: &'n Gate,
    /// The number of the try, if the gate was shut.
    number: Option<u64>,
}

/// What the connection of an exchange has to do with the gate.
#[derive(Default)]
pub(super) enum Passage<'n> {
    /// It is of an earlier exchange.
    #[default]
    None,
    /// It is new, and nothing is known of it.
    New(Visit<'n>),
    /// The gate knows what has become of it.
    Known,
    /// The gate was shut, so there is no connection.
    Shut,
}

impl Gate {
    /// Lets the thread make a connection; or returns how the last try failed.
    pub(super) fn enter(&self, manner: Manner, clock: &Clock) -> Result<Visit<'_>, NodeError> {
        let visit = |number| Visit { gate: self, number };
        if !self.is_shut.load(Ordering::Relaxed) {
            return Ok(visit(None));
        }
        let came = self.state.lock().begun;
        loop {
            // Not under the mutex: in a simulation, another client may go on here.
            let now = clock.now();
            let mut state = self.state.lock();
            match state.step(manner, came, now) {
                Step::Try => return Ok(visit(state.begin())),
                Step::Wait(until) if !clock.has_ended() => {
                    clock.wait(&self.ended, &mut state, until);
                }
                Step::Wait(_) | Step::Fail => {
                    let failure = state.shut.as_ref().map(|shut| shut.failure.clone());
                    return failure.map_or_else(|| Ok(visit(None)), Err);
                }
            }
        }
    }

    pub(super) fn open(&self) {
        if self.is_shut.load(Ordering::Relaxed) {
            self.set(self.state.lock(), None);
        }
    }

    /// A connection has failed, which was made in the try of this number, or when the gate was open.
    fn shut(&self, number: Option<u64>, failure: &NodeError, now: Timestamp) {
        let state = self.state.lock();
        let (pause, failed, under_way) = match (&state.shut, number) {
            (None, _) => (Duration::ZERO, 0, None),
            // It is older than the failure that is known.
            (Some(_), None) => return,
            (Some(shut), Some(number)) => (
                shut.pause
                    .saturating_mul(2)
                    .clamp(FIRST_PAUSE, LONGEST_PAUSE),
                shut.failed.max(number),
                shut.under_way.filter(|other| *other != number),
            ),
        };
        let shut = Shut {
            failure: failure.clone(),
            pause,
            next: now.saturating_add(pause),
            under_way,
            failed,
        };
        self.set(state, Some(shut));
    }

    fn set(&self, mut state: MutexGuard<'_, State>, shut: Option<Shut>) {
        self.is_shut.store(shut.is_some(), Ordering::Relaxed);
        state.shut = shut;
        self.ended.notify_all();
    }

    /// Whether a try is under way, or the copy is not what it is a copy of.
    #[cfg(test)]
    pub(super) fn is_torn(&self) -> bool {
        let state = self.state.lock();
        let is_shut = self.is_shut.load(Ordering::Relaxed);
        let shut = state.shut.as_ref();
        is_shut != shut.is_some() || shut.is_some_and(|shut| shut.under_way.is_some())
    }
}

impl State {
    /// Begins a try, and returns its number; none if the gate is open.
    fn begin(&mut self) -> Option<u64> {
        let shut = self.shut.as_mut()?;
        self.begun = self.begun.saturating_add(1);
        shut.under_way = Some(self.begun);
        shut.under_way
    }

    /// What a thread does next that came when so many tries had begun.
    fn step(&self, manner: Manner, came: u64, now: Timestamp) -> Step {
        let Some(shut) = &self.shut else {
            return Step::Try;
        };
        let is_due = shut.under_way.is_none() && now >= shut.next;
        let (since, deadline, has_tried) = match manner {
            Manner::Examines => return Step::Try,
            Manner::Asks if is_due => return Step::Try,
            Manner::Asks | Manner::Listens => return Step::Fail,
            Manner::Insists { .. } if shut.failed > came => return Step::Fail,
            Manner::Insists { .. } if is_due => return Step::Try,
            Manner::Insists {
                since,
                deadline,
                has_tried,
            } => (since, deadline, has_tried),
        };
        // At half of its time if nobody has begun a try since it came; later if somebody has, and there is no answer.
        let quarters = if self.begun > came { 3 } else { 2 };
        let quarter = deadline.saturating_since(since).checked_div(4);
        let own = since.saturating_add(quarter.unwrap_or_default().saturating_mul(quarters));
        let own = Some(own).filter(|_| !has_tried);
        if own.is_some_and(|own| now >= own) {
            return Step::Try;
        }
        let next = Some(shut.next).filter(|_| shut.under_way.is_none());
        let until = own.into_iter().chain(next).min();
        match until.filter(|until| *until < deadline) {
            Some(until) => Step::Wait(until),
            None if shut.under_way.is_some() && now < deadline => Step::Wait(deadline),
            None => Step::Fail,
        }
    }
}

impl Visit<'_> {
    /// There was no connection, or it ended in this way before the server said who it is.
    pub(super) fn failed(mut self, error: &NodeError, now: Timestamp) {
        if is_refusal(error) {
            self.gate.shut(self.number.take(), error, now);
        }
    }

    /// The server has answered.
    pub(super) fn answered(mut self) {
        self.number = None;
        self.gate.open();
    }
}

impl Drop for Visit<'_> {
    /// Opens the gate after a try that tells nothing, as one without an answer in time: the node refuses no longer, or the
    /// thread has panicked.
    fn drop(&mut self) {
        if self.number.is_some() {
            self.gate.open();
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
mod steps;
#[cfg(test)]
mod tests;
