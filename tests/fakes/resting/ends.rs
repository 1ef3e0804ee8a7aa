//! A lock with a minimum, by how its guard ends: over fakes, whose time a test moves.

use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::time::Duration;

use redlatch::fake::{FakeClock, FakeNode};
use redlatch::{Error, Fanout, KeepAlive, LockGuard, LockManager, LossCause, Protocol};

const TTL: Duration = Duration::from_secs(30);
const MINIMUM: Duration = Duration::from_mins(10);

pub(crate) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Three nodes on a clock, and two managers over them: of the holder, and of another process.
pub(crate) struct World {
    pub(crate) clock: FakeClock,
    pub(crate) nodes: Vec<FakeNode>,
    pub(crate) manager: LockManager,
    pub(crate) other: LockManager,
}

impl World {
    pub(crate) fn new(protocol: Protocol, fanout: Fanout) -> Self {
        let clock = FakeClock::new();
        let nodes = FakeNode::cluster_on(3, &clock);
        let build = || {
            let builder = LockManager::builder().fakes(&nodes);
            builder.protocol(protocol).fanout(fanout).build().unwrap()
        };
        let (manager, other) = (build(), build());
        if protocol == Protocol::Fenced {
            manager.open_nodes().unwrap();
        }
        Self {
            clock,
            nodes,
            manager,
            other,
        }
    }

    pub(crate) fn classic() -> Self {
        Self::new(Protocol::Classic, Fanout::Sequential)
    }

    #[track_caller]
    fn guard(&self, minimum: Duration) -> LockGuard {
        let request = self.manager.request("job").ttl(TTL);
        request.at_least(minimum).try_lock().unwrap()
    }

    #[track_caller]
    pub(crate) fn assert_rests(&self, token: &str) {
        for node in &self.nodes {
            let value = node.token_of("job");
            assert_eq!(value.as_deref(), Some(format!("rest:{token}").as_str()));
        }
        for manager in [&self.manager, &self.other] {
            let result = manager.try_lock("job", TTL);
            assert!(matches!(result, Err(Error::Held { .. })), "{result:?}");
        }
    }

    #[track_caller]
    pub(crate) fn assert_free(&self) {
        for node in &self.nodes {
            assert_eq!(node.token_of("job"), None, "{node:?}");
        }
        drop(self.other.try_lock("job", TTL).unwrap());
    }
}

/// Both protocols, with both ways to ask the nodes.
pub(crate) fn everywhere(check: impl Fn(World)) {
    for protocol in [Protocol::Classic, Protocol::Fenced] {
        for fanout in [Fanout::Sequential, Fanout::Overlapped] {
            check(World::new(protocol, fanout));
        }
    }
}

#[test]
fn nobody_gets_a_lock_that_rests_before_its_minimum_is_over_and_everybody_after_it() {
    everywhere(|world| {
        let guard = world.guard(MINIMUM);
        let acquired = world.clock.elapsed();
        let (token, fencing) = (guard.token().to_owned(), guard.fencing_token());
        world.clock.advance(ms(100));
        guard.unlock().unwrap();
        world.assert_rests(&token);
        let held = world.clock.elapsed().saturating_sub(acquired);
        world.clock.advance(MINIMUM.saturating_sub(held + ms(1)));
        world.assert_rests(&token);
        // A node whose clock runs fast by the drift may be there by then, and others are soon.
        let drift = MINIMUM / 99 + ms(6);
        world.clock.advance(drift);
        world.assert_free();
        let next = world.other.try_lock("job", TTL).unwrap().fencing_token();
        assert!(next.is_none() || next > fencing);
    });
}

#[test]
fn the_minimum_is_counted_from_the_end_of_the_acquisition_and_by_the_slowest_clock() {
    let world = World::classic();
    for minimum in [ms(1), ms(99), ms(7_777), MINIMUM] {
        for node in &world.nodes {
            node.delay(ms(20));
        }
        let guard = world.guard(minimum);
        world.nodes.iter().for_each(FakeNode::recover);
        let before = world.clock.elapsed();
        guard.unlock().unwrap();
        for node in &world.nodes {
            let ttl = node.ttl_of("job").unwrap();
            // On a node whose clock runs fast by the drift, it is over by that much sooner.
            let drift = ttl / 100 + ms(2);
            assert!(
                ttl.saturating_sub(drift) >= minimum,
                "{ttl:?} for {minimum:?}"
            );
            assert!(
                ttl.saturating_sub(drift) < minimum + ms(3),
                "{ttl:?} for {minimum:?}"
            );
        }
        assert_eq!(world.clock.elapsed(), before);
        world.clock.advance(minimum * 2 + ms(10));
    }
}

#[test]
fn unlock_and_drop_rest_and_what_went_wrong_does_not() {
    everywhere(|world| {
        let guard = world.guard(ms(500));
        let token = guard.token().to_owned();
        drop(guard);
        world.assert_rests(&token);
        world.clock.advance(ms(600));
        world.assert_free();

        world.guard(MINIMUM).unlock_now().unwrap();
        world.assert_free();

        // While the thread unwinds, whichever way the guard ends.
        for ending in [drop, |guard: LockGuard| guard.unlock().unwrap()] {
            let mut guard = Some(world.guard(MINIMUM));
            let panics = catch_unwind(AssertUnwindSafe(|| {
                let _ends_it = OnDrop(|| guard.take().map(ending));
                panic_any("the work failed");
            }));
            assert!(panics.is_err());
            world.assert_free();
        }
        // A thread that has panicked, and goes on.
        let guard = world.guard(ms(500));
        let token = guard.token().to_owned();
        drop(guard);
        world.assert_rests(&token);
    });
}

/// Does something when it is dropped.
struct OnDrop<F: FnMut() -> Option<()>>(F);

impl<F: FnMut() -> Option<()>> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

#[test]
fn a_lock_that_was_lost_does_not_rest() {
    everywhere(|world| {
        // By the clock: the keys may be another holder's already.
        let guard = world.guard(MINIMUM);
        world.clock.advance(TTL.saturating_sub(ms(200)));
        assert!(matches!(guard.unlock(), Err(Error::Lost { .. })));
        world.assert_free();

        // By what an extension finds: here, on two of three nodes.
        let guard = world.guard(MINIMUM);
        for node in &world.nodes[..2] {
            node.hold("job", "another", ms(50));
        }
        assert!(matches!(guard.extend(TTL), Err(Error::Lost { .. })));
        drop(guard);
        assert_eq!(world.nodes[2].token_of("job"), None);
        world.clock.advance(ms(50));
        world.assert_free();

        // By what the release itself finds. The third node had our key up to now, and rests.
        let guard = world.guard(ms(900));
        let token = guard.token().to_owned();
        for node in &world.nodes[..2] {
            node.hold("job", "another", ms(500));
        }
        let lost = guard.unlock();
        assert!(matches!(
            lost,
            Err(Error::Lost {
                cause: LossCause::Taken { .. },
                ..
            })
        ));
        assert_eq!(
            world.nodes[0].token_of("job").as_deref(),
            Some("another"),
            "the rest of another holder's lock"
        );
        let left = world.nodes[2].token_of("job");
        assert_eq!(left, Some(format!("rest:{token}")));
        world.clock.advance(ms(1_000));
        world.assert_free();
    });
}

#[test]
fn a_lock_that_another_has_left_at_rest_is_lost_and_the_cause_says_so() {
    let world = World::classic();
    for (is_at_rest, words) in [
        (2, "and on most of them the lock rests: "),
        (1, "most of them to another holder: "),
    ] {
        let guard = world.guard(ms(900));
        let rest = format!("rest:{}", "4".repeat(40));
        for (place, node) in world.nodes.iter().enumerate() {
            let value = if place < is_at_rest {
                &*rest
            } else {
                "another"
            };
            node.hold("job", value, ms(500));
        }
        let text = guard.extend(TTL).unwrap_err().to_string();
        assert!(text.contains(words), "{text}");
        drop(guard);
        world.clock.advance(ms(1_000));
    }
}

#[test]
fn once_the_minimum_is_over_a_lock_is_given_back_as_any_other() {
    everywhere(|world| {
        let guard = world.guard(ms(5_000));
        world.clock.advance(ms(4_999));
        guard.check().unwrap();
        world.clock.advance(ms(1));
        guard.unlock().unwrap();
        world.assert_free();
    });
}

#[test]
fn a_minimum_may_be_longer_than_the_ttl_and_than_max_hold() {
    everywhere(|world| {
        let request = world.manager.request("job").ttl(ms(1_000));
        let request = request.keep_alive(KeepAlive::max_hold(ms(3_000)));
        let request = request.at_least(MINIMUM);
        let guard = request.try_lock().unwrap();
        let token = guard.token().to_owned();
        world.clock.advance(ms(2_500));
        guard.check().unwrap();
        guard.unlock().unwrap();
        world.assert_rests(&token);
        // No renewal touches it.
        world.clock.advance(MINIMUM.saturating_sub(ms(2_501)));
        world.assert_rests(&token);
        world.clock.advance(MINIMUM / 50);
        world.assert_free();

        // Who holds it for longer than it may has lost it.
        let guard = request.try_lock().unwrap();
        world.clock.advance(ms(3_000));
        assert!(matches!(
            guard.unlock(),
            Err(Error::Lost {
                cause: LossCause::MaxHold { .. },
                ..
            })
        ));
        world.assert_free();
    });
}

#[test]
fn a_holder_that_dies_keeps_the_lock_for_its_ttl_and_not_for_its_minimum() {
    everywhere(|world| {
        // Nobody adopts it, as if its process had ended.
        drop(world.guard(MINIMUM).into_lease());
        world.clock.advance(TTL.saturating_sub(ms(1)));
        assert!(world.other.try_lock("job", TTL).is_err());
        world.clock.advance(ms(1));
        world.assert_free();
    });
}

#[test]
fn a_minimum_that_can_not_be_kept_is_refused_and_no_node_is_asked() {
    let world = World::classic();
    let max_ttl = Duration::from_hours(1);
    for (bad, reason) in [
        (
            Duration::ZERO,
            "invalid at_least: a lock is held for longer",
        ),
        (
            max_ttl + Duration::from_nanos(1),
            "the longest is max_ttl, 3600s",
        ),
        (Duration::MAX, "the longest is max_ttl, 3600s"),
    ] {
        let request = world.manager.request("job").at_least(bad);
        for result in [request.try_lock(), request.lock()] {
            match result {
                Err(
                    error @ Error::Invalid {
                        field: "at_least", ..
                    },
                ) => {
                    assert!(error.to_string().contains(reason), "{error}");
                }
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(world.manager.stats().attempts, 0);

    // The longest is kept in full; its keys stay for the drift longer than max_ttl.
    everywhere(|world| {
        let guard = world.guard(max_ttl);
        let token = guard.token().to_owned();
        guard.unlock().unwrap();
        world.clock.advance(max_ttl.saturating_sub(ms(1)));
        world.assert_rests(&token);
        world.clock.advance(max_ttl / 50);
        world.assert_free();
    });
}

#[test]
fn a_rest_is_ended_by_its_own_value_and_by_no_other() {
    everywhere(|world| {
        let guard = world.guard(MINIMUM);
        let (token, fencing) = (guard.token().to_owned(), guard.fencing_token());
        guard.unlock().unwrap();
        let late = world.manager.release("job", &token);
        assert!(matches!(late, Err(Error::Lost { .. })), "{late:?}");
        world.assert_rests(&token);
        world
            .other
            .release("job", &format!("rest:{token}"))
            .unwrap();
        world.assert_free();
        let next = world.other.try_lock("job", TTL).unwrap();
        assert!(fencing.is_none() || next.fencing_token() > fencing);
    });
}

#[test]
fn a_rest_of_another_version_keeps_everybody_away_and_breaks_nothing() {
    let long = format!("rest:{}", "x".repeat(9_000));
    for value in [
        "rest:",
        "rest:v9 {\"by\":\"web-3\"}",
        "rest:rest:",
        "rest:\u{1b}[2J",
        &long,
    ] {
        everywhere(|world| {
            for node in &world.nodes {
                node.hold("job", value, ms(700));
            }
            let result = world.manager.try_lock("job", TTL);
            assert!(matches!(result, Err(Error::Held { .. })), "{result:?}");
            let status = world.manager.status("job").unwrap().to_string();
            assert!(status.contains("rest:"), "{status}");
            world.clock.advance(ms(700));
            world.assert_free();
        });
    }
}
