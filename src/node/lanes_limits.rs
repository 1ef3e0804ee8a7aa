//! How many lanes there are, and what goes in one batch.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use self::clock::Clock;
use self::lanes::{Entry, Lane, Lanes, Others};
use self::request::{Batched as Parcel, Size};
use crate::clock::Timestamp;
use crate::sync;

#[expect(clippy::duplicate_mod, dead_code, reason = "this one is about parcels")]
#[path = "lanes.rs"]
mod lanes;

/// In the place of the answers.
mod answer {
    pub(super) type Answers = char;
}

/// In the place of the requests.
mod request {
    pub(super) use crate::node::request::Size;

    pub(super) struct Batched {
        pub(super) name: char,
        pub(super) nodes: u32,
        pub(super) size: Size,
    }

    impl Batched {
        pub(super) fn goes_with(&self, other: &Self) -> bool {
            self.nodes == other.nodes
        }

        pub(super) fn size(&self) -> Size {
            self.size
        }
    }
}

/// In the place of the clock.
mod clock {
    use std::cell::RefCell;

    use crate::clock::Timestamp;
    use crate::sync::{Condvar, MutexGuard};

    /// Does something when the job of its thread is in the queue. Then the time of the job is over.
    pub(super) struct Clock<'c>(pub(super) RefCell<Option<Box<dyn FnOnce() + 'c>>>);

    impl Clock<'_> {
        #[expect(clippy::unused_self, reason = "as the other clock")]
        pub(super) fn let_others_run(&self) {}

        pub(super) fn now(&self) -> Timestamp {
            Timestamp::from_nanos(u64::from(self.0.borrow().is_none()))
        }

        pub(super) fn nap<S>(&self, _: &Condvar, stage: &mut MutexGuard<'_, S>, _: Timestamp) {
            let job = self.0.borrow_mut().take().unwrap();
            MutexGuard::unlocked(stage, job);
        }
    }
}

fn room(commands: usize, bytes: usize) -> Size {
    Size { commands, bytes }
}

const AMPLE: Size = Size {
    commands: 99,
    bytes: 9_999,
};

fn enter(lanes: &Lanes) -> Option<(Lane<'_>, Others)> {
    lanes.try_enter(|_| true, AMPLE)
}

/// How many batches may be under way.
fn count(lanes: &Lanes) -> usize {
    let mut taken = Vec::new();
    while let Some((lane, _)) = enter(lanes) {
        taken.push(lane);
    }
    taken.len()
}

fn measure(lanes: &Lanes, round_trip: Duration) {
    let (lane, _) = enter(lanes).unwrap();
    lane.give_back(Some(round_trip));
}

#[test]
fn the_number_of_lanes_follows_the_round_trip() {
    let lanes = Lanes::new(10);
    assert_eq!(count(&lanes), 10);
    measure(&lanes, Duration::from_millis(5));
    assert_eq!(count(&lanes), 10);
    measure(&lanes, Duration::from_micros(400));
    let some = count(&lanes);
    assert!(some > 2 && some < 10, "{some}");
    measure(&lanes, Duration::from_micros(100));
    assert_eq!(count(&lanes), 2);
    measure(&lanes, Duration::ZERO);
    assert_eq!(count(&lanes), 2);
    let lanes = Lanes::new(1);
    measure(&lanes, Duration::ZERO);
    assert_eq!(count(&lanes), 1);
}

#[test]
fn round_trips_that_busy_processors_stretch_add_no_lane() {
    let lanes = Lanes::new(10);
    measure(&lanes, Duration::from_micros(100));
    for _ in 0..100_000 {
        measure(&lanes, Duration::from_millis(5));
    }
    assert_eq!(count(&lanes), 2);
}

#[test]
fn a_round_trip_that_was_not_measured_changes_nothing() {
    let lanes = Lanes::new(3);
    let (lane, _) = enter(&lanes).unwrap();
    lane.give_back(None);
    drop(lane);
    assert_eq!(count(&lanes), 3);
}

/// Puts the parcels into the queue, one after the other. Returns what each came to, with the last one first.
fn with_queue(lanes: &Lanes, mut parcels: Vec<Parcel>, then: &dyn Fn()) -> Vec<String> {
    if parcels.is_empty() {
        then();
        return Vec::new();
    }
    let parcel = parcels.remove(0);
    let (name, outcomes) = (parcel.name, RefCell::new(Vec::new()));
    let rest = || {
        outcomes.replace(with_queue(lanes, parcels, then));
    };
    let time = Clock(RefCell::new(Some(Box::new(rest))));
    let end = Timestamp::from_nanos(1);
    let outcome = match lanes.enter(parcel, AMPLE, end, &time) {
        Entry::Leads(lane, _) if lane.is_given_back() => format!("{name} goes alone"),
        Entry::Leads(_, others) => format!("{name} leads for {}", names(&others)),
        Entry::Answered(answer) => format!("{name} is told {answer}"),
    };
    drop(time);
    let mut outcomes = outcomes.into_inner();
    outcomes.push(outcome);
    outcomes
}

fn names(others: &Others) -> String {
    others.iter().map(|place| place.job.name).collect()
}

/// What a leader for node 1 takes who has this room, of a queue with parcels `a` to `e`.
fn taken(room_for_others: Size) -> String {
    // With a lane for each of two, and one of them taken, a parcel can be in the queue although a lane is free.
    let lanes = Arc::new(Lanes::new(2));
    let (_lane, _) = enter(&lanes).unwrap();
    let parcel = |name, nodes, commands, bytes| Parcel {
        name,
        nodes,
        size: room(commands, bytes),
    };
    let parcels = vec![
        parcel('a', 1, 1, 100),
        parcel('b', 2, 1, 100),
        parcel('c', 1, 2, 300),
        parcel('d', 1, 1, 100),
        parcel('e', 1, 1, 100),
    ];
    let (taken, leads) = (RefCell::new(String::new()), RefCell::new(None));
    let outcomes = with_queue(&lanes, parcels, &|| {
        let fits = |parcel: &Parcel| parcel.nodes == 1;
        let (lane, others) = lanes.try_enter(fits, room_for_others).unwrap();
        leads.replace(Some(lane));
        taken.replace(names(&others));
        for other in others {
            other.answer(other.job.name);
        }
    });
    let taken = taken.into_inner();
    for (name, outcome) in ['e', 'd', 'c', 'b', 'a'].into_iter().zip(outcomes) {
        let expected = if taken.contains(name) {
            format!("{name} is told {name}")
        } else {
            format!("{name} goes alone")
        };
        assert_eq!(outcome, expected);
    }
    taken
}

#[test]
fn a_batch_takes_those_for_the_same_nodes_as_long_as_there_is_room() {
    assert_eq!(taken(AMPLE), "acde");
    assert_eq!(taken(room(4, 9_999)), "acd");
    assert_eq!(taken(room(99, 500)), "acd");
    // One that is too large for the rest of the room does not keep back a smaller one behind it.
    assert_eq!(taken(room(2, 9_999)), "ad");
    assert_eq!(taken(room(99, 399)), "ade");
    assert_eq!(taken(room(0, 9_999)), "");
    assert_eq!(taken(room(99, 99)), "");
}

#[test]
fn a_job_that_finds_no_batch_under_way_leads_at_once() {
    let lanes = Lanes::new(1);
    let parcel = |name| Parcel {
        name,
        nodes: 1,
        size: room(1, 1),
    };
    let outcomes = with_queue(&lanes, vec![parcel('a')], &|| ());
    assert_eq!(outcomes, ["a leads for "]);
    assert_eq!(count(&lanes), 1);
}

#[test]
fn who_is_given_the_lane_takes_the_others_of_its_nodes_along() {
    let lanes = Lanes::new(1);
    let parcel = |name, nodes| Parcel {
        name,
        nodes,
        size: room(1, 1),
    };
    let lane = RefCell::new(Some(enter(&lanes).unwrap().0));
    let parcels = vec![parcel('a', 1), parcel('b', 2)];
    let outcomes = with_queue(&lanes, parcels, &|| drop(lane.take()));
    assert_eq!(outcomes, ["b goes alone", "a leads for "]);
    assert_eq!(count(&lanes), 1);
}

#[test]
fn a_lane_that_is_one_too_many_by_now_goes_to_nobody() {
    let lanes = Lanes::new(3);
    let parcel = Parcel {
        name: 'a',
        nodes: 1,
        size: room(1, 1),
    };
    let first = RefCell::new(enter(&lanes).unwrap().0);
    let others = [enter(&lanes).unwrap(), enter(&lanes).unwrap()];
    let outcomes = with_queue(&lanes, vec![parcel], &|| {
        first.borrow().give_back(Some(Duration::ZERO));
    });
    assert_eq!(outcomes, ["a goes alone"]);
    drop(others);
    assert_eq!(count(&lanes), 2);
}
