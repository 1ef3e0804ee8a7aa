//! What people are told of a semaphore, and what an operator does about a permit.

use redlatch::{Error, Fanout, LockGuard, LockStatus, Protocol};

use crate::fakes::semaphore::permits::{TTL, World, assert_held, try_lock};
use crate::managers::invalid_field;

/// How many of the slots are held.
pub(crate) fn held(slots: &[LockStatus]) -> usize {
    let is_held = |slot: &&LockStatus| matches!(slot, LockStatus::Held { .. });
    slots.iter().filter(is_held).count()
}

#[test]
fn the_status_tells_who_holds_which_slot() {
    let world = World::new();
    let [one, other] = [(); 2].map(|()| world.process());
    let free = other.semaphore_status("exports", 3).unwrap();
    assert_eq!((held(&free), free.len()), (0, 3));
    assert!(free.iter().all(|slot| format!("{slot:#}") == "free"));

    let guards = [(); 2].map(|()| try_lock(&one, 3).unwrap());
    let status = other.semaphore_status("exports", 3).unwrap();
    assert_eq!(held(&status), 2);
    for guard in &guards {
        let slot = guard.slot().unwrap();
        let of_slot = &status[usize::try_from(slot).unwrap()];
        assert!(matches!(of_slot, LockStatus::Held { token, .. } if token == guard.token()));
        let text = format!("{of_slot:#}");
        let expected = format!("held by {}, for another ", guard.token());
        assert!(text.starts_with(&expected) && !text.contains(';'), "{text}");
    }
    // Down, with two more: what the others say decides nothing.
    for node in &world.nodes[..3] {
        node.refuse();
    }
    let status = other.semaphore_status("exports", 3).unwrap();
    assert_eq!(held(&status), 0);
    let text = status[0].to_string();
    assert!(text.starts_with("unknown, "), "{text}");
}

#[test]
fn holders_that_say_who_they_are_are_named_by_the_status_and_by_a_refusal() {
    let world = World::new();
    let [one, other] = [(); 2].map(|()| world.process());
    let taken = |label| {
        one.semaphore("exports", 2)
            .holder(label)
            .try_lock()
            .unwrap()
    };
    let _all = ["web-3 nightly", "web-4"].map(taken);
    let status = other.semaphore_status("exports", 2).unwrap();
    let texts: Vec<String> = status.iter().map(ToString::to_string).collect();
    for label in ["(web-3 nightly since", "(web-4 since"] {
        assert!(texts.iter().any(|text| text.contains(label)), "{texts:?}");
    }
    let error = assert_held(try_lock(&other, 2));
    let holder = error.holder().unwrap().to_string();
    assert!(holder.starts_with("web-"), "{holder}");
    let text = error.to_string();
    assert!(
        text.contains(&format!("other holders, {holder} among them")),
        "{text}"
    );
}

#[test]
fn an_operator_releases_the_permit_in_a_slot_and_ends_the_rest_of_one() {
    let world = World::new();
    let [one, other] = [(); 2].map(|()| world.process());
    for protocol in [Protocol::Classic, Protocol::Fenced] {
        let manager = world.with(protocol, Fanout::Sequential);
        if protocol == Protocol::Fenced {
            manager.open_nodes().unwrap();
        }
        let left = manager
            .semaphore("exports", 2)
            .holder("web-3")
            .at_least(TTL);
        let left = left.lock().unwrap().into_lease();
        let slot = left.slot().unwrap();

        let wrong = manager.release_slot("exports", 1 - slot, left.token());
        assert!(matches!(wrong, Err(Error::Lost { .. })), "{wrong:?}");
        let lock = manager.release("exports", left.token());
        assert!(matches!(lock, Err(Error::Lost { .. })), "{lock:?}");
        assert_eq!(held(&one.semaphore_status("exports", 2).unwrap()), 1);

        manager.release_slot("exports", slot, left.token()).unwrap();
        assert_eq!(held(&one.semaphore_status("exports", 2).unwrap()), 0);
        drop(left);

        manager
            .semaphore("exports", 1)
            .at_least(TTL)
            .lock()
            .unwrap()
            .unlock()
            .unwrap();
        let slots = other.semaphore_status("exports", 1).unwrap();
        let [LockStatus::Resting { token, .. }] = slots.as_slice() else {
            panic!("{slots:?}");
        };
        manager.release_slot("exports", 0, token).unwrap();
        drop(manager.semaphore("exports", 1).try_lock().unwrap());
    }
    let error = one.release_slot("exports", 256, "x").unwrap_err();
    assert_eq!(invalid_field(&error), "slot", "{error}");
    assert!(error.to_string().contains("slot 256"), "{error}");
}

#[test]
fn the_status_of_256_slots_is_of_256_slots() {
    let world = World::new();
    let manager = world.process();
    let guards: Vec<LockGuard> = (0..100).map(|_| try_lock(&manager, 256).unwrap()).collect();
    let status = manager.semaphore_status("exports", 256).unwrap();
    assert_eq!((held(&status), status.len()), (100, 256));
    for guard in &guards {
        let of_slot = &status[usize::try_from(guard.slot().unwrap()).unwrap()];
        assert!(matches!(of_slot, LockStatus::Held { token, .. } if token == guard.token()));
        assert_eq!(of_slot.nodes().len(), 5);
    }
}
