//! The lanes under every interleaving of a few threads, by loom: the same file once more, over loom's locks.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use self::clock::{Clock, at};
use self::lanes::{Entry, Lane, Lanes, Others};
use self::request::{Batched as Wish, ONE, Size};
use crate::sync::model as sync;

#[expect(
    clippy::duplicate_mod,
    dead_code,
    reason = "this one is over the locks of the model"
)]
#[path = "lanes.rs"]
mod lanes;

/// In the place of the answers.
mod answer {
    /// Whose wish was fulfilled; none if the leader panicked.
    pub(super) type Answers = Option<usize>;
}

/// In the place of the requests.
mod request {
    pub(super) use crate::node::request::Size;

    pub(super) const ONE: Size = Size {
        commands: 1,
        bytes: 1,
    };

    /// What a thread wants: the number of the thread, and of which nodes.
    #[derive(Clone, Copy)]
    pub(super) struct Batched {
        pub(super) number: usize,
        pub(super) nodes: usize,
    }

    impl Batched {
        pub(super) fn goes_with(&self, other: &Self) -> bool {
            self.nodes == other.nodes
        }

        #[expect(clippy::unused_self, reason = "as a request")]
        pub(super) fn size(&self) -> Size {
            ONE
        }
    }
}

/// In the place of the clock.
mod clock {
    use std::cell::Cell;

    use super::sync::{Condvar, MutexGuard};
    use crate::clock::Timestamp;

    /// The times that a thread sees.
    pub(super) enum Clock {
        /// No time passes.
        Still,
        /// Its time is over at the first pause, and then it waits until it is called.
        Hasty(Cell<u64>),
    }

    impl Clock {
        #[expect(clippy::unused_self, reason = "as the other clock")]
        pub(super) fn let_others_run(&self) {}

        pub(super) fn now(&self) -> Timestamp {
            match self {
                Self::Still => at(0),
                Self::Hasty(now) => at(now.get()),
            }
        }

        pub(super) fn nap<S>(
            &self,
            changed: &Condvar,
            stage: &mut MutexGuard<'_, S>,
            _: Timestamp,
        ) {
            match self {
                Self::Hasty(now) if now.replace(1) == 0 => stage.bump(),
                Self::Still | Self::Hasty(_) => changed.wait(stage),
            }
        }
    }

    pub(super) fn at(nanos: u64) -> Timestamp {
        Timestamp::from_nanos(nanos)
    }
}

const ROOMY: Size = Size {
    commands: 9,
    bytes: 9,
};

/// How a thread got its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Led,
    Followed,
    Alone,
    /// Its leader panicked, and it has asked again.
    Again,
}

/// What the threads of a model share.
#[derive(Clone)]
struct Scene {
    lanes: Arc<Lanes>,
    most: usize,
    /// What is measured of each batch.
    round_trip: Duration,
    room: Size,
    /// How often each thread's wish was sent.
    sent: Arc<[AtomicUsize; 3]>,
    /// How many batches are under way.
    batches: Arc<AtomicUsize>,
}

/// Brings the others their answers, also after a panic.
struct Batch {
    others: Others,
    is_sent: bool,
}

impl Drop for Batch {
    fn drop(&mut self) {
        for other in &self.others {
            other.answer(self.is_sent.then_some(other.job.number));
        }
    }
}

impl Scene {
    fn new(most: usize) -> Self {
        Self {
            lanes: Arc::new(Lanes::new(most)),
            most,
            round_trip: Duration::MAX,
            room: ROOMY,
            sent: Arc::new([0, 1, 2].map(|_| AtomicUsize::new(0))),
            batches: Arc::new(AtomicUsize::new(0)),
        }
    }

    fn send(&self, wish: Wish) {
        self.sent[wish.number].fetch_add(1, Ordering::SeqCst);
    }

    fn lead(&self, own: Wish, lane: Lane<'_>, others: Others) -> Way {
        let before = self.batches.fetch_add(1, Ordering::SeqCst);
        assert!(before < self.most, "more batches than lanes");
        assert!(others.len() < self.room.commands, "a batch without room");
        let mut batch = Batch {
            others,
            is_sent: true,
        };
        self.send(own);
        for other in &batch.others {
            assert_eq!(other.job.nodes, own.nodes, "other nodes in one batch");
            self.send(other.job);
        }
        self.batches.fetch_sub(1, Ordering::SeqCst);
        lane.give_back(Some(self.round_trip));
        drop(lane);
        batch.others.drain(..).for_each(|other| {
            other.answer(Some(other.job.number));
        });
        Way::Led
    }

    /// Asks as a thread does, and has its wish sent.
    fn ask(&self, own: Wish, clock: &Clock) -> Way {
        let fits = |other: &Wish| other.goes_with(&own);
        let room = self.room.less(ONE);
        if let Some((lane, others)) = self.lanes.try_enter(fits, room) {
            return self.lead(own, lane, others);
        }
        match self.lanes.enter(own, room, at(1), clock) {
            Entry::Leads(lane, _) if lane.is_given_back() => {
                self.send(own);
                Way::Alone
            }
            Entry::Leads(lane, others) => self.lead(own, lane, others),
            Entry::Answered(Some(whose)) => {
                assert_eq!(whose, own.number, "the answer of another");
                Way::Followed
            }
            Entry::Answered(None) => {
                self.send(own);
                Way::Again
            }
        }
    }

    /// Each wish was sent once, and all lanes are free. Nobody is left in the queue.
    fn assert_all_is_done(&self, lanes: usize) {
        for sent in &self.sent[1..] {
            assert_eq!(sent.load(Ordering::SeqCst), 1, "not sent once");
        }
        assert!(self.lanes.are_idle());
        let enter = || self.lanes.try_enter(|_| true, ROOMY);
        let free: Vec<_> = (0..lanes).map(|_| enter().unwrap()).collect();
        assert!(free.iter().all(|(_, others)| others.is_empty()));
        assert!(enter().is_none(), "too many lanes");
    }
}

/// Checks all interleavings with at most three preemptions of a thread.
fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

fn wish(number: usize) -> Wish {
    Wish { number, nodes: 0 }
}

fn spawn(scene: &Scene, wish: Wish) -> thread::JoinHandle<Way> {
    let scene = scene.clone();
    thread::spawn(move || scene.ask(wish, &Clock::Still))
}

fn spawn_hasty(scene: &Scene, wish: Wish) -> thread::JoinHandle<Way> {
    let scene = scene.clone();
    thread::spawn(move || scene.ask(wish, &Clock::Hasty(0.into())))
}

/// A lane that is taken at first, while two others come.
fn with_a_lane(scene: &Scene, then: impl FnOnce(Lane<'_>)) {
    let (lane, others) = scene.lanes.try_enter(|_| true, ROOMY).unwrap();
    assert!(others.is_empty());
    then(lane);
}

#[test]
fn every_job_is_answered_and_no_lane_is_leaked() {
    check(|| {
        let scene = Scene::new(1);
        with_a_lane(&scene, |lane| {
            let threads = [1, 2].map(|number| spawn(&scene, wish(number)));
            drop(lane);
            for thread in threads {
                let way = thread.join().unwrap();
                assert!(matches!(way, Way::Led | Way::Followed), "{way:?}");
            }
        });
        scene.assert_all_is_done(1);
    });
}

#[test]
fn a_job_whose_time_is_over_while_it_gets_its_lane_is_sent_once() {
    check(|| {
        let scene = Scene::new(1);
        with_a_lane(&scene, |lane| {
            let hasty = spawn_hasty(&scene, wish(1));
            let patient = spawn(&scene, wish(2));
            drop(lane);
            hasty.join().unwrap();
            patient.join().unwrap();
        });
        scene.assert_all_is_done(1);
    });
}

#[test]
fn a_leader_that_panics_leaves_nobody_waiting() {
    check(|| {
        let scene = Scene::new(1);
        with_a_lane(&scene, |lane| {
            let threads = [1, 2].map(|number| spawn(&scene, wish(number)));
            // A thread that panics while it leads for those who are in the queue.
            drop(lane);
            let panicked = catch_unwind(AssertUnwindSafe(|| {
                if let Some((_lane, others)) = scene.lanes.try_enter(|_| true, ROOMY) {
                    let _batch = Batch {
                        others,
                        is_sent: false,
                    };
                    resume_unwind(Box::new("in the model"));
                }
            }));
            drop(panicked);
            for thread in threads {
                thread.join().unwrap();
            }
        });
        scene.assert_all_is_done(1);
    });
}

#[test]
fn jobs_for_other_nodes_are_not_in_one_batch() {
    check(|| {
        let scene = Scene::new(1);
        with_a_lane(&scene, |lane| {
            let threads = [1, 2].map(|number| {
                let nodes = number;
                spawn(&scene, Wish { number, nodes })
            });
            drop(lane);
            for thread in threads {
                assert_eq!(thread.join().unwrap(), Way::Led);
            }
        });
        scene.assert_all_is_done(1);
    });
}

#[test]
fn a_job_without_room_waits_for_the_next_batch() {
    check(|| {
        let scene = Scene {
            room: ONE,
            ..Scene::new(1)
        };
        with_a_lane(&scene, |lane| {
            let threads = [1, 2].map(|number| spawn(&scene, wish(number)));
            drop(lane);
            for thread in threads {
                assert_eq!(thread.join().unwrap(), Way::Led);
            }
        });
        scene.assert_all_is_done(1);
    });
}

#[test]
fn two_lanes_are_two_batches_at_most() {
    check(|| {
        let scene = Scene::new(2);
        with_a_lane(&scene, |lane| {
            let threads = [1, 2].map(|number| spawn(&scene, wish(number)));
            drop(lane);
            for thread in threads {
                thread.join().unwrap();
            }
        });
        scene.assert_all_is_done(2);
    });
}

#[test]
fn lanes_that_become_fewer_while_batches_are_under_way_leave_nobody_waiting() {
    check(|| {
        let scene = Scene {
            round_trip: Duration::ZERO,
            ..Scene::new(3)
        };
        with_a_lane(&scene, |lane| {
            let threads = [1, 2].map(|number| spawn(&scene, wish(number)));
            drop(lane);
            for thread in threads {
                thread.join().unwrap();
            }
        });
        scene.assert_all_is_done(2);
    });
}

#[test]
fn a_lane_that_is_given_back_twice_is_given_back_once() {
    check(|| {
        let scene = Scene::new(1);
        with_a_lane(&scene, |lane| {
            let threads = [1, 2].map(|number| spawn(&scene, wish(number)));
            lane.give_back(None);
            drop(lane);
            for thread in threads {
                thread.join().unwrap();
            }
        });
        scene.assert_all_is_done(1);
    });
}
