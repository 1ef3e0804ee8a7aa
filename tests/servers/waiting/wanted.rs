//! A holder learns that somebody waits for its lock: from a thread of its own manager at once, and else by its extensions, which
//! `kinds::waits` shows for all kinds of locks.

use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use redlatch::fake::FakeNode;
use redlatch::{Cancel, Error, KeepAlive, LockGuard, LockManager};
use redlatch_testing::{eventually, within};

use crate::waiters::{BOUND, TTL};

fn processes() -> (Vec<FakeNode>, [LockManager; 2]) {
    let nodes = FakeNode::cluster(3);
    let managers = [(); 2].map(|()| LockManager::builder().fakes(&nodes).build().unwrap());
    (nodes, managers)
}

/// One who waits for the locks on these on a thread until it is cancelled.
fn waits<R>(manager: &LockManager, names: &[&str], meanwhile: impl FnOnce() -> R) -> R {
    let cancel = Cancel::new();
    thread::scope(|scope| {
        let request = manager.request_all(names).cancelled_by(&cancel);
        let waiting = scope.spawn(move || request.try_lock_for(BOUND * 2).map(drop));
        let result = meanwhile();
        cancel.cancel();
        waiting.join().unwrap().ok();
        result
    })
}

/// What a hook is told.
fn told(guard: &LockGuard) -> Receiver<()> {
    let (tell, told) = mpsc::channel();
    guard.on_wanted(move || tell.send(()).unwrap()).unwrap();
    told
}

#[test]
fn what_was_announced_ends_by_itself_and_who_waited_does_not_take_it_for_that_of_another() {
    let (_nodes, [one, other]) = processes();
    let is_wanted = |guard: &LockGuard| {
        guard.extend(TTL).unwrap();
        guard.is_wanted()
    };
    let first = one.lock("job", TTL).unwrap();
    waits(&other, &["job"], || {
        assert!(eventually(BOUND, || is_wanted(&first)));
    });
    assert!(eventually(BOUND, || !is_wanted(&first)));
    let waiting = thread::spawn(move || other.lock("job", TTL).unwrap());
    assert!(eventually(BOUND, || is_wanted(&first)));
    first.unlock().unwrap();
    let second = within(BOUND, || waiting.join().unwrap());
    second.on_wanted(|| panic!("nobody waits")).unwrap();
    assert!(!is_wanted(&second));
}

#[test]
fn a_renewal_calls_the_hook_once_and_one_that_panics_harms_nobody() {
    let (_nodes, [holder, other]) = processes();
    let request = holder.request("job").ttl(Duration::from_secs(3));
    let guard = request.keep_alive(KeepAlive::unbounded()).lock().unwrap();
    guard.on_wanted(|| panic!("a hook")).unwrap();
    let first = told(&guard);
    assert!(first.try_recv().is_err());
    waits(&other, &["job"], || {
        first.recv_timeout(BOUND).unwrap();
        // Its sender is gone with the hook.
        assert!(first.recv_timeout(BOUND).is_err());
        assert!(guard.is_wanted());
        // One that comes late is called at once.
        told(&guard).recv_timeout(BOUND).unwrap();
    });
    guard.check().unwrap();
    // What a hook owns is dropped with its guard.
    let guard = holder.lock("another", TTL).unwrap();
    let told = told(&guard);
    guard.unlock().unwrap();
    assert_eq!(told.try_recv(), Err(mpsc::TryRecvError::Disconnected));
}

#[test]
fn a_thread_of_the_same_manager_that_waits_is_seen_without_asking_a_node_and_no_other() {
    let (nodes, [manager, _]) = processes();
    for names in [&["job"][..], &["one", "two"]] {
        let guard = manager.lock_all(names, TTL).unwrap();
        let told = told(&guard);
        nodes.iter().for_each(FakeNode::hang);
        let refused = manager.request_all(names).try_lock();
        assert!(matches!(refused, Err(Error::Held { .. })), "{refused:?}");
        assert!(!guard.is_wanted() && told.try_recv().is_err());
        waits(&manager, names, || {
            told.recv_timeout(BOUND).unwrap();
            assert!(eventually(BOUND, || guard.is_wanted()), "{names:?}");
        });
        assert!(!guard.is_wanted(), "{names:?}");
        nodes.iter().for_each(FakeNode::recover);
        guard.unlock().unwrap();
    }
}
