//! Work under a lock, and the child of a fork.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use redlatch::fake::FakeNode;
use redlatch::{Error, KeepAlive, LockGuard, LossCause, Protocol};
use redlatch_testing::{Server, assert_ends_well};
use signal_hook::low_level::exit as leave;

use crate::managers::{over, over_fakes, processes_by};

const TTL: Duration = Duration::from_secs(10);

#[test]
fn work_under_a_lock_is_done_once_and_its_result_comes_back_whatever_becomes_of_the_lock() {
    let (clock, nodes, manager) = over_fakes(3);
    let work = |act: &dyn Fn(&LockGuard)| {
        manager.with_lock("report", TTL, |guard| {
            act(guard);
            7
        })
    };
    assert_eq!(work(&|guard| guard.check().unwrap()).unwrap(), 7);
    assert_eq!(nodes[0].token_of("report"), None);
    // The lock is lost, and nobody confirms the release.
    assert_eq!(work(&|_| clock.advance(TTL)).unwrap(), 7);
    let refuse = |_: &LockGuard| nodes.iter().for_each(FakeNode::refuse);
    assert_eq!(work(&refuse).unwrap(), 7);
    let stats = manager.stats();
    assert_eq!((stats.released, stats.lost, stats.unconfirmed), (1, 1, 1));
    // There is no lock, so there is no work.
    let result = work(&|_| panic!("there is no lock"));
    assert!(matches!(result, Err(Error::Unavailable { .. })));
    nodes.iter().for_each(FakeNode::recover);
    clock.advance(TTL);
    let panics = || work(&|_| panic!("the work fails"));
    assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
    assert_eq!(nodes[0].token_of("report"), None);
}

#[test]
fn a_forked_child_neither_releases_nor_uses_what_it_inherited() {
    let servers = Server::cluster(3);
    let builder = over(&servers).node_timeout(Duration::from_secs(1));
    let manager = builder.clone().build().unwrap();
    let guard = manager.lock("report", TTL * 6).unwrap();
    let unlocked = manager.lock("unlocked-in-the-child", TTL * 6).unwrap();
    let request = manager.request("kept").ttl(Duration::from_secs(3));
    let kept = request.keep_alive(KeepAlive::unbounded()).lock().unwrap();
    let [fenced] = processes_by(&builder, Protocol::Fenced);
    let others = [
        manager.rw_lock("r").ttl(TTL * 6).read(),
        manager.semaphore("s", 1).ttl(TTL * 6).lock(),
        manager.lock_all(["x", "y"], TTL * 6),
        fenced.lock("f", TTL * 6),
    ];
    let others = others.map(Result::unwrap);
    let mut locks = manager.locks("").unwrap();
    match fork::fork().unwrap() {
        fork::Fork::Child => {
            let kept_on = guard.keep_alive(TTL, KeepAlive::unbounded());
            let are_good = [
                manager.stats().acquired == 6,
                matches!(manager.try_lock("x", TTL), Err(Error::Forked)),
                matches!(manager.status("x"), Err(Error::Forked)),
                matches!(manager.health(), Err(Error::Forked)),
                matches!(manager.locks(""), Err(Error::Forked)),
                matches!(locks.next(), Some(Err(Error::Forked))),
                matches!(guard.extend(TTL), Err(Error::Forked)),
                matches!(manager.release("kept", kept.token()), Err(Error::Forked)),
                matches!(kept_on, Err(Error::Forked)),
                // Nothing renews it here, whatever the parent's threads were at.
                matches!(kept.wait_lost(TTL), Some(LossCause::Expired { .. })),
                matches!(kept.check(), Err(Error::Lost { .. })),
                matches!(manager.adopt(&kept.into_lease()), Err(Error::Forked)),
                matches!(unlocked.unlock(), Err(Error::Forked)),
            ];
            let first_bad = are_good.iter().position(|is_good| !is_good);
            // The last of the manager goes as well.
            drop((guard, others, manager, fenced, locks));
            // Zero, or the number of the one that is not.
            leave(first_bad.map_or(0, |at| i32::try_from(at).unwrap() + 1));
        }
        fork::Fork::Parent(pid) => assert_ends_well(pid),
    }
    for server in &servers {
        assert_eq!(server.get("report").as_deref(), Some(guard.token()));
        assert_eq!(server.keys(), 10);
    }
    // The parent's connections were not disturbed either.
    assert_eq!(locks.count(), 8);
    kept.check().unwrap();
    for guard in [kept, guard, unlocked].into_iter().chain(others) {
        guard.extend(TTL).unwrap();
        guard.unlock().unwrap();
    }
    // The fenced protocol keeps its marker and its counter.
    assert!(servers.iter().all(|server| server.keys() == 2));
}
