//! Which round trip counts, where some nodes are near and others are far.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::doubles::{self, Double};
use super::lanes;
use super::lanes::Lanes;
use super::votes::release_all;
use crate::clock::{Clock, FakeClock, Timestamp};
use crate::error::NodeError;
use crate::wire::resp::Reply;
use crate::wire::transport::closed;

const POOL: u32 = 10;

/// A server so far away.
#[derive(Clone)]
struct Server {
    round_trip: Duration,
    clock: Clock,
    /// When the next reply comes.
    due: Timestamp,
    /// After how many replies a connection is closed.
    closes_after: u32,
    lanes: Arc<Lanes>,
    /// For each connection, whether a lane was free while it was made.
    was_free: Arc<Mutex<Vec<bool>>>,
}

impl Double for Server {
    fn connected(&self) -> Result<Self, NodeError> {
        self.was_free.lock().push(count(&self.lanes) > 0);
        Ok(self.clone())
    }

    fn take_in(&mut self, _: &[u8]) -> Result<(), NodeError> {
        self.due = self.clock.now().saturating_add(self.round_trip);
        Ok(())
    }

    fn has_a_reply(&mut self, until: Timestamp) -> bool {
        let until = until.min(self.due);
        self.clock.sleep(until.saturating_since(self.clock.now()));
        self.clock.now() >= self.due
    }

    fn reply(&mut self, _: Timestamp) -> Result<Reply, NodeError> {
        self.has_a_reply(self.due);
        if self.closes_after == 0 {
            return Err(closed(io::ErrorKind::ConnectionReset));
        }
        self.closes_after = self.closes_after.saturating_sub(1);
        Ok(Reply::Int(1))
    }
}

/// How many batches may be under way to nodes so far away, when they are known.
fn lanes_to(round_trips: [Duration; 3]) -> usize {
    rounds(round_trips, u32::MAX).0
}

/// The same, and for each connection whether a lane was free while it was made. A connection is closed after so many replies.
fn rounds(round_trips: [Duration; 3], closes_after: u32) -> (usize, Vec<bool>) {
    let was_free = Arc::new(Mutex::new(Vec::new()));
    let fake = FakeClock::new();
    let clock = Clock::from(fake.clone());
    let common_lanes = Arc::new(lanes(POOL));
    let node = |round_trip| {
        let server = Server {
            round_trip,
            clock: clock.clone(),
            due: clock.now(),
            closes_after,
            lanes: Arc::clone(&common_lanes),
            was_free: Arc::clone(&was_free),
        };
        doubles::node(server, &fake, |setup| {
            setup.pool_size = POOL;
            setup.common_lanes = Arc::clone(&common_lanes);
        })
    };
    let nodes = round_trips.map(node);
    let command = doubles::release_of("job");
    // The first round connects.
    for _ in 0..3 {
        release_all(
            nodes.iter().map(|node| (&**node, true)),
            &command,
            Duration::from_secs(3600),
        );
    }
    let was_free = was_free.lock().clone();
    (count(&common_lanes), was_free)
}

fn count(lanes: &Lanes) -> usize {
    let mut taken = Vec::new();
    while let Some((lane, _)) = Lanes::try_enter(lanes, |_| false, 0) {
        taken.push(lane);
    }
    taken.len()
}

#[test]
fn the_way_to_the_farthest_node_decides_how_many_lanes_there_are() {
    let (near, far) = (Duration::from_micros(100), Duration::from_millis(1));
    for (micros, count) in [
        (0, 2),
        (100, 2),
        (300, 2),
        (400, 8),
        (1_000, 10),
        (9_000, 10),
    ] {
        assert_eq!(lanes_to([Duration::from_micros(micros); 3]), count);
    }
    // A batch lasts as long as its slowest reply, wherever the near node is in the order.
    assert_eq!(lanes_to([near, far, far]), 10);
    assert_eq!(lanes_to([far, near, far]), 10);
    assert_eq!(lanes_to([far, far, near]), 10);
}

#[test]
fn round_trips_that_busy_processors_stretch_add_no_lane() {
    let lanes = lanes(POOL);
    for millis in [0, 5, 5] {
        let (lane, _) = lanes.try_enter(|_| false, 0).unwrap();
        lane.give_back(Some(Duration::from_millis(millis)));
        assert_eq!(count(&lanes), 2);
    }
}

#[test]
fn no_lane_is_held_while_a_connection_is_made() {
    // The introduction and two replies, so that the round trip is known; then a request finds the connection closed.
    let (_, was_free) = rounds([Duration::from_micros(100); 3], 3);
    assert!(was_free.len() > 3, "{was_free:?}");
    assert!(was_free.iter().all(|is_free| *is_free), "{was_free:?}");
}
