//! Loggers, recorders and subscribers that panic, whatever they are told: they harm no lock.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::Duration;

use redlatch::fake::{FakeClock, FakeNode};
use redlatch::{Fanout, KeepAlive, LockGuard, LockManager, Vote};
use redlatch_testing::within;

use crate::log_lines::{THEN, lines_about, listen};
use crate::managers::over_fakes;

const TTL: Duration = Duration::from_secs(10);

/// Plays so that nearly each figure changes, on this thread alone. Returns the manager, which holds one lock.
pub(crate) fn play(
    nodes: &[FakeNode],
    clock: &FakeClock,
    fanout: Fanout,
) -> (LockManager, LockGuard) {
    let builder = LockManager::builder().fakes(nodes).fanout(fanout);
    let manager = builder.build().unwrap();
    nodes[2].hang();
    drop(manager.lock("job", TTL).unwrap());
    nodes[2].recover();
    clock.advance(TTL);
    // Another holder, and no majority.
    for node in nodes {
        node.hold("other", "another", TTL);
    }
    manager.try_lock("other", TTL).unwrap_err();
    nodes[..2].iter().for_each(FakeNode::refuse);
    manager.try_lock("job", TTL).unwrap_err();
    nodes.iter().for_each(FakeNode::recover);
    clock.advance(TTL);
    // A lease goes from hand to hand, and is extended, healed and lost.
    let lease = manager.lock("job", TTL).unwrap().into_lease();
    let guard = manager.adopt(&lease).unwrap();
    nodes[1].flush();
    guard.extend(TTL).unwrap();
    clock.advance(TTL * 2);
    assert!(guard.check().is_err());
    drop(guard);
    let request = manager.request("kept").ttl(TTL);
    let kept = request.keep_alive(KeepAlive::unbounded()).lock().unwrap();
    clock.advance(TTL * 3);
    assert!(manager.try_lock("kept", TTL).is_err());
    (manager, kept)
}

/// Whoever is told of it and panics: each lock is what it is, no key is left, no node is left out for ever, and nothing aborts.
#[track_caller]
pub(crate) fn assert_harmless(fanout: Fanout) {
    let (clock, nodes, _) = over_fakes(3);
    let (manager, kept) = play(&nodes, &clock, fanout);
    kept.unlock().unwrap();
    let stats = manager.stats();
    assert_eq!(
        (stats.held(), stats.released, stats.lost),
        (0, 2, 1),
        "{stats}"
    );
    // While a panic unwinds, a second one would abort.
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        let _guard = manager.lock("job", TTL).unwrap();
        nodes[0].refuse();
        panic!("the job fails");
    }));
    assert!(unwound.is_err());
    nodes[0].recover();
    clock.advance(TTL);
    let guard = manager.try_lock("job", TTL).unwrap();
    let is_granted = |vote: &Vote| matches!(vote, Vote::Granted);
    assert!(guard.votes().iter().all(|report| is_granted(&report.vote)));
    guard.unlock().unwrap();
    for node in &nodes {
        assert_eq!((node.token_of("job"), node.token_of("kept")), (None, None));
    }
}

#[test]
fn a_logger_that_panics_harms_no_lock_leaves_no_node_out_for_ever_and_aborts_no_unwinding() {
    listen();
    let calls = Rc::new(Cell::new(0));
    let called = Rc::clone(&calls);
    THEN.set(Some(Box::new(move || {
        called.set(called.get() + 1);
        panic!("broken");
    })));
    assert_harmless(Fanout::Sequential);
    THEN.set(None);
    assert!(calls.get() >= 3, "{calls:?} lines were told");
}

/// A logger that asks about the lock it is told of.
#[test]
fn a_logger_may_look_at_the_lock_that_is_lost() {
    listen();
    let (clock, _, manager) = over_fakes(3);
    let guard = manager.lock("looked at", TTL).unwrap();
    clock.advance(TTL);
    // Under the lock's own mutex, it would wait for ever.
    let is_lost = move || {
        let watch = guard.watch();
        THEN.set(Some(Box::new(move || assert!(watch.check().is_err()))));
        guard.check().is_err()
    };
    assert!(within(Duration::from_secs(10), is_lost));
    assert_eq!(lines_about("\"looked at\" lost").len(), 1);
}
