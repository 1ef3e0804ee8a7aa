//! `LockManager::stats`: what is counted of calls and guards, until they are released, passed on or lost.

use std::time::Duration;

use redlatch::fake::{FakeClock, FakeNode};
use redlatch::{Error, KeepAlive, LockGuard, LockManager, Stats};
use redlatch_testing::eventually;
use redlatch_testing::scripted::{Kind, Scripted};

use crate::managers::over_fakes;

const TTL: Duration = Duration::from_secs(10);

/// The counters that are not zero, with their names.
fn counted(stats: &Stats) -> String {
    macro_rules! fields {
        ($($name:ident)*) => { vec![$((stringify!($name), stats.$name)),*] };
    }
    let mut all = fields!(
        attempts acquired contended queued woken failed_held failed_unavailable failed_too_slow adopted extended
        renewed healed failed_renewals released unconfirmed passed_on lost
    );
    all.push(("held", stats.held()));
    all.retain(|(_, count)| *count > 0);
    let all = all.iter().map(|(name, count)| format!("{count} {name}"));
    all.collect::<Vec<_>>().join(", ")
}

#[track_caller]
fn assert_counted(manager: &LockManager, expected: &str) {
    assert_eq!(counted(&manager.stats()), expected);
}

fn lock(manager: &LockManager) -> LockGuard {
    manager.lock("job", TTL).unwrap()
}

/// What happens to a lock, and what is counted then.
type Story = (fn(&LockManager, &[FakeNode], &FakeClock), &'static str);

const STORIES: [Story; 10] = [
    (
        |manager, _, _| {
            assert!(manager.lock("job", Duration::ZERO).is_err());
            assert!(manager.lock("", TTL).is_err());
        },
        // What is refused before a node is asked is not counted.
        "",
    ),
    (
        |manager, nodes, _| {
            let guard = lock(manager);
            nodes[1].flush();
            guard.extend(TTL * 2).unwrap();
            guard.unlock().unwrap();
            drop(lock(&manager.clone()));
        },
        "2 attempts, 2 acquired, 1 extended, 1 healed, 2 released",
    ),
    (
        |manager, nodes, _| {
            nodes[..2].iter().for_each(FakeNode::refuse);
            assert!(manager.try_lock("job", TTL).is_err());
        },
        "1 attempts, 1 failed_unavailable",
    ),
    (
        |manager, nodes, _| {
            for node in nodes {
                node.delay(Duration::from_millis(30));
            }
            let slow = manager.try_lock("job", Duration::from_millis(60));
            assert!(matches!(slow, Err(Error::TooSlow { .. })), "{slow:?}");
        },
        // The guard that was never given out is neither released nor lost.
        "1 attempts, 1 failed_too_slow",
    ),
    (
        |manager, _, _| {
            let lease = lock(manager).into_lease();
            assert_eq!((manager.stats().held(), manager.stats().passed_on), (0, 1));
            let guard = manager.adopt(lease).unwrap();
            assert_eq!(manager.stats().held(), 1);
            drop(guard);
        },
        "1 attempts, 1 acquired, 1 adopted, 1 released, 1 passed_on",
    ),
    (
        |manager, _, clock| {
            let guard = lock(manager);
            clock.advance(TTL);
            drop(guard);
        },
        LOST,
    ),
    (
        |manager, _, clock| {
            let guard = lock(manager);
            clock.advance(TTL);
            assert!(guard.check().is_err());
            assert_counted(manager, LOST);
            assert!(guard.unlock().is_err());
        },
        LOST,
    ),
    (
        |manager, nodes, _| {
            let guard = lock(manager);
            nodes.iter().for_each(FakeNode::restart);
            assert!(guard.unlock().is_err());
        },
        LOST,
    ),
    (
        |manager, nodes, _| {
            let guard = lock(manager);
            nodes.iter().for_each(FakeNode::restart);
            assert!(guard.extend(TTL).is_err());
        },
        LOST,
    ),
    (
        // A lease of a lock that is lost passes nothing on.
        |manager, _, clock| {
            let guard = lock(manager);
            clock.advance(TTL);
            drop(guard.into_lease());
        },
        LOST,
    ),
];

const LOST: &str = "1 attempts, 1 acquired, 1 lost";

#[test]
fn what_becomes_of_a_lock_is_counted_once_however_that_is_noticed() {
    for (story, expected) in STORIES {
        let (clock, nodes, manager) = over_fakes(3);
        story(&manager, &nodes, &clock);
        assert_counted(&manager, expected);
    }
}

#[test]
fn a_release_that_no_node_hears_is_counted_as_unconfirmed() {
    let (_, nodes, manager) = over_fakes(3);
    let guard = lock(&manager);
    nodes.iter().for_each(FakeNode::refuse);
    assert!(matches!(guard.unlock(), Err(Error::Unconfirmed { .. })));
    assert_counted(&manager, "1 attempts, 1 acquired, 1 unconfirmed");
}

#[test]
fn renewals_are_counted_and_those_that_fail_too() {
    let (clock, nodes, manager) = over_fakes(3);
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
    let builder = builder.node_timeout(Duration::from_secs(3));
    let manager = builder.build().unwrap();
    let keep = |name| {
        let request = manager.request(name).ttl(TTL);
        request.keep_alive(KeepAlive::unbounded()).lock().unwrap()
    };
    let guard = keep("job");
    let extensions = || node.heard_of(Kind::Extend).len();
    assert!(eventually(TTL * 6, || extensions() == 1));
    guard.unlock().unwrap();
    // The background thread has taken in the answer when it does the next thing.
    let _next = keep("next");
    assert!(eventually(TTL * 6, || manager.stats().renewed == 1));
    assert_eq!(manager.stats().failed_renewals, 0);
}

#[test]
fn a_lock_whose_guard_was_forgotten_is_held_until_it_ends_and_lost_then() {
    type Take = fn(&LockManager) -> Result<LockGuard, Error>;
    let takes: [Take; 7] = [
        |manager| manager.lock("job", TTL),
        |manager| manager.lock_all(["one", "two"], TTL),
        |manager| manager.semaphore("jobs", 2).ttl(TTL).lock(),
        |manager| manager.rw_lock("job").ttl(TTL).read(),
        |manager| manager.adopt(lock(manager).into_lease()),
        |manager| {
            let guard = manager.lock("job", TTL / 2)?;
            guard.extend(TTL)?;
            Ok(guard)
        },
        |manager| {
            let request = manager.request("job").ttl(TTL / 2);
            request.keep_alive(KeepAlive::max_hold(TTL)).lock()
        },
    ];
    for (number, take) in takes.into_iter().enumerate() {
        let (clock, _, manager) = over_fakes(3);
        #[expect(clippy::mem_forget, reason = "it is what is tested")]
        std::mem::forget(take(&manager).unwrap());
        let stats = || (manager.stats().held(), manager.stats().lost);
        let part = TTL / 50;
        clock.advance(part * 49);
        assert_eq!(stats(), (1, 0), "{number}");
        clock.advance(part);
        assert_eq!(stats(), (0, 1), "{number}");
        // The next holder's is another one, whose end is counted once.
        let guard = take(&manager).unwrap();
        assert_eq!(stats(), (1, 1), "{number}");
        clock.advance(TTL);
        assert_eq!(stats(), (0, 2), "{number}");
        assert!(guard.check().is_err());
        drop(guard);
        assert_eq!(stats(), (0, 2), "{number}");
    }
}
