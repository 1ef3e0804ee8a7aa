//! The permits of a semaphore over fake nodes: how many there are, who gets one, and what is said of them.

use std::collections::HashSet;
use std::time::Duration;

use redlatch::fake::{FakeClock, FakeNode};
use redlatch::{Error, Fanout, Lease, LockGuard, LockManager, Protocol};

use crate::managers::invalid_field;

pub(crate) const TTL: Duration = Duration::from_secs(10);

pub(crate) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(crate) struct World {
    pub(crate) nodes: Vec<FakeNode>,
}

impl World {
    pub(crate) fn new() -> Self {
        let nodes = FakeNode::cluster_on(5, &FakeClock::new());
        Self { nodes }
    }

    /// The manager of another process.
    pub(crate) fn process(&self) -> LockManager {
        self.with(Protocol::Classic, Fanout::Sequential)
    }

    pub(crate) fn with(&self, protocol: Protocol, fanout: Fanout) -> LockManager {
        let builder = LockManager::builder().fakes(&self.nodes);
        let builder = builder.retry_delay(ms(100), ms(100));
        builder.protocol(protocol).fanout(fanout).build().unwrap()
    }

    pub(crate) fn key(slot: u32) -> String {
        format!("exports:redlatch:slot:{slot}")
    }

    /// Whether no node has a key of any slot.
    pub(crate) fn is_empty(&self) -> bool {
        let keys = (0..256).map(Self::key);
        let is_there = |key: &String| self.nodes.iter().any(|node| node.token_of(key).is_some());
        keys.into_iter().all(|key| !is_there(&key))
    }
}

pub(crate) fn try_lock(manager: &LockManager, permits: u32) -> Result<LockGuard, Error> {
    manager.semaphore("exports", permits).ttl(TTL).try_lock()
}

#[track_caller]
pub(crate) fn assert_held(result: Result<LockGuard, Error>) -> Error {
    match result {
        Err(error @ Error::Held { .. }) => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn there_are_as_many_permits_as_were_asked_for_and_each_holder_has_a_slot_of_its_own() {
    for protocol in [Protocol::Classic, Protocol::Fenced] {
        for fanout in [Fanout::Sequential, Fanout::Overlapped] {
            let world = World::new();
            let [one, other] = [(); 2].map(|()| world.with(protocol, fanout));
            if protocol == Protocol::Fenced {
                one.open_nodes().unwrap();
            }
            for permits in [1, 2, 3, 7, 20] {
                let mut guards: Vec<LockGuard> = Vec::new();
                for i in 0..permits {
                    let manager = if i % 2 == 0 { &one } else { &other };
                    guards.push(try_lock(manager, permits).unwrap());
                }
                let slots: HashSet<u32> = guards.iter().filter_map(LockGuard::slot).collect();
                assert_eq!(slots, (0..permits).collect(), "{protocol:?} {fanout:?}");
                assert_held(try_lock(&one, permits));
                assert_held(try_lock(&other, permits));
                for guard in &guards {
                    assert_eq!(guard.resource(), "exports");
                    assert_eq!(
                        guard.fencing_token().is_some(),
                        protocol == Protocol::Fenced
                    );
                }
                // One is given back, and another process gets that slot.
                let free = guards.remove(0);
                let slot = free.slot();
                free.unlock().unwrap();
                guards.push(try_lock(&other, permits).unwrap());
                assert_eq!(guards.last().unwrap().slot(), slot);
                for guard in guards {
                    guard.unlock().unwrap();
                }
                assert!(world.is_empty());
            }
        }
    }
}

#[test]
fn no_semaphore_has_no_permits_or_more_than_256() {
    let world = World::new();
    let manager = world.process();
    drop(try_lock(&manager, 256).unwrap());
    for permits in [0, 257, 1_000_000, u32::MAX] {
        let refusals = [
            try_lock(&manager, permits).err(),
            manager.semaphore("exports", permits).lock().err(),
            manager.semaphore_status("exports", permits).err(),
        ];
        for error in refusals.map(Option::unwrap) {
            assert_eq!(invalid_field(&error), "permits", "{error}");
            assert!(error.to_string().contains(&permits.to_string()), "{error}");
            let advice = if permits == 0 {
                "ask for at least 1"
            } else {
                "ask for at most 256"
            };
            assert!(error.to_string().contains(advice), "{error}");
        }
    }
    let all: Vec<LockGuard> = (0..256).map(|_| try_lock(&manager, 256).unwrap()).collect();
    assert_held(try_lock(&world.process(), 256));
    drop(all);
    assert!(world.is_empty());
}

#[test]
fn a_lock_of_the_same_name_is_another_thing() {
    let world = World::new();
    let manager = world.process();
    let _all: Vec<LockGuard> = (0..3).map(|_| try_lock(&manager, 3).unwrap()).collect();
    manager.try_lock("exports", TTL).unwrap().unlock().unwrap();
    let _lock = world.process().try_lock("exports", TTL).unwrap();
    assert_held(try_lock(&manager, 3));
}

#[test]
fn a_refusal_names_the_semaphore_and_no_slot() {
    let world = World::new();
    let [one, other] = [(); 2].map(|()| world.process());
    let _all: Vec<LockGuard> = (0..2).map(|_| try_lock(&one, 2).unwrap()).collect();
    let here = assert_held(try_lock(&one, 2));
    let there = assert_held(try_lock(&other, 2));
    let in_time = assert_held(other.semaphore("exports", 2).try_lock_for(ms(300)));
    for error in [&here, &there, &in_time] {
        let text = error.to_string();
        assert!(
            text.starts_with("the permits of \"exports\", 2 in all, are held by "),
            "{text}"
        );
        assert!(!text.contains("slot"), "{text}");
        assert!(
            matches!(error, Error::Held { resource, permits: Some(2), .. } if &**resource == "exports")
        );
    }
    // What this manager has itself is known without asking.
    let text = here.to_string();
    assert!(text.contains("guards of this manager"), "{text}");
    assert!(text.contains("no node was asked"), "{text}");
    assert!(there.to_string().contains("other holders"), "{there}");

    for node in &world.nodes[..3] {
        node.refuse();
    }
    let error = try_lock(&other, 2).unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    assert!(!error.to_string().contains("slot"), "{error}");
}

#[test]
fn with_different_numbers_there_are_at_most_as_many_holders_as_the_largest() {
    let world = World::new();
    let [one, other] = [(); 2].map(|()| world.process());
    let _small = [(); 2].map(|()| try_lock(&one, 2).unwrap());
    let _large = [(); 3].map(|()| try_lock(&other, 5).unwrap());
    for manager in [&one, &other] {
        for permits in [2, 5] {
            assert_held(try_lock(manager, permits));
        }
    }
}

#[test]
fn a_first_node_that_has_forgotten_costs_attempts_and_no_permit_too_many() {
    let world = World::new();
    let [one, other] = [(); 2].map(|()| world.process());
    let mut all: Vec<LockGuard> = (0..3).map(|_| try_lock(&one, 3).unwrap()).collect();
    world.nodes[0].restart();
    assert_held(try_lock(&one, 3));
    assert_held(try_lock(&other, 3));
    assert_held(other.semaphore("exports", 3).try_lock_for(ms(500)));
    // The attempts have left nothing there.
    assert!((0..3).all(|slot| world.nodes[0].token_of(&World::key(slot)).is_none()));
    all.pop().unwrap().unlock().unwrap();
    // Whichever slot it asks for first, it finds the free one.
    for _ in 0..20 {
        try_lock(&other, 3).unwrap().unlock().unwrap();
    }
}

#[test]
fn grants_of_different_slots_make_no_permit() {
    for fanout in [Fanout::Sequential, Fanout::Overlapped] {
        let world = World::new();
        let manager = world.with(Protocol::Classic, fanout);
        // Four of five nodes have let one in and not two, and nobody else can have a majority of either slot.
        for (slot, nodes) in [(0, 0..3), (1, 2..5)] {
            for node in &world.nodes[nodes] {
                node.hold(&World::key(slot), "another", TTL);
            }
        }
        for _ in 0..10 {
            assert_held(try_lock(&manager, 2));
        }
        assert!(world.nodes[0].token_of(&World::key(1)).is_none());
        assert!(world.nodes[4].token_of(&World::key(0)).is_none());
    }
}

#[test]
fn the_number_of_the_slot_is_a_part_of_the_lease() {
    let manager = World::new().process();
    let [_first, second] = [(); 2].map(|()| try_lock(&manager, 2).unwrap());
    let slot = second.slot().unwrap();
    let text = second.into_lease().to_string();
    assert_eq!(text.parse::<Lease>().unwrap().slot(), Some(slot));
    for damaged in ["~", "~x", "~-1", "~01", "~5000000000", "~1~1"] {
        let text = text.replace(&format!("~{slot}"), damaged);
        let error = text.parse::<Lease>().unwrap_err();
        assert_eq!(invalid_field(&error), "lease", "{damaged}");
    }
}
