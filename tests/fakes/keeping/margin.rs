//! A keep-alive with a margin, over virtual time: the program loses the lock before anybody else can get it.

#![expect(
    clippy::unchecked_time_subtraction,
    reason = "a test that underflows fails, as it should"
)]

use std::time::Duration;

use redlatch::fake::{FakeClock, FakeNode};
use redlatch::{Error, KeepAlive, LockManager, LossCause};

use crate::fakes::keeping::schedule::{
    TTL, VALIDITY, assert_lost, at_the_limit, count, kept, told,
};
use crate::kinds::world::ms;
use crate::managers::{invalid_field, over_fakes};

const MARGIN: Duration = Duration::from_secs(3);

fn with_margin() -> KeepAlive {
    KeepAlive::unbounded().margin(MARGIN)
}

fn is_unreachable(cause: &LossCause) -> bool {
    matches!(cause, LossCause::Unreachable { .. })
}

#[test]
fn a_loss_is_told_the_margin_before_others_can_have_the_lock() {
    for fault in [FakeNode::refuse, FakeNode::hang] {
        let (clock, nodes, manager) = over_fakes(5);
        let guard = kept(&manager, with_margin());
        let (told, watch) = (told(&guard), guard.watch());
        nodes.iter().for_each(fault);
        clock.advance(VALIDITY - MARGIN - ms(2));
        guard.check().unwrap();
        assert!(guard.remaining() <= ms(2));
        assert!(told.try_recv().is_err());
        clock.advance(ms(1));
        let cause = told.try_recv().unwrap();
        assert!(is_unreachable(&cause), "{cause}");
        assert_lost(watch.check(), is_unreachable);
        assert!(is_unreachable(&watch.wait_lost(Duration::ZERO).unwrap()));
        // Nothing revives it, although it has its keys for the margin.
        nodes.iter().for_each(FakeNode::recover);
        assert_lost(guard.extend(TTL), is_unreachable);
        assert_lost(
            guard.keep_alive(TTL, KeepAlive::unbounded()),
            is_unreachable,
        );
        clock.advance(MARGIN);
        assert_eq!(guard.remaining(), Duration::ZERO);
        assert_eq!(count(&nodes, "report"), 5);
        let other = manager.try_lock("report", TTL);
        assert!(matches!(other, Err(Error::Held { .. })), "{other:?}");
    }
}

#[test]
fn a_guard_that_ends_within_its_margin_leaves_no_key() {
    for gives_back in [drop, |guard: redlatch::LockGuard| {
        assert_lost(guard.unlock(), is_unreachable);
    }] {
        let (clock, nodes, manager) = over_fakes(5);
        let guard = kept(&manager, with_margin());
        nodes.iter().for_each(FakeNode::refuse);
        clock.advance(VALIDITY - MARGIN);
        assert_lost(guard.check(), is_unreachable);
        nodes.iter().for_each(FakeNode::recover);
        assert_eq!(count(&nodes, "report"), 5);
        gives_back(guard);
        assert_eq!(count(&nodes, "report"), 0);
        drop(manager.try_lock("report", TTL).unwrap());
    }
}

#[test]
fn a_limit_is_told_the_margin_before_it_and_no_key_outlives_it() {
    let (clock, nodes, manager) = over_fakes(5);
    let limit = TTL * 3;
    let guard = kept(&manager, KeepAlive::max_hold(limit).margin(MARGIN));
    let told = told(&guard);
    clock.advance(limit - MARGIN - ms(2));
    guard.check().unwrap();
    assert!(told.try_recv().is_err());
    clock.advance(ms(1));
    assert!(at_the_limit(&told.try_recv().unwrap()));
    assert_lost(guard.check(), at_the_limit);
    clock.advance(MARGIN);
    assert_eq!(count(&nodes, "report"), 5);
    // The drift.
    clock.advance(ms(200));
    drop(manager.try_lock("report", TTL).unwrap());

    // A lock that was held for so long already.
    let guard = manager.lock("other", TTL * 3).unwrap();
    clock.advance(TTL);
    let late = KeepAlive::max_hold(TTL + MARGIN).margin(MARGIN);
    let refused = guard.keep_alive(TTL, late).unwrap_err();
    assert_eq!(invalid_field(&refused), "max_hold");
    guard.check().unwrap();
}

#[test]
fn a_lock_is_renewed_in_time_whatever_its_margin_is() {
    for margin in [ms(0), ms(1), TTL / 3, TTL / 2, TTL * 2 / 3] {
        let (clock, nodes, manager) = over_fakes(5);
        let guard = kept(&manager, KeepAlive::unbounded().margin(margin));
        let held = VALIDITY - margin;
        assert!(held - guard.remaining() < ms(1), "{guard:?}");
        // The first renewal fails, and there is time for the next one.
        nodes.iter().for_each(FakeNode::refuse);
        clock.advance(held / 2);
        nodes.iter().for_each(FakeNode::recover);
        clock.advance(held / 4);
        assert!(guard.remaining() > held / 2, "{guard:?}");
        clock.advance(TTL * 20);
        guard.check().unwrap();
        // A renewal comes after a third.
        let renewals = (TTL * 20).as_millis() / (held / 3).as_millis();
        let renewed = u128::from(manager.stats().renewed);
        assert!(
            (renewals..renewals + 12).contains(&renewed),
            "{renewed}, not {renewals}"
        );
    }
}

#[test]
fn a_margin_that_leaves_no_time_for_renewals_is_refused() {
    let kept = |timeout, ttl, margin| {
        let nodes = FakeNode::cluster_on(3, &FakeClock::new());
        let builder = LockManager::builder().fakes(&nodes).node_timeout(timeout);
        let manager = builder.build().unwrap();
        let keep_alive = KeepAlive::unbounded().margin(margin);
        let request = manager.request("report").ttl(ttl).keep_alive(keep_alive);
        let result = request.try_lock().map(drop);
        assert_eq!(nodes[0].token_of("report"), None);
        result
    };
    // Two thirds of the ttl; and all but two node timeouts of the 9.898 s of the validity, less what the drift is rounded up by.
    for (timeout, longest) in [(ms(50), ms(6_666)), (ms(2_000), ms(5_897))] {
        kept(timeout, TTL, longest).unwrap();
        let error = kept(timeout, TTL, longest + ms(2)).unwrap_err();
        assert_eq!(invalid_field(&error), "margin", "{error}");
        let words = "is too long for a ttl of 10s: renewals need time before it, so the longest is";
        assert!(error.to_string().contains(words), "{error}");
    }
    kept(ms(50), ms(150), ms(46)).unwrap();
    let refused = kept(ms(50), TTL, Duration::MAX).unwrap_err();
    assert_eq!(invalid_field(&refused), "margin");
}

#[test]
fn a_keep_alive_with_another_margin_moves_the_loss_and_leaves_the_keys() {
    let (clock, nodes, manager) = over_fakes(5);
    let guard = manager.lock("report", TTL).unwrap();
    let told = told(&guard);
    // The loss comes sooner than the hook was planned for.
    guard.keep_alive(TTL, with_margin()).unwrap();
    assert_eq!(guard.remaining().as_millis(), 6_897);
    guard
        .keep_alive(TTL, KeepAlive::unbounded().margin(MARGIN * 2))
        .unwrap();
    assert_eq!(guard.remaining().as_millis(), 3_897);
    guard.keep_alive(TTL, with_margin()).unwrap();
    // An extension for less than the margin changes nothing.
    guard.extend(ms(1_000)).unwrap();
    assert_eq!(guard.remaining().as_millis(), 6_897);
    nodes.iter().for_each(FakeNode::refuse);
    clock.advance(VALIDITY - MARGIN - ms(1));
    assert!(is_unreachable(&told.try_recv().unwrap()));
    assert_eq!(nodes[0].ttl_of("report").unwrap().as_millis(), 3_103);
}

#[test]
fn a_healed_key_lasts_to_the_end_of_the_margin() {
    let (_clock, nodes, manager) = over_fakes(5);
    let keep_alive = KeepAlive::unbounded().margin(TTL * 2);
    let request = manager.request("report").ttl(TTL * 6);
    let guard = request.keep_alive(keep_alive).try_lock().unwrap();
    nodes[0].restart();
    guard.extend(TTL).unwrap();
    let left = nodes[0].ttl_of("report").unwrap();
    assert!(left >= guard.remaining() + TTL * 2, "{left:?}");
}

#[test]
fn a_lease_lasts_to_the_end_of_the_margin() {
    let (clock, _nodes, manager) = over_fakes(5);
    let guard = kept(&manager, with_margin());
    clock.advance(ms(3_000));
    let lease = guard.into_lease();
    clock.advance(VALIDITY - MARGIN / 2);
    let guard = manager.adopt(&lease).unwrap();
    guard.check().unwrap();
}
