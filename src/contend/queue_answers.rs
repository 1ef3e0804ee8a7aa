//! What a thread in the line is given, or told, that waits for the answer to another thread.

use std::cell::Cell;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use crate::clock::{Clock, Timestamp};
use crate::contend::queue::{Lines, Queue, Tenant, WaitClock};
use crate::sync::{Condvar, MutexGuard};

enum Test {}

impl Tenant for Test {
    /// When it ends.
    type Lock = Timestamp;
    type Guard = usize;
    type Error = &'static str;
    type Demand = ();

    fn end(lock: &Timestamp) -> Timestamp {
        *lock
    }
}

/// A clock that goes on while its thread waits, and when that thread waits for an answer until.
struct Waiting {
    now: Cell<Timestamp>,
    for_an_answer_until: Option<Timestamp>,
}

impl WaitClock<Test> for Waiting {
    fn now(&self) -> Timestamp {
        self.now.get()
    }

    fn waits_for_an_answer_until(&self) -> Option<Timestamp> {
        self.for_an_answer_until
    }

    fn pause(&self, _: &Condvar, _: &mut MutexGuard<'_, Lines<Test>>, until: Timestamp) {
        self.now.set(until);
    }
}

struct Real(Clock);

impl WaitClock<Test> for Real {
    fn now(&self) -> Timestamp {
        self.0.now()
    }

    fn pause(&self, admitted: &Condvar, lines: &mut MutexGuard<'_, Lines<Test>>, until: Timestamp) {
        self.0.nap(admitted, lines, until);
    }
}

fn at(ms: u64) -> Timestamp {
    Timestamp::from_nanos(0).saturating_add(Duration::from_millis(ms))
}

#[test]
fn one_whose_time_is_over_waits_for_the_first_answer_alone_and_not_for_ever() {
    let queue = Queue::<Test>::new();
    let resource: Arc<str> = "job".into();
    let turn = queue.try_enter(&resource).unwrap();
    // How long it waits, whether it learns of a lock, and of which error.
    let waits = |until: Option<u64>| {
        let time = Waiting {
            now: Cell::new(at(0)),
            for_an_answer_until: until.map(at),
        };
        let refusal = queue
            .enter(&resource, (), Some(at(10)), &time)
            .err()
            .unwrap();
        (time.now.get(), refusal.lock.is_some(), refusal.met)
    };
    assert_eq!(waits(None), (at(10), false, None));
    assert_eq!(waits(Some(5)), (at(10), false, None));
    assert_eq!(waits(Some(170)), (at(170), false, None));
    turn.met(&"no answer");
    assert_eq!(waits(Some(170)), (at(10), false, Some("no answer")));
    turn.got(at(1_000));
    assert_eq!(waits(Some(170)), (at(10), true, None));
}

#[test]
fn a_turn_that_is_dismissed_gives_each_one_who_waits_a_guard_and_none_the_turn() {
    let queue = Queue::<Test>::new();
    let resource: Arc<str> = "job".into();
    let turn = queue.try_enter(&resource).unwrap();
    let (tell, told) = mpsc::channel();
    for count in 1..=3 {
        let (waiting, resource, tell) = (Arc::clone(&queue), Arc::clone(&resource), tell.clone());
        thread::spawn(move || {
            let time = Real(Clock::system());
            let entered = waiting.enter(&resource, (), None, &time);
            // The test has ended if nobody listens.
            drop(tell.send((count, entered.ok().unwrap())));
        });
        while queue.census()[1] < count {
            thread::yield_now();
        }
    }
    let next = Cell::new(1);
    turn.dismiss(|| next.replace(next.get() + 1));
    // All have theirs before any leaves.
    let entered: Vec<_> = (0..3)
        .map(|_| {
            let (count, entered) = told.recv_timeout(Duration::from_mins(1)).unwrap();
            assert_eq!(entered.1, Some(count));
            entered
        })
        .collect();
    assert_eq!(queue.census()[..2], [0, 0]);
    // What they have is no turn: another one has that, and keeps it when they leave.
    let other = queue.try_enter(&resource).unwrap();
    drop(entered);
    assert!(queue.try_enter(&resource).is_none());
    drop(other);
    assert!(queue.try_enter(&resource).is_some());
}
