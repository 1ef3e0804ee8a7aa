//! How often a lock that nobody else wants reads the clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::doubles::Double;
use crate::clock::{self, Clock, FakeClock, Timestamp, VirtualTime};
use crate::error::NodeError;
use crate::fanout::Fanout;
use crate::manager::LockManager;
use crate::wire::resp::Reply;
use crate::wire::transport::Connect;

/// A server that says yes to everything.
#[derive(Clone)]
struct Server {
    last: Vec<u8>,
}

impl Double for Server {
    fn take_in(&mut self, bytes: &[u8]) -> Result<(), NodeError> {
        self.last = bytes.to_vec();
        Ok(())
    }

    fn reply(&mut self, _: Timestamp) -> Result<Reply, NodeError> {
        let is_set = self.last.windows(5).any(|part| part == b"\r\nSET");
        Ok(if is_set { Reply::Okay } else { Reply::Int(1) })
    }
}

#[derive(Debug)]
struct Counted {
    clock: FakeClock,
    readings: AtomicU32,
}

impl VirtualTime for Counted {
    fn now(&self) -> Timestamp {
        self.readings.fetch_add(1, Ordering::Relaxed);
        VirtualTime::now(&self.clock)
    }

    fn sleep_until(&self, until: Timestamp) {
        self.clock.sleep_until(until);
    }

    fn schedule(&self, delay: Duration, job: clock::Job) {
        self.clock.schedule(delay, job);
    }
}

/// The readings of a pair of acquire and release, over five nodes.
fn of_a_pair(fanout: Fanout) -> u32 {
    let counted = Arc::new(Counted {
        clock: FakeClock::new(),
        readings: AtomicU32::new(0),
    });
    let time: Arc<dyn VirtualTime> = counted.clone();
    let nodes = (0..5).map(|number| {
        let server: Box<dyn Connect> = Box::new(Server { last: Vec::new() });
        (format!("node-{number}").into(), server)
    });
    let manager = LockManager::builder()
        .fanout(fanout)
        .assemble(nodes.collect(), Clock::Virtual(time))
        .unwrap();
    let take = || {
        drop(manager.lock("job", Duration::from_secs(30)).unwrap());
    };
    // The first ones connect.
    (0..5).for_each(|_| take());
    let before = counted.readings.load(Ordering::Relaxed);
    take();
    counted
        .readings
        .load(Ordering::Relaxed)
        .saturating_sub(before)
}

/// For each node, when it is sent something and when it answers; for each round, when it begins, looks and ends; and nine of the
/// call and its guard. One node after the other is asked in five rounds and released in one.
#[test]
fn a_lock_that_nobody_else_wants_reads_the_clock_for_each_node_and_each_round() {
    let (sequential, overlapped) = (of_a_pair(Fanout::Sequential), of_a_pair(Fanout::Overlapped));
    assert!(sequential <= 2 * 10 + 3 * 6 + 9, "{sequential}");
    assert!(overlapped <= 2 * 10 + 3 * 2 + 9, "{overlapped}");
}
