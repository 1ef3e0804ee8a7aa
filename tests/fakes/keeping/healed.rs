//! Extensions and renewals set the key again on nodes that have none: over fakes and virtual time.

use std::time::Duration;

use redlatch::fake::{FakeClock, FakeNode};
use redlatch::{KeepAlive, Lease, LockGuard};

use crate::fakes::keeping::schedule::{
    TTL, VALIDITY, assert_lost, at_the_limit, count, has_expired, kept,
};
use crate::kinds::world::ms;
use crate::managers::over_fakes;

/// Until a node that failed is asked again.
const BREAK: Duration = Duration::from_millis(300);

#[track_caller]
fn assert_on(nodes: &[FakeNode], guard: &LockGuard, expected: &[u8]) {
    let has_key = |node: &FakeNode| node.token_of("report").as_deref() == Some(guard.token());
    let found = nodes.iter().map(|node| has_key(node).into());
    assert_eq!(found.collect::<Vec<u8>>(), expected);
}

/// All nodes work, and are asked again.
fn recover(clock: &FakeClock, nodes: &[FakeNode]) {
    nodes.iter().for_each(FakeNode::recover);
    clock.advance(BREAK);
}

/// A lock that the first two nodes have not, which work again; extended by calls, and in the background.
fn by_call_and_in_background(check: impl Fn(&FakeClock, &[FakeNode], &LockGuard, &dyn Fn())) {
    for is_kept in [false, true] {
        let (clock, nodes, manager) = over_fakes(5);
        nodes[..2].iter().for_each(FakeNode::refuse);
        let request = manager.request("report").ttl(TTL);
        let kept = request.clone().keep_alive(KeepAlive::unbounded());
        let guard = if is_kept { kept } else { request }.try_lock().unwrap();
        assert_on(&nodes, &guard, &[0, 0, 1, 1, 1]);
        recover(&clock, &nodes);
        check(&clock, &nodes, &guard, &|| {
            if is_kept {
                clock.advance(TTL / 2);
                guard.check().unwrap();
            } else {
                guard.extend(TTL).unwrap();
            }
        });
        guard.unlock().unwrap();
        recover(&clock, &nodes);
        clock.advance(TTL);
        assert_eq!(count(&nodes, "report"), 0);
    }
}

#[test]
fn votes_of_healed_nodes_make_the_majority() {
    by_call_and_in_background(|_, nodes, guard, extend| {
        // Only two of the nodes that have the key answer.
        nodes[2].refuse();
        extend();
        assert_on(nodes, guard, &[1; 5]);
        assert!(guard.remaining() > VALIDITY / 2);
        // A third node goes, and those that were healed hold the lock.
        nodes[3].refuse();
        extend();
        guard.check().unwrap();
    });
}

#[test]
fn a_node_with_another_holders_key_is_left_alone_until_that_is_gone() {
    by_call_and_in_background(|clock, nodes, guard, extend| {
        nodes[1].restart();
        for node in &nodes[..2] {
            node.hold("report", "another", ms(6_000));
        }
        extend();
        for node in &nodes[..2] {
            assert_eq!(node.token_of("report").as_deref(), Some("another"));
        }
        clock.advance(ms(4_000));
        extend();
        clock.advance(ms(4_000));
        extend();
        assert_on(nodes, guard, &[1; 5]);
    });
}

#[test]
fn a_heal_that_was_undone_is_tried_again_if_the_undo_was_answered_on_its_connection() {
    let refuse: fn(&FakeNode) = FakeNode::refuse;
    for (fault, is_healed) in [
        // It was not sent.
        (refuse, true),
        (FakeNode::hang, true),
        // The undo may have been lost with the replies.
        (FakeNode::lose_replies, false),
    ] {
        let (clock, nodes, manager) = over_fakes(5);
        nodes[0].refuse();
        let guard = manager.try_lock("report", TTL).unwrap();
        // The probe finds it again, and the heal does not.
        recover(&clock, &nodes);
        fault(&nodes[0]);
        guard.extend(TTL).unwrap();
        recover(&clock, &nodes);
        for _ in 0..3 {
            guard.extend(TTL).unwrap();
            assert_on(&nodes, &guard, &[is_healed.into(), 1, 1, 1, 1]);
        }
        assert_eq!(manager.stats().healed, u64::from(is_healed));
        guard.unlock().unwrap();
        assert_eq!(count(&nodes, "report"), 0);
    }
}

#[test]
fn a_vote_of_a_heal_after_the_old_end_does_not_count() {
    let (clock, nodes, manager) = over_fakes(5);
    nodes[..2].iter().for_each(FakeNode::refuse);
    let guard = manager.try_lock("report", TTL).unwrap();
    recover(&clock, &nodes);
    nodes[2].refuse();
    clock.advance(guard.remaining().checked_sub(ms(30)).unwrap());
    // In time by the node timeout, and too late by the lock.
    nodes[..2].iter().for_each(|node| node.delay(ms(40)));
    assert_lost(guard.extend(TTL), has_expired);
    assert_lost(guard.check(), has_expired);
    nodes.iter().for_each(FakeNode::recover);
    assert!(guard.unlock().is_err());
    assert_eq!(count(&nodes, "report"), 0);
}

#[test]
fn an_extension_does_not_succeed_if_the_lock_ended_while_a_node_was_healed() {
    let (clock, nodes, manager) = over_fakes(5);
    let guard = manager.try_lock("report", TTL).unwrap();
    clock.advance(guard.remaining().checked_sub(ms(60)).unwrap());
    nodes[0].restart();
    // It answers in time by the node timeout, and is healed after the end of what it is asked for.
    nodes[0].delay(ms(45));
    let began = clock.elapsed();
    assert_lost(guard.extend(ms(80)), has_expired);
    assert_eq!(clock.elapsed(), began + ms(90));
    assert!(guard.unlock().is_err());
}

/// Also after a short extension.
#[test]
fn a_healed_key_does_not_outlive_its_lock_by_the_time_the_extension_took() {
    for delay in [0, 40].map(ms) {
        let (clock, nodes, manager) = over_fakes(5);
        let guard = manager.try_lock("report", TTL * 6).unwrap();
        nodes[0].restart();
        nodes[1..].iter().for_each(|node| node.delay(delay));
        let began = clock.elapsed();
        guard.extend(TTL).unwrap();
        let took = clock.elapsed().checked_sub(began).unwrap();
        assert!(took >= delay, "{took:?}");
        let left = nodes[0].ttl_of("report").unwrap();
        let is_as_long = left > guard.remaining() && left + took < TTL * 6 + ms(10);
        assert!(is_as_long, "{left:?}, after {took:?}");
    }
}

#[test]
fn max_hold_ends_a_healed_key_too() {
    let (clock, nodes, manager) = over_fakes(5);
    let guard = kept(&manager, KeepAlive::max_hold(TTL * 2));
    clock.advance(ms(12_000));
    nodes[0].restart();
    clock.advance(ms(7_500));
    assert_on(&nodes, &guard, &[1; 5]);
    clock.advance(ms(1_000));
    assert_lost(guard.check(), at_the_limit);
    assert_eq!(count(&nodes, "report"), 0);
}

#[test]
fn a_node_that_failed_lately_is_not_healed_and_nobody_waits_for_it() {
    let (clock, nodes, manager) = over_fakes(5);
    nodes[0].hang();
    let _other = manager.try_lock("other", TTL).unwrap();
    // Left out, and never asked.
    let guard = manager.try_lock("report", TTL).unwrap();
    let began = clock.elapsed();
    guard.extend(TTL).unwrap();
    assert_eq!(clock.elapsed(), began);
    recover(&clock, &nodes);
    guard.extend(TTL).unwrap();
    assert_on(&nodes, &guard, &[1; 5]);
}

#[test]
fn a_lease_carries_the_healed_nodes_and_its_taker_heals_only_those() {
    let (clock, nodes, manager) = over_fakes(5);
    nodes[..2].iter().for_each(FakeNode::refuse);
    let guard = manager.try_lock("report", TTL).unwrap();
    recover(&clock, &nodes[1..]);
    guard.extend(TTL).unwrap();
    assert_on(&nodes, &guard, &[0, 1, 1, 1, 1]);
    recover(&clock, &nodes);
    let text = guard.into_lease().to_string();
    assert_eq!(text.split(':').nth(4), Some("01111"));

    let guard = manager.adopt(&text.parse::<Lease>().unwrap()).unwrap();
    nodes[4].restart();
    guard.extend(TTL).unwrap();
    assert_on(&nodes, &guard, &[0, 1, 1, 1, 1]);
}
