//! The queue under real threads and on real time.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::clock::{Clock, Timestamp};
use crate::contend::queue::{Lines, Queue, Tenant, Turn, WaitClock};
use crate::sync::{Condvar, MutexGuard};

enum Test {}

impl Tenant for Test {
    /// When it ends.
    type Lock = Timestamp;
    type Guard = Baton;
    type Error = &'static str;
    type Demand = u32;

    fn end(lock: &Timestamp) -> Timestamp {
        *lock
    }
}

/// What is handed over; notes its release.
#[derive(Default)]
struct Baton(Arc<AtomicBool>);

impl Drop for Baton {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
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

/// Runs an action when the thread waits, and panics then.
struct Panicking<F>(RefCell<Option<F>>);

impl<F: FnOnce()> WaitClock<Test> for Panicking<F> {
    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(0)
    }

    fn pause(&self, _: &Condvar, lines: &mut MutexGuard<'_, Lines<Test>>, _: Timestamp) {
        MutexGuard::unlocked(lines, self.0.take().unwrap());
        resume_unwind(Box::new("while it waits"));
    }
}

fn real() -> Real {
    Real(Clock::system())
}

/// So far from now.
fn soon(span: Duration) -> Timestamp {
    real().now().saturating_add(span)
}

/// Waits until this number of threads is in the lines.
#[track_caller]
fn await_waiting(queue: &Queue<Test>, count: usize) {
    let end = soon(Duration::from_mins(1));
    while queue.census()[1] != count {
        assert!(real().now() < end, "{:?}", queue.census());
        thread::yield_now();
    }
}

#[track_caller]
fn assert_empty(queue: &Queue<Test>) {
    assert_eq!(queue.census()[..2], [0, 0]);
}

/// A thread that waits for the turn, and for the word to give it back.
struct Visitor {
    thread: JoinHandle<()>,
    entered: mpsc::Receiver<bool>,
    leave: mpsc::Sender<()>,
}

impl Visitor {
    fn new(queue: &Arc<Queue<Test>>, resource: &Arc<str>) -> Self {
        let (queue, resource) = (Arc::clone(queue), Arc::clone(resource));
        let (tell, entered) = mpsc::channel();
        let (leave, word) = mpsc::channel::<()>();
        let thread = thread::spawn(move || {
            let (turn, baton) = queue.enter(&resource, 1, None, &real()).ok().unwrap();
            tell.send(baton.is_some()).unwrap();
            word.recv().unwrap();
            drop(turn);
        });
        Self {
            thread,
            entered,
            leave,
        }
    }

    /// Waits until it has the turn. Returns whether something was handed over with it.
    #[track_caller]
    fn has_entered(&self) -> bool {
        self.entered.recv_timeout(Duration::from_mins(1)).unwrap()
    }

    #[track_caller]
    fn leave(self) {
        self.leave.send(()).unwrap();
        self.thread.join().unwrap();
    }
}

fn queue() -> (Arc<Queue<Test>>, Arc<str>) {
    (Queue::new(), "job".into())
}

#[test]
fn threads_have_the_turn_in_the_order_in_which_they_came() {
    let (queue, resource) = queue();
    let turn = queue.try_enter(&resource).unwrap();
    let order = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let visitors = (0..64).map(|who| {
        let (queue2, resource, order) = (queue.clone(), resource.clone(), order.clone());
        let visitor = thread::spawn(move || {
            let entered = queue2.enter(&resource, 1, None, &real());
            let (turn, _) = entered.ok().unwrap();
            order.lock().push(who);
            drop(turn);
        });
        await_waiting(&queue, who + 1);
        visitor
    });
    let visitors: Vec<_> = visitors.collect();
    drop(turn);
    for visitor in visitors {
        visitor.join().unwrap();
    }
    assert_eq!(*order.lock(), (0..64).collect::<Vec<_>>());
    assert_empty(&queue);
}

#[test]
fn one_whose_time_is_over_is_told_what_is_in_the_way_and_leaves_nothing() {
    let (queue, resource) = queue();
    let turn = queue.try_enter(&resource).unwrap();
    let refusal = |span| {
        let entered = queue.enter(&resource, 1, Some(soon(span)), &real());
        let refusal = entered.err().unwrap();
        (refusal.lock, refusal.met)
    };
    assert_eq!(refusal(Duration::ZERO), (None, None));
    turn.met(&"nobody is there");
    assert_eq!(refusal(Duration::ZERO), (None, Some("nobody is there")));
    let end = soon(Duration::from_mins(1));
    turn.got(end);
    assert_eq!(refusal(Duration::from_millis(60)).0, Some(end));
    assert_eq!(queue.census()[..2], [1, 0]);
    drop(turn);
    assert_empty(&queue);
    assert!(queue.try_enter(&resource).is_some());
}

#[test]
fn a_lock_that_is_over_keeps_nobody_waiting_and_its_late_end_calls_nobody() {
    let (queue, resource) = queue();
    let late = queue.try_enter(&resource).unwrap();
    late.got(soon(Duration::from_millis(30)));
    let first = Visitor::new(&queue, &resource);
    assert!(!first.has_entered());
    let second = Visitor::new(&queue, &resource);
    await_waiting(&queue, 1);
    assert!(late.first().is_none(), "it has nothing to give");
    late.got(soon(Duration::ZERO));
    drop(late);
    assert_eq!(queue.census()[..2], [1, 1]);
    first.leave();
    assert!(!second.has_entered());
    second.leave();
    assert_empty(&queue);
}

#[test]
fn what_is_given_to_the_first_goes_to_nobody_else() {
    let (queue, resource) = queue();
    let turn = queue.try_enter(&resource).unwrap();
    assert!(turn.first().is_none());
    let leaves = {
        let (queue, resource) = (Arc::clone(&queue), Arc::clone(&resource));
        thread::spawn(move || {
            let end = soon(Duration::from_millis(50));
            queue.enter(&resource, 7, Some(end), &real()).is_ok()
        })
    };
    await_waiting(&queue, 1);
    let gone = turn.first().unwrap();
    assert_eq!(*gone.demand(), 7);
    let visitor = Visitor::new(&queue, &resource);
    assert!(!leaves.join().unwrap());
    await_waiting(&queue, 1);
    assert!(turn.give_to(&gone, Baton::default()).is_err());
    assert_eq!(queue.census()[..2], [1, 1]);
    let first = turn.first().unwrap();
    assert_eq!(*first.demand(), 1);
    assert!(turn.give_to(&first, Baton::default()).is_ok());
    // It is over for this one.
    assert!(turn.first().is_none());
    assert!(turn.give_to(&first, Baton::default()).is_err());
    drop(turn);
    assert!(visitor.has_entered());
    visitor.leave();
    assert_empty(&queue);
}

/// Lets a thread panic in the line, with another one behind it, after something was done with the turn.
#[track_caller]
fn panic_in_the_line(act: impl FnOnce(Turn<Test>)) -> Visitor {
    let (queue, resource) = queue();
    let turn = queue.try_enter(&resource).unwrap();
    let behind = RefCell::new(None);
    let time = Panicking(RefCell::new(Some(|| {
        let visitor = Visitor::new(&queue, &resource);
        await_waiting(&queue, 2);
        behind.replace(Some(visitor));
        act(turn);
    })));
    let waiting = AssertUnwindSafe(|| queue.enter(&resource, 1, None, &time).is_ok());
    assert!(catch_unwind(waiting).is_err());
    assert_eq!(queue.census()[0], 1);
    behind.take().unwrap()
}

#[test]
fn one_that_panics_in_the_line_is_passed_over() {
    let kept = RefCell::new(None);
    let behind = panic_in_the_line(|turn| drop(kept.replace(Some(turn))));
    drop(kept);
    assert!(!behind.has_entered());
    behind.leave();
}

#[test]
fn one_that_panics_when_it_was_called_passes_the_turn_on() {
    let behind = panic_in_the_line(drop);
    assert!(!behind.has_entered());
    behind.leave();
}

#[test]
fn one_that_panics_gives_back_what_was_handed_over_to_it() {
    let is_given_back = Arc::new(AtomicBool::new(false));
    let baton = Baton(Arc::clone(&is_given_back));
    let behind = panic_in_the_line(|turn| {
        let first = turn.first().unwrap();
        assert!(turn.give_to(&first, baton).is_ok());
    });
    assert!(!behind.has_entered());
    assert!(is_given_back.load(Ordering::SeqCst));
    behind.leave();
}

#[test]
fn thousands_of_resources_leave_no_room_behind() {
    let (queue, _) = queue();
    let name = |i: u32| -> Arc<str> { format!("job-{i}").into() };
    let mut turns: Vec<_> = (0..5_000)
        .map(|i| queue.try_enter(&name(i)).unwrap())
        .collect();
    let waiting = (0..200).map(|i| Visitor::new(&queue, &name(i)));
    let waiting: Vec<_> = waiting.collect();
    await_waiting(&queue, 200);
    let [lines, _, room] = queue.census();
    assert!(lines == 5_000 && room >= 5_000);
    // Those that nobody waits for first.
    turns.reverse();
    drop(turns);
    for visitor in waiting {
        assert!(!visitor.has_entered());
        visitor.leave();
    }
    let [lines, waiting, room] = queue.census();
    assert_eq!([lines, waiting], [0, 0]);
    assert!(room < 500, "room for {room}");
}

#[test]
fn a_table_that_is_half_empty_keeps_its_room() {
    let (queue, _) = queue();
    let turns = (0..1_000).map(|i| queue.try_enter(&format!("job-{i}").into()).unwrap());
    let mut turns: Vec<_> = turns.collect();
    let [_, _, room] = queue.census();
    turns.truncate(600);
    let [lines, _, left] = queue.census();
    assert_eq!(lines, 600);
    // A table does not count each place that was left.
    assert!(left > room / 4 * 3, "{left} of {room}");
}

#[test]
fn what_was_met_before_the_lock_was_got_is_no_reason_while_it_is_given_back() {
    let (queue, resource) = queue();
    let turn = queue.try_enter(&resource).unwrap();
    let met = || {
        let now = Some(real().now());
        let refusal = queue.enter(&resource, 1, now, &real()).err().unwrap();
        (refusal.lock.is_some(), refusal.met)
    };
    turn.met(&"no answer");
    assert_eq!(met(), (false, Some("no answer")));
    turn.got(soon(Duration::from_mins(1)));
    assert_eq!(met(), (true, None));
    turn.release_begins();
    assert_eq!(met(), (false, None));
    drop(turn);
    assert_empty(&queue);
}
