//! The lanes under every interleaving of a few threads, by loom: the same file once more, over loom's locks.

use std::sync::Arc;
use std::time::Duration;

use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use self::clock::{Clock, at};
use self::lanes::{Applicant, Entry, Lane, Lanes};
use self::request::Request as Wish;
use crate::sync::model as sync;

#[expect(
    clippy::duplicate_mod,
    dead_code,
    reason = "this one is over the locks of the model"
)]
#[path = "lanes.rs"]
mod lanes;

/// In the place of the reports.
mod key_report {
    /// Whose wish was fulfilled.
    pub(super) type KeyReports = Vec<usize>;
}

/// In the place of the requests.
mod request {
    /// What a thread wants: the number of the thread, and of which node.
    #[derive(Clone, Copy)]
    pub(super) struct Request {
        pub(super) number: usize,
        pub(super) node: usize,
    }

    impl Request {
        #[expect(clippy::unused_self, reason = "as a request")]
        pub(super) fn room(&self) -> usize {
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
/// How many lanes there are at most to nodes that are near. No scene of far ones has more.
const NEAR: usize = 2;

/// What the threads of a model share.
#[derive(Clone)]
struct Scene {
    lanes: Arc<Lanes>,
    most: usize,
    /// What is measured of each batch.
    round_trip: Duration,
    room: usize,
    /// How often each thread's wish was sent, and how many batches are under way.
    sent: Arc<[AtomicUsize; 3]>,
    batches: Arc<AtomicUsize>,
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
            indexes: &[own.node],
            room,
            since: at(0),
            until: at(until),
        };
        self.lanes.enter(&applicant, clock, || own)
    }

    fn send(&self, wish: Wish) {
        self.sent[wish.number].fetch_add(1, Ordering::SeqCst);
    }

    /// Asks as a thread does, and has its wish sent. Returns how.
    fn ask(&self, own: Wish, clock: &Clock) -> &'static str {
        let (lane, others) = match self.enter(own, self.room.saturating_sub(1), 1, clock) {
            Entry::Leads(lane, others) => (lane, others),
            Entry::Answered(whose) => {
                let whose = whose.reports.lock().clone();
                assert_eq!(whose, [own.number], "the answer of another");
                return "followed";
            }
        };
        self.send(own);
        if lane.is_given_back() {
            return "alone";
        }
        let before = self.batches.fetch_add(1, Ordering::SeqCst);
        assert!(before < self.most.min(NEAR), "more batches than lanes");
        assert!(others.len() < self.room, "a batch without room");
        for other in others {
            assert_eq!(other.request.node, own.node, "other nodes in one batch");
            self.send(other.request);
            other.reports.lock().push(other.request.number);
            other.answer();
        }
        self.end(lane);
        "led"
    }

    fn end(&self, lane: Lane<'_>) {
        self.batches.fetch_sub(1, Ordering::SeqCst);
        // It is given back once, though it is dropped as well.
        lane.give_back(Some(self.round_trip));
        drop(lane);
    }

    /// Takes a lane, or none if none is free. Nobody waits.
    fn take_lane(&self) -> Lane<'_> {
        let (number, node) = (0, 0);
        match self.enter(Wish { number, node }, ROOMY, 0, &Clock::Still) {
            Entry::Leads(lane, others) if others.is_empty() => lane,
            Entry::Leads(..) | Entry::Answered(_) => panic!("a wish was left"),
        }
    }
}

/// Checks all interleavings, with at most three preemptions of a thread, of two threads that want something of these nodes, the
/// first with this clock, while another has all lanes and then gives them back. Each wish is sent once, in one of these ways, and
/// all lanes are free in the end.
fn check(
    scene: impl Fn() -> Scene + Send + Sync + 'static,
    nodes: [usize; 2],
    first: fn() -> Clock,
    ways: &'static [&'static str],
) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let scene = scene();
        let held: Vec<_> = (0..scene.most).map(|_| scene.take_lane()).collect();
        scene.batches.store(scene.most, Ordering::SeqCst);
        let clocks = [first, || Clock::Still];
        let threads = [0, 1].map(|place| {
            let (scene, clock, node) = (scene.clone(), clocks[place], nodes[place]);
            let number = place.saturating_add(1);
            thread::spawn(move || scene.ask(Wish { number, node }, &clock()))
        });
        for lane in held {
            scene.end(lane);
        }
        for (thread, sent) in threads.into_iter().zip(&scene.sent[1..]) {
            let way = thread.join().unwrap();
            assert!(ways.contains(&way), "{way}");
            assert_eq!(sent.load(Ordering::SeqCst), 1, "not sent once");
        }
        assert!(scene.lanes.are_idle());
        let free: Vec<_> = (0..scene.most.min(NEAR))
            .map(|_| scene.take_lane())
            .collect();
        assert!(free.iter().all(|lane| !lane.is_given_back()));
        assert!(scene.take_lane().is_given_back(), "too many lanes");
    });
}

const ANY: &[&str] = &["led", "followed", "alone"];

#[test]
fn every_job_is_answered_and_no_lane_is_leaked() {
    check(|| Scene::new(1), [0, 0], || Clock::Still, &ANY[..2]);
}

#[test]
fn a_job_whose_time_is_over_while_it_gets_its_lane_is_sent_once() {
    check(|| Scene::new(1), [0, 0], || Clock::Hasty(0.into()), ANY);
}

#[test]
fn jobs_for_other_nodes_or_without_room_are_not_in_one_batch() {
    check(|| Scene::new(1), [1, 2], || Clock::Still, &["led"]);
    let (room, one) = (1, || Scene::new(1));
    check(
        move || Scene { room, ..one() },
        [0, 0],
        || Clock::Still,
        &["led"],
    );
}

/// Also where they become fewer while batches are under way.
#[test]
fn there_are_no_more_batches_than_lanes() {
    check(|| Scene::new(2), [0, 0], || Clock::Still, ANY);
    let (round_trip, three) = (Duration::ZERO, || Scene::new(3));
    check(
        move || Scene {
            round_trip,
            ..three()
        },
        [0, 0],
        || Clock::Still,
        ANY,
    );
}
