//! Losses over virtual time: how a lock is lost, and when each observer learns of it.

#![expect(
    clippy::unchecked_time_subtraction,
    reason = "a test that underflows fails, as it should"
)]

use std::sync::mpsc;
use std::time::Duration;

use redlatch::fake::FakeNode;
use redlatch::{KeepAlive, LockGuard, LossCause, Vote};

use crate::fakes::keeping::schedule::{
    TTL, VALIDITY, assert_lost, at_the_limit, cluster, count, has_expired, kept, ms, told,
};

fn is_unreachable(cause: &LossCause) -> bool {
    matches!(cause, LossCause::Unreachable { .. })
}

const WAYS_TO_END: [fn(LockGuard); 3] = [
    drop,
    |guard| guard.unlock().unwrap(),
    |guard| drop(guard.into_lease()),
];

#[test]
fn a_quorum_that_is_out_of_reach_is_told_by_the_end_of_the_validity() {
    for fault in [FakeNode::refuse, FakeNode::hang] {
        let (clock, nodes, manager) = cluster();
        let guard = kept(&manager, KeepAlive::unbounded());
        let (told, watch) = (told(&guard), guard.watch());
        nodes.iter().for_each(fault);
        clock.advance(VALIDITY - ms(2));
        guard.check().unwrap();
        assert!(told.try_recv().is_err());
        clock.advance(ms(1));
        let cause = told.try_recv().unwrap();
        assert!(is_unreachable(&cause), "{cause}");
        let failed = cause.nodes().iter();
        let failed = failed.filter(|node| matches!(node.vote, Vote::Failed(_)));
        assert_eq!(failed.count(), 5);
        assert_lost(guard.check(), is_unreachable);
        assert_lost(watch.check(), is_unreachable);
        // Nothing undoes a loss.
        nodes.iter().for_each(FakeNode::recover);
        assert_lost(guard.extend(TTL), is_unreachable);
        assert_eq!(guard.remaining(), Duration::ZERO);
        assert!(told.try_recv().is_err(), "told twice");
    }
}

#[test]
fn a_loss_that_is_known_is_what_unlock_tells_whatever_the_nodes_say() {
    let taken = |cause: &LossCause| matches!(cause, LossCause::Taken { .. });
    for fault in [FakeNode::refuse, FakeNode::hang, FakeNode::recover] {
        let (clock, nodes, manager) = cluster();
        let guard = kept(&manager, KeepAlive::unbounded());
        for node in &nodes[..3] {
            node.hold("report", "another", TTL * 10);
        }
        clock.advance(TTL / 2);
        assert_lost(guard.check(), taken);
        nodes.iter().for_each(fault);
        assert_lost(guard.unlock(), taken);
    }
}

#[test]
fn a_kept_lock_whose_end_a_release_sleeps_over_is_told_why_it_was_not_renewed() {
    for is_down in [false, true] {
        let (clock, nodes, manager) = cluster();
        let limit = KeepAlive::max_hold(TTL);
        let guard = kept(
            &manager,
            if is_down {
                KeepAlive::unbounded()
            } else {
                limit
            },
        );
        if is_down {
            nodes.iter().for_each(FakeNode::refuse);
        }
        while guard.remaining() > ms(1) {
            clock.advance(guard.remaining() - ms(1));
        }
        guard.check().unwrap();
        for node in &nodes {
            node.advance(TTL);
            node.delay(ms(30));
        }
        let expected = if is_down {
            is_unreachable
        } else {
            at_the_limit
        };
        assert_lost(guard.unlock(), expected);
    }
}

#[test]
fn a_loss_that_is_known_is_what_every_other_call_tells() {
    let (clock, nodes, manager) = cluster();
    let guard = kept(&manager, KeepAlive::max_hold(TTL));
    clock.advance(TTL);
    assert_lost(guard.check(), at_the_limit);
    nodes.iter().for_each(FakeNode::refuse);
    assert_lost(guard.extend(TTL), at_the_limit);
    // More than the limit that it has reached.
    assert_lost(guard.keep_alive(TTL, KeepAlive::unbounded()), at_the_limit);
    let kept = guard.keep_alive(TTL, KeepAlive::max_hold(TTL));
    assert_lost(kept, at_the_limit);
    let adopted = manager.adopt(guard.into_lease());
    assert_lost(adopted.map(drop), has_expired);
}

#[test]
fn a_limit_that_is_reached_while_a_node_is_healed_is_told_to_hooks_then_and_not_by_the_former_end()
{
    let (clock, nodes, manager) = cluster();
    let guard = manager.lock("report", TTL * 10).unwrap();
    let told = told(&guard);
    clock.advance(TTL * 2 - ms(30));
    // It answers the extension within the limit, and the heal behind it.
    nodes[4].flush();
    nodes[4].delay(ms(20));
    let kept = guard.keep_alive(TTL, KeepAlive::max_hold(TTL * 2));
    assert_lost(kept, at_the_limit);
    assert!(guard.remaining().is_zero());
    clock.advance(ms(1));
    let cause = told.try_recv().unwrap();
    assert!(at_the_limit(&cause), "{cause}");
}

#[test]
fn a_suspension_beyond_the_validity_is_a_loss_that_all_are_told_of() {
    let (clock, nodes, manager) = cluster();
    let guard = kept(&manager, KeepAlive::unbounded());
    let (told, watch) = (told(&guard), guard.watch());
    // Short ones are survived.
    for _ in 0..5 {
        clock.suspend(TTL / 2);
        guard.check().unwrap();
        assert!(guard.remaining() > TTL / 2);
    }
    clock.suspend(TTL);
    assert_lost(guard.check(), has_expired);
    assert_lost(watch.check(), has_expired);
    assert!(has_expired(&watch.wait_lost(Duration::ZERO).unwrap()));
    assert!(has_expired(&told.try_recv().unwrap()));
    // No renewal brings it back.
    clock.advance(TTL);
    assert_eq!(count(&nodes, "report"), 0);
}

#[test]
fn a_lock_that_nobody_renews_is_told_of_as_well() {
    let (clock, _nodes, manager) = cluster();
    let guard = manager.try_lock("report", TTL).unwrap();
    let told = told(&guard);
    clock.advance(TTL / 2);
    guard.extend(TTL).unwrap();
    clock.advance(VALIDITY - ms(2));
    assert!(told.try_recv().is_err());
    clock.advance(ms(1));
    assert!(has_expired(&told.try_recv().unwrap()));
}

#[test]
fn a_hook_that_comes_too_late_is_called_at_once_and_one_that_panics_harms_nobody() {
    let (clock, _nodes, manager) = cluster();
    let guard = kept(&manager, KeepAlive::unbounded());
    let other = manager.request("other").ttl(TTL);
    let other = other.keep_alive(KeepAlive::unbounded()).lock().unwrap();
    guard.on_lost(|_| panic!("a hook that panics"));
    let first = told(&guard);
    let others = told(&other);
    clock.suspend(TTL * 2);
    assert!(first.try_recv().is_ok());
    assert!(others.try_recv().is_ok());
    let late = told(&guard);
    clock.advance(Duration::ZERO);
    assert!(late.try_recv().is_ok());
    let third = kept(&manager, KeepAlive::unbounded());
    clock.advance(TTL * 3);
    third.check().unwrap();
}

#[test]
fn nothing_is_told_of_a_lock_that_was_given_back_but_to_those_who_watch_it() {
    let (clock, _nodes, manager) = cluster();
    for give_back in WAYS_TO_END {
        let guard = kept(&manager, KeepAlive::unbounded());
        let (told, watch) = (told(&guard), guard.watch());
        assert!(watch.wait_lost(TTL).is_none());
        watch.check().unwrap();
        give_back(guard);
        let released = |cause: &LossCause| matches!(cause, LossCause::Released);
        assert_lost(watch.check(), released);
        assert!(released(&watch.wait_lost(TTL).unwrap()));
        assert_eq!(watch.remaining(), Duration::ZERO);
        clock.advance(TTL * 3);
        // The hook itself is gone.
        let is_gone = |error| error == mpsc::TryRecvError::Disconnected;
        assert!(told.try_recv().is_err_and(is_gone));
    }
}

/// Panics when it goes, as what a hook owns may do.
struct Grenade;

impl Drop for Grenade {
    fn drop(&mut self) {
        panic!("what a hook owned");
    }
}

#[test]
fn what_hooks_own_may_panic_when_it_is_dropped_and_the_lock_is_given_back_nevertheless() {
    let (clock, nodes, manager) = cluster();
    for give_back in WAYS_TO_END {
        let guard = kept(&manager, KeepAlive::unbounded());
        let grenade = Grenade;
        guard.on_lost(move |_| drop(grenade));
        give_back(guard);
        clock.advance(TTL);
        assert_eq!(count(&nodes, "report"), 0);
    }
    // Nor does it disturb the others when it goes off in the background.
    let guard = kept(&manager, KeepAlive::unbounded());
    guard.on_lost(|_| std::panic::panic_any(Grenade));
    let first = told(&guard);
    let other = manager.try_lock("other", TTL).unwrap();
    let second = told(&other);
    clock.suspend(TTL * 2);
    assert!(first.try_recv().is_ok() && second.try_recv().is_ok());
}
