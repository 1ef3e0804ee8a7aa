//! The lanes under every interleaving of a few threads, by loom: the same file once more, over loom's locks.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use self::clock::{Clock, at};
use self::lanes::{Applicant, Entry, Lane, Lanes, Others};
use self::request::Batched as Wish;
use crate::sync::model as sync;

#[expect(
    clippy::duplicate_mod,
    dead_code,
    reason = "this one is over the locks of the model"
)]
#[path = "lanes.rs"]
mod lanes;

/// In the place of the answers.
mod reply {
    /// Whose wish was fulfilled; none if the leader panicked.
    pub(super) type Answers = Option<usize>;
}

/// In the place of the requests.
mod request {
    /// What a thread wants: the number of the thread, and of which nodes.
    #[derive(Clone, Copy)]
    pub(super) struct Batched {
        pub(super) number: usize,
        pub(super) places: Places,
    }

    pub(super) type Places = usize;

    impl Batched {
        #[expect(clippy::unused_self, reason = "as a request")]
        pub(super) fn cost(&self) -> usize {
            1
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

        pub(super) fn wait<S>(
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

const ROOMY: usize = 9;

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
    room: usize,
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
        assert!(others.len() < self.room, "a batch without room");
        let mut batch = Batch {
            others,
            is_sent: true,
        };
        self.send(own);
        for other in &batch.others {
            assert_eq!(other.job.places, own.places, "other nodes in one batch");
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
        let applicant = Applicant {
            places: &own.places,
            room: self.room.saturating_sub(1),
            since: at(0),
            until: at(1),
        };
        match self.lanes.enter(&applicant, clock, || own) {
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

    /// Takes a lane, or none if none is free, with those who wait.
    fn take_lane(&self) -> (Lane<'_>, Others) {
        let (number, places) = (0, 0);
        let applicant = Applicant {
            places: &places,
            room: ROOMY,
            since: at(0),
            until: at(0),
        };
        let wish = || Wish { number, places };
        match self.lanes.enter(&applicant, &Clock::Still, wish) {
            Entry::Leads(lane, others) => (lane, others),
            Entry::Answered(_) => (Lane::none(at(0)), Others::new()),
        }
    }

    /// Each wish was sent once, and all lanes are free. Nobody is left in the queue.
    fn assert_all_is_done(&self, lanes: usize) {
        for sent in &self.sent[1..] {
            assert_eq!(sent.load(Ordering::SeqCst), 1, "not sent once");
        }
        assert!(self.lanes.are_idle());
        let free: Vec<_> = (0..lanes).map(|_| self.take_lane()).collect();
        let is_whole =
            |(lane, others): &(Lane<'_>, Others)| !lane.is_given_back() && others.is_empty();
        assert!(free.iter().all(is_whole));
        assert!(self.take_lane().0.is_given_back(), "too many lanes");
    }
}

/// Checks all interleavings with at most three preemptions of a thread.
fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// Two threads that want something of these nodes, the first with this clock, while another has a lane and then gives it back.
/// Returns how they got their answers.
fn ask_both(
    scene: &Scene,
    nodes: [usize; 2],
    first: fn() -> Clock,
    give_back: impl FnOnce(Lane<'_>),
) -> [Way; 2] {
    let (lane, others) = scene.take_lane();
    assert!(others.is_empty());
    let clocks = [first, || Clock::Still];
    let threads = [(0, 1), (1, 2)].map(|(place, number)| {
        let (scene, clock): (Scene, fn() -> Clock) = (scene.clone(), clocks[place]);
        let places = nodes[place];
        let wish = Wish { number, places };
        thread::spawn(move || scene.ask(wish, &clock()))
    });
    give_back(lane);
    threads.map(|thread| thread.join().unwrap())
}

fn still() -> Clock {
    Clock::Still
}

fn at_once(lane: Lane<'_>) {
    drop(lane);
}

/// The same with one lane and for the same nodes, in all interleavings.
fn check_one_lane(first: fn() -> Clock, give_back: fn(&Scene, Lane<'_>)) {
    check(move || {
        let scene = Scene::new(1);
        ask_both(&scene, [0, 0], first, |lane| give_back(&scene, lane));
        scene.assert_all_is_done(1);
    });
}

#[test]
fn every_job_is_answered_and_no_lane_is_leaked() {
    check(|| {
        let scene = Scene::new(1);
        for way in ask_both(&scene, [0, 0], still, at_once) {
            assert!(matches!(way, Way::Led | Way::Followed), "{way:?}");
        }
        scene.assert_all_is_done(1);
    });
}

#[test]
fn a_job_whose_time_is_over_while_it_gets_its_lane_is_sent_once() {
    check_one_lane(|| Clock::Hasty(0.into()), |_, lane| drop(lane));
}

#[test]
fn a_leader_that_panics_leaves_nobody_waiting() {
    check_one_lane(still, |scene, lane| {
        // A thread that panics while it leads for those who are in the queue.
        drop(lane);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let (_lane, others) = scene.take_lane();
            let _batch = Batch {
                others,
                is_sent: false,
            };
            resume_unwind(Box::new("in the model"));
        }));
        drop(panicked);
    });
}

#[test]
fn a_lane_that_is_given_back_twice_is_given_back_once() {
    check_one_lane(still, |_, lane| {
        lane.give_back(None);
        drop(lane);
    });
}

#[test]
fn jobs_for_other_nodes_or_without_room_are_not_in_one_batch() {
    for (nodes, room) in [([1, 2], ROOMY), ([0, 0], 1)] {
        check(move || {
            let scene = Scene {
                room,
                ..Scene::new(1)
            };
            assert_eq!(ask_both(&scene, nodes, still, at_once), [Way::Led; 2]);
            scene.assert_all_is_done(1);
        });
    }
}

/// Also where they become fewer while batches are under way.
#[test]
fn there_are_no_more_batches_than_lanes() {
    for (most, round_trip) in [(2, Duration::MAX), (3, Duration::ZERO)] {
        check(move || {
            let scene = Scene {
                round_trip,
                ..Scene::new(most)
            };
            ask_both(&scene, [0, 0], still, at_once);
            scene.assert_all_is_done(2);
        });
    }
}
