//! Keep-alive over virtual time: which locks are renewed, when, and for how long.

#![expect(
    clippy::unchecked_time_subtraction,
    reason = "a test that underflows fails, as it should"
)]

use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use redlatch::fake::{FakeClock, FakeNode};
use redlatch::{Error, KeepAlive, LockGuard, LockManager, LossCause};
use redlatch_testing::eventually;

use crate::kinds::outcomes::{assert_unavailable, loss};
use crate::kinds::world::ms;
use crate::managers::{invalid_field, over_fakes};

pub(crate) const TTL: Duration = Duration::from_secs(10);
/// The ttl less the drift of 1 % and 2 ms.
pub(crate) const VALIDITY: Duration = Duration::from_millis(9_898);

#[track_caller]
pub(crate) fn kept(manager: &LockManager, keep_alive: KeepAlive) -> LockGuard {
    let request = manager.request("report").ttl(TTL).keep_alive(keep_alive);
    request.try_lock().unwrap()
}

/// What the hooks of a guard are told.
pub(crate) fn told(guard: &LockGuard) -> Receiver<LossCause> {
    let (tell, told) = mpsc::channel();
    guard
        .on_lost(move |cause| tell.send(cause).unwrap())
        .unwrap();
    told
}

#[track_caller]
pub(crate) fn assert_lost(result: Result<(), Error>, expected: fn(&LossCause) -> bool) {
    let cause = loss(result);
    assert!(expected(&cause), "{cause}");
}

pub(crate) fn at_the_limit(cause: &LossCause) -> bool {
    matches!(cause, LossCause::MaxHold { .. })
}

pub(crate) fn has_expired(cause: &LossCause) -> bool {
    matches!(cause, LossCause::Expired { .. })
}

pub(crate) fn count(nodes: &[FakeNode], key: &str) -> usize {
    let has_key = |node: &&FakeNode| node.token_of(key).is_some();
    nodes.iter().filter(has_key).count()
}

#[test]
fn nodes_that_failed_a_moment_ago_are_asked_where_a_lock_needs_them() {
    let (clock, nodes, manager) = over_fakes(5);
    let guard = kept(&manager, KeepAlive::unbounded());
    nodes[0].hold("report", "another", TTL);
    clock.advance(VALIDITY / 3 - ms(5));
    for node in &nodes[1..3] {
        node.refuse();
    }
    // It is noticed, and they are left out for a while.
    manager.status("other").unwrap();
    for node in &nodes[1..3] {
        node.recover();
    }
    clock.advance(ms(6));
    guard.check().unwrap();
    assert!(guard.remaining() > VALIDITY - ms(5), "{guard:?}");
    for node in &nodes[1..] {
        assert!(node.ttl_of("report") > Some(TTL - ms(5)));
    }
}

#[test]
fn a_node_that_was_sent_an_undo_is_not_renewed() {
    let (clock, nodes, manager) = over_fakes(5);
    nodes[0].lose_replies();
    let guard = kept(&manager, KeepAlive::unbounded());
    nodes[0].recover();
    // The undo had no answer, so it goes again, and is answered. As if a third one were still on its way: with more time,
    // the key would outlive the lock there.
    clock.advance(ms(2_000));
    nodes[0].hold("report", guard.token(), TTL);
    clock.advance(TTL - ms(1));
    assert_eq!(nodes[0].ttl_of("report"), Some(ms(1)));
    assert!(nodes[1].ttl_of("report") > Some(TTL / 2));
    guard.check().unwrap();
}

#[test]
fn the_holding_ends_at_its_limit_and_is_free_for_others_soon_after() {
    let (clock, nodes, manager) = over_fakes(5);
    let guard = kept(&manager, KeepAlive::max_hold(TTL * 3));
    let told = told(&guard);
    clock.advance(TTL * 3 - ms(2));
    guard.check().unwrap();
    assert_eq!(guard.remaining(), ms(2));
    assert!(told.try_recv().is_err());
    clock.advance(ms(1));
    assert!(at_the_limit(&told.try_recv().unwrap()));
    assert_lost(guard.check(), at_the_limit);
    // The holder hangs on, and yet it is to be had when the clocks' drift is over.
    clock.advance(ms(200));
    let other = manager.try_lock("report", TTL).unwrap();
    assert_lost(guard.unlock(), at_the_limit);
    assert_eq!(count(&nodes, "report"), 5);
    other.unlock().unwrap();
}

#[test]
fn a_ttl_is_long_enough_for_renewals_that_fail_or_is_refused() {
    let kept = |factor: f64, timeout: Duration, ttl: u64| {
        let clock = FakeClock::new();
        let nodes = FakeNode::cluster_on(3, &clock);
        let builder = LockManager::builder().fakes(&nodes).drift_factor(factor);
        let manager = builder.node_timeout(timeout).build().unwrap();
        let request = manager.request("report").ttl(ms(ttl));
        let guard = request.keep_alive(KeepAlive::unbounded()).try_lock()?;
        clock.advance(TTL * 10);
        guard.check()
    };
    let refused = |factor, timeout, ttl, reason: &str| {
        let error = kept(factor, timeout, ttl).unwrap_err();
        assert_eq!(invalid_field(&error), "ttl", "{error}");
        assert!(error.to_string().contains(reason), "{error}");
    };
    let timeout = ms(50);
    refused(0.01, timeout, 149, "3 node timeouts");
    // Half of the ttl and 2 ms are the drift, rounded up by 100 ns. Two node timeouts have to be left.
    let reason = "when the drift is taken off";
    refused(0.5, timeout, 204, reason);
    refused(0.5, Duration::from_nanos(49_999_951), 204, reason);
    kept(0.5, Duration::from_nanos(49_999_950), 204).unwrap();
    kept(0.5, timeout, 205).unwrap();
    // What is allowed is renewed in time.
    for factor in [0.0, 0.3, 0.7, 0.9] {
        for ttl in [150, 300, 1_100, 10_000] {
            let result = kept(factor, timeout, ttl);
            let is_refused = result.as_ref().is_err_and(|it| invalid_field(it) == "ttl");
            assert!(
                result.is_ok() || is_refused && ttl < 1_100,
                "{factor} {ttl}"
            );
        }
    }
    // Without a word on it, the ttl is one that works.
    let (_clock, _nodes, manager) = over_fakes(5);
    let request = manager.request("report");
    let guard = request.keep_alive(KeepAlive::max_hold(TTL)).try_lock();
    assert_eq!(guard.unwrap().remaining().as_millis(), 9_897);
}

#[test]
fn a_keep_alive_that_fails_ends_none_that_was_set_meanwhile() {
    let nodes = FakeNode::cluster(3);
    let timeout = Duration::from_secs(3);
    let builder = LockManager::builder().fakes(&nodes).node_timeout(timeout);
    let manager = builder.build().unwrap();
    let guard = manager.lock("report", timeout * 3).unwrap();
    let keep = |ttl| guard.keep_alive(ttl, KeepAlive::unbounded());
    thread::scope(|scope| {
        nodes.iter().for_each(FakeNode::lose_replies);
        let (first, second) = (timeout * 20, timeout * 3);
        let fails = scope.spawn(move || keep(first));
        let is_asked = |node: &FakeNode| node.ttl_of("report").is_some_and(|left| left > second);
        assert!(eventually(timeout, || nodes.iter().all(is_asked)));
        nodes.iter().for_each(FakeNode::recover);
        keep(second).unwrap();
        assert_unavailable(&fails.join().unwrap());
    });
    let before = manager.stats().renewed;
    assert!(eventually(timeout * 4, || manager.stats().renewed > before));
    guard.check().unwrap();
}
