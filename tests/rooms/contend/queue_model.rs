//! The queue under every interleaving of a few threads, by loom: its source file once more, over loom's locks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use loom::sync::atomic::AtomicBool;
use loom::thread;

use self::queue::{Queue, Turn, Waiting};
use self::sync::{Condvar, MutexGuard};
use super::queue_answers::demand;
use crate::clock::{Clock, Job, Timestamp, VirtualTime};
use crate::contend::held::tests::lease;
use crate::sync::model as sync;

#[expect(
    clippy::duplicate_mod,
    reason = "this one is over the locks of the model"
)]
#[expect(dead_code, reason = "not all of it is needed here")]
#[path = "../../../src/contend/queue.rs"]
mod queue;

/// The time of one visitor: each of its first pauses takes a nanosecond, and then it waits until it is admitted.
#[derive(Debug)]
struct Time {
    now: AtomicU64,
    pauses: u64,
    /// Told that the visitor is in the line.
    is_in_line: Option<Arc<Word>>,
}

impl VirtualTime for Time {
    fn now(&self) -> Timestamp {
        at(self.now.load(Ordering::SeqCst))
    }

    fn sleep_until(&self, _: Timestamp) {
        if let Some(word) = &self.is_in_line {
            word.give();
        }
        if self.now.load(Ordering::SeqCst) < self.pauses {
            self.now.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn schedule(&self, _: Duration, _: Job) {
        unreachable!("a queue schedules nothing");
    }
}

fn nap<T>(clock: &Clock, admitted: &Condvar, lines: &mut MutexGuard<'_, T>, until: Timestamp) {
    let before = clock.now();
    clock.sleep(until.saturating_since(before));
    if clock.now() == before {
        admitted.wait(lines);
    } else {
        lines.bump();
    }
}

/// What one thread tells another.
struct Word(sync::Mutex<bool>, Condvar);

impl std::fmt::Debug for Word {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Word")
    }
}

impl Word {
    fn give(&self) {
        *self.0.lock() = true;
        self.1.notify_one();
    }

    fn wait(&self) {
        let mut is_given = self.0.lock();
        while !*is_given {
            self.1.wait(&mut is_given);
        }
    }
}

fn at(nanos: u64) -> Timestamp {
    Timestamp::from_nanos(nanos)
}

/// What is handed over; counts how often nobody has received it.
struct Baton {
    lost: Arc<AtomicUsize>,
    is_received: bool,
    /// Whether who gets it has the turn as well.
    has_turn: bool,
}

impl Drop for Baton {
    fn drop(&mut self) {
        if !self.is_received {
            self.lost.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// A thread that wants the turn.
#[derive(Clone)]
struct Visitor {
    end: Option<u64>,
    pauses: u64,
    is_in_line: Option<Arc<Word>>,
}

/// Waits until it is called, without a bound.
const PATIENT: Visitor = Visitor {
    end: None,
    pauses: 0,
    is_in_line: None,
};

/// Time passes for it, so it sees a lock end.
const SLOW: Visitor = Visitor {
    pauses: 2,
    ..PATIENT
};

/// Leaves when its time is over.
const HASTY: Visitor = Visitor {
    end: Some(1),
    ..SLOW
};

/// What the threads of a model share.
#[derive(Clone)]
struct Scene {
    queue: Arc<Queue<Baton>>,
    resource: Arc<str>,
    /// Whether a thread is in the section where only one may be.
    is_taken: Arc<AtomicBool>,
    /// Who was there, in order.
    visits: Arc<std::sync::Mutex<Vec<u32>>>,
    lost: Arc<AtomicUsize>,
}

impl Scene {
    fn come(&self) {
        assert!(!self.is_taken.swap(true, Ordering::SeqCst), "two are there");
    }

    fn go(&self) {
        self.is_taken.store(false, Ordering::SeqCst);
    }

    fn baton(&self, has_turn: bool) -> Baton {
        Baton {
            lost: Arc::clone(&self.lost),
            is_received: false,
            has_turn,
        }
    }

    /// Waits in the line, and is there for a moment.
    fn visit(&self, who: u32, visitor: Visitor) {
        let time = Time {
            now: AtomicU64::new(0),
            pauses: visitor.pauses,
            is_in_line: visitor.is_in_line,
        };
        let clock = &Clock::Virtual(Arc::new(time));
        let (answer_by, tell) = (None, &|_: &_| ());
        let waiting = Waiting {
            clock,
            answer_by,
            tell,
        };
        let demand = demand(visitor.end.map(at));
        let Ok((turn, baton)) = self.queue.enter(&self.resource, demand, &waiting) else {
            assert!(visitor.end.is_some(), "it waits without a bound");
            return;
        };
        let has_turn = baton.is_none_or(|mut baton| {
            baton.is_received = true;
            baton.has_turn
        });
        if has_turn {
            self.come();
            self.visits.lock().unwrap().push(who);
            self.go();
        }
        drop(turn);
    }

    fn spawn(&self, who: u32, visitor: Visitor) -> thread::JoinHandle<()> {
        let scene = self.clone();
        thread::spawn(move || scene.visit(who, visitor))
    }
}

/// Checks all interleavings with at most three preemptions of a thread. In the end all have gone, and each baton was received.
fn check(model: impl Fn(&Scene) + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let scene = Scene {
            queue: Queue::new(),
            resource: "job".into(),
            is_taken: Arc::new(AtomicBool::new(false)),
            visits: Arc::default(),
            lost: Arc::default(),
        };
        model(&scene);
        assert_eq!(scene.queue.census()[..2], [0, 0]);
        assert_eq!(scene.lost.load(Ordering::SeqCst), 0);
    });
}

/// Lets a thread that has the turn act while two others want it.
fn check_with(visitors: [Visitor; 2], act: impl Fn(&Scene, Turn<Baton>) + Sync + Send + 'static) {
    check(move |scene| {
        let turn = scene.queue.try_enter(&scene.resource).unwrap();
        scene.come();
        let [first, second] = visitors.clone();
        let visitors = [scene.spawn(1, first), scene.spawn(2, second)];
        scene.go();
        act(scene, turn);
        for visitor in visitors {
            visitor.join().unwrap();
        }
    });
}

/// Between the two steps the first thread may leave, and then nobody gets the baton.
fn hand_over(scene: &Scene, turn: Turn<Baton>) {
    if let Some(first) = turn.first()
        && let Err(mut late) = turn.give_to(&first, scene.baton(true))
    {
        late.is_received = true;
    }
    drop(turn);
}

#[test]
fn a_turn_goes_to_one_after_the_other() {
    check_with([PATIENT, PATIENT], |_, turn| drop(turn));
}

#[test]
fn one_whose_time_is_over_takes_no_call_along() {
    check_with([HASTY, PATIENT], |_, turn| drop(turn));
}

#[test]
fn what_is_handed_over_is_received_though_another_one_leaves_at_that_moment() {
    check_with([HASTY, PATIENT], hand_over);
}

/// A holder whose lock is over, while one of those who wait takes the turn over if it is first.
fn check_late(act: fn(&Scene, Turn<Baton>)) {
    check(move |scene| {
        let turn = scene.queue.try_enter(&scene.resource).unwrap();
        turn.got(lease(0, at(1)));
        let heirs = [scene.spawn(1, SLOW), scene.spawn(2, PATIENT)];
        act(scene, turn);
        for heir in heirs {
            heir.join().unwrap();
        }
    });
}

#[test]
fn a_lock_that_is_over_is_taken_over_and_its_late_end_is_nobody_elses() {
    check_late(|_, turn| drop(turn));
}

#[test]
fn what_is_handed_over_too_late_goes_to_one_of_those_who_wait_or_to_nobody() {
    check_late(hand_over);
}

/// What they are given is no turn, so the next one keeps its turn when they leave.
fn dismiss(scene: &Scene, turn: Turn<Baton>) {
    turn.dismiss(|| scene.baton(false));
    if let Some(next) = scene.queue.try_enter(&scene.resource) {
        scene.come();
        scene.go();
        drop(next);
    }
}

#[test]
fn all_readers_of_a_line_go_at_once_and_none_is_left_behind() {
    check_with([PATIENT, PATIENT], dismiss);
}

#[test]
fn a_reader_whose_time_is_over_receives_what_it_is_given_when_all_go() {
    check_with([PATIENT, HASTY], dismiss);
}

#[test]
fn nobody_has_to_be_there_first() {
    check(|scene| {
        let visitors = [1, 2].map(|who| scene.spawn(who, PATIENT));
        if let Some(turn) = scene.queue.try_enter(&scene.resource) {
            scene.come();
            scene.go();
            drop(turn);
        }
        for visitor in visitors {
            visitor.join().unwrap();
        }
    });
}

#[test]
fn who_is_in_the_line_first_is_first() {
    check(|scene| {
        let turn = scene.queue.try_enter(&scene.resource).unwrap();
        let word = Arc::new(Word(sync::Mutex::new(false), Condvar::new()));
        let (told, first) = (Arc::clone(&word), scene.clone());
        let first = thread::spawn(move || {
            let is_in_line = Some(Arc::clone(&told));
            first.visit(
                1,
                Visitor {
                    is_in_line,
                    ..PATIENT
                },
            );
            // Where it did not have to wait.
            told.give();
        });
        let second = scene.clone();
        let second = thread::spawn(move || {
            word.wait();
            second.visit(2, PATIENT);
        });
        drop(turn);
        first.join().unwrap();
        second.join().unwrap();
        assert_eq!(*scene.visits.lock().unwrap(), [1, 2]);
    });
}
