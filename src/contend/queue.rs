//! The queue for threads of one manager that want the same lock: first in, first out, and only the first talks to the
//! servers.
//!
//! `H` is what a thread can hand over to the next one, beside the turn.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::nap;
use super::sync::{Condvar, Mutex};
use crate::clock::{Clock, Timestamp};
use crate::contend::spec::Spec;
use crate::contend::{ByHash, Hashes};
use crate::error::Error;
use crate::lease::state::LeaseState;

/// The longest time between two looks of a waiting thread at whether the holder's lock has ended.
const LONGEST_LOOK: Duration = Duration::from_millis(50);

/// The lines of a manager: one for each resource that a thread holds, asks for or waits for.
pub(crate) struct Queue<H> {
    lines: Mutex<Lines<H>>,
    hashes: Hashes,
    process: u32,
}

struct Lines<H> {
    /// By the hash of the resource, which a turn makes once.
    by_hash: ByHash<Line<H>>,
    /// How many turns there were. A turn has a number that no other turn of the queue has.
    turns: u64,
}

/// The line of a resource. There is one for each lock that is held, so it is small.
struct Line<H> {
    /// The number of the present turn.
    turn: u64,
    /// The lock of the thread whose turn it is, once it has one.
    lock: Option<Arc<LeaseState>>,
    /// What most lines never have.
    waiters: Option<Box<Waiters<H>>>,
}

/// The threads that wait in a line, and what they are told.
struct Waiters<H> {
    /// The error of the last attempt of the thread whose turn it is.
    met: Option<Error>,
    waiting: VecDeque<Arc<Waiter<H>>>,
}

/// A thread in a line, which may have left since.
pub(crate) struct Waiter<H> {
    pub(crate) spec: Spec,
    admitted: Condvar,
    /// Set once the thread has the turn.
    admission: Mutex<Option<Admission<H>>>,
}

/// The turn, and what the thread before has left for this one.
struct Admission<H>(u64, Option<H>);

/// The right to talk to the servers about a resource. Its drop gives it to the next thread.
pub(crate) struct Turn<H> {
    queue: Arc<Queue<H>>,
    /// The hash of the resource.
    hash: u64,
    number: u64,
    is_over: bool,
}

/// How a thread waits in a line.
pub(crate) struct Waiting<'w> {
    pub(crate) clock: &'w Clock,
    /// Set for a call that asks once for a permit: until then it waits for the first answer to the thread whose turn it is, since
    /// that thread may leave a slot for others.
    pub(crate) answer_by: Option<Timestamp>,
    /// Called once for each lock that the thread waits for.
    pub(crate) tell: &'w dyn Fn(&Arc<LeaseState>),
}

/// Why a thread did not get the turn in time.
pub(crate) struct Refusal {
    /// The lock that a thread of this manager has.
    pub(crate) lock: Option<Arc<LeaseState>>,
    /// The last error of the thread whose turn it is, if it has no lock.
    pub(crate) met: Option<Error>,
}

impl<H> Queue<H> {
    pub(crate) fn new() -> Arc<Self> {
        let (by_hash, turns) = (ByHash::default(), 0);
        Arc::new(Self {
            lines: Mutex::new(Lines { by_hash, turns }),
            hashes: Hashes::default(),
            process: std::process::id(),
        })
    }

    /// Takes the turn if the resource has no line.
    pub(crate) fn try_enter(self: &Arc<Self>, resource: &Arc<str>) -> Option<Turn<H>> {
        let hash = self.hashes.of(resource);
        let mut lines = self.lines.lock();
        let is_free = !lines.by_hash.contains_key(&hash);
        is_free.then(|| self.turn(hash, lines.begin(hash)))
    }

    /// Waits for the turn for as long as the call waits. Returns it with what the thread before has left for this one.
    pub(crate) fn enter(
        self: &Arc<Self>,
        resource: &Arc<str>,
        spec: Spec,
        waiting: &Waiting<'_>,
    ) -> Result<(Turn<H>, Option<H>), Refusal> {
        let waiter = Arc::new(Waiter {
            spec,
            admitted: Condvar::new(),
            admission: Mutex::new(None),
        });
        let place = PlaceInLine {
            queue: self,
            hash: self.hashes.of(resource),
            waiter,
        };
        let Admission(turn, handed_over) = place.wait(waiting)?;
        Ok((self.turn(place.hash, turn), handed_over))
    }

    /// How many lines there are, how many threads wait in them, and for how many lines there is room.
    #[cfg(test)]
    pub(crate) fn census(&self) -> [usize; 3] {
        let lines = &self.lines.lock().by_hash;
        let waiters = lines.values().filter_map(|line| line.waiters.as_ref());
        let waiting = waiters.map(|waiters| waiters.waiting.len());
        [lines.len(), waiting.sum(), lines.capacity()]
    }

    fn turn(self: &Arc<Self>, hash: u64, number: u64) -> Turn<H> {
        Turn {
            queue: Arc::clone(self),
            hash,
            number,
            is_over: false,
        }
    }

    /// Gives the turn to the next thread, or ends the line.
    fn pass(&self, hash: u64, turn: u64) {
        let mut lines = self.lines.lock();
        let next = lines.next_turn();
        // Another thread may have taken the turn, because the lock had ended.
        if let Some(line) = lines.line_of(hash, turn)
            && !line.admit_first(next, None)
        {
            lines.end(hash);
        }
    }
}

impl<H> Lines<H> {
    fn next_turn(&mut self) -> u64 {
        self.turns = self.turns.wrapping_add(1);
        self.turns
    }

    /// Begins a line with a first turn, which has this number.
    fn begin(&mut self, hash: u64) -> u64 {
        let turn = self.next_turn();
        let line = Line {
            turn,
            lock: None,
            waiters: None,
        };
        self.by_hash.insert(hash, line);
        turn
    }

    /// The line of a resource, if this is still its turn.
    fn line_of(&mut self, hash: u64, turn: u64) -> Option<&mut Line<H>> {
        let line = self.by_hash.get_mut(&hash)?;
        (line.turn == turn).then_some(line)
    }

    fn end(&mut self, hash: u64) {
        self.by_hash.remove(&hash);
        // There is always room for a few.
        let needed = self.by_hash.len().max(64);
        if self.by_hash.capacity() / 4 > needed {
            self.by_hash.shrink_to(needed);
        }
    }
}

impl<H> Line<H> {
    fn begin(&mut self, turn: u64) {
        self.turn = turn;
        self.got(None);
    }

    /// The thread whose turn it is has a lock, or has not asked for one yet. Earlier errors no longer matter.
    fn got(&mut self, lock: Option<Arc<LeaseState>>) {
        self.lock = lock;
        if let Some(waiters) = &mut self.waiters {
            waiters.met = None;
        }
    }

    fn waiters(&mut self) -> &mut Waiters<H> {
        self.waiters.get_or_insert_with(|| {
            let (met, waiting) = (None, VecDeque::new());
            Box::new(Waiters { met, waiting })
        })
    }

    fn met(&self) -> Option<&Error> {
        self.waiters.as_ref()?.met.as_ref()
    }

    fn first(&self) -> Option<&Arc<Waiter<H>>> {
        self.waiters.as_ref()?.waiting.front()
    }

    fn is_first(&self, waiter: &Arc<Waiter<H>>) -> bool {
        self.first().is_some_and(|first| Arc::ptr_eq(first, waiter))
    }

    fn remove(&mut self, waiter: &Arc<Waiter<H>>) {
        if let Some(waiters) = &mut self.waiters {
            waiters.waiting.retain(|other| !Arc::ptr_eq(other, waiter));
        }
    }

    /// Gives the turn to the first waiting thread. Returns whether there is one.
    fn admit_first(&mut self, turn: u64, handed_over: Option<H>) -> bool {
        let waiters = self.waiters.as_mut();
        let Some(first) = waiters.and_then(|waiters| waiters.waiting.pop_front()) else {
            return false;
        };
        first.admit(turn, handed_over);
        self.begin(turn);
        true
    }
}

impl<H> Waiter<H> {
    fn admit(&self, turn: u64, handed_over: Option<H>) {
        *self.admission.lock() = Some(Admission(turn, handed_over));
        self.admitted.notify_one();
    }
}

/// The place of a thread in a line. If the thread leaves without taking a turn that it was given, the drop passes the
/// turn on.
struct PlaceInLine<'q, H> {
    queue: &'q Arc<Queue<H>>,
    hash: u64,
    waiter: Arc<Waiter<H>>,
}

impl<H> PlaceInLine<'_, H> {
    fn wait(&self, waiting: &Waiting<'_>) -> Result<Admission<H>, Refusal> {
        let spec = &self.waiter.spec;
        let mut is_in_line = false;
        // The turn whose holder knows that this thread waits.
        let mut notified = None;
        loop {
            // Read before the mutex is locked, because reading a test's clock can take time.
            let now = waiting.clock.now();
            let mut lines = self.queue.lines.lock();
            if let Some(admission) = self.waiter.admission.lock().take() {
                return Ok(admission);
            }
            let turn = lines.next_turn();
            let Some(line) = lines.by_hash.get_mut(&self.hash) else {
                // The line has ended before this thread was in it.
                return Ok(Admission(lines.begin(self.hash), None));
            };
            if !is_in_line {
                line.waiters().waiting.push_back(Arc::clone(&self.waiter));
                is_in_line = true;
            }
            let is_first = line.is_first(&self.waiter);
            let over = line.lock.as_ref().map(|lock| lock.deadline());
            if is_first && over.is_some_and(|over| over <= now) {
                line.remove(&self.waiter);
                line.begin(turn);
                return Ok(Admission(turn, None));
            }
            let has_no_answer = line.lock.is_none() && line.met().is_none();
            let longest = waiting.answer_by.filter(|_| has_no_answer);
            let end = spec.end.map(|end| longest.map_or(end, |by| end.max(by)));
            if end.is_some_and(|end| end <= now) || spec.is_cancelled() {
                // Under the same mutex, so that nothing is handed to a thread that is about to leave.
                line.remove(&self.waiter);
                let (lock, met) = (line.lock.clone(), line.met().cloned());
                return Err(Refusal { lock, met });
            }
            if notified != Some(line.turn)
                && let Some(lock) = line.lock.clone()
            {
                notified = Some(line.turn);
                drop(lines);
                (waiting.tell)(&lock);
                continue;
            }
            let look = now.saturating_add(LONGEST_LOOK);
            let over = over.filter(|_| is_first);
            let until = [end, over].into_iter().flatten().fold(look, Timestamp::min);
            nap(waiting.clock, &self.waiter.admitted, &mut lines, until);
        }
    }
}

impl<H> Drop for PlaceInLine<'_, H> {
    fn drop(&mut self) {
        let mut lines = self.queue.lines.lock();
        if let Some(line) = lines.by_hash.get_mut(&self.hash) {
            line.remove(&self.waiter);
        }
        let admission = self.waiter.admission.lock().take();
        drop(lines);
        if let Some(Admission(turn, handed_over)) = admission {
            // It is dropped first, because a guard in it releases the lock.
            drop(handed_over);
            self.queue.pass(self.hash, turn);
        }
    }
}

impl<H> Turn<H> {
    /// Does this with the line, if this turn is not over.
    fn with_line<R>(&self, act: impl FnOnce(&mut Line<H>) -> R) -> Option<R> {
        let mut lines = self.queue.lines.lock();
        lines.line_of(self.hash, self.number).map(act)
    }

    /// Tells the waiting threads that this turn has a lock. Earlier errors no longer matter.
    pub(crate) fn got(&self, lock: Arc<LeaseState>) {
        self.with_line(|line| line.got(Some(lock)));
    }

    /// Ends the turn, for a caller who knows that this is no forked child.
    pub(crate) fn pass_on(mut self) {
        self.is_over = true;
        self.queue.pass(self.hash, self.number);
    }

    /// Tells the waiting threads that the release has begun, so that none takes the turn because the validity ends.
    pub(crate) fn release_begins(&self) {
        self.with_line(|line| line.lock = None);
    }

    /// Tells the waiting threads the error of an attempt.
    pub(crate) fn met(&self, error: &Error) {
        self.with_line(|line| line.waiters().met = Some(error.clone()));
    }

    /// The first of the threads that wait.
    pub(crate) fn first(&self) -> Option<Arc<Waiter<H>>> {
        self.with_line(|line| line.first().cloned())?
    }

    /// Gives the turn to this thread with what is handed over, and ends this turn; returns that if the thread is not the first.
    pub(crate) fn give_to(&self, first: &Arc<Waiter<H>>, handed_over: H) -> Result<(), H> {
        let mut lines = self.queue.lines.lock();
        let next = lines.next_turn();
        let line = lines.line_of(self.hash, self.number);
        let Some(line) = line.filter(|line| line.is_first(first)) else {
            return Err(handed_over);
        };
        line.admit_first(next, Some(handed_over));
        Ok(())
    }

    /// Ends this turn and the line: each thread that waits gets one of these, and none has the turn.
    pub(crate) fn end_line(self, each: impl Fn() -> H) {
        let mut lines = self.queue.lines.lock();
        // No line has a turn of this number, so those who have it pass nothing on.
        let number = lines.next_turn();
        if let Some(line) = lines.line_of(self.hash, self.number) {
            let waiters = line.waiters.take();
            lines.end(self.hash);
            for waiter in waiters.into_iter().flat_map(|waiters| waiters.waiting) {
                waiter.admit(number, Some(each()));
            }
        }
        // Its own drop finds that the turn is over.
        drop(lines);
    }
}

impl<H> Drop for Turn<H> {
    fn drop(&mut self) {
        // In a forked child, the mutex may stay locked by a thread of the parent.
        if !self.is_over && std::process::id() == self.queue.process {
            self.queue.pass(self.hash, self.number);
        }
    }
}
