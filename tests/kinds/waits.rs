//! Waiting for a lock of any kind that another process has: until it is given back, until it ends, and until a time.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use redlatch::fake::FakeNode;
use redlatch::{Builder, Cancel, Error, Fanout, LockGuard, LockStatus};
use redlatch_testing::{eventually, now};

use crate::kinds::call::Call;
use crate::kinds::world::{Kind, TTL, ms, on_fakes, on_own_servers};
use crate::waiters::{BOUND, LONG, SOON};

/// Looks again only after a long time.
fn seldom(builder: Builder) -> Builder {
    builder.retry_delay(LONG, LONG)
}

#[test]
fn a_release_wakes_one_who_waits_long_before_its_next_look() {
    on_own_servers(seldom, |world, servers| {
        let guard = world.take();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| (world.rival(1).try_lock_for(BOUND), now()));
            let listens = || servers[0].blocked() > 0;
            assert!(eventually(BOUND, listens), "nobody listens");
            let released = now();
            guard.unlock().unwrap();
            let (guard, at) = waiting.join().unwrap();
            assert!(at - released < SOON, "{:?}", at - released);
            guard.unwrap().unlock().unwrap();
        });
        world.assert_nothing_is_left();
    });
}

#[test]
fn one_who_waits_is_cancelled_at_once_and_leaves_nothing() {
    on_own_servers(seldom, |world, servers| {
        let guard = world.take();
        let cancel = Cancel::new();
        thread::scope(|scope| {
            let call = world.rival(1).cancelled_by(&cancel);
            let waiting = scope.spawn(move || call.try_lock_for(Duration::MAX));
            assert!(eventually(BOUND, || servers[0].blocked() > 0));
            cancel.cancel();
            let result = waiting.join().unwrap();
            assert!(matches!(result, Err(Error::Cancelled { .. })), "{result:?}");
        });
        guard.unlock().unwrap();
        world.assert_nothing_is_left();
    });
}

/// How soon an extension tells of others goes by these.
fn hasty(builder: Builder) -> Builder {
    builder.node_timeout(ms(2_000)).retry_delay(ms(50), ms(100))
}

#[test]
fn an_extension_tells_the_holder_that_another_client_waits_and_so_does_the_status() {
    on_own_servers(hasty, |world, _| {
        let guard = world.take();
        let is_wanted = || {
            guard.extend(TTL).unwrap();
            guard.is_wanted()
        };
        assert!(!is_wanted());
        assert!(!world.status().iter().any(LockStatus::is_wanted));
        let (tell, told) = mpsc::channel();
        guard.on_wanted(move || tell.send(()).unwrap()).unwrap();
        let cancel = Cancel::new();
        thread::scope(|scope| {
            let call = world.rival(1).cancelled_by(&cancel);
            let waiting = scope.spawn(move || call.try_lock_for(Duration::MAX));
            assert!(eventually(BOUND, is_wanted));
            told.recv_timeout(BOUND).unwrap();
            let is_shown = || world.status().iter().any(LockStatus::is_wanted);
            assert!(eventually(BOUND, is_shown));
            cancel.cancel();
            waiting.join().unwrap().unwrap_err();
        });
        guard.unlock().unwrap();
    });
}

type Wait = fn(&Call<'_>) -> Result<LockGuard, Error>;

const WAYS: [Wait; 3] = [
    |call| call.lock(),
    |call| call.try_lock(),
    |call| call.try_lock_for(TTL),
];

#[test]
fn a_round_that_is_under_way_when_it_is_cancelled_ends_as_it_would_and_no_other_begins() {
    let cases = WAYS.into_iter().flat_map(|way| [(way, true), (way, false)]);
    for (way, is_held) in cases {
        on_fakes(|world| {
            let held = is_held.then(|| world.take());
            let (manager, cancel) = (&world.managers[1], Cancel::new());
            // Its hook is called while the nodes are asked.
            let timer = manager.try_lock("timer", ms(1_000)).unwrap();
            let cancelled = cancel.clone();
            timer.on_lost(move |_| cancelled.cancel()).unwrap();
            world
                .clock()
                .advance(timer.remaining().saturating_sub(ms(11)));
            world.fakes().iter().for_each(|node| node.delay(ms(20)));
            let (before, began) = (manager.stats().attempts, world.clock().elapsed());
            match way(&world.rival(1).cancelled_by(&cancel)) {
                Ok(guard) => assert!(!is_held && guard.check().is_ok()),
                Err(Error::Cancelled { .. }) => assert!(is_held || world.is(Kind::Permit)),
                Err(error) => panic!("{error}"),
            }
            assert!(manager.stats().attempts <= before + 1);
            // So many nodes have answered, one after the other or at once, and the release as well.
            let is_overlapped = world.way.fanout == Fanout::Overlapped;
            let answers = match (is_overlapped, is_held) {
                _ if world.is(Kind::Permit) => 1,
                (true, _) => 2,
                (false, true) => 4,
                (false, false) => 6,
            };
            let end = began + ms(20) * answers;
            assert_eq!(world.clock().elapsed(), end, "{world}");
            world.fakes().iter().for_each(FakeNode::recover);
            drop(held);
            world.assert_free();
        });
    }
}

#[test]
fn a_wait_ends_at_its_time_with_what_the_last_attempt_met() {
    on_fakes(|world| {
        let guard = world.take();
        for process in [0, 1] {
            let before = world.clock().elapsed();
            let result = world.rival(process).try_lock_for(ms(450));
            assert!(matches!(result, Err(Error::Held { .. })), "{result:?}");
            assert_eq!(world.clock().elapsed(), before + ms(450));
        }
        guard.unlock().unwrap();
        world.assert_free();
    });
}

#[test]
fn one_who_waits_gets_a_lock_soon_after_its_time_is_over() {
    on_fakes(|world| {
        let call = world.call(0).ttl(ms(5_000));
        drop(call.try_lock().unwrap().into_lease());
        let begun = world.clock().elapsed();
        let guard = world.rival(1).try_lock_for(TTL).unwrap();
        let ended = world.clock().elapsed();
        assert!(ended >= begun + ms(4_900) && ended < begun + ms(5_300));
        guard.unlock().unwrap();
        world.assert_free();
    });
}

#[test]
fn a_remainder_at_the_first_node_keeps_nobody_waiting_for_long() {
    on_fakes(|world| {
        world.usurp(0, TTL * 50);
        for process in [0, 1, 0] {
            // At first, others have another one.
            (1..5).for_each(|node| world.usurp(node, ms(200)));
            let begun = world.clock().elapsed();
            let guard = world.call(process).try_lock_for(TTL).unwrap();
            assert!(world.clock().elapsed() < begun + ms(4_000));
            assert_eq!(world.with(&guard), [1, 2, 3, 4]);
            guard.unlock().unwrap();
        }
        assert!(world.is_usurped(0));
        assert!(world.is(Kind::Several) || world.left_on() == [0]);
    });
}
