//! A holder learns that somebody waits for its lock: by its extensions, or at once from a thread of its own manager.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use redlatch::fake::FakeNode;
use redlatch::{Cancel, Error, KeepAlive, LockGuard, LockManager, LockStatus, Protocol};
use redlatch_testing::{Server, eventually, within};

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
fn is_told(holder: &LockManager, other: &LockManager, kinds: &[(&str, Take)]) {
    for (kind, take) in kinds {
        let guard = take(holder, Duration::ZERO, &Cancel::new()).unwrap();
        guard.extend(TTL).unwrap();
        assert!(!guard.is_wanted(), "{kind}");
        let status = holder.status(guard.resources()[0]).unwrap();
        assert!(!status.is_wanted(), "{kind}");
        let (tell, told) = mpsc::channel();
        guard.on_wanted(move || tell.send(()).unwrap());
        waits(other, *take, || {
            let is_wanted = || {
                guard.extend(TTL).unwrap();
                guard.is_wanted()
            };
            assert!(eventually(BOUND, is_wanted), "{kind}");
            told.recv_timeout(BOUND).expect(kind);
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
    is_told(&holder, &other, &KINDS);
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
    for protocol in [Protocol::Classic, Protocol::Fenced] {
        let servers = Server::cluster(3);
        let [holder, other] = [(); 2].map(|()| {
            let builder = LockManager::builder().protocol(protocol);
            let builder = builder.nodes(servers.iter().map(Server::url));
            builder
                .node_timeout(Duration::from_secs(2))
                .build()
                .unwrap()
        });
        if protocol == Protocol::Fenced {
            holder.open_nodes().unwrap();
        }
        is_told(&holder, &other, &[KINDS[0], KINDS[3]]);
    }
}

#[test]
fn who_waited_does_not_take_its_own_announcement_for_that_of_another() {
    let nodes = FakeNode::cluster(3);
    let [one, other] = [(); 2].map(|()| LockManager::builder().fakes(&nodes).build().unwrap());
    let first = one.lock("job", TTL).unwrap();
    let waiting = thread::spawn(move || other.lock("job", TTL).unwrap());
    let is_wanted = || {
        first.extend(TTL).unwrap();
        first.is_wanted()
    };
    assert!(eventually(BOUND, is_wanted));
    first.unlock().unwrap();
    let second = within(BOUND, || waiting.join().unwrap());
    second.on_wanted(|| panic!("nobody waits"));
    second.extend(TTL).unwrap();
    assert!(!second.is_wanted());
}

#[test]
fn one_who_does_not_wait_is_not_told() {
    let nodes = FakeNode::cluster(3);
    let manager = LockManager::builder().fakes(&nodes).build().unwrap();
    let guard = manager.lock("job", TTL).unwrap();
    let (tell, told) = mpsc::channel();
    guard.on_wanted(move || tell.send(()).unwrap());
    assert!(manager.try_lock("job", TTL).is_err());
    assert!(!guard.is_wanted());
    // The hook is still there for one who does.
    waits(&manager, KINDS[0].1, || told.recv_timeout(BOUND).unwrap());
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
