//! A holder learns that somebody waits for its lock: by its extensions, or at once from a thread of its own manager.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use redlatch::fake::FakeNode;
use redlatch::{Cancel, Error, KeepAlive, LockGuard, LockManager, LockStatus, Protocol};
use redlatch_testing::{Server, eventually, within};

use crate::managers::{fenced_over, patient};

const TTL: Duration = Duration::from_mins(1);
const BOUND: Duration = Duration::from_mins(1);

type Take = fn(&LockManager, Duration, &Cancel) -> Result<LockGuard, Error>;

/// How locks of each kind are taken, by one who waits for so long.
const KINDS: [(&str, Take); 4] = [
    ("plain", |manager, timeout, cancel| {
        manager
            .request("job")
            .ttl(TTL)
            .cancelled_by(cancel)
            .try_lock_for(timeout)
    }),
    ("several", |manager, timeout, cancel| {
        let request = manager.request_all(["one", "two"]).ttl(TTL);
        request.cancelled_by(cancel).try_lock_for(timeout)
    }),
    ("slot", |manager, timeout, cancel| {
        let request = manager.semaphore("slots", 1).ttl(TTL);
        request.cancelled_by(cancel).try_lock_for(timeout)
    }),
    ("reader", |manager, timeout, cancel| {
        let lock = manager.rw_lock("shared").ttl(TTL).cancelled_by(cancel);
        if timeout.is_zero() {
            lock.try_read()
        } else {
            lock.try_write_for(timeout)
        }
    }),
];

/// One who waits for the lock on a thread until it is cancelled.
fn waits<R>(manager: &LockManager, take: Take, meanwhile: impl FnOnce() -> R) -> R {
    let cancel = Cancel::new();
    let (manager, cancelled) = (manager.clone(), cancel.clone());
    let waiting = thread::spawn(move || take(&manager, BOUND * 2, &cancelled).map(drop));
    let result = meanwhile();
    cancel.cancel();
    within(BOUND, || waiting.join().unwrap().ok());
    result
}

#[track_caller]
fn is_told(holder: &LockManager, other: &LockManager) {
    for (kind, take) in KINDS {
        let guard = take(holder, Duration::ZERO, &Cancel::new()).unwrap();
        guard.extend(TTL).unwrap();
        assert!(!guard.is_wanted(), "{kind}");
        assert!(
            !holder.status(guard.resource()).unwrap().is_wanted(),
            "{kind}"
        );
        waits(other, take, || {
            let is_wanted = || {
                guard.extend(TTL).unwrap();
                guard.is_wanted()
            };
            assert!(eventually(BOUND, is_wanted), "{kind}");
            let is_shown = || {
                let slots = holder.semaphore_status(guard.resource(), 1).unwrap();
                let lock = holder.status(guard.resources()[0]).unwrap();
                lock.is_wanted() || slots.iter().any(LockStatus::is_wanted)
            };
            assert!(eventually(BOUND, is_shown), "{kind}");
        });
        guard.unlock().unwrap();
    }
}

#[test]
fn an_extension_tells_the_holder_of_each_kind_of_lock_that_another_client_waits() {
    let nodes = FakeNode::cluster(3);
    let [holder, other] = [(); 2].map(|()| LockManager::builder().fakes(&nodes).build().unwrap());
    is_told(&holder, &other);
    // What was announced ends by itself.
    let guard = holder.lock("job", TTL).unwrap();
    let is_wanted = || {
        guard.extend(TTL).unwrap();
        guard.is_wanted()
    };
    waits(&other, KINDS[0].1, || assert!(eventually(BOUND, is_wanted)));
    assert!(eventually(BOUND, || !is_wanted()));
}

#[test]
fn an_extension_tells_so_on_servers_with_either_protocol() {
    let servers = Server::cluster(3);
    let urls = || servers.iter().map(Server::url);
    is_told(&patient(urls()), &patient(urls()));
    let servers = Server::cluster(3);
    let holder = fenced_over(&servers);
    is_told(&holder, &fenced_over_opened(&servers));
}

fn fenced_over_opened(servers: &[Server]) -> LockManager {
    let builder = LockManager::builder().protocol(Protocol::Fenced);
    let builder = builder.nodes(servers.iter().map(Server::url));
    builder
        .node_timeout(crate::managers::PATIENCE)
        .build()
        .unwrap()
}

#[test]
fn a_renewal_calls_the_hook_once_and_one_that_panics_harms_nobody() {
    let nodes = FakeNode::cluster(3);
    let [holder, other] = [(); 2].map(|()| LockManager::builder().fakes(&nodes).build().unwrap());
    let request = holder.request("job").ttl(Duration::from_millis(600));
    let guard = request.keep_alive(KeepAlive::unbounded()).lock().unwrap();
    let (tell, told) = mpsc::channel();
    guard.on_wanted(|| panic!("a hook"));
    guard.on_wanted(move || tell.send(()).unwrap());
    assert!(told.try_recv().is_err());
    let (_, take) = KINDS[0];
    waits(&other, take, || {
        told.recv_timeout(BOUND).unwrap();
        // Its sender is gone with the hook.
        assert!(told.recv_timeout(BOUND).is_err());
        assert!(guard.is_wanted());
        // One that comes late is called at once.
        let (tell, told) = mpsc::channel();
        guard.on_wanted(move || tell.send(()).unwrap());
        told.recv_timeout(BOUND).unwrap();
    });
    guard.check().unwrap();
    // What a hook owns is dropped with its guard.
    let (tell, told) = mpsc::channel::<()>();
    let guard = holder.lock("another", TTL).unwrap();
    guard.on_wanted(move || drop(tell));
    guard.unlock().unwrap();
    assert_eq!(told.try_recv(), Err(mpsc::TryRecvError::Disconnected));
}

#[test]
fn a_thread_of_the_same_manager_is_seen_without_asking_a_node() {
    let nodes = FakeNode::cluster(3);
    let manager = LockManager::builder().fakes(&nodes).build().unwrap();
    for (kind, take) in &KINDS[..2] {
        let guard = take(&manager, Duration::ZERO, &Cancel::new()).unwrap();
        let (tell, told) = mpsc::channel();
        guard.on_wanted(move || tell.send(()).unwrap());
        nodes.iter().for_each(FakeNode::hang);
        waits(&manager, *take, || {
            told.recv_timeout(BOUND).expect(kind);
            assert!(eventually(BOUND, || guard.is_wanted()), "{kind}");
        });
        assert!(!guard.is_wanted(), "{kind}");
        nodes.iter().for_each(FakeNode::recover);
        guard.unlock().unwrap();
    }
}
