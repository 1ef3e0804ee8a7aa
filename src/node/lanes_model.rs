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

    fn enter(&self, own: Wish, room: usize, until: u64, clock: &Clock) -> Entry<'_> {
        let applicant = Applicant {
            places: &own.places,
            room,
            since: at(0),
            until: at(until),
        };
        self.lanes.enter(&applicant, clock, || own)
    }

    fn send(&self, wish: Wish) {
        self.sent[wish.number].fetch_add(1, Ordering::SeqCst);
    }

    fn lead(&self, own: Wish, lane: Lane<'_>, others: Others) {
        let before = self.batches.fetch_add(1, Ordering::SeqCst);
        assert!(before < self.most, "more batches than lanes");
        assert!(others.len() < self.room, "a batch without room");
        let is_sent = true;
        let batch = Batch { others, is_sent };
        self.send(own);
        for other in &batch.others {
            assert_eq!(other.job.places, own.places, "other nodes in one batch");
            self.send(other.job);
        }
        self.batches.fetch_sub(1, Ordering::SeqCst);
        lane.give_back(Some(self.round_trip));
        drop(lane);
    }

    /// Asks as a thread does, and has its wish sent. Returns how.
    fn ask(&self, own: Wish, clock: &Clock) -> &'static str {
        match self.enter(own, self.room.saturating_sub(1), 1, clock) {
            Entry::Leads(lane, _) if lane.is_given_back() => {
                self.send(own);
                "alone"
            }
            Entry::Leads(lane, others) => {
                self.lead(own, lane, others);
                "led"
            }
            Entry::Answered(Some(whose)) => {
                assert_eq!(whose, own.number, "the answer of another");
                "followed"
            }
            // Its leader panicked.
            Entry::Answered(None) => {
                self.send(own);
                "again"
            }
        }
    }

    /// Takes a lane, or none if none is free, with those who wait.
    fn take_lane(&self) -> (Lane<'_>, Others) {
        let (number, places) = (0, 0);
        match self.enter(Wish { number, places }, ROOMY, 0, &Clock::Still) {
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

/// Checks all interleavings, with at most three preemptions of a thread, of two threads that want something of these nodes, the
/// first with this clock, while another has a lane and then gives it back. Judges how they got their answers.
fn check(
    scene: fn() -> Scene,
    nodes: [usize; 2],
    first: fn() -> Clock,
    give_back: fn(&Scene, Lane<'_>),
    is_good: fn(&str) -> bool,
) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let scene = scene();
        let (lane, others) = scene.take_lane();
        assert!(others.is_empty());
        let clocks = [first, || Clock::Still];
        let threads = [(0, 1), (1, 2)].map(|(place, number)| {
            let (scene, clock): (Scene, fn() -> Clock) = (scene.clone(), clocks[place]);
            let places = nodes[place];
            thread::spawn(move || scene.ask(Wish { number, places }, &clock()))
        });
        give_back(&scene, lane);
        let ways = threads.map(|thread| thread.join().unwrap());
        assert!(ways.iter().all(|way| is_good(way)), "{ways:?}");
        scene.assert_all_is_done(scene.most.min(2));
    });
}

fn still() -> Clock {
    Clock::Still
}

#[test]
fn every_job_is_answered_and_no_lane_is_leaked() {
    // It is given back once.
    let twice = |_: &Scene, lane: Lane<'_>| {
        lane.give_back(None);
        drop(lane);
    };
    let is_sent_by_one = |way: &str| matches!(way, "led" | "followed");
    check(|| Scene::new(1), [0, 0], still, twice, is_sent_by_one);
}

#[test]
fn a_job_whose_time_is_over_while_it_gets_its_lane_is_sent_once() {
    let hasty = || Clock::Hasty(0.into());
    check(
        || Scene::new(1),
        [0, 0],
        hasty,
        |_, lane| drop(lane),
        |_| true,
    );
}

#[test]
fn a_leader_that_panics_leaves_nobody_waiting() {
    let panics = |scene: &Scene, lane: Lane<'_>| {
        // A thread that panics while it leads for those who are in the queue.
        drop(lane);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let (_lane, others) = scene.take_lane();
            let is_sent = false;
            let _batch = Batch { others, is_sent };
            resume_unwind(Box::new("in the model"));
        }));
        drop(panicked);
    };
    check(|| Scene::new(1), [0, 0], still, panics, |_| true);
}

#[test]
fn jobs_for_other_nodes_or_without_room_are_not_in_one_batch() {
    let cramped = || Scene {
        room: 1,
        ..Scene::new(1)
    };
    let give_back = |_: &Scene, lane: Lane<'_>| drop(lane);
    check(
        || Scene::new(1),
        [1, 2],
        still,
        give_back,
        |way| way == "led",
    );
    check(cramped, [0, 0], still, give_back, |way| way == "led");
}

/// Also where they become fewer while batches are under way.
#[test]
fn there_are_no_more_batches_than_lanes() {
    let give_back = |_: &Scene, lane: Lane<'_>| drop(lane);
    check(|| Scene::new(2), [0, 0], still, give_back, |_| true);
    let near = || Scene {
        round_trip: Duration::ZERO,
        ..Scene::new(3)
    };
    check(near, [0, 0], still, give_back, |_| true);
}
