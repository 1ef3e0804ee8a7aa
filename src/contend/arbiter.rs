//! Waiting while another process holds the lock: one node is asked, and wakes one who waits when it is given back.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::LockManager;
use super::order::Order;
use crate::clock::Timestamp;
use crate::error::Error;
use crate::node::wait::{Heard, Manner, State};
use crate::retry;

/// How often the one node is asked before all of them are: the key that is there may be left over, and nobody's lock.
const MOST_POLLS: u32 = 8;

/// How many hints in succession are heeded that come to nothing.
const MOST_HINTS: u32 = 3;

/// How long one who has just had the lock waits for word of another one, who was woken but may not have come yet.
const POLITENESS: Duration = Duration::from_millis(10);

/// How long after a release one who asks again is polite.
const POLITE_FOR: Duration = Duration::from_millis(5);

/// How long after its time to live a key is gone here, and on the nodes that were asked for it a little later.
const PRECISION: Duration = Duration::from_millis(2);

/// What is known of the waiting for one lock so far.
#[derive(Debug, Default)]
pub(super) struct Wait {
    /// How many hints in succession have come to nothing.
    hints: u32,
}

/// What follows a look at the one node.
enum Next {
    /// It may grant the lock now.
    Attempt,
    /// Another look.
    Look,
    /// Some time, and then all nodes are asked.
    Sleep,
}

impl LockManager {
    /// Waits until an attempt makes sense: the first node would grant the lock, or says that it was given back, or too much
    /// time has gone by. Returns the order of that attempt.
    pub(super) fn wait(
        &self,
        key: &str,
        wait: &mut Wait,
        mut manner: Manner,
        end: Option<Timestamp>,
    ) -> Result<Order, Error> {
        let fanout = self.shared.options.fanout;
        for _ in 0..MOST_POLLS {
            let next = self.poll(key, self.delay()?, manner, end);
            manner = Manner::Eager;
            match next {
                Next::Attempt if wait.hints < MOST_HINTS => {
                    wait.hints = wait.hints.saturating_add(1);
                    return Ok(Order::by_arbiter(fanout));
                }
                Next::Look => wait.hints = 0,
                // Hints that come to nothing are no better than none.
                Next::Attempt | Next::Sleep => {
                    wait.hints = 0;
                    self.sleep(self.delay()?, end);
                    break;
                }
            }
            if self.left(end).is_zero() {
                break;
            }
        }
        Ok(Order::of(fanout))
    }

    /// Looks at the lock on the first node that answers, and waits for its release there, or for as long as the key is there,
    /// or for `delay`.
    fn poll(&self, key: &str, delay: Duration, manner: Manner, end: Option<Timestamp>) -> Next {
        let delay = delay.min(self.left(end));
        let closed = self.each().filter(|node| node.is_closed());
        // One that hangs may take what is left of the time.
        let mut asked = closed.take_while(|_| !self.left(end).is_zero());
        let look = asked.find_map(|node| {
            let listener = node.listener();
            let announced = listener.as_ref().map_or(Duration::ZERO, |_| delay);
            let look = node.look(key, announced, manner)?;
            Some((look, listener.filter(|_| look.is_announced)))
        });
        let Some((look, listener)) = look else {
            return Next::Sleep;
        };
        let span = match (look.state, manner) {
            (State::Stuck, _) => return Next::Sleep,
            (State::Free, Manner::Eager) | (State::Deserted, _) => return Next::Attempt,
            (State::Free, Manner::Polite) => delay.min(POLITENESS),
            (State::Held(left), _) => delay.min(left.saturating_add(PRECISION)),
        };
        let over = self.clock().now().saturating_add(span);
        // A server may be late to say that the time is over, and that must not make us late.
        let longest = self.left(end).saturating_add(PRECISION);
        match listener.map(|listener| listener.listen(key, span, longest)) {
            Some(Heard::Release) => {
                self.recorder().woken.count();
                Next::Attempt
            }
            Some(Heard::Nothing) => Next::Look,
            Some(Heard::Failed) | None => {
                self.sleep(self.left(Some(over)), end);
                Next::Look
            }
        }
    }

    /// Notes that somebody was woken for a lock that was given back just now.
    pub(crate) fn owe_courtesy(&self, key: &str) {
        self.shared.courtesy.owe(key, self.clock().now());
    }

    /// A time between two looks or attempts, of random length.
    pub(super) fn delay(&self) -> Result<Duration, Error> {
        let options = &self.shared.options;
        let random = self.clock().random();
        let random = random.map_err(|source| Error::NoRandomness { source })?;
        Ok(retry::delay(options.retry_min, options.retry_max, random))
    }

    pub(super) fn sleep(&self, span: Duration, end: Option<Timestamp>) {
        self.clock().sleep(span.min(self.left(end)));
    }

    /// The time until then; without an end, it is never over.
    pub(super) fn left(&self, end: Option<Timestamp>) -> Duration {
        end.map_or(Duration::MAX, |end| {
            end.saturating_since(self.clock().now())
        })
    }
}

/// The locks that were given back a moment ago and for which somebody was woken. Who asks for one of them again lets
/// that one go first.
pub(super) struct Courtesy {
    hasher: RandomState,
    /// Until when who asks is polite, in nanoseconds, by a part of the hash. Two locks that share one do no harm.
    until: [AtomicU64; 64],
}

impl Default for Courtesy {
    fn default() -> Self {
        Self {
            hasher: RandomState::new(),
            until: [const { AtomicU64::new(0) }; 64],
        }
    }
}

impl Courtesy {
    pub(super) fn owe(&self, key: &str, now: Timestamp) {
        let until = now.saturating_add(POLITE_FOR).as_nanos();
        self.place(key).store(until, Ordering::Relaxed);
    }

    pub(super) fn manner(&self, key: &str, now: Timestamp) -> Manner {
        if self.place(key).swap(0, Ordering::Relaxed) > now.as_nanos() {
            Manner::Polite
        } else {
            Manner::Eager
        }
    }

    fn place(&self, key: &str) -> &AtomicU64 {
        let [first, others @ ..] = &self.until;
        let [byte, ..] = self.hasher.hash_one(key).to_ne_bytes();
        others.get(usize::from(byte) / 4).unwrap_or(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Fanout;
    use crate::fake::{FakeClock, FakeNode};

    const DELAY: Duration = Duration::from_millis(100);

    struct World {
        clock: FakeClock,
        nodes: Vec<FakeNode>,
        manager: LockManager,
    }

    fn world() -> World {
        let clock = FakeClock::new();
        let nodes = FakeNode::cluster_on(3, &clock);
        let builder = LockManager::builder().fakes(&nodes);
        let manager = builder.retry_delay(DELAY, DELAY).build().unwrap();
        World {
            clock,
            nodes,
            manager,
        }
    }

    impl World {
        fn wait(&self, wait: &mut Wait, manner: Manner, end: Option<Duration>) -> Order {
            let end = end.map(|end| self.manager.clock().now().saturating_add(end));
            self.manager.wait("job", wait, manner, end).unwrap()
        }

        /// Lets somebody have the lock everywhere for so long.
        fn hold(&self, ttl: Duration) {
            for node in &self.nodes {
                node.hold("job", "another", ttl);
            }
        }
    }

    fn hinted() -> Order {
        Order::by_arbiter(Fanout::Sequential)
    }

    fn full() -> Order {
        Order::of(Fanout::Sequential)
    }

    #[test]
    fn hints_that_come_to_nothing_are_heeded_three_times_and_then_slept_on() {
        let world = world();
        let mut wait = Wait::default();
        for round in 1..=4 {
            for _ in 0..MOST_HINTS {
                assert_eq!(world.wait(&mut wait, Manner::Eager, None), hinted());
            }
            assert_eq!(world.clock.elapsed(), DELAY * (round - 1));
            assert_eq!(world.wait(&mut wait, Manner::Eager, None), full());
            assert_eq!(world.clock.elapsed(), DELAY * round);
        }
    }

    #[test]
    fn hints_with_some_time_between_them_are_all_heeded() {
        let world = world();
        let mut wait = Wait::default();
        for _ in 0..MOST_HINTS * 3 {
            world.hold(DELAY / 2);
            assert_eq!(world.wait(&mut wait, Manner::Eager, None), hinted());
        }
    }

    #[test]
    fn the_first_node_that_does_not_fail_is_asked_and_no_other() {
        let world = world();
        world.hold(DELAY * 2 + DELAY / 2);
        world.nodes[0].refuse();
        // That would show if it were asked.
        world.nodes[2].hang();
        assert_eq!(
            world.wait(&mut Wait::default(), Manner::Eager, None),
            hinted()
        );
        assert_eq!(world.clock.elapsed(), DELAY * 2 + DELAY / 2 + PRECISION);
    }

    #[test]
    fn one_whose_time_is_over_looks_at_no_further_node() {
        let world = world();
        for node in &world.nodes {
            node.hang();
        }
        let end = Some(Duration::from_millis(10));
        assert_eq!(world.wait(&mut Wait::default(), Manner::Eager, end), full());
        let timeout = world.manager.shared.options.node_timeout;
        assert_eq!(world.clock.elapsed(), timeout);
    }

    #[test]
    fn all_nodes_are_asked_after_eight_looks_or_at_the_end() {
        let world = world();
        world.hold(DELAY * 100);
        let mut wait = Wait::default();
        assert_eq!(world.wait(&mut wait, Manner::Eager, None), full());
        assert_eq!(world.clock.elapsed(), DELAY * MOST_POLLS);
        let end = DELAY * 2 + DELAY / 2;
        assert_eq!(world.wait(&mut wait, Manner::Eager, Some(end)), full());
        assert_eq!(world.clock.elapsed(), DELAY * MOST_POLLS + end);
        assert_eq!(
            world.wait(&mut wait, Manner::Eager, Some(Duration::ZERO)),
            full()
        );
        assert_eq!(world.clock.elapsed(), DELAY * MOST_POLLS + end);
    }

    #[test]
    fn one_who_is_polite_waits_a_little_for_a_lock_that_is_free() {
        let world = world();
        let mut wait = Wait::default();
        assert_eq!(world.wait(&mut wait, Manner::Polite, None), hinted());
        assert_eq!(world.clock.elapsed(), POLITENESS);
    }

    #[test]
    fn who_has_woken_another_is_polite_once_for_a_moment_and_for_this_lock_alone() {
        let (courtesy, now) = (Courtesy::default(), Timestamp::from_nanos(1));
        assert_eq!(courtesy.manner("job", now), Manner::Eager);
        courtesy.owe("job", now);
        let others = (0..1_000).map(|n| format!("job-{n}"));
        let others = others.filter(|key| !std::ptr::eq(courtesy.place(key), courtesy.place("job")));
        let others: Vec<String> = others.collect();
        assert!(others.len() > 900);
        assert!(
            others
                .iter()
                .all(|key| courtesy.manner(key, now) == Manner::Eager)
        );
        assert_eq!(courtesy.manner("job", now), Manner::Polite);
        assert_eq!(courtesy.manner("job", now), Manner::Eager);

        courtesy.owe("job", now);
        let late = now.saturating_add(POLITE_FOR);
        assert_eq!(courtesy.manner("job", late), Manner::Eager);
    }

    #[test]
    fn every_place_is_used() {
        let courtesy = Courtesy::default();
        let places = (0..10_000).map(|n| std::ptr::from_ref(courtesy.place(&n.to_string())));
        let places: std::collections::HashSet<_> = places.collect();
        assert_eq!(places.len(), courtesy.until.len());
    }
}
