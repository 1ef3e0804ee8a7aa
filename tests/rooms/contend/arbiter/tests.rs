//! The looks at one node, over fakes.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::*;
use crate::claim::Kind;
use crate::clock::Timestamp;
use crate::contend::held::tests::lease;
use crate::contend::queue_answers::spec;
use crate::contend::waiting::{Do, Start};
use crate::error::{NodeReport, Vote};
use crate::fake::{FakeClock, FakeNode};
use crate::node::key_report::LookReply;
use crate::{Builder, LockManager};

const DELAY: Duration = Duration::from_millis(100);

const INTENT: &str = "job:redlatch:intent";
const WAITING: &str = "job:redlatch:waiting";

struct World {
    clock: FakeClock,
    nodes: Vec<FakeNode>,
    manager: LockManager,
    held: Held,
}

fn world() -> World {
    world_with(LockManager::builder())
}

fn world_with(builder: Builder) -> World {
    let clock = FakeClock::new();
    let nodes = FakeNode::cluster_on(3, &clock);
    let builder = builder.fakes(&nodes).retry_delay(DELAY, DELAY);
    let manager = builder.build().unwrap();
    World {
        clock,
        nodes,
        manager,
        held: Held::default(),
    }
}

impl World {
    /// What a call asks for that waits for this long, or without a bound.
    fn spec(&self, kind: Kind, span: Option<Duration>) -> Spec {
        let cluster = self.manager.cluster().unwrap();
        let resource = cluster.resource("job".into(), kind).unwrap();
        let end = span.map(|span| cluster.clock.now().saturating_add(span));
        Spec {
            resource: Arc::new(resource),
            ..spec(end)
        }
    }

    fn arbiter<'w>(&'w self, spec: &'w Spec) -> Arbiter<'w> {
        Arbiter::new(self.manager.cluster().unwrap(), &self.held, spec)
    }

    /// Gives the lock, or the first slot of the semaphore, to another holder on these nodes.
    fn hold(&self, places: impl IntoIterator<Item = usize>, ttl: Duration) {
        for index in places {
            for key in ["job", "job:redlatch:slot:0"] {
                self.nodes[index].hold(key, "another", ttl);
            }
        }
    }

    /// Which of the nodes have this key.
    fn have(&self, key: &str) -> [bool; 3] {
        [0, 1, 2].map(|index| self.nodes[index].ttl_of(key).is_some())
    }
}

/// The wait of a call that these votes refuse.
fn refused(spec: &Spec, votes: [Vote; 3]) -> (Wait<'_>, Do) {
    let nodes = votes.map(|vote| NodeReport::new(&"n".into(), vote, Duration::ZERO));
    let mut wait = Wait::new(&spec.resource, true);
    drop(wait.start(Start::Turn));
    let error = Error::Held {
        resource: "job".into(),
        permits: None,
        waited: Duration::ZERO,
        holder: None,
        nodes: nodes.into(),
    };
    let next = wait.refused(error, DELAY);
    (wait, next)
}

/// The wait of a call that others refuse everywhere.
fn held_by_others(spec: &Spec) -> Wait<'_> {
    refused(spec, [(); 3].map(|()| Vote::held(None))).0
}

fn a_reader() -> Vote {
    Vote::Read {
        readers: 1,
        first: None,
        last: DELAY,
        resource: None,
    }
}

/// Leaves the intent that these votes ask for.
fn intend(world: &World, spec: &Spec, votes: [Vote; 3]) {
    let (wait, next) = refused(spec, votes);
    let Do::Look(WhenFree::Intend, index) = next else {
        panic!("{next:?}");
    };
    let mut arbiter = world.arbiter(spec);
    let sighting = arbiter.look(&wait, WhenFree::Intend, index).unwrap();
    assert!(sighting.is_some() && arbiter.listener.is_none());
}

#[test]
fn the_first_node_that_does_not_fail_is_looked_at_and_no_other() {
    for pool_size in [1, 4] {
        let world = world_with(LockManager::builder().pool_size(pool_size));
        world.hold(0..3, DELAY / 2);
        world.nodes[0].refuse();
        // That would show if it were asked. Who has one connection does not listen, and is not announced.
        world.nodes[2].hang();
        let spec = world.spec(Kind::Lock, None);
        let mut arbiter = world.arbiter(&spec);
        let sighting = arbiter.look(&held_by_others(&spec), WhenFree::Take, None);
        let Sighting {
            index, delay, look, ..
        } = sighting.unwrap().unwrap();
        assert_eq!(
            (index, delay, look.state),
            (1, DELAY, LockState::Held(DELAY / 2))
        );
        assert_eq!(world.have(WAITING), [false, pool_size > 1, false]);
        // It sleeps where it can't listen.
        let outcome = arbiter.listen(DELAY);
        assert_eq!(outcome == ListenOutcome::Failed, pool_size == 1);
        assert!(world.clock.elapsed() >= DELAY);
        assert!(arbiter.listener.is_none());
    }
}

#[test]
fn a_node_that_is_passed_over_is_not_looked_at() {
    let world = world();
    world.hold(0..3, DELAY);
    let spec = world.spec(Kind::Lock, None);
    let held = || Vote::held(Some(DELAY));
    let (wait, _) = refused(&spec, [Vote::Granted, held(), held()]);
    let sighting = world.arbiter(&spec).look(&wait, WhenFree::Take, None);
    assert_eq!(sighting.unwrap().unwrap().index, 1);
    assert_eq!(world.have(WAITING), [false, true, false]);
}

#[test]
fn one_whose_time_is_over_looks_at_no_further_node() {
    let world = world();
    world.nodes.iter().for_each(FakeNode::hang);
    let spec = world.spec(Kind::Lock, Some(DELAY / 10));
    let sighting = world
        .arbiter(&spec)
        .look(&held_by_others(&spec), WhenFree::Take, None);
    assert!(sighting.unwrap().is_none());
    let timeout = world.manager.cluster().unwrap().options.node_timeout;
    assert_eq!(world.clock.elapsed(), timeout);
}

#[test]
fn a_writer_of_several_resources_leaves_its_intent_for_the_key_that_readers_have() {
    let world = world_with(LockManager::builder().key_prefix("app:"));
    let names = ["a", "b", "c"].map(Arc::from);
    let spec = world.spec(Kind::Several(names.into()), None);
    let read = a_reader().about(&"b".into());
    let of_a = Vote::held(None).about(&"a".into());
    intend(&world, &spec, [Vote::Granted, of_a, read]);
    for name in ["a", "b", "c"] {
        let left = world.have(&format!("app:{name}:redlatch:intent"));
        assert_eq!(left, [name == "b", false, false], "{name}");
    }
}

/// Its attempts are granted at the first node, and undone there.
#[test]
fn the_intent_of_a_writer_outlasts_its_undos_and_goes_with_its_release() {
    // With one connection, which is not used to listen, and with several.
    for pool_size in [1, 4] {
        let world = world_with(LockManager::builder().pool_size(pool_size));
        world.hold(1..3, DELAY);
        let spec = world.spec(Kind::Lock, None);
        for _ in 0..3 {
            let error = world.manager.try_lock("job", DELAY).unwrap_err();
            assert!(matches!(error, Error::Held { .. }), "{error}");
            intend(&world, &spec, [Vote::Granted, a_reader(), a_reader()]);
            assert!(world.have(INTENT)[0] && !world.have(WAITING)[0]);
        }
        world.clock.advance(DELAY);
        let guard = world.manager.try_lock("job", DELAY).unwrap();
        guard.unlock().unwrap();
        assert!(!world.have(INTENT)[0], "{pool_size}");
    }
}

/// An earlier look of the writer has announced it where it leaves its intent now.
#[test]
fn the_undo_of_an_attempt_leaves_the_intent_also_where_its_writer_is_announced() {
    let world = world();
    let spec = world.spec(Kind::Lock, None);
    world.hold([0], DELAY / 2);
    let mut arbiter = world.arbiter(&spec);
    let sighting = arbiter.look(&held_by_others(&spec), WhenFree::Take, None);
    assert!(sighting.unwrap().unwrap().look.is_announced);
    world.clock.advance(DELAY / 2);
    world.hold(1..3, DELAY * 9);
    intend(&world, &spec, [Vote::Granted, a_reader(), a_reader()]);
    let error = world.manager.try_lock("job", DELAY).unwrap_err();
    assert!(matches!(error.round().1[0].vote, Vote::Granted), "{error}");
    assert!(!world.have("job")[0] && world.have(WAITING)[0] && world.have(INTENT)[0]);
}

#[test]
fn the_slots_are_found_that_a_node_of_a_quorum_calls_free_and_no_guard_here_has() {
    let world = world();
    let spec = world.spec(Kind::Permit(3), None);
    let find = || {
        let (slots, are_taken) = world
            .arbiter(&spec)
            .find_slots(&held_by_others(&spec), 3)
            .unwrap();
        (slots, are_taken)
    };
    let sorted = |(mut slots, are_taken): (Vec<u32>, bool)| {
        slots.sort_unstable();
        (slots, are_taken)
    };
    let hold = |places: std::ops::Range<usize>, slot: u32| {
        for index in places {
            let key = format!("job:redlatch:slot:{slot}");
            world.nodes[index].hold(&key, "another", DELAY);
        }
    };
    assert_eq!(sorted(find()), (vec![0, 1, 2], false));
    hold(0..3, 0);
    hold(0..1, 1);
    hold(0..3, 2);
    // The first node calls none free.
    assert_eq!(find(), (vec![1], false));
    hold(0..2, 1);
    assert_eq!(sorted(find()), (vec![0, 1, 2], true));
    // A guard of this manager has one, whatever the nodes say.
    let end = Timestamp::from_nanos(u64::MAX);
    let leases = [0, 1, 2].map(|slot| lease(slot, end));
    world.held.add(&leases[1]);
    assert_eq!(sorted(find()), (vec![0, 2], true));
    world.held.add(&leases[0]);
    world.held.add(&leases[2]);
    world.clock.advance(DELAY);
    assert_eq!(find(), (vec![], false));
    // Too few answer.
    for lease in &leases {
        world.held.remove(lease);
    }
    world.nodes[1..].iter().for_each(FakeNode::refuse);
    hold(0..1, 0);
    hold(0..1, 1);
    hold(0..1, 2);
    assert_eq!(sorted(find()), (vec![0, 1, 2], false));
}

#[test]
fn one_whose_own_slots_a_node_has_forgotten_sees_none_of_them() {
    let world = world();
    let leases = [0, 2].map(|slot| lease(slot, Timestamp::from_nanos(u64::MAX)));
    for lease in &leases {
        world.held.add(lease);
    }
    let spec = world.spec(Kind::Permit(3), None);
    let sighting = world
        .arbiter(&spec)
        .look(&held_by_others(&spec), WhenFree::Take, None);
    let LookReply { state, free, .. } = sighting.unwrap().unwrap().look;
    assert_eq!((state, free), (LockState::Free, vec![1]));
}

#[test]
fn each_free_slot_may_be_the_first_one() {
    let world = world();
    let spec = world.spec(Kind::Permit(3), None);
    let arbiter = world.arbiter(&spec);
    for count in 1..=40_u32 {
        let slots: Vec<u32> = (0..count).map(|slot| slot.saturating_mul(3)).collect();
        let mut first = BTreeSet::new();
        while first.len() < slots.len() {
            let free = arbiter.free_slots(slots.clone()).unwrap();
            let different: BTreeSet<&u32> = free.iter().collect();
            assert_eq!(different.len(), slots.len(), "{free:?}");
            first.insert(*free.last().unwrap());
        }
        assert!(first.into_iter().eq(slots), "{count}");
    }
}
