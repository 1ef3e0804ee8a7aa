//! The permits of a semaphore over fake nodes: how many there are, who gets one, and what is said of them.

use std::collections::HashSet;
use std::time::Duration;

use redlatch::fake::{FakeClock, FakeNode};
use redlatch::{Error, Fanout, LockGuard, LockManager, LockStatus, Protocol};

use crate::kinds::world::ms;
use crate::managers::{invalid_field, over_fakes, processes_by};

const TTL: Duration = Duration::from_secs(10);

fn key(slot: u32) -> String {
    format!("exports:redlatch:slot:{slot}")
}

/// Five nodes, and the managers of two processes over them.
fn processes(protocol: Protocol, fanout: Fanout) -> (Vec<FakeNode>, [LockManager; 2]) {
    let nodes = FakeNode::cluster_on(5, &FakeClock::new());
    let builder = LockManager::builder().fakes(&nodes).fanout(fanout);
    let managers = processes_by(&builder, protocol);
    (nodes, managers)
}

fn classic() -> (Vec<FakeNode>, [LockManager; 2]) {
    processes(Protocol::Classic, Fanout::Sequential)
}

/// No node has a key of any slot.
#[track_caller]
fn assert_empty(nodes: &[FakeNode]) {
    let is_free = |slot| nodes.iter().all(|node| node.token_of(&key(slot)).is_none());
    assert!((0..256).all(is_free));
}

fn try_lock(manager: &LockManager, permits: u32) -> Result<LockGuard, Error> {
    manager.semaphore("exports", permits).ttl(TTL).try_lock()
}

/// So many permits, of as many.
fn take(manager: &LockManager, permits: u32) -> Vec<LockGuard> {
    let taken = (0..permits).map(|_| try_lock(manager, permits));
    taken.map(Result::unwrap).collect()
}

#[track_caller]
fn assert_held(result: Result<LockGuard, Error>) -> Error {
    match result {
        Err(error @ Error::Held { .. }) => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn there_are_as_many_permits_as_were_asked_for_and_each_holder_has_a_slot_of_its_own() {
    for protocol in [Protocol::Classic, Protocol::Fenced] {
        for fanout in [Fanout::Sequential, Fanout::Overlapped] {
            let (nodes, [one, other]) = processes(protocol, fanout);
            for permits in [1, 2, 3, 7, 20] {
                let mut guards: Vec<LockGuard> = [&one, &other]
                    .into_iter()
                    .cycle()
                    .take(usize::try_from(permits).unwrap())
                    .map(|manager| try_lock(manager, permits).unwrap())
                    .collect();
                let slots: HashSet<u32> = guards.iter().filter_map(LockGuard::slot).collect();
                assert_eq!(slots, (0..permits).collect(), "{protocol:?} {fanout:?}");
                assert_held(try_lock(&one, permits));
                assert_held(try_lock(&other, permits));
                // One is given back, and another process gets that slot.
                let free = guards.remove(0);
                let slot = free.slot();
                free.unlock().unwrap();
                guards.push(try_lock(&other, permits).unwrap());
                assert_eq!(guards.last().unwrap().slot(), slot);
                drop(guards);
                assert_empty(&nodes);
            }
        }
    }
}

#[test]
fn no_semaphore_has_no_permits_or_more_than_256() {
    let (nodes, [manager, other]) = classic();
    for (permits, advice) in [
        (0, "ask for at least 1"),
        (257, "ask for at most 256"),
        (u32::MAX, "ask for at most 256"),
    ] {
        let refusals = [
            try_lock(&manager, permits).err(),
            manager.semaphore("exports", permits).lock().err(),
            manager.semaphore_status("exports", permits).err(),
        ];
        for error in refusals.map(Option::unwrap) {
            assert_eq!(invalid_field(&error), "permits", "{error}");
            let text = error.to_string();
            assert!(text.contains(&permits.to_string()) && text.contains(advice));
        }
    }
    let all = take(&manager, 256);
    assert_held(try_lock(&other, 256));
    drop(all);
    assert_empty(&nodes);
}

#[test]
fn with_different_numbers_there_are_at_most_as_many_holders_as_the_largest() {
    let (_nodes, [one, other]) = classic();
    let _small = take(&one, 2);
    let _large = [(); 3].map(|()| try_lock(&other, 5).unwrap());
    for manager in [&one, &other] {
        for permits in [2, 5] {
            assert_held(try_lock(manager, permits));
        }
    }
    // A lock of the same name is another thing.
    let _lock = one.try_lock("exports", TTL).unwrap();
}

#[test]
fn a_refusal_names_the_semaphore_and_a_holder_and_no_slot() {
    let (nodes, [one, other]) = classic();
    let labelled = one.semaphore("exports", 2).holder("web-3");
    let _all = [(); 2].map(|()| labelled.try_lock().unwrap());
    let here = assert_held(try_lock(&one, 2));
    let there = assert_held(try_lock(&other, 2));
    let in_time = assert_held(other.semaphore("exports", 2).try_lock_for(ms(300)));
    for error in [&here, &there, &in_time] {
        let text = error.to_string();
        let head = "the permits of \"exports\", 2 in all, are held by ";
        assert!(text.starts_with(head) && !text.contains("slot"), "{text}");
        assert!(
            matches!(error, Error::Held { resource, permits: Some(2), .. } if &**resource == "exports")
        );
    }
    // What this manager has itself is known without asking.
    let text = here.to_string();
    assert!(text.contains("guards of this manager"), "{text}");
    assert!(text.contains("no node was asked"), "{text}");
    let (holder, text) = (there.holder().unwrap(), there.to_string());
    let named = format!("other holders, {holder} among them");
    assert!(&*holder.label == "web-3" && text.contains(&named), "{text}");

    nodes[..3].iter().for_each(FakeNode::refuse);
    let error = try_lock(&other, 2).unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    assert!(!error.to_string().contains("slot"), "{error}");
}

#[test]
fn a_first_node_that_has_forgotten_costs_attempts_and_no_permit_too_many() {
    let (nodes, [one, other]) = classic();
    let mut all = take(&one, 3);
    nodes[0].restart();
    assert_held(try_lock(&one, 3));
    assert_held(try_lock(&other, 3));
    assert_held(other.semaphore("exports", 3).try_lock_for(ms(500)));
    // The attempts have left nothing there.
    assert!((0..3).all(|slot| nodes[0].token_of(&key(slot)).is_none()));
    all.pop().unwrap().unlock().unwrap();
    // Whichever slot it asks for first, it finds the free one.
    for _ in 0..20 {
        try_lock(&other, 3).unwrap().unlock().unwrap();
    }
}

#[test]
fn grants_of_different_slots_make_no_permit() {
    for fanout in [Fanout::Sequential, Fanout::Overlapped] {
        let (nodes, [manager, _]) = processes(Protocol::Classic, fanout);
        // Four of five nodes have let one in and not two, and nobody else can have a majority of either slot.
        for (slot, places) in [(0, 0..3), (1, 2..5)] {
            for node in &nodes[places] {
                node.hold(&key(slot), "another", TTL);
            }
        }
        for _ in 0..10 {
            assert_held(try_lock(&manager, 2));
        }
        assert!(nodes[0].token_of(&key(1)).is_none());
        assert!(nodes[4].token_of(&key(0)).is_none());
    }
}

#[test]
fn the_status_tells_who_holds_which_slot_and_an_operator_releases_that_slot_alone() {
    let (nodes, [one, other]) = classic();
    let guards = [(); 100].map(|()| try_lock(&one, 256).unwrap());
    let status = || other.semaphore_status("exports", 256).unwrap();
    let held = || {
        let is_held = |slot: &LockStatus| matches!(slot, LockStatus::Held { .. });
        status().iter().filter(|slot| is_held(slot)).count()
    };
    assert_eq!((held(), status().len()), (100, 256));
    let slots = status();
    for guard in &guards {
        let slot = &slots[usize::try_from(guard.slot().unwrap()).unwrap()];
        assert!(matches!(slot, LockStatus::Held { token, .. } if token == guard.token()));
        assert_eq!(slot.nodes().len(), 5);
    }
    let (token, slot) = (guards[0].token(), guards[0].slot().unwrap());
    let wrong = other.release_slot("exports", 255 - slot, token);
    assert!(matches!(wrong, Err(Error::Lost { .. })), "{wrong:?}");
    let lock = other.release("exports", token);
    assert!(matches!(lock, Err(Error::Lost { .. })), "{lock:?}");
    let error = other.release_slot("exports", 256, token).unwrap_err();
    assert_eq!(invalid_field(&error), "slot", "{error}");
    assert!(error.to_string().contains("slot 256"), "{error}");
    assert_eq!(held(), 100);
    other.release_slot("exports", slot, token).unwrap();
    assert_eq!(held(), 99);
    // What a minority says decides nothing.
    nodes[..3].iter().for_each(FakeNode::refuse);
    assert_eq!(held(), 0);
    let text = status()[0].to_string();
    assert!(text.starts_with("unknown, "), "{text}");
}

/// They are free on a majority, and what the first node has is left over.
#[test]
fn a_permit_that_is_free_on_a_majority_is_had_at_once_by_those_who_wait_and_those_who_do_not() {
    let (clock, nodes, manager) = over_fakes(5);
    for permits in [1, 3, 256] {
        for node in &nodes[..2] {
            for slot in 0..permits {
                node.hold(&key(slot), "left over", TTL * 1_000);
            }
        }
        let request = manager.semaphore("exports", permits).ttl(TTL);
        let before = clock.elapsed();
        drop(request.try_lock().unwrap());
        drop(request.try_lock_for(TTL).unwrap());
        assert_eq!(clock.elapsed(), before, "{permits}");
    }
}

/// Its release, and the key of another slot, are late at the last node.
#[test]
fn one_who_is_early_for_a_permit_does_not_sleep_beside_it() {
    let clock = FakeClock::new();
    let nodes = FakeNode::cluster_on(3, &clock);
    let builder = LockManager::builder().fakes(&nodes);
    let manager = builder.retry_delay(TTL, TTL).build().unwrap();
    nodes[0].refuse();
    nodes[1].delay(ms(5));
    nodes[2].delay(ms(5));
    for (node, slot, ttl) in [(1, 0, TTL * 2), (2, 1, ms(80))] {
        nodes[node].hold(&key(slot), "another", ttl);
    }
    let request = manager.semaphore("exports", 2).ttl(TTL);
    assert_eq!(request.try_lock_for(TTL).unwrap().slot(), Some(1));
    assert!(clock.elapsed() < ms(1_000), "{clock:?}");
}

/// Each of these nodes calls other permits free, and others have them.
#[test]
fn one_who_waits_while_nodes_have_forgotten_different_permits_makes_few_attempts() {
    let (_clock, nodes, manager) = over_fakes(3);
    for (place, node) in (0..).zip(&nodes) {
        let slots = (0..20).filter(|slot| slot % 2 != place);
        slots.for_each(|slot| node.hold(&key(slot), "another", TTL * 10));
    }
    let request = manager.semaphore("exports", 20).ttl(TTL);
    assert_held(request.try_lock_for(TTL));
    let attempts = manager.stats().attempts;
    assert!(attempts < 500, "{attempts}");
}

#[test]
fn one_who_waits_for_a_permit_of_slow_nodes_makes_one_attempt_after_its_time_at_most() {
    let (clock, nodes, manager) = over_fakes(3);
    // The first node has forgotten them, so each is asked for.
    for node in &nodes[1..] {
        (0..20).for_each(|slot| node.hold(&key(slot), "another", TTL * 10));
    }
    for node in &nodes {
        node.delay(ms(40));
    }
    let request = manager.semaphore("exports", 20).ttl(TTL);
    assert_held(request.try_lock_for(ms(300)));
    // Two looks, and an attempt that asks three nodes and is undone on one.
    assert!(clock.elapsed() <= ms(300 + 8 * 40), "{clock:?}");
}
