//! How a guard of any kind ends, and what is told of it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::Duration;

use redlatch::fake::FakeNode;
use redlatch::{Error, KeepAlive, LockGuard, LossCause, NodeError, Vote};

use crate::kinds::outcomes::{assert_vanished, loss};
use crate::kinds::world::{GRAIN, Kind, TTL, World, everywhere, ms, on_fakes};

#[test]
fn however_a_guard_ends_the_lock_is_given_back() {
    let parses = |world: &World| -> Result<u32, Box<dyn std::error::Error>> {
        let _guard = world.call(0).try_lock()?;
        Ok("no number".parse()?)
    };
    everywhere(|world| {
        {
            let _guard = world.take();
            world.assert_nobody_gets_it();
        }
        world.assert_free();
        // An early return, and a panic.
        assert!(parses(world).is_err());
        world.assert_free();
        let panics = catch_unwind(AssertUnwindSafe(|| {
            let _guard = world.take();
            panic!("the job fails");
        }));
        assert!(panics.is_err());
        world.assert_free();
        let guard = world.take();
        thread::spawn(move || drop(guard)).join().unwrap();
        world.assert_free();
        world.take().unlock_now().unwrap();
        world.assert_free();
    });
}

#[test]
fn unlock_tells_that_the_lock_was_no_longer_ours() {
    everywhere(|world| {
        let guard = world.take();
        let minority = world.quorum() - 1;
        (0..minority).for_each(|node| world.usurp(node, TTL));
        // A majority still had it.
        guard.unlock().unwrap();
        (0..minority).for_each(|node| world.forget(node));

        let guard = world.take();
        (0..=minority).for_each(|node| world.usurp(node, TTL));
        let cause = loss(guard.unlock());
        let LossCause::Taken { nodes, .. } = cause else {
            panic!("{cause}");
        };
        assert_eq!(nodes.len(), world.nodes());
        for node in 0..world.nodes() {
            assert_eq!(world.is_usurped(node), node <= minority);
            assert_eq!(world.any_is_left(node), node <= minority);
            world.forget(node);
        }

        let guard = world.take();
        (0..=minority).for_each(|node| world.forget(node));
        assert_vanished(guard.unlock());
        world.assert_free();
    });
}

#[test]
fn unlock_tells_which_nodes_did_not_confirm_it_and_those_that_hang_execute_it_later() {
    on_fakes(|world| {
        let guard = world.take();
        world.fakes()[..3].iter().for_each(FakeNode::hang);
        let error = guard.unlock().unwrap_err();
        let Error::Unconfirmed { nodes, .. } = &error else {
            panic!("{error}");
        };
        let released = nodes.iter().map(|node| matches!(node.vote, Vote::Released));
        assert!(released.eq([false, false, false, true, true]), "{error}");
        let text = error.to_string();
        let head = format!("the release of the lock on {:?} is not", world.shown());
        let is_permit = world.is(Kind::Permit);
        assert!(text.starts_with(&head) || is_permit, "{text}");
        let names = world.fakes().iter().map(FakeNode::name);
        assert!(names.take(3).all(|name| text.contains(name)), "{text}");
        assert!(!text.contains("granted"), "{text}");
        assert_eq!(world.left_on(), [0, 1, 2]);
        world.fakes().iter().for_each(FakeNode::recover);
        assert_eq!(world.left_on(), [0; 0]);
        world.clock().advance(ms(2_000));
        world.assert_free();

        if !world.is(Kind::Several) {
            let guard = world.take();
            world.fakes()[..3].iter().for_each(FakeNode::hang);
            let text = world.release(1, guard.token()).unwrap_err().to_string();
            assert!(
                text.contains(": released") && !text.contains("granted"),
                "{text}"
            );
            world.fakes().iter().for_each(FakeNode::recover);
            world.clock().advance(ms(2_000));
            drop(guard);
        }

        drop({
            let guard = world.take();
            world.fakes().iter().for_each(FakeNode::hang);
            guard
        });
        world.fakes().iter().for_each(FakeNode::recover);
        world.clock().advance(ms(2_000));
        world.assert_free();
    });
}

#[test]
fn a_release_by_token_gives_back_that_lock_and_no_other() {
    everywhere(|world| {
        let guard = world.take();
        let stays = |guard: &LockGuard| assert_eq!(world.with(guard).len(), world.nodes());
        let another: String = guard.token().chars().rev().collect();
        for wrong in ["another", &another, &guard.token()[..39], ""] {
            assert!(matches!(
                world.release(1, wrong),
                Err(Error::Lost { .. } | Error::Invalid { .. })
            ));
        }
        let other = world.managers[1].release("other", guard.token());
        assert!(matches!(other, Err(Error::Lost { .. })), "{other:?}");
        stays(&guard);
        guard.extend(TTL).unwrap();
        world.release(1, guard.token()).unwrap();
        world.assert_nothing_is_left();
        // A holder that runs on learns of it, and sets no key again.
        assert_vanished(guard.extend(TTL));
        world.assert_nothing_is_left();
        assert!(world.release(1, guard.token()).is_err());
        let next = world.take();
        let is_larger = next.fencing_token() > guard.fencing_token();
        assert!(is_larger || next.fencing_token().is_none());
        drop((guard, next));
        world.assert_free();
    });
}

/// How a guard is told of a loss, and what the nodes do meanwhile.
const TOLD_BY: [fn(LockGuard) -> Result<(), Error>; 3] =
    [LockGuard::unlock, LockGuard::unlock_now, |guard| {
        guard.extend(TTL)
    }];
const LATE: [fn(&FakeNode); 2] = [FakeNode::hang, |node| {
    node.flush();
    node.delay(ms(30));
}];

/// The first renewal tells it as well, in `kinds::keep`.
#[test]
fn a_lock_in_whose_place_there_is_something_that_never_ends_is_lost() {
    everywhere(|world| {
        for end in TOLD_BY {
            let guard = world.take();
            (0..world.quorum()).for_each(|node| world.usurp(node, Duration::MAX));
            let cause = loss(end(guard));
            assert!(matches!(cause, LossCause::Taken { .. }), "{cause}");
            let is_no_lock = |vote: &Vote| matches!(vote, Vote::Failed(NodeError::NotALock { .. }));
            let no_locks = cause.nodes().iter().filter(|node| is_no_lock(&node.vote));
            assert_eq!(no_locks.count(), world.quorum(), "{cause}");
            (0..world.nodes()).for_each(|node| world.forget(node));
        }
    });
}

#[test]
fn past_its_end_by_the_clock_a_lock_has_expired_whatever_late_answers_say_if_any_come() {
    for end in TOLD_BY {
        for late in LATE {
            on_fakes(|world| {
                let guard = world.take();
                let watch = guard.watch();
                let left = guard.remaining().saturating_sub(ms(1));
                world.clock().advance(left);
                guard.check().unwrap();
                world.fakes().iter().for_each(late);
                let cause = loss(end(guard));
                assert!(matches!(cause, LossCause::Expired { .. }), "{cause}");
                assert_eq!(cause.nodes().len(), 5, "{cause}");
                assert!(watch.check().is_err());
                let stats = world.managers[0].stats();
                assert_eq!((stats.lost, stats.held()), (1, 0));
            });
        }
    }
}

#[test]
fn a_lock_whose_guard_was_forgotten_is_held_until_it_ends_and_lost_then() {
    let takes: [fn(&World) -> LockGuard; 4] = [
        World::take,
        |world| world.managers[0].adopt(&world.take().into_lease()).unwrap(),
        |world| {
            let guard = world.call(0).ttl(TTL / 2).lock().unwrap();
            guard.extend(TTL).unwrap();
            guard
        },
        |world| {
            let call = world.call(0).keep_alive(KeepAlive::max_hold(TTL));
            call.lock().unwrap()
        },
    ];
    for take in takes {
        on_fakes(|world| {
            #[expect(clippy::mem_forget, reason = "it is what is tested")]
            std::mem::forget(take(world));
            let stats = || world.managers[0].stats();
            world.clock().advance(TTL / 50 * 49);
            assert_eq!((stats().held(), stats().lost), (1, 0));
            world.clock().advance(TTL / 50 + GRAIN);
            assert_eq!((stats().held(), stats().lost), (0, 1));
            // The next holder's is another one, whose end is counted once.
            let guard = take(world);
            world.clock().advance(TTL);
            assert_eq!((stats().held(), stats().lost), (0, 2));
            assert!(guard.check().is_err());
            drop(guard);
            assert_eq!((stats().held(), stats().lost), (0, 2));
        });
    }
}
