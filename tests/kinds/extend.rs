//! A lock of any kind is extended, set again where it is missing, and lost.

use std::sync::mpsc;
use std::time::Duration;

use redlatch::fake::FakeNode;
use redlatch::{Error, LockGuard, LockStatus};

use crate::kinds::outcomes::{assert_expired, assert_taken, assert_unavailable, assert_vanished};
use crate::kinds::world::{GRAIN, Kind, TTL, World, everywhere, ms, on_fakes};
use crate::managers::invalid_field;
use crate::waiters::BOUND;

/// What a guard says once it is known to be lost.
#[track_caller]
fn assert_is_over(world: &World, guard: LockGuard, assert_cause: fn(Result<(), Error>)) {
    assert_eq!(guard.remaining(), Duration::ZERO);
    assert_cause(guard.check());
    assert_cause(guard.extend(TTL));
    assert!(guard.wait_lost(Duration::ZERO).is_some());
    let (tell, told) = mpsc::channel();
    guard
        .on_lost(move |cause| tell.send(cause).unwrap())
        .unwrap();
    world.let_hooks_run();
    let cause = told.recv_timeout(BOUND).unwrap();
    assert!(told.recv_timeout(BOUND).is_err(), "told twice: {cause}");
    assert_cause(guard.unlock());
    let stats = world.managers[0].stats();
    assert_eq!((stats.lost, stats.held()), (1, 0), "{stats}");
}

#[test]
fn an_extension_resets_the_ttl_on_every_node_and_the_validity() {
    everywhere(|world| {
        let guard = world.take();
        guard.extend(TTL * 10).unwrap();
        let assert_is_long = || {
            assert_eq!(world.with(&guard).len(), world.nodes());
            for node in 0..world.nodes() {
                let left = world.left(node).unwrap();
                assert!(left > TTL * 9 && left <= TTL * 10 + GRAIN, "{left:?}");
            }
            // 1 % and 2 ms are never promised.
            let promised = TTL * 10 * 99 / 100;
            assert!(guard.remaining() > TTL * 9 && guard.remaining() < promised);
        };
        assert_is_long();
        // It is never made shorter.
        guard.extend(ms(1_000)).unwrap();
        assert_is_long();
        guard.unlock().unwrap();
        world.assert_free();
    });
}

#[test]
fn an_extension_after_expiry_is_lost_and_leaves_the_successor_alone() {
    on_fakes(|world| {
        let first = world.take();
        world.clock().advance(first.remaining());
        assert!(world.left(0).is_some());
        assert_expired(first.check());
        // It is nobody else's until its keys are gone.
        let is_held = |status: &LockStatus| {
            matches!(status, LockStatus::Held { .. } | LockStatus::Read { .. })
        };
        assert!(world.status().iter().all(is_held));
        world.assert_nobody_gets_it();
        world.clock().advance(TTL + GRAIN);
        world.assert_nothing_is_left();
        // The next one has it while the guard still exists.
        let second = world.rival(1).try_lock().unwrap();
        assert!(world.release(0, first.token()).is_err());
        assert_is_over(world, first, assert_expired);
        second.check().unwrap();
        assert_eq!(world.left_on().len(), 5);
        second.unlock().unwrap();
        world.assert_free();
    });
}

#[test]
fn an_extension_that_outlasts_the_lease_is_lost_whatever_the_nodes_say() {
    on_fakes(|world| {
        let guard = world.call(0).ttl(ms(200)).try_lock().unwrap();
        world.clock().advance(ms(180));
        // The nodes execute the extension in time, and say so after the lease has run out.
        world.fakes().iter().for_each(|node| node.delay(ms(40)));
        assert_expired(guard.extend(TTL));
        assert_is_over(world, guard, assert_expired);
    });
}

#[test]
fn an_extension_whose_own_validity_is_used_up_is_too_slow_and_changes_nothing() {
    on_fakes(|world| {
        let guard = world.take();
        world.fakes().iter().for_each(|node| node.delay(ms(40)));
        let before = guard.remaining();
        let error = guard.extend(ms(30)).unwrap_err();
        assert!(matches!(error, Error::TooSlow { .. }), "{error}");
        guard.check().unwrap();
        let left = guard.remaining();
        assert!(left < before && left > before / 2, "{left:?}");
        for ttl in [Duration::ZERO, ms(2), TTL * 61, Duration::MAX] {
            assert_eq!(invalid_field(&guard.extend(ttl).unwrap_err()), "ttl");
        }
        guard.check().unwrap();
    });
}

#[test]
fn an_extension_of_a_lock_that_was_taken_is_lost_and_leaves_the_taker_alone() {
    everywhere(|world| {
        let guard = world.take();
        // A minority does no harm.
        for node in 0..world.quorum() - 1 {
            world.usurp(node, TTL * 10);
        }
        guard.extend(TTL).unwrap();
        world.usurp(world.quorum() - 1, TTL * 10);
        let error = guard.extend(TTL * 20).unwrap_err();
        assert!(error.to_string().contains("another holder"), "{error}");
        assert_is_over(world, guard, assert_taken);
        for node in 0..world.nodes() {
            let is_theirs = node < world.quorum();
            assert_eq!(world.is_usurped(node), is_theirs, "on node {node}");
            assert_eq!(world.any_is_left(node), is_theirs, "on node {node}");
        }
    });
}

/// Whether a node sets a lock again that it has forgotten: no reader with the fenced protocol, because it has no token.
fn is_healed(world: &World) -> bool {
    !(world.is(Kind::Reader) && world.is_fenced())
}

#[test]
fn a_lock_that_a_minority_forgot_is_set_again() {
    everywhere(|world| {
        let guard = world.take();
        world.forget(0);
        guard.extend(TTL * 10).unwrap();
        let with = world.nodes() - usize::from(!is_healed(world));
        assert_eq!(world.with(&guard).len(), with);
        // With a token, it is set by the extension itself.
        let healed = world.managers[0].stats().healed;
        assert_eq!(healed, u64::from(!world.is_fenced()));
        assert!(!is_healed(world) || world.left(0).unwrap() > TTL * 9);
        // Not where another has it.
        world.usurp(0, TTL * 20);
        guard.extend(TTL * 10).unwrap();
        guard.unlock().unwrap();
        assert!(world.is_usurped(0));
        assert!((1..world.nodes()).all(|node| !world.any_is_left(node)));
    });
}

#[test]
fn a_lock_that_a_majority_forgot_is_lost_unless_the_counters_tell_that_nobody_had_it() {
    everywhere(|world| {
        let guard = world.take();
        (0..world.quorum()).for_each(|node| world.forget(node));
        if world.is_fenced() && is_healed(world) {
            guard.extend(TTL).unwrap();
            assert_eq!(world.with(&guard).len(), world.nodes());
            guard.unlock().unwrap();
        } else {
            assert_vanished(guard.extend(TTL));
            assert_eq!(world.left_on().len(), world.nodes() - world.quorum());
            assert_is_over(world, guard, assert_vanished);
        }
        world.assert_free();
    });
}

#[test]
fn where_memory_was_lost_nothing_is_set_again_with_the_fenced_protocol() {
    for lose in [FakeNode::flush, FakeNode::restart] {
        on_fakes(|world| {
            let guard = world.take();
            lose(&world.fakes()[0]);
            guard.extend(TTL).unwrap();
            assert_eq!(world.left(0).is_some(), !world.is_fenced());
            world.fakes()[..3].iter().for_each(lose);
            let error = guard.extend(TTL).unwrap_err();
            assert!(matches!(error, Error::Lost { .. }), "{error}");
            assert_eq!(world.left_on(), [3, 4]);
            drop(guard);
            world.assert_nothing_is_left();
        });
    }
}

#[test]
fn a_failed_extension_deletes_nothing_and_the_lock_stays_ours_as_long_as_it_was() {
    on_fakes(|world| {
        for fault in [FakeNode::refuse, FakeNode::hang, FakeNode::lose_replies] {
            let guard = world.take();
            world.fakes()[..3].iter().for_each(fault);
            let before = guard.remaining();
            assert_unavailable(&guard.extend(TTL * 5));
            guard.check().unwrap();
            assert!(guard.remaining() <= before);
            world.fakes().iter().for_each(FakeNode::recover);
            assert_eq!(world.with(&guard).len(), 5);
            world.clock().advance(ms(5_000));
            guard.extend(TTL).unwrap();
            guard.unlock().unwrap();
            world.assert_free();
        }
    });
}
