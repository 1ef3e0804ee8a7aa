//! What happens when a guard is dropped.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use redlatch::fake::{FakeClock, FakeNode};
use redlatch::{Error, KeepAlive, LockGuard, LockManager, LossCause, Vote};
use redlatch_testing::{Server, assert_ends_well, eventually, within};
use signal_hook::low_level::exit as leave;

use crate::managers::patient;

const TTL: Duration = Duration::from_secs(10);

fn manager(servers: &[Server]) -> LockManager {
    patient(servers.iter().map(Server::url))
}

fn with_timeout(servers: &[Server], node_timeout: Duration) -> LockManager {
    let builder = LockManager::builder().nodes(servers.iter().map(Server::url));
    builder.node_timeout(node_timeout).build().unwrap()
}

#[track_caller]
fn assert_empty(servers: &[Server]) {
    for server in servers {
        assert_eq!(server.keys(), 0);
    }
}

#[test]
fn drop_releases_at_the_end_of_the_scope() {
    let servers = Server::cluster(3);
    let manager = manager(&servers);
    {
        let _guard = manager.lock("report", TTL).unwrap();
        assert_eq!(servers[2].keys(), 1);
    }
    assert_empty(&servers);
}

#[test]
fn work_under_a_lock_is_done_once_and_its_result_comes_back_whatever_becomes_of_the_lock() {
    let clock = FakeClock::new();
    let nodes = FakeNode::cluster_on(3, &clock);
    let manager = LockManager::builder().fakes(&nodes).build().unwrap();
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
fn drop_releases_on_an_early_return() {
    fn job(manager: &LockManager) -> Result<(), Box<dyn std::error::Error>> {
        let _guard = manager.lock("report", TTL)?;
        let _number: u32 = "no number".parse()?;
        Ok(())
    }
    let servers = Server::cluster(3);
    let manager = manager(&servers);
    assert!(job(&manager).is_err());
    assert_empty(&servers);
}

#[test]
fn drop_releases_while_a_panic_unwinds() {
    let servers = Server::cluster(3);
    let manager = manager(&servers);
    let result = catch_unwind(AssertUnwindSafe(|| {
        let _guard = manager.lock("report", TTL).unwrap();
        panic!("the job fails");
    }));
    assert!(result.is_err());
    assert_empty(&servers);
}

#[test]
fn a_guard_outlives_its_manager_and_still_releases() {
    let servers = Server::cluster(3);
    let guard = manager(&servers).lock("report", TTL).unwrap();
    guard.extend(TTL).unwrap();
    drop(guard);
    assert_empty(&servers);
}

#[test]
fn a_node_that_has_deleted_the_key_is_reported_as_one_that_released_it() {
    let nodes = FakeNode::cluster(3);
    let manager = LockManager::builder().fakes(&nodes).build().unwrap();
    let guard = manager.lock("report", TTL).unwrap();
    assert!(guard.votes()[0].to_string().ends_with(": granted"));
    let token = guard.token().to_owned();
    for node in &nodes[1..] {
        node.hang();
    }
    let error = guard.unlock().unwrap_err();
    assert!(matches!(
        &error,
        Error::Unconfirmed { nodes, .. } if matches!(nodes[0].vote, Vote::Released)
    ));
    let text = error.to_string();
    assert!(
        text.contains(": released") && !text.contains("granted"),
        "{text}"
    );

    nodes[0].hold("report", &token, TTL);
    let text = manager.release("report", &token).unwrap_err().to_string();
    assert!(
        text.contains(": released") && !text.contains("granted"),
        "{text}"
    );
}

#[test]
fn unlock_tells_that_the_lock_was_no_longer_ours() {
    let servers = Server::cluster(5);
    let manager = manager(&servers);
    let guard = manager.lock("report", TTL).unwrap();
    for server in &servers[..2] {
        server.hold("report", "taker", 60_000);
    }
    // A majority still had it.
    guard.unlock().unwrap();

    let guard = manager.lock("other", TTL).unwrap();
    for server in &servers[..3] {
        server.hold("other", "taker", 60_000);
    }
    match guard.unlock() {
        Err(Error::Lost {
            cause: LossCause::Taken { nodes, .. },
            ..
        }) => assert_eq!(nodes.len(), 5),
        other => panic!("{other:?}"),
    }
    for server in &servers[..3] {
        assert_eq!(server.get("other").as_deref(), Some("taker"));
    }
}

#[test]
fn unlock_tells_that_a_majority_could_not_be_reached() {
    let mut servers = Server::cluster(5);
    let manager = manager(&servers);
    let guard = manager.lock("report", TTL).unwrap();
    for server in &mut servers[..3] {
        server.kill();
    }
    let error = guard.unlock().unwrap_err();
    let Error::Unconfirmed { .. } = &error else {
        panic!("{error}");
    };
    let text = error.to_string();
    assert!(
        text.starts_with("the release of the lock on \"report\" is not confirmed, "),
        "{text}"
    );
    for server in &servers[..3] {
        assert!(text.contains(&server.name()), "{text}");
    }
    assert_empty(&servers[3..]);
}

#[test]
fn drop_on_stopped_servers_is_bounded_and_they_hear_of_it_when_they_resume() {
    let servers = Server::cluster(5);
    let manager = with_timeout(&servers, Duration::from_secs(1));
    let guard = manager.lock("report", Duration::from_mins(5)).unwrap();
    for server in &servers {
        server.stop();
    }
    // A second for all of them together; only a hang takes this long.
    within(Duration::from_secs(20), || drop(guard));
    for server in &servers {
        server.resume();
    }
    for server in &servers {
        assert!(eventually(Duration::from_secs(30), || server.keys() == 0));
    }
}

#[test]
fn guards_and_managers_can_be_sent_and_shared() {
    fn assert_traits<T: Send + Sync + 'static>() {}
    assert_traits::<LockGuard>();
    assert_traits::<LockManager>();
    assert_traits::<Error>();
}

#[test]
fn a_forked_child_neither_releases_nor_uses_what_it_inherited() {
    let servers = Server::cluster(3);
    let manager = with_timeout(&servers, Duration::from_secs(1));
    let guard = manager.lock("report", TTL * 6).unwrap();
    let unlocked = manager.lock("unlocked-in-the-child", TTL * 6).unwrap();
    let request = manager.request("kept").ttl(Duration::from_secs(3));
    let kept = request.keep_alive(KeepAlive::unbounded()).lock().unwrap();
    let mut locks = manager.locks("").unwrap();
    match fork::fork().unwrap() {
        fork::Fork::Child => {
            let are_good = [
                manager.stats().acquired == 3,
                matches!(manager.try_lock("x", TTL), Err(Error::Forked)),
                matches!(manager.status("x"), Err(Error::Forked)),
                matches!(manager.health(), Err(Error::Forked)),
                matches!(manager.locks(""), Err(Error::Forked)),
                matches!(locks.next(), Some(Err(Error::Forked))),
                matches!(guard.extend(TTL), Err(Error::Forked)),
                matches!(manager.release("kept", kept.token()), Err(Error::Forked)),
                matches!(
                    guard.keep_alive(TTL, KeepAlive::unbounded()),
                    Err(Error::Forked)
                ),
                // Nothing renews it here, whatever the parent's threads were at.
                matches!(kept.wait_lost(TTL), Some(LossCause::Expired { .. })),
                matches!(kept.check(), Err(Error::Lost { .. })),
                matches!(manager.adopt(kept.into_lease()), Err(Error::Forked)),
                matches!(unlocked.unlock(), Err(Error::Forked)),
            ];
            let first_bad = are_good.iter().position(|is_good| !is_good);
            // The last of the manager goes as well.
            drop(guard);
            drop(manager);
            drop(locks);
            // Zero, or the number of the one that is not.
            leave(first_bad.map_or(0, |at| i32::try_from(at).unwrap() + 1));
        }
        fork::Fork::Parent(pid) => assert_ends_well(pid),
    }
    for server in &servers {
        assert_eq!(server.get("report").as_deref(), Some(guard.token()));
        assert_eq!(server.keys(), 3);
    }
    // The parent's connections were not disturbed either.
    assert_eq!(locks.count(), 3);
    kept.check().unwrap();
    kept.unlock().unwrap();
    guard.extend(TTL).unwrap();
    guard.unlock().unwrap();
    unlocked.unlock().unwrap();
    assert_empty(&servers);
}
