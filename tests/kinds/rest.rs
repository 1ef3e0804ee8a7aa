//! A lock with a minimum (`at_least`) rests after it was given back. Readers have none.

use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::time::Duration;

use redlatch::fake::FakeNode;
use redlatch::{Error, KeepAlive, LockGuard, Vote};

use crate::kinds::call::Call;
use crate::kinds::outcomes::{assert_max_hold, assert_taken};
use crate::kinds::world::{Kind, TTL, World, everywhere, ms, on_fakes};

const MINIMUM: Duration = Duration::from_mins(10);

/// Beyond a minimum, others wait for the drift that a node's clock may have.
const DRIFT: Duration = Duration::from_secs(7);

fn but_readers(case: impl Fn(&World) + Sync) -> impl Fn(&World) + Sync {
    move |world| {
        if !world.is(Kind::Reader) {
            case(world);
        }
    }
}

fn call(world: &World, minimum: Duration) -> Call<'_> {
    world.call(0).at_least(minimum)
}

#[track_caller]
fn guard(world: &World, minimum: Duration) -> LockGuard {
    call(world, minimum).try_lock().unwrap()
}

fn is_at_rest(world: &World, node: usize, token: &str) -> bool {
    let rest = Some(format!("rest:{token}"));
    let is_at_rest = |key: &String| world.value(node, key) == rest;
    world.keys().iter().all(is_at_rest)
}

/// Every node says so, and nobody gets it.
#[track_caller]
fn assert_rests(world: &World, token: &str) {
    assert!((0..world.nodes()).all(|node| is_at_rest(world, node, token)));
    world.assert_nobody_gets_it();
}

#[test]
fn nobody_gets_a_lock_that_rests_before_its_minimum_is_over_and_everybody_after_it() {
    on_fakes(but_readers(|world| {
        // The longest is kept in full; its keys stay for the drift longer than max_ttl.
        for minimum in [ms(101), ms(500), ms(7_777), MINIMUM, TTL * 60] {
            // It is counted from the end of the acquisition.
            world.fakes().iter().for_each(|node| node.delay(ms(20)));
            let guard = guard(world, minimum);
            world.fakes().iter().for_each(FakeNode::recover);
            let (token, fencing) = (guard.token().to_owned(), guard.fencing_token());
            world.clock().advance(ms(100));
            let (left, before) = (minimum.saturating_sub(ms(100)), world.clock().elapsed());
            guard.unlock().unwrap();
            assert_eq!(world.clock().elapsed(), before);
            for node in 0..world.nodes() {
                let ttl = world.left(node).unwrap();
                // On a node whose clock runs fast by the drift, it is over by that much sooner.
                let rest = ttl.saturating_sub(ttl / 100 + ms(2));
                let is_exact = rest >= left && rest < left + ms(3);
                assert!(is_exact, "{ttl:?} for {minimum:?}");
            }
            assert_rests(world, &token);
            world.clock().advance(left.saturating_sub(ms(1)));
            assert_rests(world, &token);
            world.clock().advance(minimum / 50 + ms(7));
            let next = world.call(1).try_lock().unwrap();
            assert!(!world.is_fenced() || next.fencing_token() > fencing);
            drop(next);
            world.assert_free();
        }
    }));
}

/// Ends a guard while its thread unwinds.
struct OnDrop(Option<LockGuard>, fn(LockGuard));

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(self.1);
    }
}

#[test]
fn unlock_and_drop_rest_and_what_went_wrong_does_not() {
    everywhere(but_readers(|world| {
        let rests = |end: fn(LockGuard)| {
            let guard = guard(world, MINIMUM);
            let token = guard.token().to_owned();
            end(guard);
            assert_rests(world, &token);
            // Its own value ends it, and nothing else.
            assert!(matches!(world.release(0, &token), Err(Error::Lost { .. })));
            assert_rests(world, &token);
            world.release(1, &format!("rest:{token}")).unwrap();
            world.assert_free();
        };
        rests(drop);
        guard(world, MINIMUM).unlock_now().unwrap();
        world.assert_free();
        // While the thread unwinds, whichever way the guard ends.
        for end in [drop, |guard: LockGuard| guard.unlock().unwrap()] {
            let ends_it = OnDrop(Some(guard(world, MINIMUM)), end);
            let panics = catch_unwind(AssertUnwindSafe(|| {
                let _ends_it = ends_it;
                panic_any("the work failed");
            }));
            assert!(panics.is_err());
            world.assert_free();
        }
        // A thread that has panicked, and goes on.
        rests(|guard| guard.unlock().unwrap());
    }));
}

#[test]
fn a_lock_that_was_lost_does_not_rest() {
    on_fakes(but_readers(|world| {
        // By the clock: the keys may be another holder's already.
        let late = guard(world, MINIMUM);
        world.clock().advance(late.remaining());
        assert!(matches!(late.unlock(), Err(Error::Lost { .. })));
        world.assert_free();

        // By what an extension finds.
        let lost = guard(world, MINIMUM);
        (0..3).for_each(|node| world.usurp(node, ms(50)));
        assert_taken(lost.extend(TTL));
        drop(lost);
        assert!((3..5).all(|node| !world.any_is_left(node)));
        world.clock().advance(ms(50));
        world.assert_free();

        // By what the release itself finds. Nodes that had our key up to now rest.
        let lost = guard(world, ms(900));
        let token = lost.token().to_owned();
        (0..3).for_each(|node| world.usurp(node, ms(500)));
        assert_taken(lost.unlock());
        assert!((0..3).all(|node| world.is_usurped(node)));
        assert!((3..5).all(|node| is_at_rest(world, node, &token)));
        world.clock().advance(ms(1_000));
        world.assert_free();
    }));
}

#[test]
fn a_minimum_ends_with_its_time_or_its_holder_and_may_be_longer_than_max_hold() {
    on_fakes(but_readers(|world| {
        let short = guard(world, ms(5_000));
        world.clock().advance(ms(5_000));
        short.unlock().unwrap();
        world.assert_free();
        // Nobody adopts it, as if its process had ended: it has its ttl, and no minimum.
        drop(guard(world, MINIMUM).into_lease());
        world.clock().advance(TTL.saturating_sub(ms(1)));
        world.assert_nobody_gets_it();
        world.clock().advance(ms(1));
        world.assert_free();

        let call = call(world, MINIMUM).ttl(ms(1_000));
        let call = call.keep_alive(KeepAlive::max_hold(ms(3_000)));
        let kept = call.try_lock().unwrap();
        let token = kept.token().to_owned();
        world.clock().advance(ms(2_500));
        kept.unlock().unwrap();
        // No renewal touches it.
        world.clock().advance(MINIMUM.saturating_sub(ms(2_501)));
        assert_rests(world, &token);
        world.clock().advance(DRIFT);
        world.assert_free();
        // Who holds it for longer than it may has lost it.
        let kept = call.try_lock().unwrap();
        world.clock().advance(ms(3_000));
        assert_max_hold(kept.unlock());
        world.assert_free();
    }));
}

#[test]
fn a_lease_takes_the_minimum_along_and_counts_it_from_the_first_holder() {
    on_fakes(but_readers(|world| {
        let pass = |guard: LockGuard, to: usize| {
            let text = guard.into_lease().to_string();
            assert!(text.starts_with("redlatch2:"), "{text}");
            world.managers[to].adopt(&text.parse().unwrap()).unwrap()
        };
        let first = guard(world, MINIMUM);
        let token = first.token().to_owned();
        world.clock().advance(ms(10_000));
        let second = pass(first, 1);
        second.extend(TTL).unwrap();
        let third = pass(second, 0);
        world.clock().advance(ms(10_000));
        third.unlock().unwrap();
        world.clock().advance(MINIMUM.saturating_sub(ms(20_001)));
        assert_rests(world, &token);
        world.clock().advance(DRIFT * 2);
        world.assert_free();

        // Given back at once, or when the time is over, it does not rest.
        pass(guard(world, MINIMUM), 1).unlock_now().unwrap();
        world.assert_free();
        let long = guard(world, MINIMUM);
        long.extend(MINIMUM * 2).unwrap();
        let adopted = pass(long, 1);
        world.clock().advance(MINIMUM + ms(2));
        let text = adopted.into_lease().to_string();
        assert!(text.starts_with("redlatch1:"), "{text}");
        let adopted = world.managers[0].adopt(&text.parse().unwrap()).unwrap();
        adopted.unlock().unwrap();
        world.assert_free();

        // A lease makes no rest longer than a minimum can be.
        let text = guard(world, MINIMUM).into_lease().to_string();
        let until = text.split_once('/').unwrap().1.split_once(':').unwrap().0;
        let forged = text.replace(until, "99999999999999999");
        let adopted = world.managers[1].adopt(&forged.parse().unwrap()).unwrap();
        adopted.unlock().unwrap();
        assert!(world.left(0) < Some(TTL * 61));
    }));
}

#[test]
fn nodes_that_were_down_or_forgot_end_no_rest_until_they_are_a_majority() {
    on_fakes(but_readers(|world| {
        let minority = &world.fakes()[..2];
        let resting = guard(world, MINIMUM);
        let token = resting.token().to_owned();
        minority.iter().for_each(FakeNode::refuse);
        resting.unlock().unwrap();
        minority.iter().for_each(FakeNode::recover);
        world.clock().advance(ms(500));
        assert!(!is_at_rest(world, 0, &token) && is_at_rest(world, 2, &token));
        world.assert_nobody_gets_it();
        // Then it is free there, and nobody gets a majority.
        world.clock().advance(TTL);
        assert_eq!(world.left_on(), [2, 3, 4]);
        for _ in 0..10 {
            world.assert_nobody_gets_it();
            world.clock().advance(MINIMUM / 12);
        }
        world.clock().advance(MINIMUM / 2);
        world.assert_free();

        // Those that come back empty are a minority as well, and then a majority. In the fenced protocol they abstain for max_ttl,
        // and no rest is longer.
        guard(world, MINIMUM).unlock().unwrap();
        for (empty, is_over) in [(2, false), (3, !world.is_fenced())] {
            world.fakes()[..empty].iter().for_each(FakeNode::restart);
            for _ in 0..3 {
                world.clock().advance((MINIMUM / 6).saturating_sub(ms(1)));
                let result = world.call(1).try_lock();
                assert_eq!(result.is_ok(), is_over, "{empty}: {result:?}");
                assert!(is_over || world.left_on().len() == 5 - empty);
            }
        }
    }));
}

#[test]
fn fewer_rests_than_a_quorum_are_an_error_of_unlock() {
    on_fakes(but_readers(|world| {
        let resting = guard(world, MINIMUM);
        let token = resting.token().to_owned();
        world.fakes()[..3].iter().for_each(FakeNode::refuse);
        let error = resting.unlock().unwrap_err();
        let Error::Unconfirmed { nodes, .. } = &error else {
            panic!("{error}");
        };
        let rest = |vote: &Vote| matches!(vote, Vote::Released);
        assert_eq!(nodes.iter().filter(|node| rest(&node.vote)).count(), 2);
        // What there is of it is respected, and the others keep the former key until its ttl ends.
        world.fakes().iter().for_each(FakeNode::recover);
        world.clock().advance(ms(500));
        assert!((3..5).all(|node| is_at_rest(world, node, &token)));
        world.assert_nobody_gets_it();
        world.clock().advance(TTL);
        drop(world.call(1).try_lock().unwrap());
    }));
}

#[test]
fn a_node_that_executes_the_command_late_rests_for_as_much_longer() {
    on_fakes(but_readers(|world| {
        let resting = guard(world, MINIMUM);
        let token = resting.token().to_owned();
        let late = &world.fakes()[0];
        late.hang();
        resting.unlock().unwrap();
        assert!(!is_at_rest(world, 0, &token));
        world.clock().advance(ms(20_000));
        late.recover();
        assert!(is_at_rest(world, 0, &token));
        // The others are a majority when their time is over.
        world.clock().advance(MINIMUM.saturating_sub(ms(13_000)));
        assert_eq!(world.left_on(), [0]);
        drop(world.call(1).try_lock().unwrap());
        world.clock().advance(ms(20_000));
        world.assert_free();

        // After the ttl, there is nothing left that could rest.
        let resting = guard(world, MINIMUM);
        late.hang();
        resting.unlock().unwrap();
        world.clock().advance(TTL + ms(1));
        late.recover();
        assert_eq!(world.left_on(), [1, 2, 3, 4]);
        world.assert_nobody_gets_it();
    }));
}

#[test]
fn a_rest_of_another_version_keeps_everybody_away_and_breaks_nothing() {
    let long = format!("rest:{}", "x".repeat(9_000));
    for value in [
        "rest:",
        "rest:v9 {\"by\":\"web-3\"}",
        "rest:\u{1b}[2J",
        &long,
    ] {
        on_fakes(but_readers(|world| {
            for node in world.fakes() {
                let hold = |key: &String| node.hold(key, value, ms(700));
                world.keys().iter().for_each(hold);
            }
            world.assert_nobody_gets_it();
            for status in world.status() {
                assert!(status.to_string().contains("rest"), "{status}");
            }
            world.clock().advance(ms(700));
            world.assert_free();
        }));
    }
}
