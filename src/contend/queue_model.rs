//! The queue under every interleaving of a few threads, by loom: the same file once more, over loom's locks.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use loom::sync::atomic::AtomicBool;
use loom::thread;

use self::queue::{Lines, Queue, Tenant, Turn, WaitClock};
use self::sync::{Condvar, MutexGuard};
use crate::clock::Timestamp;
use crate::sync::model as sync;

#[expect(
    clippy::duplicate_mod,
    reason = "this one is over the locks of the model"
)]
#[expect(dead_code, reason = "not all of it is needed here")]
#[path = "queue.rs"]
mod queue;

enum Model {}

impl Tenant for Model {
    /// When it ends.
    type Lock = Timestamp;
    type Guard = Baton;
    type Error = ();
    type Demand = ();

    fn end(lock: &Timestamp) -> Timestamp {
        *lock
    }
}

/// What is handed over; counts how often it was released because nobody received it.
struct Baton {
    given_back: Arc<AtomicUsize>,
    is_received: bool,
}

impl Baton {
    fn new(given_back: &Arc<AtomicUsize>) -> Self {
        Self {
            given_back: Arc::clone(given_back),
            is_received: false,
        }
    }
}

impl Drop for Baton {
    fn drop(&mut self) {
        if !self.is_received {
            self.given_back.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// Waits until it is called, without a bound.
struct Patient;

impl WaitClock<Model> for Patient {
    fn now(&self) -> Timestamp {
        at(0)
    }

    fn pause(&self, admitted: &Condvar, lines: &mut MutexGuard<'_, Lines<Model>>, _: Timestamp) {
        admitted.wait(lines);
    }
}

/// A thread for which time passes: each pause takes a nanosecond. After two pauses, it waits until it is admitted.
#[derive(Default)]
struct Hasty(Cell<u64>);

impl WaitClock<Model> for Hasty {
    fn now(&self) -> Timestamp {
        at(self.0.get())
    }

    fn pause(&self, admitted: &Condvar, lines: &mut MutexGuard<'_, Lines<Model>>, _: Timestamp) {
        let now = self.0.replace(self.0.get().wrapping_add(1));
        if now < 2 {
            lines.bump();
        } else {
            admitted.wait(lines);
        }
    }
}

/// Patient, and says when it is in the line.
struct Announcing(Arc<Word>);

impl WaitClock<Model> for Announcing {
    fn now(&self) -> Timestamp {
        at(0)
    }

    fn pause(&self, admitted: &Condvar, lines: &mut MutexGuard<'_, Lines<Model>>, _: Timestamp) {
        self.0.give();
        admitted.wait(lines);
    }
}

/// What one thread tells another.
struct Word(sync::Mutex<bool>, Condvar);

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

/// What the threads of a model share.
#[derive(Clone)]
struct Scene {
    queue: Arc<Queue<Model>>,
    resource: Arc<str>,
    /// Whether a thread is in the section where only one may be.
    is_taken: Arc<AtomicBool>,
    /// Who was there, in order.
    visits: Arc<std::sync::Mutex<Vec<u32>>>,
}

impl Scene {
    fn new() -> Self {
        Self {
            queue: Queue::new(),
            resource: "job".into(),
            is_taken: Arc::new(AtomicBool::new(false)),
            visits: Arc::default(),
        }
    }

    fn try_enter(&self) -> Turn<Model> {
        self.queue.try_enter(&self.resource).unwrap()
    }

    fn come(&self) {
        assert!(!self.is_taken.swap(true, Ordering::SeqCst), "two are there");
    }

    fn go(&self) {
        self.is_taken.store(false, Ordering::SeqCst);
    }

    /// Waits in the line and is there for a moment. Returns whether it came to that.
    fn visit(&self, who: u32, end: Option<u64>, time: &impl WaitClock<Model>) -> bool {
        let entered = self.queue.enter(&self.resource, (), end.map(at), time);
        let Ok((turn, baton)) = entered else {
            return false;
        };
        if let Some(mut baton) = baton {
            baton.is_received = true;
        }
        self.come();
        self.visits.lock().unwrap().push(who);
        self.go();
        drop(turn);
        true
    }

    fn assert_all_are_gone(&self) {
        assert_eq!(self.queue.census()[..2], [0, 0]);
    }
}

/// Checks all interleavings with at most three preemptions of a thread.
fn check(model: impl Fn(Scene) + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || model(Scene::new()));
}

#[test]
fn a_turn_goes_to_one_after_the_other() {
    check(|scene| {
        let turn = scene.try_enter();
        scene.come();
        let visitors = [1, 2].map(|who| {
            let scene = scene.clone();
            thread::spawn(move || assert!(scene.visit(who, None, &Patient)))
        });
        scene.go();
        drop(turn);
        for visitor in visitors {
            visitor.join().unwrap();
        }
        scene.assert_all_are_gone();
    });
}

#[test]
fn nobody_has_to_be_there_first() {
    check(|scene| {
        let visitors = [1, 2].map(|who| {
            let scene = scene.clone();
            thread::spawn(move || assert!(scene.visit(who, None, &Patient)))
        });
        if let Some(turn) = scene.queue.try_enter(&scene.resource) {
            scene.come();
            scene.go();
            drop(turn);
        }
        for visitor in visitors {
            visitor.join().unwrap();
        }
        scene.assert_all_are_gone();
    });
}

#[test]
fn who_is_in_the_line_first_is_first() {
    check(|scene| {
        let turn = scene.try_enter();
        let is_in_line = Arc::new(Word(sync::Mutex::new(false), Condvar::new()));
        let first = thread::spawn({
            let (scene, is_in_line) = (scene.clone(), Arc::clone(&is_in_line));
            move || {
                assert!(scene.visit(1, None, &Announcing(Arc::clone(&is_in_line))));
                // Where it did not have to wait.
                is_in_line.give();
            }
        });
        let second = thread::spawn({
            let scene = scene.clone();
            move || {
                is_in_line.wait();
                assert!(scene.visit(2, None, &Patient));
            }
        });
        drop(turn);
        first.join().unwrap();
        second.join().unwrap();
        assert_eq!(*scene.visits.lock().unwrap(), [1, 2]);
        scene.assert_all_are_gone();
    });
}

#[test]
fn one_whose_time_is_over_takes_no_call_along() {
    check(|scene| {
        let turn = scene.try_enter();
        scene.come();
        let hasty = thread::spawn({
            let scene = scene.clone();
            move || scene.visit(1, Some(1), &Hasty::default())
        });
        let patient = thread::spawn({
            let scene = scene.clone();
            move || assert!(scene.visit(2, None, &Patient))
        });
        scene.go();
        drop(turn);
        hasty.join().unwrap();
        patient.join().unwrap();
        scene.assert_all_are_gone();
    });
}

/// Lets a holder whose lock is over do something while two others want the lock, one of whom takes it over if it is first.
fn check_late(act: impl Fn(Turn<Model>, &Arc<AtomicUsize>) + Sync + Send + 'static) {
    check(move |scene| {
        let given_back = Arc::new(AtomicUsize::new(0));
        let turn = scene.try_enter();
        turn.got(at(1));
        let heirs = [
            thread::spawn({
                let scene = scene.clone();
                move || assert!(scene.visit(1, None, &Hasty::default()))
            }),
            thread::spawn({
                let scene = scene.clone();
                move || assert!(scene.visit(2, None, &Patient))
            }),
        ];
        // Any time later.
        act(turn, &given_back);
        for heir in heirs {
            heir.join().unwrap();
        }
        assert_eq!(given_back.load(Ordering::SeqCst), 0);
        scene.assert_all_are_gone();
    });
}

#[test]
fn a_lock_that_is_over_is_taken_over_and_its_late_end_is_nobody_elses() {
    check_late(|turn, _| drop(turn));
}

#[test]
fn what_is_handed_over_too_late_goes_to_one_of_those_who_wait_or_to_nobody() {
    check_late(|turn, given_back| {
        if let Some(first) = turn.first()
            && let Err(mut late) = turn.give_to(&first, Baton::new(given_back))
        {
            late.is_received = true;
        }
    });
}

#[test]
fn what_is_handed_over_is_received_though_another_one_leaves_at_that_moment() {
    check(|scene| {
        let turn = scene.try_enter();
        scene.come();
        let hasty = thread::spawn({
            let scene = scene.clone();
            move || scene.visit(1, Some(1), &Hasty::default())
        });
        let patient = thread::spawn({
            let scene = scene.clone();
            move || assert!(scene.visit(2, None, &Patient))
        });
        let given_back = Arc::new(AtomicUsize::new(0));
        scene.go();
        // Between these two steps the first thread may leave, and then nobody gets it.
        if let Some(first) = turn.first()
            && let Err(mut late) = turn.give_to(&first, Baton::new(&given_back))
        {
            late.is_received = true;
        }
        drop(turn);
        hasty.join().unwrap();
        patient.join().unwrap();
        assert_eq!(given_back.load(Ordering::SeqCst), 0);
        scene.assert_all_are_gone();
    });
}

/// A reader in the line. Whoever gets the turn and nothing with it has the turn alone.
fn spawn_reader(
    scene: &Scene,
    end: Option<u64>,
    time: impl WaitClock<Model> + Send + 'static,
) -> thread::JoinHandle<()> {
    let scene = scene.clone();
    thread::spawn(move || {
        let entered = scene.queue.enter(&scene.resource, (), end.map(at), &time);
        let Ok((turn, baton)) = entered else {
            assert!(end.is_some(), "it waits without a bound");
            return;
        };
        if let Some(mut baton) = baton {
            baton.is_received = true;
        } else {
            scene.come();
            scene.go();
        }
        drop(turn);
    })
}

/// Dismisses the line while a patient reader and this one are on their way into it, or in it.
fn check_dismissal(other: impl Fn(&Scene) -> thread::JoinHandle<()> + Sync + Send + 'static) {
    check(move |scene| {
        let given_back = Arc::new(AtomicUsize::new(0));
        let turn = scene.try_enter();
        scene.come();
        let readers = [spawn_reader(&scene, None, Patient), other(&scene)];
        scene.go();
        turn.dismiss(|| Baton::new(&given_back));
        for reader in readers {
            reader.join().unwrap();
        }
        assert_eq!(given_back.load(Ordering::SeqCst), 0, "given to nobody");
        scene.assert_all_are_gone();
    });
}

#[test]
fn all_readers_of_a_line_go_at_once_and_none_is_left_behind() {
    check_dismissal(|scene| spawn_reader(scene, None, Patient));
}

#[test]
fn a_reader_whose_time_is_over_receives_what_it_is_given_when_all_go() {
    check_dismissal(|scene| spawn_reader(scene, Some(1), Hasty::default()));
}
