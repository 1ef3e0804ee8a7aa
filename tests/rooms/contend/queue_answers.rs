//! What a thread in the line is told, and what it leaves behind when it panics; and how much room the lines take.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::held::tests::lease;
use super::queue::{Queue, Turn, Waiting};
use super::spec::Spec;
use crate::claim::Resource;
use crate::clock::{Clock, FakeClock, Timestamp, at};
use crate::error::Error;
use crate::lease::state::LeaseState;
use crate::quorum::Term;

/// What one asks for who waits until `end`.
pub(super) fn spec(end: Option<Timestamp>) -> Spec {
    let ttl = Duration::from_secs(10);
    Spec {
        resource: Arc::new(Resource::of_key("job")),
        term: Term { ttl, validity: ttl },
        label: None,
        waits: true,
        end,
        cancel: None,
    }
}

#[test]
fn one_whose_time_is_over_is_told_what_is_in_the_way_and_waits_for_the_first_answer_alone() {
    let queue = Queue::<()>::new();
    let turn = queue.try_enter(&"job".into()).unwrap();
    // How long it waits, whether it learns of a lock, and whether of an error.
    let waits = |answer_by: Option<u64>| {
        let clock = Clock::from(FakeClock::new());
        let waiting = Waiting {
            clock: &clock,
            answer_by: answer_by.map(at),
            tell: &|_| (),
        };
        let refusal = queue.enter(&"job".into(), spec(Some(at(10))), &waiting);
        let refusal = refusal.err().unwrap();
        (clock.now(), refusal.lock.is_some(), refusal.met.is_some())
    };
    for (answer_by, end) in [(None, 10), (Some(5), 10), (Some(170), 170)] {
        assert_eq!(waits(answer_by), (at(end), false, false));
    }
    turn.met(&Error::Forked);
    assert_eq!(waits(Some(170)), (at(10), false, true));
    // An error before the lock was got is no reason any more, nor is it while the lock is given back.
    turn.got(lease(0, at(1_000)));
    assert_eq!(waits(Some(170)), (at(10), true, false));
    turn.release_begins();
    assert_eq!(waits(None), (at(10), false, false));
    assert_eq!(queue.census()[..2], [1, 0]);
    drop(turn);
    assert_eq!(queue.census()[..2], [0, 0]);
}

/// What is handed over. It notes whether there was still a turn when it was given back.
struct Baton(Arc<Queue<Baton>>, Arc<AtomicBool>);

impl Drop for Baton {
    fn drop(&mut self) {
        self.1.store(self.0.census()[0] == 1, Ordering::SeqCst);
    }
}

/// As a recorder or a logger of the program may.
#[test]
fn one_that_panics_in_the_line_leaves_neither_its_place_nor_the_turn_nor_what_it_was_given() {
    type Act = fn(&mut Option<Turn<Baton>>, Baton);
    let acts: [Act; 3] = [
        |_, _| (),
        |turn, _| drop(turn.take()),
        |turn, baton| {
            let turn = turn.take().unwrap();
            assert!(turn.give_to(&turn.first().unwrap(), baton).is_ok());
        },
    ];
    for act in acts {
        let queue = Queue::new();
        let turn = queue.try_enter(&"job".into()).unwrap();
        turn.got(lease(0, Timestamp::from_nanos(u64::MAX)));
        let (turn, is_given_back) = (RefCell::new(Some(turn)), Arc::default());
        let waiting = Waiting {
            clock: &Clock::system(),
            answer_by: None,
            tell: &|_: &Arc<LeaseState>| {
                let baton = Baton(Arc::clone(&queue), Arc::clone(&is_given_back));
                act(&mut turn.borrow_mut(), baton);
                resume_unwind(Box::new("while it waits"));
            },
        };
        let enters = || queue.enter(&"job".into(), spec(None), &waiting).is_ok();
        assert!(catch_unwind(AssertUnwindSafe(enters)).is_err());
        assert_eq!(queue.census()[1], 0);
        drop(turn.take());
        assert_eq!(queue.census()[0], 0);
        assert!(is_given_back.load(Ordering::SeqCst));
    }
}

#[test]
fn thousands_of_resources_leave_no_room_behind_and_half_of_them_keep_theirs() {
    let queue = Queue::<()>::new();
    let turns = (0..5_000).map(|i| queue.try_enter(&format!("job-{i}").into()).unwrap());
    let mut turns: Vec<_> = turns.collect();
    let [lines, _, room] = queue.census();
    assert!(lines == 5_000 && room >= 5_000);
    turns.truncate(3_000);
    // A table does not count each place that was left.
    assert!(queue.census()[2] > room / 4 * 3);
    drop(turns);
    let [lines, _, room] = queue.census();
    assert!(lines == 0 && room < 500, "room for {room}");
}
