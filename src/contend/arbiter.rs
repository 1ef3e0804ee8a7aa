//! The wait while another process holds the lock: at one node, which wakes a waiting client when the lock is released.

use std::time::Duration;

use super::cancel::{Cancel, Patience};
use super::order::Order;
use crate::cluster::Cluster;
use crate::error::Error;
use crate::node::wait::{ListenOutcome, LockState, WhenFree};

/// How often the one node is asked before all nodes are: its key may be a remainder without a majority, and nobody's
/// lock.
const MOST_POLLS: u32 = 8;

/// How many hints in succession may fail before the next one is ignored.
const MOST_HINTS: u32 = 3;

/// How long a client that has just had the lock waits for the client that it woke to ask for the lock.
const POLITENESS: Duration = Duration::from_millis(10);

/// How long after its time to live the key is gone here, and on the nodes that set it a little later.
const PRECISION: Duration = Duration::from_millis(2);

/// The wait of one call for a lock that another process holds.
pub(crate) struct Wait<'c> {
    cluster: &'c Cluster,
    key: &'c str,
    patience: &'c Patience,
    /// How many hints in succession led to no lock.
    hints: u32,
}

/// The next step after a look at the one node.
enum Next {
    /// An attempt: the node may grant the lock now.
    Attempt,
    /// Another look.
    Look,
    /// A sleep, and then an attempt at all nodes.
    Sleep,
}

impl<'c> Wait<'c> {
    pub(crate) fn new(cluster: &'c Cluster, key: &'c str, patience: &'c Patience) -> Self {
        Self {
            cluster,
            key,
            patience,
            hints: 0,
        }
    }

    /// Waits until an attempt makes sense: the first node would grant the lock, or reports its release, or too much
    /// time has passed. Returns the order of that attempt.
    pub(crate) fn wait(&mut self, mut when_free: WhenFree) -> Result<Order, Error> {
        let cluster = self.cluster;
        let fanout = cluster.options.fanout;
        for _ in 0..MOST_POLLS {
            let next = self.poll(cluster.delay()?, when_free);
            when_free = WhenFree::Take;
            match next {
                Next::Attempt if self.hints < MOST_HINTS => {
                    self.hints = self.hints.saturating_add(1);
                    return Ok(Order::by_arbiter(fanout));
                }
                Next::Look => self.hints = 0,
                // After that many failed hints, a further one is treated like none.
                Next::Attempt | Next::Sleep => {
                    self.hints = 0;
                    self.patience.sleep(&cluster.clock, cluster.delay()?);
                    break;
                }
            }
            if self.patience.left(&cluster.clock).is_zero() {
                break;
            }
        }
        Ok(Order::of(fanout))
    }

    /// Looks at the lock on the first node that answers. Waits there for its release, for the end of the key, or for
    /// `delay`.
    fn poll(&self, delay: Duration, when_free: WhenFree) -> Next {
        let cluster = self.cluster;
        let left = || self.patience.left(&cluster.clock);
        let delay = delay.min(left());
        let closed = cluster.each().filter(|node| node.is_closed());
        // A node that hangs may use up the remaining time.
        let mut asked = closed.take_while(|_| !left().is_zero());
        let look = asked.find_map(|node| {
            let listener = node.listener();
            let announced = listener.as_ref().map_or(Duration::ZERO, |_| delay);
            let look = node.look(self.key, announced, when_free)?;
            Some((look, listener.filter(|_| look.is_announced)))
        });
        let Some((look, listener)) = look else {
            return Next::Sleep;
        };
        let span = match (look.state, when_free) {
            (LockState::Stuck, _) => return Next::Sleep,
            (LockState::Free, WhenFree::Take) | (LockState::Deserted, _) => return Next::Attempt,
            (LockState::Free, WhenFree::Yield) => delay.min(POLITENESS),
            (LockState::Held(left), _) => delay.min(left.saturating_add(PRECISION)),
        };
        let over = cluster.clock.now().saturating_add(span);
        // A server may be late to report that the wait is over. This bound keeps the caller from being late with it.
        let longest = left().saturating_add(PRECISION);
        let given_up = self.patience.cancel.as_ref().map(Cancel::flag);
        match listener.map(|listener| listener.listen(self.key, span, longest, given_up)) {
            Some(ListenOutcome::Release) => {
                cluster.stats.woken.count();
                Next::Attempt
            }
            Some(ListenOutcome::Nothing) => Next::Look,
            Some(ListenOutcome::Failed) | None => {
                let rest = over.saturating_since(cluster.clock.now());
                self.patience.sleep(&cluster.clock, rest);
                Next::Look
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{FakeClock, FakeNode};
    use crate::{Fanout, LockManager};

    const DELAY: Duration = Duration::from_millis(100);

    const FOREVER: Patience = Patience {
        end: None,
        cancel: None,
    };

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
        fn begin(&self) -> Wait<'_> {
            Wait::new(self.manager.cluster(), "job", &FOREVER)
        }

        fn wait(&self, wait: &mut Wait<'_>, when_free: WhenFree, end: Option<Duration>) -> Order {
            let now = self.manager.cluster().clock.now();
            let end = end.map(|end| now.saturating_add(end));
            let patience = Patience { end, cancel: None };
            let mut same = Wait {
                patience: &patience,
                ..*wait
            };
            let order = same.wait(when_free).unwrap();
            wait.hints = same.hints;
            order
        }

        /// Gives the lock to another holder on all nodes, for `ttl`.
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
        let mut wait = world.begin();
        for round in 1..=4 {
            for _ in 0..MOST_HINTS {
                assert_eq!(world.wait(&mut wait, WhenFree::Take, None), hinted());
            }
            assert_eq!(world.clock.elapsed(), DELAY * (round - 1));
            assert_eq!(world.wait(&mut wait, WhenFree::Take, None), full());
            assert_eq!(world.clock.elapsed(), DELAY * round);
        }
    }

    #[test]
    fn hints_with_some_time_between_them_are_all_heeded() {
        let world = world();
        let mut wait = world.begin();
        for _ in 0..MOST_HINTS * 3 {
            world.hold(DELAY / 2);
            assert_eq!(world.wait(&mut wait, WhenFree::Take, None), hinted());
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
            world.wait(&mut world.begin(), WhenFree::Take, None),
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
        assert_eq!(world.wait(&mut world.begin(), WhenFree::Take, end), full());
        let timeout = world.manager.cluster().options.node_timeout;
        assert_eq!(world.clock.elapsed(), timeout);
    }

    #[test]
    fn all_nodes_are_asked_after_eight_looks_or_at_the_end() {
        let world = world();
        world.hold(DELAY * 100);
        let mut wait = world.begin();
        assert_eq!(world.wait(&mut wait, WhenFree::Take, None), full());
        assert_eq!(world.clock.elapsed(), DELAY * MOST_POLLS);
        let end = DELAY * 2 + DELAY / 2;
        assert_eq!(world.wait(&mut wait, WhenFree::Take, Some(end)), full());
        assert_eq!(world.clock.elapsed(), DELAY * MOST_POLLS + end);
        assert_eq!(
            world.wait(&mut wait, WhenFree::Take, Some(Duration::ZERO)),
            full()
        );
        assert_eq!(world.clock.elapsed(), DELAY * MOST_POLLS + end);
    }

    #[test]
    fn one_who_is_polite_waits_a_little_for_a_lock_that_is_free() {
        let world = world();
        let mut wait = world.begin();
        assert_eq!(world.wait(&mut wait, WhenFree::Yield, None), hinted());
        assert_eq!(world.clock.elapsed(), POLITENESS);
    }
}
