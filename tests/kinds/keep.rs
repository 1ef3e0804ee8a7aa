//! A lock of any kind is kept alive: beyond its ttl, up to a limit, and over the loss of single nodes.

use std::sync::mpsc;
use std::time::Duration;

use redlatch::fake::FakeNode;
use redlatch::{Error, KeepAlive, LossCause};

use crate::kinds::outcomes::{assert_max_hold, assert_taken, loss};
use crate::kinds::world::{TTL, ms, on_fakes};
use crate::managers::invalid_field;

#[test]
fn a_lock_is_kept_alive_up_to_its_longest_hold() {
    on_fakes(|world| {
        let call = world.call(0).keep_alive(KeepAlive::max_hold(TTL * 6));
        let guard = call.try_lock().unwrap();
        for _ in 0..11 {
            world.clock().advance(TTL / 2);
            guard.check().unwrap();
            world.assert_nobody_gets_it();
        }
        world.clock().advance(TTL);
        assert_max_hold(guard.check());
        drop(guard);
        world.clock().advance(TTL / 10);
        world.assert_free();
    });
}

#[test]
fn a_lock_that_is_lost_by_its_margin_is_had_by_nobody_until_it_is_given_back() {
    on_fakes(|world| {
        let keep_alive = KeepAlive::unbounded().margin(TTL / 2);
        let guard = world.call(0).keep_alive(keep_alive).try_lock().unwrap();
        world.clock().advance(TTL * 3);
        guard.check().unwrap();
        world.fakes().iter().for_each(FakeNode::refuse);
        world.clock().advance(TTL / 2);
        let cause = loss(guard.check());
        assert!(matches!(cause, LossCause::Unreachable { .. }), "{cause}");
        world.fakes().iter().for_each(FakeNode::recover);
        world.clock().advance(TTL / 4);
        world.assert_nobody_gets_it();
        assert!(matches!(guard.unlock(), Err(Error::Lost { .. })));
        world.assert_free();
    });
}

#[test]
fn a_lock_that_is_kept_alive_outlives_every_node_one_after_the_other() {
    on_fakes(|world| {
        let call = world.call(0).keep_alive(KeepAlive::unbounded());
        let guard = call.try_lock().unwrap();
        let token = guard.fencing_token();
        for node in 0..world.nodes() {
            if world.is_fenced() {
                // A node that comes back empty abstains; this one has been away.
                world.fakes()[node].refuse();
                world.clock().advance(TTL / 2);
                world.fakes()[node].recover();
            } else {
                world.fakes()[node].restart();
            }
            world.assert_nobody_gets_it();
            world.clock().advance(TTL / 2);
            assert_eq!(world.with(&guard).len(), 5, "after node {node}");
            guard.check().unwrap();
        }
        assert_eq!(guard.fencing_token(), token);
        assert_eq!(guard.watch().fencing_token(), token);
        world.clock().advance(TTL * 20);
        guard.unlock().unwrap();
        world.assert_free();
    });
}

/// Its command is undone, and executed with the undo when the node goes on. A snapshot could bring the key back on a fenced node.
#[test]
fn a_node_that_stood_still_while_a_lock_was_taken_gets_the_key_and_no_fenced_one_does() {
    on_fakes(|world| {
        world.fakes()[0].hang();
        let call = world.call(0).keep_alive(KeepAlive::unbounded());
        let guard = call.try_lock().unwrap();
        // No renewal sets the key before the undo is executed.
        world.clock().advance(TTL / 2);
        world.fakes()[0].recover();
        assert_eq!(world.with(&guard), [1, 2, 3, 4]);
        world.clock().advance(TTL);
        let expected: &[usize] = if world.is_fenced() {
            &[1, 2, 3, 4]
        } else {
            &[0, 1, 2, 3, 4]
        };
        assert_eq!(world.with(&guard), expected);
        // The lock relies on the node from then on.
        (1..3).for_each(|node| world.fakes()[node].refuse());
        world.clock().advance(TTL * 2);
        assert_eq!(guard.check().is_ok(), !world.is_fenced());
        world.fakes().iter().for_each(FakeNode::recover);
        world.clock().advance(TTL);
        assert_eq!(guard.unlock().is_ok(), !world.is_fenced());
        world.assert_free();
    });
}

#[test]
fn a_loss_that_a_renewal_finds_is_told_once_and_ends_the_keeping() {
    // What does not end is no lock.
    for (ttl, words) in [
        (TTL * 10, "most of them to another holder: "),
        (
            Duration::MAX,
            "on most of them something else is under its key: ",
        ),
    ] {
        on_fakes(|world| {
            let call = world.call(0).keep_alive(KeepAlive::unbounded());
            let guard = call.try_lock().unwrap();
            let (tell, told) = mpsc::channel();
            guard
                .on_lost(move |cause| tell.send(cause).unwrap())
                .unwrap();
            (0..2).for_each(|node| world.usurp(node, ttl));
            world.clock().advance(TTL);
            guard.check().unwrap();
            world.usurp(2, ttl);
            // By the first renewal.
            world.clock().advance(TTL / 3);
            let cause = told.try_recv().unwrap();
            assert!(matches!(cause, LossCause::Taken { .. }), "{cause}");
            assert!(cause.to_string().contains(words), "{cause}");
            assert!(told.try_recv().is_err());
            assert_taken(guard.check());
            assert_taken(guard.unlock());
            assert!((0..3).all(|node| world.is_usurped(node)));
        });
    }
}

#[test]
fn a_keep_alive_goes_by_its_own_limit_from_the_first_moment() {
    on_fakes(|world| {
        let guard = world.call(0).keep_alive(KeepAlive::max_hold(TTL * 2));
        let guard = guard.try_lock().unwrap();
        // No extension leaves keys that last longer than the limit.
        guard.extend(TTL * 10).unwrap();
        assert!(world.left(0) < Some(TTL * 3));
        guard.keep_alive(TTL, KeepAlive::unbounded()).unwrap();
        world.clock().advance(TTL * 10);
        guard.check().unwrap();

        // What can't work changes nothing.
        for (field, ttl, limit) in [
            ("ttl", ms(149), KeepAlive::unbounded()),
            ("ttl", TTL * 30, KeepAlive::max_hold(TTL * 20)),
            ("ttl", Duration::from_hours(2), KeepAlive::unbounded()),
            ("max_hold", TTL, KeepAlive::max_hold(TTL * 5)),
        ] {
            let refused = guard.keep_alive(ttl, limit);
            assert_eq!(invalid_field(&refused.unwrap_err()), field);
        }
        world.clock().advance(TTL * 2);
        guard.check().unwrap();
        guard.extend(TTL * 10).unwrap();
        // A limit that is near ends the lock, which has keys for longer.
        guard
            .keep_alive(TTL, KeepAlive::max_hold(TTL * 14))
            .unwrap();
        assert!(guard.remaining() < TTL * 3);
        world.clock().advance(TTL * 3);
        assert_max_hold(guard.check());
    });
}

#[test]
fn while_too_many_nodes_fail_a_kept_lock_goes_on_and_it_ends_with_its_time() {
    on_fakes(|world| {
        let call = world.call(0).keep_alive(KeepAlive::unbounded());
        let guard = call.try_lock().unwrap();
        for fault in [FakeNode::refuse, FakeNode::hang] {
            world.fakes()[..3].iter().for_each(fault);
            // Renewals are repeated until shortly before the end.
            let left = guard.remaining().saturating_sub(TTL / 10);
            world.clock().advance(left);
            guard.check().unwrap();
            assert!(guard.remaining() <= TTL / 10, "{guard:?}");
            world.fakes().iter().for_each(FakeNode::recover);
            world.clock().advance(TTL / 20);
            assert!(guard.remaining() > TTL / 2, "{guard:?}");
        }
        world.fakes()[..3].iter().for_each(FakeNode::refuse);
        world.clock().advance(TTL);
        let cause = loss(guard.check());
        assert!(matches!(cause, LossCause::Unreachable { .. }), "{cause}");
        world.fakes().iter().for_each(FakeNode::recover);
        world.clock().advance(TTL);
        assert!(matches!(guard.unlock(), Err(Error::Lost { .. })));
        world.assert_free();
    });
}
