//! The queue under every interleaving of a few threads, by loom: its source file once more, over loom's locks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use loom::sync::atomic::AtomicBool;
use loom::thread;

use self::queue::{Queue, Turn, Waiting};
use self::sync::{Condvar, MutexGuard};
use super::queue_answers::spec;
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

/// The time of one visitor: each of its first pauses takes a nanosecond, and then it waits until it is called.
#[derive(Debug)]
struct Time {
    now: AtomicU64,
    pauses: u64,
    who: u32,
    in_line: Order,
}

impl VirtualTime for Time {
    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.now.load(Ordering::SeqCst))
    }

    /// A visitor is in the line then, and has the mutex of the queue.
    fn sleep_until(&self, _: Timestamp) {
        let mut in_line = self.in_line.lock().unwrap();
        if !in_line.contains(&self.who) {
            in_line.push(self.who);
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

/// A thread that wants the turn: when its time is over, in nanoseconds, and how often time passes for it.
type Visitor = (Option<u64>, u64);

/// Waits until it is called, without a bound.
const PATIENT: Visitor = (None, 0);

/// Time passes for it, so it sees a lock end.
const SLOW: Visitor = (None, 2);

/// Leaves when its time is over.
const HASTY: Visitor = (Some(1), 2);

/// Visitors in the order of what they did.
type Order = Arc<std::sync::Mutex<Vec<u32>>>;

fn join(visitors: [thread::JoinHandle<()>; 2]) {
    for visitor in visitors {
        visitor.join().unwrap();
    }
}

/// What the threads of a model share.
#[derive(Clone)]
struct Scene {
    /// What is handed over says whether its receiver has the turn as well.
    queue: Arc<Queue<bool>>,
    /// How many were handed over and not received yet.
    batons: Arc<AtomicUsize>,
    /// Whether a thread is in the section where only one may be.
    is_taken: Arc<AtomicBool>,
    in_line: Order,
    in_section: Order,
}

impl Scene {
    fn come(&self) {
        assert!(!self.is_taken.swap(true, Ordering::SeqCst), "two are there");
    }

    fn go(&self) {
        self.is_taken.store(false, Ordering::SeqCst);
    }

    fn baton(&self, has_turn: bool) -> bool {
        self.batons.fetch_add(1, Ordering::SeqCst);
        has_turn
    }

    /// Waits in the line, and is in the section for a moment.
    fn visit(&self, who: u32, (end, pauses): Visitor) {
        let waiting = Waiting {
            clock: &Clock::Virtual(Arc::new(Time {
                now: AtomicU64::new(0),
                pauses,
                who,
                in_line: Arc::clone(&self.in_line),
            })),
            answer_by: None,
            tell: &|_| (),
        };
        let Ok((turn, baton)) = self.queue.enter(
            &"job".into(),
            spec(end.map(Timestamp::from_nanos)),
            &waiting,
        ) else {
            assert!(end.is_some(), "it waits without a bound");
            return;
        };
        if baton.is_some() {
            self.batons.fetch_sub(1, Ordering::SeqCst);
        }
        if baton.unwrap_or(true) {
            self.come();
            self.in_section.lock().unwrap().push(who);
            self.go();
        }
        drop(turn);
    }

    fn spawn(&self, [first, second]: [Visitor; 2]) -> [thread::JoinHandle<()>; 2] {
        [(1, first), (2, second)].map(|(who, visitor)| {
            let scene = self.clone();
            thread::spawn(move || scene.visit(who, visitor))
        })
    }

    /// Takes the turn, and gives it back.
    fn try_visit(&self) {
        if let Some(turn) = self.queue.try_enter(&"job".into()) {
            self.come();
            self.go();
            drop(turn);
        }
    }
}

/// Checks all interleavings with at most three preemptions of a thread. In the end all have gone, and what was handed over was
/// received.
fn check(model: impl Fn(&Scene) + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let scene = Scene {
            queue: Queue::new(),
            batons: Arc::default(),
            is_taken: Arc::new(AtomicBool::new(false)),
            in_line: Arc::default(),
            in_section: Arc::default(),
        };
        model(&scene);
        assert_eq!(scene.queue.census()[..2], [0, 0]);
        assert_eq!(scene.batons.load(Ordering::SeqCst), 0);
    });
}

/// Lets a thread that has the turn do this while two others want it. Those that have to wait get it in the order of the line.
fn check_with(visitors: [Visitor; 2], act: fn(&Scene, Turn<bool>)) {
    check(move |scene| {
        let turn = scene.queue.try_enter(&"job".into()).unwrap();
        scene.come();
        let visitors = scene.spawn(visitors);
        scene.go();
        act(scene, turn);
        join(visitors);
        let mut in_line = scene.in_line.lock().unwrap().clone();
        let mut in_section = scene.in_section.lock().unwrap().clone();
        in_section.retain(|who| in_line.contains(who));
        in_line.retain(|who| in_section.contains(who));
        assert_eq!(in_section, in_line);
    });
}

fn release(_: &Scene, turn: Turn<bool>) {
    drop(turn);
}

/// Between the two steps the first thread may leave, and then nobody gets the baton.
fn hand_over(scene: &Scene, turn: Turn<bool>) {
    if let Some(first) = turn.first()
        && turn.give_to(&first, scene.baton(true)).is_err()
    {
        scene.batons.fetch_sub(1, Ordering::SeqCst);
    }
    drop(turn);
}

/// What they are given is no turn, so the next one keeps its turn when they leave.
fn end_line(scene: &Scene, turn: Turn<bool>) {
    turn.end_line(|| scene.baton(false));
    scene.try_visit();
}

#[test]
fn a_turn_goes_to_one_after_the_other() {
    check_with([PATIENT, PATIENT], release);
}

#[test]
fn what_is_handed_over_is_received_though_another_one_leaves_at_that_moment() {
    check_with([HASTY, PATIENT], hand_over);
    check_with([HASTY, PATIENT], release);
}

#[test]
fn a_lock_that_is_over_is_taken_over_and_its_late_end_is_nobody_elses() {
    for act in [release, hand_over] {
        check(move |scene| {
            let turn = scene.queue.try_enter(&"job".into()).unwrap();
            turn.got(lease(0, Timestamp::from_nanos(1)));
            let heirs = scene.spawn([SLOW, PATIENT]);
            act(scene, turn);
            join(heirs);
        });
    }
}

#[test]
fn all_readers_of_a_line_go_at_once_and_none_is_left_behind() {
    check_with([PATIENT, PATIENT], end_line);
    check_with([PATIENT, HASTY], end_line);
}

#[test]
fn nobody_has_to_be_there_first() {
    check(|scene| {
        let visitors = scene.spawn([PATIENT, PATIENT]);
        scene.try_visit();
        join(visitors);
    });
}
