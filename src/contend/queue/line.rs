//! The line of one resource: whose turn it is, and who waits.

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::sync::Arc;

use super::super::sync::{Condvar, Mutex};
use crate::clock::Timestamp;

/// The types that a queue is used with.
pub(crate) trait Tenant: Sized {
    /// A lock that is held.
    type Lock: Clone;
    /// What a thread leaves to the next one, beside the turn.
    type Guard;
    /// The error of an attempt.
    type Error: Clone;
    /// What a waiting thread asks for.
    type Demand;

    /// When the validity of a lock ends.
    fn end(lock: &Self::Lock) -> Timestamp;
}

/// A number that no other turn of a queue has.
pub(super) type TurnNumber = NonZeroU64;

/// The line of a resource. There is one for each lock that is held, so it is small.
pub(super) struct Line<T: Tenant> {
    /// The number of the present turn.
    pub(super) turn: TurnNumber,
    /// The lock of the thread whose turn it is, once it has one.
    pub(super) lock: Option<T::Lock>,
    /// What most lines never have.
    crowd: Option<Box<Crowd<T>>>,
}

/// The threads that wait in a line, and what is for them.
pub(super) struct Crowd<T: Tenant> {
    /// The error of the last attempt of the thread whose turn it is.
    pub(super) met: Option<T::Error>,
    pub(super) waiting: VecDeque<Arc<Waiter<T>>>,
}

pub(super) struct Waiter<T: Tenant> {
    pub(super) demand: T::Demand,
    pub(super) admitted: Condvar,
    pub(super) admission: Mutex<Option<Admission<T>>>,
}

/// Tells a waiting thread that it has the turn.
pub(super) struct Admission<T: Tenant> {
    pub(super) turn: TurnNumber,
    pub(super) guard: Option<T::Guard>,
}

/// Why a thread did not get the turn in time.
pub(crate) struct Refusal<T: Tenant> {
    /// The lock that a thread of this manager has.
    pub(crate) lock: Option<T::Lock>,
    /// The last error of the thread whose turn it is, if it has no lock.
    pub(crate) met: Option<T::Error>,
}

impl<T: Tenant> Line<T> {
    pub(super) fn new(turn: TurnNumber) -> Self {
        Self {
            turn,
            lock: None,
            crowd: None,
        }
    }

    pub(super) fn begin(&mut self, turn: TurnNumber) {
        self.turn = turn;
        self.got(None);
    }

    /// The thread whose turn it is has a lock, or has not asked for one yet. Earlier errors no longer matter.
    pub(super) fn got(&mut self, lock: Option<T::Lock>) {
        self.lock = lock;
        if let Some(crowd) = &mut self.crowd {
            crowd.met = None;
        }
    }

    pub(super) fn crowd(&mut self) -> &mut Crowd<T> {
        self.crowd.get_or_insert_with(|| {
            Box::new(Crowd {
                met: None,
                waiting: VecDeque::new(),
            })
        })
    }

    /// How many threads wait.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.crowd.as_ref().map_or(0, |crowd| crowd.waiting.len())
    }

    pub(super) fn first(&self) -> Option<&Arc<Waiter<T>>> {
        self.crowd.as_ref()?.waiting.front()
    }

    fn met(&self) -> Option<&T::Error> {
        self.crowd.as_ref()?.met.as_ref()
    }

    /// Gives the turn to the first waiting thread. Returns whether there is one.
    pub(super) fn admit_first(&mut self, turn: TurnNumber, guard: Option<T::Guard>) -> bool {
        let crowd = self.crowd.as_mut();
        let Some(first) = crowd.and_then(|crowd| crowd.waiting.pop_front()) else {
            return false;
        };
        *first.admission.lock() = Some(Admission { turn, guard });
        first.admitted.notify_one();
        self.begin(turn);
        true
    }

    /// Gives each thread that waits one of these, and a number that is no turn of any line.
    pub(super) fn admit_all(&mut self, number: TurnNumber, each: impl Fn() -> T::Guard) {
        let crowd = self.crowd.as_mut();
        for waiter in crowd.into_iter().flat_map(|crowd| crowd.waiting.drain(..)) {
            *waiter.admission.lock() = Some(Admission {
                turn: number,
                guard: Some(each()),
            });
            waiter.admitted.notify_one();
        }
    }

    /// Whether the thread whose turn it is had a lock whose validity has ended.
    pub(super) fn is_over(&self, now: Timestamp) -> bool {
        self.lock.as_ref().is_some_and(|lock| T::end(lock) <= now)
    }

    /// Whether the thread whose turn it is has neither a lock nor an error yet.
    pub(super) fn has_no_answer(&self) -> bool {
        self.lock.is_none() && self.met().is_none()
    }

    pub(super) fn is_first(&self, waiter: &Arc<Waiter<T>>) -> bool {
        self.first().is_some_and(|first| Arc::ptr_eq(first, waiter))
    }

    pub(super) fn remove(&mut self, waiter: &Arc<Waiter<T>>) {
        if let Some(crowd) = &mut self.crowd {
            crowd.waiting.retain(|other| !Arc::ptr_eq(other, waiter));
        }
    }

    pub(super) fn refusal(&self) -> Refusal<T> {
        Refusal {
            lock: self.lock.clone(),
            met: self.met().cloned(),
        }
    }
}
