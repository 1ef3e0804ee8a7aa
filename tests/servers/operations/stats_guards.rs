//! `LockManager::stats`: what is counted of guards, until they are released, passed on or lost.

use std::time::Duration;

use redlatch::fake::FakeNode;
use redlatch::{Error, KeepAlive, LockGuard, LockManager};
use redlatch_testing::eventually;
use redlatch_testing::scripted::{Kind, Scripted};

use crate::servers::operations::stats::{Fixture, TTL, assert_counted, fixture};

#[test]
fn a_lock_is_lost_once_however_that_is_noticed() {
    let Fixture {
        clock,
        nodes,
        manager,
    } = fixture();
    let lost = |count| [("attempts", count), ("acquired", count), ("lost", count)];

    // By the clock, and noticed when it is dropped.
    let guard = manager.lock("job", TTL).unwrap();
    clock.advance(TTL);
    drop(guard);
    assert_counted(&manager, &lost(1));

    // By the clock, and noticed before.
    let guard = manager.lock("job", TTL).unwrap();
    clock.advance(TTL);
    assert!(guard.check().is_err());
    assert_counted(&manager, &lost(2));
    assert!(guard.unlock().is_err());

    // The nodes have forgotten it, which the release notices.
    let guard = manager.lock("job", TTL).unwrap();
    nodes.iter().for_each(FakeNode::restart);
    assert!(guard.unlock().is_err());
    assert_counted(&manager, &lost(3));

    // The same, and an extension notices.
    let guard = manager.lock("job", TTL).unwrap();
    nodes.iter().for_each(FakeNode::restart);
    assert!(guard.extend(TTL).is_err());
    drop(guard);
    assert_counted(&manager, &lost(4));

    // A lease of a lock that is lost passes nothing on.
    let guard = manager.lock("job", TTL).unwrap();
    clock.advance(TTL);
    drop(guard.into_lease());
    assert_counted(&manager, &lost(5));
}

#[test]
fn a_release_that_no_node_hears_is_counted_as_unconfirmed() {
    let Fixture { nodes, manager, .. } = fixture();
    let guard = manager.lock("job", TTL).unwrap();
    nodes.iter().for_each(FakeNode::refuse);
    assert!(matches!(guard.unlock(), Err(Error::Unconfirmed { .. })));
    assert_counted(
        &manager,
        &[("attempts", 1), ("acquired", 1), ("unconfirmed", 1)],
    );
}

#[test]
fn a_lease_is_passed_on_and_adopted() {
    let Fixture { manager, .. } = fixture();
    let lease = manager.lock("job", TTL).unwrap().into_lease();
    assert_counted(
        &manager,
        &[("attempts", 1), ("acquired", 1), ("passed_on", 1)],
    );
    let guard = manager.adopt(lease).unwrap();
    assert_eq!(manager.stats().held(), 1);
    drop(guard);
    let all = [
        ("attempts", 1),
        ("acquired", 1),
        ("adopted", 1),
        ("released", 1),
        ("passed_on", 1),
    ];
    assert_counted(&manager, &all);
}

#[test]
fn renewals_are_counted_and_those_that_fail_too() {
    let Fixture {
        clock,
        nodes,
        manager,
    } = fixture();
    let request = manager.request("job").ttl(TTL);
    let guard = request.keep_alive(KeepAlive::unbounded()).lock().unwrap();
    clock.advance(TTL * 3);
    let stats = manager.stats();
    assert!(stats.renewed >= 6 && stats.failed_renewals == 0, "{stats}");
    nodes.iter().for_each(FakeNode::refuse);
    clock.advance(TTL);
    let stats = manager.stats();
    assert!(stats.failed_renewals > 0 && stats.extended == 0, "{stats}");
    // Nobody has asked; that is noticed when it is dropped.
    drop(guard);
    let stats = manager.stats();
    assert_eq!((stats.lost, stats.released, stats.held()), (1, 0, 0));
}

#[test]
fn a_renewal_of_a_lock_that_is_given_back_meanwhile_has_not_failed() {
    let node = Scripted::start(|peer, command| {
        if command.kind() == Kind::Extend {
            peer.wait(Duration::from_millis(300));
        }
        peer.say(command.consent());
    });
    let builder = LockManager::builder().nodes([node.url()]);
    let manager = builder
        .node_timeout(Duration::from_secs(3))
        .build()
        .unwrap();
    let request = manager.request("job").ttl(Duration::from_secs(10));
    let guard = request.keep_alive(KeepAlive::unbounded()).lock().unwrap();
    let extensions = || node.heard_of(Kind::Extend).len();
    assert!(eventually(TTL * 6, || extensions() == 1));
    guard.unlock().unwrap();
    // The background thread has taken in the answer when it does the next thing.
    let next = manager.request("next").ttl(Duration::from_secs(10));
    let _next = next.keep_alive(KeepAlive::unbounded()).lock().unwrap();
    assert!(eventually(TTL * 6, || manager.stats().renewed == 1));
    assert_eq!(manager.stats().failed_renewals, 0);
}

/// What never ends by itself: the guard is not dropped.
fn forget(guard: LockGuard) {
    #[expect(clippy::mem_forget, reason = "it is what is tested")]
    std::mem::forget(guard);
}

#[test]
fn a_lock_whose_guard_was_forgotten_is_held_until_it_ends_and_lost_then() {
    type Take = fn(&LockManager) -> Result<LockGuard, Error>;
    let takes: [(&str, Take); 7] = [
        ("lock", |manager| manager.lock("job", TTL)),
        ("several", |manager| manager.lock_all(["one", "two"], TTL)),
        ("permit", |manager| {
            manager.semaphore("jobs", 2).ttl(TTL).lock()
        }),
        ("reader", |manager| manager.rw_lock("job").ttl(TTL).read()),
        ("adopted", |manager| {
            let guard = manager.lock("job", TTL)?;
            manager.adopt(guard.into_lease())
        }),
        ("extended", |manager| {
            let guard = manager.lock("job", TTL / 2)?;
            guard.extend(TTL)?;
            Ok(guard)
        }),
        ("kept", |manager| {
            let request = manager.request("job").ttl(TTL / 2);
            request.keep_alive(KeepAlive::max_hold(TTL)).lock()
        }),
    ];
    for (kind, take) in takes {
        let Fixture { clock, manager, .. } = fixture();
        forget(take(&manager).unwrap());
        let stats = || {
            let stats = manager.stats();
            (stats.held(), stats.lost)
        };
        let part = TTL / 50;
        clock.advance(part * 49);
        assert_eq!(stats(), (1, 0), "{kind}");
        clock.advance(part);
        assert_eq!(stats(), (0, 1), "{kind}");
        // The next holder's is another one, whose end is counted once.
        let guard = take(&manager).unwrap();
        assert_eq!(stats(), (1, 1), "{kind}");
        clock.advance(TTL);
        assert_eq!(stats(), (0, 2), "{kind}");
        assert!(guard.check().is_err());
        drop(guard);
        assert_eq!(stats(), (0, 2), "{kind}");
    }
}
