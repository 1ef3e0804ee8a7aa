//! The wait at one node, over fakes.

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use super::Reach::{AllNodes, ArbiterFirst};
use super::*;
use crate::clock::Timestamp;
use crate::contend::held::tests::lease;
use crate::error::{NodeError, NodeReport};
use crate::fake::{FakeClock, FakeNode};
use crate::{Builder, LockManager};

#[path = "tests/intents.rs"]
mod intents;

const DELAY: Duration = Duration::from_millis(100);

const FOREVER: Patience = Patience {
    end: None,
    cancel: None,
};

static JOB: LazyLock<Resource> = LazyLock::new(|| Resource::of_key("job"));
static READ_JOB: LazyLock<Resource> = LazyLock::new(|| of_kind("job", Kind::Read));
static ONE_EXPORT: LazyLock<Resource> = LazyLock::new(|| of_kind("exports", Kind::Permit(1)));
static THREE_EXPORTS: LazyLock<Resource> = LazyLock::new(|| of_kind("exports", Kind::Permit(3)));

fn of_kind(key: &str, kind: Kind) -> Resource {
    Resource {
        kind,
        ..Resource::of_key(key)
    }
}

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
    fn begin(&self) -> Wait<'_> {
        self.begin_for(&JOB)
    }

    fn begin_for<'w>(&'w self, resource: &'w Resource) -> Wait<'w> {
        Wait::new(self.manager.cluster(), &self.held, resource, &FOREVER)
    }

    fn wait(&self, wait: &mut Wait<'_>, when_free: WhenFree, end: Option<Duration>) -> Reach {
        let now = self.manager.cluster().clock.now();
        let end = end.map(|end| now.saturating_add(end));
        let patience = Patience { end, cancel: None };
        let mut same = Wait {
            patience: &patience,
            passed_over: wait.passed_over.clone(),
            ..*wait
        };
        let round = same.wait(when_free).unwrap();
        wait.hints = same.hints;
        round.reach
    }

    /// Waits, without a bound, for an attempt at these nodes, until the clock shows this.
    #[track_caller]
    fn assert_waits(&self, wait: &mut Wait<'_>, reach: Reach, until: Duration) {
        assert_eq!(self.take(wait), reach);
        assert_eq!(self.clock.elapsed(), until);
    }

    /// Waits for an attempt, without a bound.
    fn take(&self, wait: &mut Wait<'_>) -> Reach {
        self.wait(wait, WhenFree::Take, None)
    }

    /// Gives the lock to another holder on all nodes but the first, for `ttl`.
    fn hold_behind_the_first(&self, ttl: Duration) {
        for node in &self.nodes[1..] {
            node.hold("job", "another", ttl);
        }
    }

    /// Which of the nodes have this of those who wait for the lock.
    fn left(&self, suffix: &str) -> [bool; 3] {
        let key = format!("job:redlatch:{suffix}");
        [0, 1, 2].map(|place| self.nodes[place].ttl_of(&key).is_some())
    }

    /// Gives the lock to another holder on all nodes, for `ttl`.
    fn hold(&self, ttl: Duration) {
        for node in &self.nodes {
            node.hold("job", "another", ttl);
        }
    }
}

#[test]
fn hints_that_come_to_nothing_are_heeded_a_few_times_and_then_slept_on() {
    for (resource, most) in [(&JOB, MOST_HINTS), (&READ_JOB, MOST_HINTS_TO_READ)] {
        let world = world();
        let mut wait = world.begin_for(resource);
        for round in 1..=4 {
            for _ in 0..most {
                assert_eq!(world.take(&mut wait), ArbiterFirst);
            }
            assert_eq!(world.clock.elapsed(), DELAY * (round - 1));
            world.assert_waits(&mut wait, AllNodes, DELAY * round);
        }
    }
}

#[test]
fn hints_with_some_time_between_them_are_all_heeded() {
    let world = world();
    let mut wait = world.begin();
    for _ in 0..MOST_HINTS * 3 {
        world.hold(DELAY / 2);
        assert_eq!(world.take(&mut wait), ArbiterFirst);
    }
}

#[test]
fn the_first_node_that_does_not_fail_is_asked_and_no_other() {
    let world = world();
    world.hold(DELAY * 2 + DELAY / 2);
    world.nodes[0].refuse();
    // That would show if it were asked.
    world.nodes[2].hang();
    let over = DELAY * 2 + DELAY / 2 + PRECISION;
    world.assert_waits(&mut world.begin(), ArbiterFirst, over);
}

#[test]
fn one_whose_time_is_over_looks_at_no_further_node() {
    let world = world();
    for node in &world.nodes {
        node.hang();
    }
    let end = Some(Duration::from_millis(10));
    assert_eq!(
        world.wait(&mut world.begin(), WhenFree::Take, end),
        AllNodes
    );
    let timeout = world.manager.cluster().options.node_timeout;
    assert_eq!(world.clock.elapsed(), timeout);
}

#[test]
fn all_nodes_are_asked_after_eight_looks_or_at_the_end() {
    let world = world();
    world.hold(DELAY * 100);
    let mut wait = world.begin();
    world.assert_waits(&mut wait, AllNodes, DELAY * MOST_POLLS);
    let end = DELAY * 2 + DELAY / 2;
    assert_eq!(world.wait(&mut wait, WhenFree::Take, Some(end)), AllNodes);
    assert_eq!(world.clock.elapsed(), DELAY * MOST_POLLS + end);
    let over = Some(Duration::ZERO);
    assert_eq!(world.wait(&mut wait, WhenFree::Take, over), AllNodes);
    assert_eq!(world.clock.elapsed(), DELAY * MOST_POLLS + end);
}

fn refused(votes: [Vote; 3]) -> Error {
    let nodes = ["n0", "n1", "n2"].map(Arc::from).into_iter().zip(votes);
    Error::Held {
        resource: "job".into(),
        permits: None,
        waited: Duration::ZERO,
        holder: None,
        nodes: nodes
            .map(|(node, vote)| NodeReport::new(&node, vote, Duration::ZERO))
            .collect(),
    }
}

fn not_a_lock() -> Vote {
    Vote::Failed(NodeError::NotALock {
        reason: "never expires",
        length: None,
        resource: None,
    })
}

fn held() -> Vote {
    Vote::held(Some(DELAY))
}

fn failed() -> Vote {
    Vote::Failed(NodeError::TimedOut)
}

#[test]
fn one_who_was_granted_the_first_node_alone_waits_where_it_was_refused() {
    let world = world();
    world.hold_behind_the_first(DELAY * 2 + DELAY / 2);
    let mut wait = world.begin();
    world.assert_waits(&mut wait, ArbiterFirst, Duration::ZERO);
    wait.refused(&refused([Vote::Granted, held(), held()]));
    world.assert_waits(&mut wait, ArbiterFirst, DELAY * 2 + DELAY / 2 + PRECISION);
    wait.refused(&refused([held(), Vote::Granted, held()]));
    world.assert_waits(&mut wait, ArbiterFirst, DELAY * 2 + DELAY / 2 + PRECISION);
}

/// It abstains, or its memory is full: it answers a look, and no attempt.
#[test]
fn a_node_that_failed_in_the_last_attempt_is_not_where_one_waits() {
    let world = world_with(LockManager::builder().pool_size(4));
    let mut wait = world.begin();
    world.hold_behind_the_first(DELAY * 2 + DELAY / 2);
    wait.refused(&refused([failed(), held(), held()]));
    world.assert_waits(&mut wait, ArbiterFirst, DELAY * 2 + DELAY / 2 + PRECISION);
    // A writer among readers waits at the second node, too.
    wait.refused(&refused([failed(), Vote::Granted, a_reader()]));
    assert_eq!(world.take(&mut wait), ArbiterFirst);
    for left in ["intent", "waiting"] {
        assert_eq!(world.left(left), [false, true, false]);
    }
    // A node that was not asked, because it had failed before, is looked at if it is back.
    let left_out = Vote::Failed(NodeError::BreakerOpen {
        failure: "timed out".into(),
    });
    world.nodes[0].hold("job", "another", DELAY / 2);
    wait.refused(&refused([left_out, held(), held()]));
    let end = world.clock.elapsed() + DELAY / 2 + PRECISION;
    world.assert_waits(&mut wait, ArbiterFirst, end);
}

fn a_reader() -> Vote {
    Vote::Read {
        readers: 1,
        first: None,
        last: DELAY,
        resource: None,
    }
}

#[test]
fn a_reader_that_a_writer_keeps_out_asks_the_first_node_alone_after_eight_looks() {
    let world = world();
    world.hold(DELAY * 100);
    let mut wait = world.begin_for(&READ_JOB);
    let writer_waits = Vote::WriterWaits { remaining: DELAY };
    assert_eq!(world.take(&mut wait), AllNodes);
    wait.refused(&refused([writer_waits, Vote::NotAsked, Vote::NotAsked]));
    world.assert_waits(&mut wait, ArbiterFirst, DELAY * MOST_POLLS * 2);
    // The last attempt of a call tells of every node.
    assert_eq!(world.wait(&mut wait, WhenFree::Take, Some(DELAY)), AllNodes);
}

#[test]
fn one_who_is_polite_waits_a_little_for_a_lock_that_is_free() {
    let world = world();
    let mut wait = world.begin();
    assert_eq!(world.wait(&mut wait, WhenFree::Yield, None), ArbiterFirst);
    assert_eq!(world.clock.elapsed(), POLITENESS);
    wait.stay_away();
    assert_eq!(world.clock.elapsed(), POLITENESS * 2);
}

impl World {
    /// The first attempts for one of three permits, by one who waits for so long.
    fn begin_for_a_permit(&self, end: Duration) -> (Reach, Vec<u32>) {
        let patience = Patience {
            end: Some(self.manager.cluster().clock.now().saturating_add(end)),
            cancel: None,
        };
        let mut wait = self.begin_for(&THREE_EXPORTS);
        wait.patience = &patience;
        let round = wait.first_round().unwrap();
        let mut slots = round.slots.unwrap();
        slots.sort_unstable();
        (round.reach, slots)
    }

    fn hold_permits(&self, slots: &[u32], ttl: Duration) {
        for slot in slots {
            let key = format!("exports:redlatch:slot:{slot}");
            for node in &self.nodes {
                node.hold(&key, "another", ttl);
            }
        }
    }
}

#[test]
fn a_call_for_a_permit_begins_with_the_slots_that_are_free_and_waits_only_if_none_is() {
    let world = world();
    let all = (AllNodes, vec![0, 1, 2]);
    assert_eq!(world.begin_for_a_permit(DELAY), all);
    world.hold_permits(&[0, 2], DELAY);
    assert_eq!(world.begin_for_a_permit(DELAY), (AllNodes, vec![1]));
    world.hold_permits(&[1], DELAY / 2);
    // Who does not wait asks all nodes: the keys on the first node may be the rest of a lock that nobody has.
    assert_eq!(world.begin_for_a_permit(Duration::ZERO), all);
    assert_eq!(world.clock.elapsed(), Duration::ZERO);
    assert_eq!(world.begin_for_a_permit(DELAY), (ArbiterFirst, vec![1]));
    assert_eq!(world.clock.elapsed(), DELAY / 2 + PRECISION);
}

#[test]
fn one_whose_own_slots_a_node_has_forgotten_waits_and_asks_for_none_of_them() {
    let world = world();
    for slot in 0..3 {
        world
            .held
            .add(&lease(slot, Timestamp::from_nanos(u64::MAX)));
    }
    let mut wait = world.begin_for(&THREE_EXPORTS);
    let round = wait.wait(WhenFree::Take).unwrap();
    assert_eq!((round.reach, round.slots), (AllNodes, Some(Vec::new())));
    assert_eq!(world.clock.elapsed(), DELAY * MOST_POLLS);
}

/// Each slot is a lock of its own, which has a holder on other nodes.
#[test]
fn one_who_waits_for_a_permit_passes_over_nodes_that_failed_and_no_others() {
    let world = world();
    let mut wait = world.begin_for(&ONE_EXPORT);
    for (node, spans) in world.nodes.iter().zip(1..) {
        node.hold("exports:redlatch:slot:0", "another", DELAY / 4 * spans);
    }
    let mut at = |votes: [Vote; 3]| {
        wait.refused(&refused(votes));
        let round = wait.wait(WhenFree::Take).unwrap();
        assert_eq!((round.reach, round.slots), (ArbiterFirst, Some(vec![0])));
        world.clock.elapsed()
    };
    // To the end of the key on the first node, on the second, and on the third.
    let quarter = DELAY / 4;
    assert_eq!(at([Vote::Granted, held(), held()]), quarter + PRECISION);
    assert_eq!(at([not_a_lock(), held(), held()]), quarter + PRECISION);
    assert_eq!(at([failed(), held(), held()]), quarter * 2 + PRECISION);
    assert_eq!(at([failed(), failed(), held()]), quarter * 3 + PRECISION);
}

#[test]
fn each_free_slot_may_be_the_first_one_that_is_asked_for_and_so_many_are() {
    let world = world();
    let wait = world.begin_for(&THREE_EXPORTS);
    for count in 1..=40_u32 {
        let slots: Vec<u32> = (0..count).map(|slot| slot.saturating_mul(3)).collect();
        let mut first = BTreeSet::new();
        while first.len() < slots.len() {
            let round = wait.round(AllNodes, slots.clone()).unwrap();
            let round = round.slots.unwrap();
            assert_eq!(round.len(), slots.len().min(MOST_SLOTS));
            let different: BTreeSet<&u32> = round.iter().collect();
            assert_eq!(different.len(), round.len(), "{round:?}");
            first.insert(round[0]);
        }
        assert!(first.into_iter().eq(slots), "{count}");
    }
    let none = wait.round(AllNodes, Vec::new()).unwrap();
    assert_eq!(none.slots, Some(Vec::new()));
}
