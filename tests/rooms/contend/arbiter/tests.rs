//! The wait at one node, over fakes.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Reach::{AllNodes, ArbiterFirst};
use super::*;
use crate::clock::Timestamp;
use crate::contend::held::tests::lease;
use crate::error::{NodeError, NodeReport};
use crate::fake::{FakeClock, FakeNode};
use crate::{Builder, LockManager};

const DELAY: Duration = Duration::from_millis(100);

const FOREVER: Patience = Patience {
    end: None,
    cancel: None,
};

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
    fn cluster(&self) -> &Cluster {
        self.manager.cluster().unwrap()
    }

    fn resource(&self, kind: Kind) -> Resource {
        self.cluster().resource("job".into(), kind).unwrap()
    }

    /// A wait without a bound.
    fn begin<'w>(&'w self, resource: &'w Resource) -> Wait<'w> {
        Wait::new(self.cluster(), &self.held, resource, &FOREVER)
    }

    fn patience(&self, span: Duration) -> Patience {
        let end = Some(self.cluster().clock.now().saturating_add(span));
        Patience { end, ..FOREVER }
    }

    /// Waits for an attempt. Returns which nodes it asks, and when.
    fn next(&self, wait: &mut Wait<'_>) -> (Reach, Duration) {
        let round = wait.wait(WhenFree::Take).unwrap();
        (round.reach, self.clock.elapsed())
    }

    /// Gives the lock, or the first slot of the semaphore, to another holder on these nodes.
    fn hold(&self, places: impl IntoIterator<Item = usize>, ttl: Duration) {
        for place in places {
            for key in ["job", "job:redlatch:slot:0"] {
                self.nodes[place].hold(key, "another", ttl);
            }
        }
    }

    /// Which of the nodes have this key.
    fn have(&self, key: &str) -> [bool; 3] {
        [0, 1, 2].map(|place| self.nodes[place].ttl_of(key).is_some())
    }
}

const INTENT: &str = "job:redlatch:intent";
const WAITING: &str = "job:redlatch:waiting";

fn refused(votes: [Vote; 3]) -> Error {
    let nodes = ["n0", "n1", "n2"].map(Arc::from).into_iter().zip(votes);
    let nodes = nodes.map(|(node, vote)| NodeReport::new(&node, vote, Duration::ZERO));
    Error::Held {
        resource: "job".into(),
        permits: None,
        waited: Duration::ZERO,
        holder: None,
        nodes: nodes.collect(),
    }
}

fn held() -> Vote {
    Vote::held(Some(DELAY))
}

fn a_reader() -> Vote {
    Vote::Read {
        readers: 1,
        first: None,
        last: DELAY,
        resource: None,
    }
}

fn not_a_lock() -> Vote {
    Vote::Failed(NodeError::never_expires(None, None))
}

fn failed() -> Vote {
    Vote::Failed(NodeError::silence())
}

#[test]
fn hints_that_come_to_nothing_at_once_are_heeded_a_few_times_and_then_slept_on() {
    let of_many = [Kind::Read, Kind::Permit(1)].map(|kind| (kind, MOST_HINTS_OF_MANY));
    for (kind, most) in [(Kind::Lock, MOST_HINTS)].into_iter().chain(of_many) {
        let world = world();
        let resource = world.resource(kind);
        let mut wait = world.begin(&resource);
        for sleeps in 1..=4 {
            for _ in 0..most {
                assert_eq!(world.next(&mut wait), (ArbiterFirst, DELAY * (sleeps - 1)));
            }
            assert_eq!(world.next(&mut wait), (AllNodes, DELAY * sleeps));
        }
        // With some time between them, all are heeded.
        for _ in 0..most * 3 {
            world.hold(0..3, DELAY / 2);
            assert_eq!(world.next(&mut wait).0, ArbiterFirst);
        }
    }
}

#[test]
fn the_first_node_that_does_not_fail_is_looked_at_and_no_other() {
    let resource = Resource::of_key("job");
    for pool_size in [1, 4] {
        let world = world_with(LockManager::builder().pool_size(pool_size));
        world.hold(0..3, DELAY / 2);
        world.nodes[0].refuse();
        // That would show if it were asked. Who has one connection does not listen, and is not announced.
        world.nodes[2].hang();
        let next = world.next(&mut world.begin(&resource));
        assert_eq!(next, (ArbiterFirst, DELAY / 2 + PRECISION));
        assert_eq!(world.have(WAITING), [false, pool_size > 1, false]);
    }
}

#[test]
fn all_nodes_are_asked_after_eight_looks_or_at_the_end() {
    let (world, resource) = (world(), Resource::of_key("job"));
    world.hold(0..3, DELAY * 100);
    let mut wait = world.begin(&resource);
    let mut at = DELAY * MOST_POLLS;
    assert_eq!(world.next(&mut wait), (AllNodes, at));
    for span in [DELAY * 5 / 2, Duration::ZERO] {
        let patience = world.patience(span);
        let mut wait = world.begin(&resource);
        wait.patience = &patience;
        at += span;
        assert_eq!(world.next(&mut wait), (AllNodes, at));
    }
    // One whose time is over looks at no further node.
    world.nodes.iter().for_each(FakeNode::hang);
    let patience = world.patience(DELAY / 10);
    wait.patience = &patience;
    at += world.cluster().options.node_timeout;
    assert_eq!(world.next(&mut wait), (AllNodes, at));
}

/// The nodes have the key for one, two and three quarters of a delay, so the end of the wait tells where it was.
#[test]
fn one_waits_at_the_first_node_that_can_tell_of_the_lock() {
    let failure = "timed out".into();
    let left_out = NodeError::BreakerOpen { failure };
    // These two answer a look, and no attempt.
    let abstains = NodeError::Quarantined {
        remaining: DELAY,
        has_marker: true,
    };
    let (code, message) = ("OOM".into(), String::new());
    let full = NodeError::Refused { code, message };
    let [left_out, abstains, full] = [left_out, abstains, full].map(Vote::Failed);
    let permit = Kind::Permit(1);
    for (kind, votes, place) in [
        (Kind::Lock, [held(), Vote::Granted, held()], 0),
        // Others name a holder, so it has no key there.
        (Kind::Lock, [Vote::Granted, held(), held()], 1),
        (Kind::Lock, [abstains, held(), held()], 1),
        (Kind::Lock, [full, failed(), held()], 2),
        (Kind::Lock, [not_a_lock(), held(), held()], 0),
        // It was not asked, and is looked at if it is back.
        (Kind::Lock, [left_out, held(), held()], 0),
        // A writer among readers leaves its intent there, and is announced since another has the lock by now.
        (Kind::Lock, [Vote::Granted, a_reader(), a_reader()], 0),
        (Kind::Lock, [failed(), Vote::Granted, a_reader()], 1),
        // The first node knows before the others that this slot is released.
        (permit.clone(), [Vote::Granted, held(), held()], 1),
        (permit.clone(), [not_a_lock(), held(), held()], 0),
        (permit, [failed(), failed(), held()], 2),
    ] {
        let world = world();
        for (place, quarters) in (0..3).zip(1..) {
            world.hold([place], DELAY / 4 * quarters);
        }
        let resource = world.resource(kind);
        let mut wait = world.begin(&resource);
        wait.refused(&refused(votes.clone()));
        let (reach, end) = world.next(&mut wait);
        let ends = [1, 2, 3].map(|quarters| DELAY / 4 * quarters + PRECISION);
        assert_eq!((reach, end), (ArbiterFirst, ends[place]), "{votes:?}");
        assert_eq!(world.have(WAITING), [0, 1, 2].map(|it| it == place));
        let is_read = matches!(votes[2], Vote::Read { .. });
        assert_eq!(world.have(INTENT)[place], is_read);
    }
}

/// Other readers are on their way to the first node.
#[test]
fn a_writer_that_readers_of_other_nodes_refuse_keeps_new_ones_out_at_the_first_and_waits() {
    for (votes, place) in [
        ([Vote::Granted, a_reader(), Vote::held(None)], Some(0)),
        // One that failed is not the first.
        ([failed(), Vote::Granted, a_reader()], Some(1)),
        ([not_a_lock(), Vote::Granted, a_reader()], Some(0)),
        ([a_reader(), Vote::Granted, a_reader()], None),
        ([Vote::Granted, Vote::held(None), failed()], None),
        ([failed(), Vote::NotAsked, a_reader()], None),
    ] {
        // Also when its hints are used up.
        for hints in [0, MOST_HINTS] {
            let (world, resource) = (world(), Resource::of_key("job"));
            let mut wait = world.begin(&resource);
            wait.hints = hints;
            wait.refused(&refused(votes.clone()));
            let expected = match (place, hints) {
                (Some(_), _) => (ArbiterFirst, DELAY),
                (None, 0) => (ArbiterFirst, Duration::ZERO),
                (None, _) => (AllNodes, DELAY),
            };
            assert_eq!(world.next(&mut wait), expected, "{votes:?}");
            assert_eq!(world.have(INTENT), [0, 1, 2].map(|it| Some(it) == place));
        }
    }
}

#[test]
fn a_writer_of_several_resources_keeps_readers_out_of_the_one_that_they_have_elsewhere() {
    // A node that names no resource of this lock, or none at all, is of no use here.
    for (named, delay) in [
        (Some("b"), DELAY),
        (Some("d"), Duration::ZERO),
        (None, Duration::ZERO),
    ] {
        let world = world_with(LockManager::builder().key_prefix("app:"));
        let names = ["a", "b", "c"].map(Arc::from);
        let resource = world.resource(Kind::Several(names.into()));
        let mut wait = world.begin(&resource);
        let read = named.map_or(a_reader(), |name| a_reader().about(&name.into()));
        let of_a = Vote::held(None).about(&"a".into());
        wait.refused(&refused([Vote::Granted, of_a, read]));
        assert_eq!(world.next(&mut wait), (ArbiterFirst, delay));
        for name in ["a", "b", "c"] {
            let left = world.have(&format!("app:{name}:redlatch:intent"));
            assert_eq!(left, [named == Some(name), false, false], "{name}");
        }
    }
}

/// Its attempts are granted at the first node, and undone there.
#[test]
fn the_intent_of_a_writer_outlasts_its_undos_and_goes_with_its_release() {
    // With one connection, which is not used to listen, and with several.
    for pool_size in [1, 4] {
        let world = world_with(LockManager::builder().pool_size(pool_size));
        world.hold(1..3, DELAY * MOST_HINTS);
        let resource = Resource::of_key("job");
        let mut wait = world.begin(&resource);
        for round in 1..=MOST_HINTS {
            let error = world.manager.try_lock("job", DELAY).unwrap_err();
            assert!(matches!(error, Error::Held { .. }), "{error}");
            wait.refused(&refused([Vote::Granted, a_reader(), a_reader()]));
            assert_eq!(world.next(&mut wait), (ArbiterFirst, DELAY * round));
            assert!(world.have(INTENT)[0] && !world.have(WAITING)[0]);
        }
        let guard = world.manager.try_lock("job", DELAY).unwrap();
        guard.unlock().unwrap();
        assert!(!world.have(INTENT)[0], "{pool_size}");
    }
}

/// An earlier look of the writer has announced it where it leaves its intent now.
#[test]
fn the_undo_of_an_attempt_leaves_the_intent_also_where_its_writer_is_announced() {
    let (world, resource) = (world(), Resource::of_key("job"));
    let mut wait = world.begin(&resource);
    world.hold([0], DELAY / 2);
    assert_eq!(world.next(&mut wait).0, ArbiterFirst);
    world.hold(1..3, DELAY * 9);
    wait.refused(&refused([Vote::Granted, a_reader(), a_reader()]));
    assert_eq!(world.next(&mut wait).0, ArbiterFirst);
    let error = world.manager.try_lock("job", DELAY).unwrap_err();
    assert!(matches!(error.round().1[0].vote, Vote::Granted), "{error}");
    assert!(!world.have("job")[0] && world.have(WAITING)[0] && world.have(INTENT)[0]);
}

#[test]
fn a_reader_that_a_writer_keeps_out_asks_the_first_node_alone_after_eight_looks() {
    let world = world();
    let resource = world.resource(Kind::Read);
    world.hold(0..3, DELAY * 100);
    let mut wait = world.begin(&resource);
    assert_eq!(world.next(&mut wait).0, AllNodes);
    let writer_waits = Vote::WriterWaits { remaining: DELAY };
    wait.refused(&refused([writer_waits, Vote::NotAsked, Vote::NotAsked]));
    let at = DELAY * MOST_POLLS * 2;
    assert_eq!(world.next(&mut wait), (ArbiterFirst, at));
    // The last attempt of a call tells of every node.
    let patience = world.patience(DELAY);
    wait.patience = &patience;
    assert_eq!(world.next(&mut wait), (AllNodes, at + DELAY));
}

#[test]
fn one_who_is_polite_waits_a_little_for_a_lock_that_is_free() {
    let (world, resource) = (world(), Resource::of_key("job"));
    let mut wait = world.begin(&resource);
    let round = wait.wait(WhenFree::Yield).unwrap();
    let after = (round.reach, world.clock.elapsed());
    assert_eq!(after, (ArbiterFirst, POLITENESS));
    wait.stay_away();
    assert_eq!(world.clock.elapsed(), POLITENESS * 2);
}

#[test]
fn a_call_for_a_permit_begins_with_the_slots_that_are_free_and_waits_only_if_none_is() {
    let world = world();
    let resource = world.resource(Kind::Permit(3));
    let begin = |span: Duration| {
        let patience = world.patience(span);
        let mut wait = world.begin(&resource);
        wait.patience = &patience;
        let Round { reach, slots, .. } = wait.first_round().unwrap();
        let slots: BTreeSet<u32> = slots.into_iter().collect();
        (reach, slots, world.clock.elapsed())
    };
    let hold = |slot: u32, ttl: Duration| {
        for node in &world.nodes {
            node.hold(&format!("job:redlatch:slot:{slot}"), "another", ttl);
        }
    };
    let all = (AllNodes, BTreeSet::from([0, 1, 2]), Duration::ZERO);
    let second = BTreeSet::from([1]);
    assert_eq!(begin(DELAY), all);
    hold(0, DELAY);
    hold(2, DELAY);
    assert_eq!(begin(DELAY), (AllNodes, second.clone(), Duration::ZERO));
    hold(1, DELAY / 2);
    assert_eq!(begin(Duration::ZERO), all);
    assert_eq!(begin(DELAY), (ArbiterFirst, second, DELAY / 2 + PRECISION));
}

#[test]
fn one_whose_own_slots_a_node_has_forgotten_waits_and_asks_for_none_of_them() {
    let world = world();
    for slot in 0..3 {
        let lease = lease(slot, Timestamp::from_nanos(u64::MAX));
        world.held.add(&lease);
    }
    let resource = world.resource(Kind::Permit(3));
    let round = world.begin(&resource).wait(WhenFree::Take).unwrap();
    assert_eq!((round.reach, round.slots), (AllNodes, Vec::new()));
    assert_eq!(world.clock.elapsed(), DELAY * MOST_POLLS);
}

#[test]
fn each_free_slot_may_be_the_first_one_that_is_asked_for_and_so_many_are() {
    let world = world();
    let resource = world.resource(Kind::Permit(3));
    let wait = world.begin(&resource);
    for count in 1..=40_u32 {
        let slots: Vec<u32> = (0..count).map(|slot| slot.saturating_mul(3)).collect();
        let mut first = BTreeSet::new();
        while first.len() < slots.len() {
            let round = wait.round(AllNodes, slots.clone()).unwrap().slots;
            let different: BTreeSet<&u32> = round.iter().collect();
            assert_eq!(different.len(), slots.len().min(MOST_SLOTS), "{round:?}");
            first.insert(round[0]);
        }
        assert!(first.into_iter().eq(slots), "{count}");
    }
}
