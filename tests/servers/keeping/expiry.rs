//! A lock that has expired by the clock is told as expired, whatever the nodes say that answer late.

#![expect(
    clippy::unchecked_time_subtraction,
    reason = "a test that underflows fails, as it should"
)]

use std::time::Duration;

use redlatch::fake::{FakeClock, FakeNode};
use redlatch::{Error, KeepAlive, LockGuard, LockManager, LossCause};

const TTL: Duration = Duration::from_secs(10);
/// For how long the servers sleep: less than a node timeout.
const NAP: Duration = Duration::from_millis(30);

struct Fixture {
    clock: FakeClock,
    nodes: Vec<FakeNode>,
    manager: LockManager,
}

fn fixture() -> Fixture {
    let clock = FakeClock::new();
    let nodes = FakeNode::cluster_on(3, &clock);
    let manager = LockManager::builder().fakes(&nodes).build().unwrap();
    Fixture {
        clock,
        nodes,
        manager,
    }
}

impl Fixture {
    /// Goes to the last moment of the lock. What comes next, the servers do after the end of its key, and answer then.
    fn sleep_over_the_end_of(&self, guard: &LockGuard) {
        let moment = Duration::from_millis(1);
        while guard.remaining() > moment {
            self.clock.advance(guard.remaining() - moment);
        }
        guard.check().unwrap();
        for node in &self.nodes {
            node.advance(TTL);
            node.delay(NAP);
        }
    }
}

type Take = fn(&LockManager) -> Result<LockGuard, Error>;

const LOCKS: [(&str, Take); 6] = [
    ("lock", |manager| manager.lock("job", TTL)),
    ("several", |manager| manager.lock_all(["one", "two"], TTL)),
    ("permit", |manager| {
        manager.semaphore("jobs", 2).ttl(TTL).lock()
    }),
    ("reader", |manager| manager.rw_lock("job").ttl(TTL).read()),
    ("lock with a minimum", |manager| {
        manager.request("job").ttl(TTL).at_least(TTL * 2).lock()
    }),
    ("adopted lock", |manager| {
        let guard = manager.lock("job", TTL)?;
        manager.adopt(guard.into_lease())
    }),
];

/// How a guard is told of the loss.
type End = fn(LockGuard) -> Result<(), Error>;

const ENDS: [(&str, End); 3] = [
    ("unlock", LockGuard::unlock),
    ("unlock_now", LockGuard::unlock_now),
    ("extend", |guard| guard.extend(TTL)),
];

#[track_caller]
fn cause_of(result: Result<(), Error>, of: &str) -> LossCause {
    match result {
        Err(Error::Lost { cause, .. }) => cause,
        other => panic!("{of}: {other:?}"),
    }
}

#[test]
fn past_its_end_by_the_clock_a_lock_has_expired_whatever_late_answers_say_if_any_come() {
    for ((kind, take), answers) in LOCKS.into_iter().zip([true, true, true, true, true, false]) {
        for (verb, end) in ENDS {
            let of = format!("{verb} of a {kind}");
            let fixture = fixture();
            let guard = take(&fixture.manager).unwrap();
            let watch = guard.watch();
            fixture.sleep_over_the_end_of(&guard);
            if !answers {
                fixture.nodes.iter().for_each(FakeNode::hang);
            }
            let cause = cause_of(end(guard), &of);
            assert!(matches!(cause, LossCause::Expired { .. }), "{of}: {cause}");
            assert_eq!(cause.nodes().len(), 3, "{of}: {cause}");
            assert!(watch.check().is_err());
            let stats = fixture.manager.stats();
            assert_eq!((stats.lost, stats.held()), (1, 0), "{of}");
        }
    }
}

#[test]
fn before_its_end_by_the_clock_a_lock_that_is_gone_has_vanished() {
    for (kind, take) in LOCKS {
        for (verb, end) in ENDS {
            let fixture = fixture();
            let guard = take(&fixture.manager).unwrap();
            fixture.nodes.iter().for_each(FakeNode::flush);
            let of = format!("{verb} of a {kind}");
            let cause = cause_of(end(guard), &of);
            assert!(matches!(cause, LossCause::Vanished { .. }), "{of}: {cause}");
        }
    }
}

#[test]
fn a_kept_lock_whose_end_a_release_sleeps_over_is_told_why_it_was_not_renewed() {
    let limit = KeepAlive::max_hold(TTL);
    for (keep_alive, is_down) in [(limit, false), (KeepAlive::unbounded(), true)] {
        let fixture = fixture();
        let request = fixture.manager.request("job").ttl(TTL);
        let guard = request.keep_alive(keep_alive).lock().unwrap();
        if is_down {
            fixture.nodes.iter().for_each(FakeNode::refuse);
        }
        fixture.sleep_over_the_end_of(&guard);
        let cause = cause_of(guard.unlock(), "unlock");
        let is_told = if is_down {
            matches!(cause, LossCause::Unreachable { .. })
        } else {
            matches!(cause, LossCause::MaxHold { .. })
        };
        assert!(is_told, "{cause}");
    }
}

#[test]
fn a_lease_that_ends_while_the_servers_sleep_has_expired() {
    let fixture = fixture();
    let guard = fixture.manager.lock("job", TTL).unwrap();
    fixture.sleep_over_the_end_of(&guard);
    let lost = fixture.manager.adopt(guard.into_lease()).map(drop);
    let cause = cause_of(lost, "adopt");
    assert!(matches!(cause, LossCause::Expired { .. }), "{cause}");
    assert_eq!(cause.nodes().len(), 3);
}
