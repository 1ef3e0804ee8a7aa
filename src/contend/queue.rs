//! The queue for threads of one manager that want the same lock: first in, first out, and only the first talks to the
//! servers.

use std::collections::hash_map::{Entry, HashMap};
use std::sync::Arc;
use std::time::Duration;

// With a path, because the model includes this file under another name.
#[path = "queue/line.rs"]
mod line;

use self::line::TurnNumber;
use self::line::{Line, Waiter};
pub(crate) use self::line::{Refusal, Tenant};
use super::sync::{Condvar, Mutex, MutexGuard};
use crate::clock::Timestamp;

/// The longest time between two looks of a waiting thread at whether the holder's lock has ended.
const LONGEST_LOOK: Duration = Duration::from_millis(50);

/// A queue that gets emptier shrinks to room for this many lines.
const ROOM: usize = 64;

/// The clock and the waiting of a thread in a line, which tests and models replace.
pub(crate) trait WaitClock<T: Tenant> {
    fn now(&self) -> Timestamp;

    /// Whether the waiting thread was cancelled.
    fn has_given_up(&self) -> bool {
        false
    }

    /// Until when a thread whose time is over waits all the same for the first answer to the thread whose turn it is, if it
    /// does: that thread may leave something for others.
    fn waits_for_an_answer_until(&self) -> Option<Timestamp> {
        None
    }

    /// Called once for each lock that the thread waits for in the line.
    fn waits_for(&self, _lock: &T::Lock) {}

    /// Waits until the thread is admitted or `until` has come; may return early.
    fn pause(&self, admitted: &Condvar, lines: &mut MutexGuard<'_, Lines<T>>, until: Timestamp);
}

/// The lines of a manager: one for each resource that a thread holds, asks for or waits for.
pub(crate) struct Queue<T: Tenant> {
    lines: Mutex<Lines<T>>,
    process: u32,
}

pub(crate) struct Lines<T: Tenant> {
    by_resource: HashMap<Arc<str>, Line<T>>,
    turns: u64,
}

/// The right to talk to the servers about a resource. Its drop gives it to the next thread.
pub(crate) struct Turn<T: Tenant> {
    queue: Arc<Queue<T>>,
    resource: Arc<str>,
    /// None once the turn is over.
    number: Option<TurnNumber>,
}

/// The first thread of a line, which may have left since.
pub(crate) struct First<T: Tenant>(Arc<Waiter<T>>);

/// A turn, and what the thread before has left with it.
pub(crate) type TurnAndGuard<T> = (Turn<T>, Option<<T as Tenant>::Guard>);

impl<T: Tenant> Queue<T> {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            lines: Mutex::new(Lines {
                by_resource: HashMap::new(),
                turns: 0,
            }),
            process: std::process::id(),
        })
    }

    /// Takes the turn if the resource has no line.
    pub(crate) fn try_enter(self: &Arc<Self>, resource: &Arc<str>) -> Option<Turn<T>> {
        let mut lines = self.lines.lock();
        let number = lines.next_turn();
        match lines.by_resource.entry(Arc::clone(resource)) {
            Entry::Occupied(_) => None,
            Entry::Vacant(place) => {
                place.insert(Line::new(number));
                drop(lines);
                Some(self.turn(resource, number))
            }
        }
    }

    /// Waits for the turn until `end`, or without a bound.
    pub(crate) fn enter(
        self: &Arc<Self>,
        resource: &Arc<str>,
        demand: T::Demand,
        end: Option<Timestamp>,
        time: &impl WaitClock<T>,
    ) -> Result<TurnAndGuard<T>, Refusal<T>> {
        if let Some(turn) = self.try_enter(resource) {
            return Ok((turn, None));
        }
        let waiter = Arc::new(Waiter {
            demand,
            admitted: Condvar::new(),
            admission: Mutex::new(None),
        });
        let place = PlaceInLine {
            queue: self,
            resource,
            waiter,
        };
        place.wait(end, time)
    }

    /// How many lines there are, how many threads wait in them, and for how many lines there is room.
    #[cfg(test)]
    pub(crate) fn census(&self) -> [usize; 3] {
        let lines = self.lines.lock();
        let waiting = lines.by_resource.values().map(Line::waiting);
        let room = lines.by_resource.capacity();
        [lines.by_resource.len(), waiting.sum(), room]
    }

    fn turn(self: &Arc<Self>, resource: &Arc<str>, number: TurnNumber) -> Turn<T> {
        Turn {
            queue: Arc::clone(self),
            resource: Arc::clone(resource),
            number: Some(number),
        }
    }

    /// Gives the turn to the next thread, or ends the line.
    fn pass(&self, resource: &str, number: TurnNumber) {
        let mut lines = self.lines.lock();
        let next = lines.next_turn();
        let Some(line) = lines.line_of(resource, Some(number)) else {
            // Another thread has taken the turn, because the lock had ended.
            return;
        };
        if !line.admit_first(next, None) {
            lines.end(resource);
        }
    }
}

impl<T: Tenant> Lines<T> {
    fn next_turn(&mut self) -> TurnNumber {
        let number = TurnNumber::MIN.saturating_add(self.turns);
        self.turns = self.turns.wrapping_add(1);
        number
    }

    /// The line of a resource, if this is still its turn.
    fn line_of(&mut self, resource: &str, turn: Option<TurnNumber>) -> Option<&mut Line<T>> {
        let line = self.by_resource.get_mut(resource)?;
        (Some(line.turn) == turn).then_some(line)
    }

    fn end(&mut self, resource: &str) {
        self.by_resource.remove(resource);
        let needed = self.by_resource.len().max(ROOM);
        if self.by_resource.capacity() / 4 > needed {
            self.by_resource.shrink_to(needed);
        }
    }
}

/// The place of a thread in a line. If the thread leaves without taking a turn that it was given, the drop passes the
/// turn on.
struct PlaceInLine<'q, T: Tenant> {
    queue: &'q Arc<Queue<T>>,
    resource: &'q Arc<str>,
    waiter: Arc<Waiter<T>>,
}

impl<T: Tenant> PlaceInLine<'_, T> {
    fn wait(
        self,
        end: Option<Timestamp>,
        time: &impl WaitClock<T>,
    ) -> Result<TurnAndGuard<T>, Refusal<T>> {
        let mut is_in_line = false;
        // The turn whose lock is known to be waited for.
        let mut told = None;
        loop {
            // Read before the mutex is locked, because reading a test's clock can take time.
            let now = time.now();
            let mut lines = self.queue.lines.lock();
            if let Some(admission) = self.waiter.admission.lock().take() {
                let turn = self.queue.turn(self.resource, admission.turn);
                drop(lines);
                return Ok((turn, admission.guard));
            }
            let turn = lines.next_turn();
            let line = match lines.by_resource.entry(Arc::clone(self.resource)) {
                Entry::Occupied(line) => line.into_mut(),
                // The line has ended before this thread was in it.
                Entry::Vacant(line) => {
                    line.insert(Line::new(turn));
                    drop(lines);
                    return Ok((self.queue.turn(self.resource, turn), None));
                }
            };
            if !is_in_line {
                line.crowd().waiting.push_back(Arc::clone(&self.waiter));
                is_in_line = true;
            }
            let is_first = line.is_first(&self.waiter);
            if is_first && line.is_over(now) {
                line.crowd().waiting.pop_front();
                line.begin(turn);
                drop(lines);
                return Ok((self.queue.turn(self.resource, turn), None));
            }
            let longest = time.waits_for_an_answer_until();
            let longest = longest.filter(|_| line.has_no_answer());
            let end = end.map(|end| longest.map_or(end, |longest| end.max(longest)));
            if end.is_some_and(|end| end <= now) || time.has_given_up() {
                // Under the same mutex, so that nothing is handed to a thread that is about to leave.
                line.remove(&self.waiter);
                return Err(line.refusal());
            }
            if told != Some(line.turn)
                && let Some(lock) = line.lock.clone()
            {
                told = Some(line.turn);
                drop(lines);
                time.waits_for(&lock);
                continue;
            }
            let look = now.saturating_add(LONGEST_LOOK);
            let until = end.map_or(look, |end| end.min(look));
            let over = line.lock.as_ref().map(T::end);
            let until = over
                .filter(|_| is_first)
                .map_or(until, |over| over.min(until));
            time.pause(&self.waiter.admitted, &mut lines, until);
        }
    }
}

impl<T: Tenant> Drop for PlaceInLine<'_, T> {
    fn drop(&mut self) {
        let mut lines = self.queue.lines.lock();
        if let Some(line) = lines.by_resource.get_mut(self.resource) {
            line.remove(&self.waiter);
        }
        let admission = self.waiter.admission.lock().take();
        drop(lines);
        if let Some(admission) = admission {
            // The guard is dropped first, because its drop releases the lock.
            drop(admission.guard);
            self.queue.pass(self.resource, admission.turn);
        }
    }
}

impl<T: Tenant> Turn<T> {
    /// Tells the waiting threads that this turn has a lock. Earlier errors no longer matter.
    pub(crate) fn got(&self, lock: T::Lock) {
        let mut lines = self.queue.lines.lock();
        if let Some(line) = lines.line_of(&self.resource, self.number) {
            line.got(Some(lock));
        }
    }

    /// Tells the waiting threads that the release has begun, so that none takes the turn because the validity ends.
    pub(crate) fn release_begins(&self) {
        let mut lines = self.queue.lines.lock();
        if let Some(line) = lines.line_of(&self.resource, self.number) {
            line.lock = None;
        }
    }

    /// Tells the waiting threads the error of an attempt.
    pub(crate) fn met(&self, error: &T::Error) {
        let mut lines = self.queue.lines.lock();
        if let Some(line) = lines.line_of(&self.resource, self.number) {
            line.crowd().met = Some(error.clone());
        }
    }

    /// The first of the threads that wait.
    pub(crate) fn first(&self) -> Option<First<T>> {
        let mut lines = self.queue.lines.lock();
        let line = lines.line_of(&self.resource, self.number)?;
        line.first().map(|first| First(Arc::clone(first)))
    }

    /// Gives the turn to this thread with a guard, and ends this turn; returns the guard if the thread is not the first.
    pub(crate) fn give_to(&self, first: &First<T>, guard: T::Guard) -> Result<(), T::Guard> {
        let mut lines = self.queue.lines.lock();
        let next = lines.next_turn();
        let line = lines.line_of(&self.resource, self.number);
        let Some(line) = line.filter(|line| line.is_first(&first.0)) else {
            return Err(guard);
        };
        line.admit_first(next, Some(guard));
        Ok(())
    }

    /// Ends this turn and the line: each thread that waits gets one of these, and none has the turn.
    pub(crate) fn dismiss(mut self, each: impl Fn() -> T::Guard) {
        let mut lines = self.queue.lines.lock();
        let number = lines.next_turn();
        if let Some(line) = lines.line_of(&self.resource, self.number.take()) {
            line.admit_all(number, each);
            lines.end(&self.resource);
        }
    }
}

impl<T: Tenant> First<T> {
    pub(crate) fn demand(&self) -> &T::Demand {
        &self.0.demand
    }
}

impl<T: Tenant> Drop for Turn<T> {
    fn drop(&mut self) {
        let Some(number) = self.number else {
            return;
        };
        // In a forked child, the mutex may stay locked by a thread of the parent.
        if std::process::id() == self.queue.process {
            self.queue.pass(&self.resource, number);
        }
    }
}
