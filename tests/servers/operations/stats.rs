//! `LockManager::stats`: what is counted of calls, guards and nodes, how long calls waited, and what people read.

use std::time::Duration;

use redlatch::fake::{FakeClock, FakeNode};
use redlatch::{Error, KeepAlive, LockGuard, LockManager, Protocol};
use redlatch_testing::eventually;
use redlatch_testing::scripted::{Kind, Scripted};

use crate::managers::{PATIENCE, over_fakes, processes_by};

const TTL: Duration = Duration::from_secs(10);

/// The counters that are not zero, as people read them. Their groups stand in front of them.
fn counted(manager: &LockManager) -> String {
    let text = manager.stats().to_string();
    let groups = text.lines().take(5).map(|line| line.split_at(10).1);
    let mut counters: Vec<&str> = groups.flat_map(|group| group.split(", ")).collect();
    counters.retain(|counter| !counter.starts_with("0 "));
    counters.join(", ")
}

fn lock(manager: &LockManager) -> LockGuard {
    manager.lock("job", TTL).unwrap()
}

/// Has another client hold the lock for so long.
fn hold(nodes: &[FakeNode], span: Duration) {
    for node in nodes {
        node.hold("job", "another", span);
    }
}

/// What happens to a lock, and what is counted then.
type Story = (fn(&LockManager, &[FakeNode], &FakeClock), &'static str);

const STORIES: [Story; 6] = [
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
        "2 acquired, 2 released, 2 attempts, 1 extended, 1 healed",
    ),
    (
        |manager, nodes, _| {
            nodes[..2].iter().for_each(FakeNode::refuse);
            assert!(manager.try_lock("job", TTL).is_err());
        },
        "1 attempts, 1 unavailable",
    ),
    (
        |manager, nodes, _| {
            let span = Duration::from_millis(30);
            for node in nodes {
                node.delay(span);
            }
            let slow = manager.try_lock("job", span * 2);
            assert!(matches!(slow, Err(Error::TooSlow { .. })), "{slow:?}");
        },
        // The guard that was never given out is neither released nor lost.
        "1 attempts, 1 too slow",
    ),
    (
        |manager, _, _| {
            let lease = lock(manager).into_lease();
            assert_eq!(counted(manager), "1 acquired, 1 passed on, 1 attempts");
            let guard = manager.adopt(lease).unwrap();
            assert_eq!(manager.stats().held(), 1);
            drop(guard);
        },
        "1 acquired, 1 adopted, 1 released, 1 passed on, 1 attempts",
    ),
    (
        |manager, nodes, _| {
            let guard = lock(manager);
            nodes.iter().for_each(FakeNode::refuse);
            assert!(matches!(guard.unlock(), Err(Error::Unconfirmed { .. })));
        },
        "1 acquired, 1 unconfirmed, 1 attempts",
    ),
];

#[test]
fn what_becomes_of_a_lock_is_counted_once_however_that_is_noticed() {
    for (story, expected) in STORIES {
        let (clock, nodes, manager) = over_fakes(3);
        story(&manager, &nodes, &clock);
        assert_eq!(counted(&manager), expected);
    }
}

#[test]
fn a_lock_that_is_lost_is_counted_once_however_that_is_noticed() {
    let notices: [fn(LockGuard); 5] = [
        drop,
        |guard| assert!(guard.unlock().is_err()),
        |guard| assert!(guard.extend(TTL).is_err()),
        |guard| assert!(guard.check().is_err()),
        // A lease of a lock that is lost passes nothing on.
        |guard| drop(guard.into_lease()),
    ];
    let assert_lost = |lose: fn(&[FakeNode], &FakeClock), notices: &[fn(LockGuard)]| {
        for notice in notices {
            let (clock, nodes, manager) = over_fakes(3);
            let guard = lock(&manager);
            lose(&nodes, &clock);
            notice(guard);
            assert_eq!(counted(&manager), "1 acquired, 1 lost, 1 attempts");
        }
    };
    assert_lost(|_, clock| clock.advance(TTL), &notices);
    // That is noticed by asking the nodes.
    let restart = |nodes: &[FakeNode], _: &FakeClock| nodes.iter().for_each(FakeNode::restart);
    assert_lost(restart, &notices[..3]);
}

#[test]
fn a_renewal_of_a_lock_that_is_given_back_meanwhile_has_not_failed() {
    let node = Scripted::start(|peer, command| {
        if command.kind() == Kind::Extend {
            peer.wait(Duration::from_millis(300));
        }
        peer.say(command.consent());
    });
    let builder = LockManager::builder().node(node.url());
    let manager = builder.node_timeout(Duration::from_secs(3));
    let manager = manager.build().unwrap();
    let keep = |name| {
        let request = manager.request(name).ttl(TTL);
        request.keep_alive(KeepAlive::unbounded()).lock().unwrap()
    };
    let guard = keep("job");
    let extensions = || node.heard_of(Kind::Extend).len();
    assert!(eventually(PATIENCE * 6, || extensions() == 1));
    guard.unlock().unwrap();
    // The background thread has taken in the answer when it does the next thing.
    let _next = keep("next");
    assert!(eventually(PATIENCE * 6, || manager.stats().renewed == 1));
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
    for take in takes {
        let (clock, _, manager) = over_fakes(3);
        #[expect(clippy::mem_forget, reason = "it is what is tested")]
        std::mem::forget(take(&manager).unwrap());
        let stats = || (manager.stats().held(), manager.stats().lost);
        clock.advance(TTL / 50 * 49);
        assert_eq!(stats(), (1, 0));
        clock.advance(TTL / 50);
        assert_eq!(stats(), (0, 1));
        // The next holder's is another one, whose end is counted once.
        let guard = take(&manager).unwrap();
        clock.advance(TTL);
        assert_eq!(stats(), (0, 2));
        assert!(guard.check().is_err());
        drop(guard);
        assert_eq!(stats(), (0, 2));
    }
}

#[test]
fn a_call_that_waits_is_contended_once_and_a_quantile_is_that_part_of_the_waits() {
    let (_, nodes, manager) = over_fakes(3);
    for second in [0, 0, 0, 6] {
        hold(&nodes, Duration::from_secs(second));
        drop(lock(&manager));
    }
    let stats = manager.stats();
    assert!(stats.attempts > 5, "{stats}");
    let outcomes = (stats.acquired, stats.contended, stats.failed_held);
    assert_eq!(outcomes, (4, 1, 0));
    let second = Duration::from_secs(1);
    for part in [f64::NAN, -1.0, 0.0, 0.5, 0.75] {
        assert!(stats.wait_quantile(part) < second, "{part}: {stats}");
    }
    let longest = second * 119 / 20..second * 7;
    for part in [0.76, 1.0, 2.0, f64::INFINITY] {
        let wait = stats.wait_quantile(part);
        assert!(longest.contains(&wait), "{part}: {stats}");
    }
    let mean = stats.wait_mean() * 4;
    assert!(longest.contains(&mean), "{stats}");

    // A call that fails has no wait. It met another thread of this manager, and no other client.
    let _guard = lock(&manager);
    let mean = manager.stats().wait_mean();
    let refused = manager.try_lock_for("job", TTL, second);
    assert!(matches!(refused, Err(Error::Held { .. })));
    let stats = manager.stats();
    let outcomes = (stats.failed_held, stats.contended, stats.queued);
    assert_eq!((outcomes, stats.wait_mean()), ((1, 1, 1), mean));
}

#[test]
fn a_proposal_that_is_raised_is_an_attempt_and_no_contention() {
    let builder = LockManager::builder().fakes(&FakeNode::cluster(3));
    let [first, second] = processes_by(&builder, Protocol::Fenced);
    for _ in 0..20 {
        drop(lock(&first));
        drop(lock(&second));
    }
    let stats = second.stats();
    assert_eq!((stats.acquired, stats.contended), (20, 0), "{stats}");
}

#[test]
fn a_person_reads_all_counters_and_of_each_node_its_own_votes_and_its_own_breaker() {
    let (clock, nodes, manager) = over_fakes(3);
    assert!(manager.stats().to_string().contains("no lock yet"));
    let assert_first = |expected: &str| {
        let line = format!("node      {}: {expected}", nodes[0].name());
        let text = manager.stats().to_string();
        assert_eq!(text.lines().nth(6), Some(&*line), "{text}");
    };
    let guard = lock(&manager);
    assert!(manager.try_lock("job", TTL).is_err());
    drop(guard);
    assert_first("1 granted, 0 refused, 0 failed; left out 0 times, back 0 times");
    hold(&nodes[..1], TTL);
    drop(lock(&manager));
    assert_first("1 granted, 1 refused, 0 failed; left out 0 times, back 0 times");
    // Three more, of which the last two leave it out.
    nodes[0].refuse();
    (0..3).for_each(|_| drop(lock(&manager)));
    assert_first("1 granted, 1 refused, 1 failed; left out 1 times, back 0 times");
    nodes[0].recover();
    clock.advance(Duration::from_secs(1));
    assert_first("1 granted, 1 refused, 1 failed; left out 1 times, back 1 times");
    let stats = manager.stats();
    assert!(stats.nodes[1..].iter().all(|node| node.granted == 5));
    let counters = "\
locks     5 acquired, 0 adopted, 5 released, 0 unconfirmed, 0 passed on, 0 lost
calls     5 attempts, 0 contended, 1 queued, 0 woken
failures  1 held, 0 unavailable, 0 too slow, 0 renewals
leases    0 extended, 0 renewed, 0 healed
held      0 now
wait      mean ";
    let text = stats.to_string();
    assert!(text.starts_with(counters), "{text}");
    assert!(text.contains("99 % within "), "{text}");
    assert_eq!(text.lines().count(), 6 + 3);
}
