//! Rounds to servers that are near, far or silent, and whose leader panics.

use std::io;
use std::sync::atomic::Ordering;
use std::thread;

use parking_lot::Mutex;
use redlatch_testing::eventually;

use super::super::command::probe;
use super::super::doubles::{self, Double, release_of};
use super::super::lanes;
use super::super::lanes::Lanes;
use super::super::reply::Said;
use super::super::request::Places;
use super::super::verbs::release_all;
use super::*;
use crate::clock::{Clock, FakeClock, Timestamp};
use crate::error::{NodeError, Vote};
use crate::sync::AtomicBool;
use crate::wire::resp::Reply;
use crate::wire::transport::closed;

const MINUTE: Duration = Duration::from_mins(1);
const POOL: u32 = 10;
const NEAR: Duration = Duration::from_micros(100);
const FAR: Duration = Duration::from_millis(1);
const SILENT: Duration = Duration::MAX;

/// A server so far away, on a clock that goes on while a thread waits for its replies.
#[derive(Clone)]
struct Server {
    distance: Arc<Mutex<Duration>>,
    clock: FakeClock,
    /// When the next reply comes.
    due: Timestamp,
    /// After how many replies a connection is closed.
    closes_after: u32,
    lanes: Arc<Lanes>,
    /// For each connection, and for each wait for a reply that did not come, whether no batch had a lane.
    connects: Arc<Mutex<Vec<bool>>>,
    waits: Arc<Mutex<Vec<bool>>>,
}

impl Server {
    fn now(&self) -> Timestamp {
        Clock::from(self.clock.clone()).now()
    }
}

impl Double for Server {
    fn connected(&self) -> Result<Self, NodeError> {
        self.connects.lock().push(self.lanes.are_idle());
        Ok(self.clone())
    }

    fn take_in(&mut self, _: &[u8]) -> Result<(), NodeError> {
        self.due = self.now().saturating_add(*self.distance.lock());
        Ok(())
    }

    fn has_a_reply(&mut self, until: Timestamp) -> bool {
        let span = until.min(self.due).saturating_since(self.now());
        if self.due > until {
            self.waits.lock().push(self.lanes.are_idle());
        }
        self.clock.advance(span);
        self.due <= until
    }

    fn reply(&mut self, deadline: Timestamp) -> Result<Reply, NodeError> {
        if !self.has_a_reply(deadline) {
            return Err(NodeError::TimedOut);
        }
        let next = self.closes_after.checked_sub(1);
        self.closes_after = next.ok_or(closed(io::ErrorKind::ConnectionReset))?;
        Ok(Reply::Int(1))
    }
}

/// A server at each of these distances, and the nodes in front of them, with one set of lanes.
fn cluster<const N: usize>(
    distances: [Duration; N],
    pool_size: u32,
    closes_after: u32,
) -> ([Server; N], [Arc<Node>; N]) {
    let common = Arc::new(lanes(pool_size));
    let (clock, connects, waits) = (FakeClock::new(), Arc::default(), Arc::default());
    let servers = distances.map(|distance| Server {
        distance: Arc::new(Mutex::new(distance)),
        clock: clock.clone(),
        due: Timestamp::from_nanos(0),
        closes_after,
        lanes: Arc::clone(&common),
        connects: Arc::clone(&connects),
        waits: Arc::clone(&waits),
    });
    let nodes = servers.each_ref().map(|server| {
        doubles::node(server.clone(), &clock, |setup| {
            setup.pool_size = pool_size;
            setup.timeout = Duration::from_millis(50);
            setup.common_lanes = Arc::clone(&common);
        })
    });
    (servers, nodes)
}

/// Which of the nodes answer an extension in time.
fn extend<const N: usize>(nodes: &[Arc<Node>; N]) -> [bool; N] {
    let asked = nodes.iter().map(|node| (&**node, true));
    let (command, mut at) = (probe(), [false; N]);
    for (is_in_time, (_, answer)) in at.iter_mut().zip(ask_all(asked, &command, &Verb::Keep)) {
        *is_in_time = answer.unwrap().result.is_ok();
    }
    at
}

/// Takes a lane, if one is free.
fn take_lane(lanes: &Lanes) -> Option<Lane<'_>> {
    let now = Timestamp::from_nanos(0);
    let applicant = Applicant {
        places: &Places::new(),
        room: 0,
        since: now,
        until: now,
    };
    let job = || Batched {
        packed: probe(),
        verb: Verb::Keep,
        since: now,
        caller: Caller::here(),
        places: Places::new(),
    };
    match lanes.enter(&applicant, &Clock::system(), job) {
        Entry::Leads(lane, _) if !lane.is_given_back() => Some(lane),
        Entry::Leads(..) | Entry::Answered(_) => None,
    }
}

fn count(lanes: &Lanes) -> usize {
    let taken: Vec<Lane<'_>> = iter::from_fn(|| take_lane(lanes)).collect();
    taken.len()
}

#[test]
fn a_round_without_a_reply_gives_its_lane_back_and_waits_on() {
    for far in [[SILENT, SILENT], [SILENT, NEAR], [NEAR, SILENT]] {
        let (servers, nodes) = cluster([Duration::ZERO; 2], 1, u32::MAX);
        // From now on the connections are open. Nobody connects with a lane.
        assert_eq!(extend(&nodes), [true; 2]);
        for (server, distance) in servers.iter().zip(far) {
            *server.distance.lock() = distance;
        }
        assert_eq!(extend(&nodes), far.map(|distance| distance == NEAR));
        let waits = servers[0].waits.lock();
        // One look at each node that is silent, or two at the only one.
        let first_free = waits.iter().position(|is_free| *is_free).unwrap();
        assert!((1..=3).contains(&first_free), "{waits:?}");
        assert!(waits[first_free..].iter().all(|is_free| *is_free));
    }
}

#[test]
fn the_way_to_the_farthest_node_decides_how_many_lanes_there_are() {
    let micros = Duration::from_micros;
    for (distances, expected) in [
        ([Duration::ZERO; 3], 2),
        ([NEAR; 3], 2),
        ([micros(300); 3], 2),
        ([micros(400); 3], 8),
        ([FAR; 3], 10),
        ([FAR * 9; 3], 10),
        // A batch lasts as long as its slowest reply, wherever the near node is in the order.
        ([NEAR, FAR, FAR], 10),
        ([FAR, NEAR, FAR], 10),
        ([FAR, FAR, NEAR], 10),
    ] {
        let (servers, nodes) = cluster(distances, POOL, u32::MAX);
        // The first round connects.
        (0..3).for_each(|_| assert_eq!(extend(&nodes), [true; 3]));
        assert_eq!(count(&servers[0].lanes), expected, "{distances:?}");
    }
}

#[test]
fn round_trips_that_busy_processors_stretch_add_no_lane() {
    let lanes = lanes(POOL);
    for millis in [0, 5, 5] {
        let lane = take_lane(&lanes).unwrap();
        lane.give_back(Some(Duration::from_millis(millis)));
        assert_eq!(count(&lanes), 2);
    }
}

#[test]
fn no_lane_is_held_while_a_connection_is_made() {
    // The introduction and two replies, so that the round trip is known; then a request finds the connection closed.
    let (servers, nodes) = cluster([NEAR; 3], POOL, 3);
    (0..3).for_each(|_| assert_eq!(extend(&nodes), [true; 3]));
    let was_free = servers[0].connects.lock();
    assert!(was_free.len() > 3, "{was_free:?}");
    assert!(was_free.iter().all(|is_free| *is_free), "{was_free:?}");
}

/// A server without any key. The thread that reads its first reply panics.
#[derive(Clone, Default)]
struct Deadly {
    has_killed: Arc<AtomicBool>,
    is_introduced: bool,
}

impl Double for Deadly {
    fn reply(&mut self, _: Timestamp) -> Result<Reply, NodeError> {
        if !self.is_introduced {
            self.is_introduced = true;
            return Ok(Reply::Nil);
        }
        let had_killed = self.has_killed.load(Ordering::SeqCst);
        self.has_killed.store(true, Ordering::SeqCst);
        assert!(had_killed, "as it should be");
        Ok(Reply::Array(vec![Reply::Int(-2)]))
    }
}

#[test]
fn of_a_release_that_a_thread_sent_which_then_panicked_a_missing_key_says_nothing() {
    let (clock, time) = (Clock::system(), FakeClock::new());
    let node = doubles::node_on(&clock, Deadly::default(), &time, |setup| {
        setup.timeout = MINUTE;
    });
    let release = |node: &Node| {
        let nodes = iter::once((node, true));
        let mut released = release_all(nodes, &release_of("job"), MINUTE).nodes;
        released.remove(0).vote
    };
    let lane = take_lane(&node.lanes);
    let both = [(); 2].map(|()| {
        let node = Arc::clone(&node);
        thread::spawn(move || release(&node))
    });
    assert!(eventually(MINUTE, || node.lanes.waiting() == 2));
    // One of them sends both releases and panics. The node may have executed that of the other one.
    drop(lane);
    let mut votes = both.into_iter().filter_map(|thread| thread.join().ok());
    let vote = votes.next().unwrap();
    assert!(
        matches!(vote, Vote::Failed(NodeError::Closed { .. })),
        "{vote}"
    );
    assert!(votes.next().is_none());
    // A release that was sent once is told what is so.
    assert!(matches!(release(&node), Vote::Missing));
}

#[test]
fn what_a_thread_that_panicked_was_to_send_goes_also_where_a_majority_has_answered() {
    let (_, nodes) = cluster([NEAR; 3], 1, u32::MAX);
    for (last, expected) in [
        (Again::Left, Some(vec![false, false, true])),
        (Again::OnNewerThan(0), None),
        (Again::Never, None),
    ] {
        let heard = nodes.iter().zip([Again::Never, Again::Never, last]);
        let heard = heard.enumerate().map(|(place, (node, again))| {
            let mut answer = Answer::lost(node.now());
            answer.again = again;
            if place < 2 {
                answer.result = Ok(Said::Rang(true));
            }
            Heard {
                node,
                answers: iter::once(answer).collect(),
            }
        });
        let asked = silent(&heard.collect(), &Verb::Drop);
        let asked = asked.map(|nodes| nodes.iter().map(|(_, asked)| *asked).collect());
        assert_eq!(asked, expected, "{last:?}");
    }
}
