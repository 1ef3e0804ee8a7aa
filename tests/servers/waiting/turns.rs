//! When the next thread in line has its turn: the holder is late, has lost its lock, panics, or makes a lease of it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use redlatch::fake::FakeNode;
use redlatch::{Error, LockGuard, LockManager};
use redlatch_testing::scripted::{Kind, Scripted};
use redlatch_testing::{Server, pause};

use crate::managers::{PATIENCE, patient};
use crate::servers::waiting::queue::{TTL, assert_held_here, fakes};
use crate::waiters::{got, line_up, next};

fn over(servers: &[Server]) -> LockManager {
    patient(servers.iter().map(Server::url))
}

#[test]
fn a_holder_whose_lock_is_over_keeps_nobody_waiting_and_its_late_end_harms_nobody() {
    let servers = Server::cluster(3);
    let manager = over(&servers);
    let late = manager.lock("job", Duration::from_millis(500)).unwrap();
    let second = got(next(&manager, TTL));
    assert!(late.remaining().is_zero());
    let third = next(&manager, TTL);
    drop(late);
    second.check().unwrap();
    let is_ours = |server: &&Server| server.get("job").as_deref() == Some(second.token());
    assert!(servers.iter().filter(is_ours).count() >= 2);
    pause(Duration::from_millis(100));
    assert!(!third.is_finished());
    second.unlock().unwrap();
    got(third).unlock().unwrap();
    assert!(servers.iter().all(|server| server.get("job").is_none()));
}

/// How a holder ends; it may leave its guard.
type End = fn(LockGuard, &[FakeNode]) -> Option<LockGuard>;

#[test]
fn one_who_waits_has_the_turn_however_the_holder_ends() {
    let ends: [(&str, End); 3] = [
        ("it learns that the lock is lost", |guard, nodes| {
            nodes.iter().for_each(FakeNode::flush);
            assert!(matches!(guard.extend(TTL), Err(Error::Lost { .. })));
            Some(guard)
        }),
        ("it forgets the guard", |guard, _| {
            guard.extend(Duration::from_millis(300)).unwrap();
            #[expect(clippy::mem_forget, reason = "it is what is tested")]
            std::mem::forget(guard);
            None
        }),
        ("it panics", |guard, _| {
            let job = AssertUnwindSafe(|| {
                let _guard = guard;
                panic!("the job fails");
            });
            assert!(catch_unwind(job).is_err());
            None
        }),
    ];
    for (name, end) in ends {
        let (nodes, manager) = fakes();
        let guard = manager.lock("job", Duration::from_millis(200)).unwrap();
        guard.extend(TTL / 3).unwrap();
        let second = next(&manager, TTL);
        let late = end(guard, &nodes);
        let second = got(second);
        if let Some(late) = late {
            assert!(matches!(late.unlock(), Err(Error::Lost { .. })), "{name}");
        }
        assert_held_here(manager.try_lock("job", TTL));
        second.unlock().unwrap();
    }
}

#[test]
fn a_lease_is_not_waited_for_in_the_line() {
    let (_, manager) = fakes();
    let guard = manager.lock("job", TTL).unwrap();
    let waiting = next(&manager, TTL);
    let lease = guard.into_lease();
    // The thread that waits asks the servers now, and this one waits for it.
    let adopted = manager.adopt(lease).unwrap();
    let result = manager.try_lock("job", TTL);
    assert!(matches!(result, Err(Error::Held { .. })), "{result:?}");
    assert!(!waiting.is_finished());
    adopted.unlock().unwrap();
    let guard = got(waiting);

    // Where nobody waits, the servers are asked; and once it is adopted, they are not.
    let lease = guard.into_lease();
    let result = manager.try_lock("job", TTL);
    let Err(error @ Error::Held { .. }) = result else {
        panic!("{result:?}");
    };
    assert!(error.to_string().contains("another holder"), "{error}");
    let adopted = manager.adopt(lease).unwrap();
    assert_held_here(manager.try_lock("job", TTL));
    let waiting = next(&manager, TTL);
    adopted.unlock().unwrap();
    got(waiting).unlock().unwrap();
}

/// A guard that is given back is no lock that has ended: to ask for it before the servers have heard of it would be in vain.
#[test]
fn nobody_asks_before_the_lock_is_given_back() {
    let (asked, asked_by_then) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (count, seen) = (Arc::clone(&asked), Arc::clone(&asked_by_then));
    let server = Scripted::start(move |peer, command| {
        match command.kind() {
            Kind::Set => {
                count.fetch_add(1, Ordering::SeqCst);
            }
            Kind::Release | Kind::Pass => {
                // Far longer than those who wait take to look.
                pause(Duration::from_millis(200));
                seen.fetch_max(count.load(Ordering::SeqCst), Ordering::SeqCst);
            }
            Kind::Look | Kind::Listen | Kind::Retake | Kind::Extend | Kind::Probe | Kind::Other => {
            }
        }
        peer.say(command.consent());
    });
    let builder = LockManager::builder().node(server.url());
    let manager = builder.node_timeout(PATIENCE).build().unwrap();
    let guard = manager.lock("job", TTL).unwrap();
    let waiter = line_up({
        let manager = manager.clone();
        move || manager.lock("job", TTL)
    });
    guard.unlock().unwrap();
    assert_eq!(asked_by_then.load(Ordering::SeqCst), 1);
    let guard = waiter.join().unwrap().unwrap();
    guard.unlock().unwrap();
    assert_eq!(asked_by_then.load(Ordering::SeqCst), 1);
    // The second one's attempt rode with the release.
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}
