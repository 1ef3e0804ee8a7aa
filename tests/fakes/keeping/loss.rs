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
    TTL, VALIDITY, assert_lost, at_the_limit, count, has_expired, kept, told,
};
use crate::kinds::world::ms;
use crate::managers::over_fakes;

fn is_unreachable(cause: &LossCause) -> bool {
    matches!(cause, LossCause::Unreachable { .. })
}

fn is_taken(cause: &LossCause) -> bool {
    matches!(cause, LossCause::Taken { .. })
}

#[test]
fn a_quorum_that_is_out_of_reach_is_told_by_the_end_of_the_validity() {
    for fault in [FakeNode::refuse, FakeNode::hang] {
        let (clock, nodes, manager) = over_fakes(5);
        let guard = kept(&manager, KeepAlive::unbounded());
        let (told, watch) = (told(&guard), guard.watch());
        nodes.iter().for_each(fault);
        clock.advance(VALIDITY - ms(2));
        guard.check().unwrap();
        assert!(told.try_recv().is_err());
        clock.advance(ms(1));
        let cause = told.try_recv().unwrap();
        assert!(is_unreachable(&cause), "{cause}");
        let failed = |vote: &Vote| matches!(vote, Vote::Failed(_));
        assert!(cause.nodes().iter().all(|node| failed(&node.vote)));
        assert_lost(watch.check(), is_unreachable);
        // Nothing undoes a loss.
        nodes.iter().for_each(FakeNode::recover);
        assert_lost(guard.extend(TTL), is_unreachable);
        assert_eq!(guard.remaining(), Duration::ZERO);
        assert!(told.try_recv().is_err(), "told twice");
    }
}

#[test]
fn a_loss_that_is_known_is_what_every_other_call_tells_whatever_the_nodes_say() {
    for fault in [FakeNode::refuse, FakeNode::hang, FakeNode::recover] {
        let (clock, nodes, manager) = over_fakes(5);
        let limited = kept(&manager, KeepAlive::max_hold(TTL));
        let taken = manager.request("taken").ttl(TTL);
        let taken = taken.keep_alive(KeepAlive::unbounded());
        let taken = taken.try_lock().unwrap();
        for node in &nodes[..3] {
            node.hold("taken", "another", TTL * 10);
        }
        clock.advance(TTL);
        assert_lost(taken.check(), is_taken);
        assert_lost(limited.check(), at_the_limit);
        nodes.iter().for_each(fault);
        assert_lost(taken.unlock(), is_taken);
        assert_lost(limited.extend(TTL), at_the_limit);
        // More than the limit that it has reached.
        let kept = limited.keep_alive(TTL, KeepAlive::unbounded());
        assert_lost(kept, at_the_limit);
        assert_lost(manager.adopt(&limited.into_lease()).map(drop), has_expired);
    }
}

#[test]
fn a_kept_lock_whose_end_a_release_sleeps_over_is_told_why_it_was_not_renewed() {
    let is_told = |keep, fault: fn(&FakeNode), expected| {
        let (clock, nodes, manager) = over_fakes(5);
        let guard = kept(&manager, keep);
        nodes.iter().for_each(fault);
        while guard.remaining() > ms(1) {
            clock.advance(guard.remaining() - ms(1));
        }
        guard.check().unwrap();
        for node in &nodes {
            node.advance(TTL);
            node.delay(ms(30));
        }
        assert_lost(guard.unlock(), expected);
    };
    is_told(KeepAlive::unbounded(), FakeNode::refuse, is_unreachable);
    is_told(KeepAlive::max_hold(TTL), FakeNode::recover, at_the_limit);
}

#[test]
fn a_limit_that_is_reached_while_a_node_is_healed_is_told_to_hooks_then_and_not_by_the_former_end()
{
    let (clock, nodes, manager) = over_fakes(5);
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
    let (clock, nodes, manager) = over_fakes(5);
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

/// Panics when it is dropped, as what a hook owns may do.
struct Grenade;

impl Drop for Grenade {
    fn drop(&mut self) {
        panic!("what a hook owned");
    }
}

#[test]
fn hooks_are_told_also_of_a_lock_that_nobody_renews_and_one_that_panics_harms_nobody() {
    let (clock, _nodes, manager) = over_fakes(5);
    let guard = manager.try_lock("report", TTL).unwrap();
    let other = manager.try_lock("other", TTL * 2).unwrap();
    guard.on_lost(|_| panic!("a hook that panics")).unwrap();
    guard.on_lost(|_| std::panic::panic_any(Grenade)).unwrap();
    let (first, others) = (told(&guard), told(&other));
    clock.advance(TTL / 2);
    guard.extend(TTL).unwrap();
    clock.advance(VALIDITY - ms(2));
    assert!(first.try_recv().is_err());
    clock.advance(ms(1));
    assert!(has_expired(&first.try_recv().unwrap()));
    // One that comes late is called at once.
    let late = told(&guard);
    clock.advance(Duration::ZERO);
    assert!(late.try_recv().is_ok());
    // The thread goes on, and so do renewals.
    let third = manager.request("third").keep_alive(KeepAlive::unbounded());
    let third = third.try_lock().unwrap();
    clock.advance(TTL * 9);
    assert!(others.try_recv().is_ok());
    third.check().unwrap();
}

#[test]
fn nothing_is_told_of_a_lock_that_was_given_back_but_to_those_who_watch_it() {
    let ends: [fn(LockGuard); 3] = [
        drop,
        |guard| guard.unlock().unwrap(),
        |guard| drop(guard.into_lease()),
    ];
    let (clock, nodes, manager) = over_fakes(5);
    for give_back in ends {
        let guard = kept(&manager, KeepAlive::unbounded());
        let (told, watch, grenade) = (told(&guard), guard.watch(), Grenade);
        guard.on_lost(move |_| drop(grenade)).unwrap();
        assert!(watch.wait_lost(TTL).is_none());
        watch.check().unwrap();
        give_back(guard);
        let released = |cause: &LossCause| matches!(cause, LossCause::Released);
        assert_lost(watch.check(), released);
        assert!(released(&watch.wait_lost(TTL).unwrap()));
        assert_eq!(watch.remaining(), Duration::ZERO);
        clock.advance(TTL * 3);
        assert_eq!(count(&nodes, "report"), 0);
        // The hook itself is gone.
        let is_gone = |error| error == mpsc::TryRecvError::Disconnected;
        assert!(told.try_recv().is_err_and(is_gone));
    }
}
