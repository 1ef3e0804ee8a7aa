//! Rounds to servers that answer, to servers that are silent, and to a pool that is used up.

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, Weak};
use std::thread;

use parking_lot::Mutex;
use redlatch_testing::eventually;

use super::super::command::probe;
use super::super::doubles::{self, Double};
use super::super::lanes;
use super::super::request::Verb;
use super::super::votes::release_all;
use super::*;
use crate::clock::{self, Clock, FakeClock, Timestamp, VirtualTime};
use crate::error::Vote;
use crate::sync::AtomicBool;
use crate::wire::resp::Reply;

/// A server on a clock that goes on while a thread waits for its replies.
#[derive(Clone)]
struct Server {
    clock: FakeClock,
    lanes: Arc<Lanes>,
    is_silent: Arc<AtomicBool>,
    /// Of each wait for a reply that did not come, at any server, whether the lane was free.
    waits: Arc<Mutex<Vec<bool>>>,
}

impl Double for Server {
    fn has_a_reply(&mut self, until: Timestamp) -> bool {
        if !self.is_silent.load(Ordering::SeqCst) {
            return true;
        }
        self.waits.lock().push(self.lanes.are_idle());
        let now = Clock::from(self.clock.clone()).now();
        self.clock.advance(until.saturating_since(now));
        false
    }

    fn reply(&mut self, deadline: Timestamp) -> Result<Reply, NodeError> {
        if self.has_a_reply(deadline) {
            Ok(Reply::Int(1))
        } else {
            Err(NodeError::TimedOut)
        }
    }
}

fn server() -> Server {
    Server {
        clock: FakeClock::new(),
        lanes: Arc::new(lanes(1)),
        is_silent: Arc::new(AtomicBool::new(false)),
        waits: Arc::default(),
    }
}

/// A node with one slot.
fn node(server: &Server, timeout: Duration) -> Arc<Node> {
    doubles::node(server.clone(), &server.clock, |setup| {
        setup.timeout = timeout;
        setup.common_lanes = Arc::clone(&server.lanes);
    })
}

#[test]
fn a_round_without_a_reply_gives_its_lane_back_and_waits_on() {
    for are_silent in [[true, true], [true, false], [false, true]] {
        let first = server();
        let second = Server {
            is_silent: Arc::default(),
            ..first.clone()
        };
        let servers = [first, second];
        let nodes = [0, 1].map(|at| node(&servers[at], Duration::from_millis(50)));
        let packed = probe();
        let request = Request::new(&packed, Verb::Keep);
        let answer_in_time = || {
            let nodes = nodes.iter().map(|node| (&**node, true));
            let answers = exchange_all(nodes, &request);
            answers
                .map(|(_, answer)| answer.unwrap().result.is_ok())
                .collect::<Vec<_>>()
        };
        // From now on the connections are open. Nobody connects with a lane.
        assert_eq!(answer_in_time(), [true; 2]);
        for (server, is_silent) in servers.iter().zip(are_silent) {
            server.is_silent.store(is_silent, Ordering::SeqCst);
        }
        assert_eq!(answer_in_time(), are_silent.map(|is_silent| !is_silent));
        let waits = servers[0].waits.lock();
        // One look at each node that is silent, or two at the only one.
        assert_eq!(waits[..2], [false; 2]);
        let rest = &waits[2..];
        assert!(!rest.is_empty() && rest.iter().all(|is_free| *is_free));
    }
}

const MINUTE: Duration = Duration::from_mins(1);

/// A clock that notes whether the lane to the node was free when it was read.
#[derive(Debug)]
struct Watched {
    clock: FakeClock,
    node: OnceLock<Weak<Node>>,
    reads: Mutex<Vec<bool>>,
}

impl Watched {
    /// Whether it was read by a round that had begun and given its lane back.
    fn was_read_without_a_lane(&self) -> bool {
        let reads = self.reads.lock();
        reads.len() > 1 && reads.last() == Some(&true)
    }
}

impl VirtualTime for Watched {
    fn now(&self) -> Timestamp {
        let now = VirtualTime::now(&self.clock);
        if let Some(node) = self.node.get().and_then(Weak::upgrade) {
            self.reads.lock().push(node.lanes.are_idle());
        }
        now
    }

    fn sleep_until(&self, until: Timestamp) {
        self.clock.sleep_until(until);
    }

    fn schedule(&self, delay: Duration, job: clock::Job) {
        self.clock.schedule(delay, job);
    }
}

#[test]
fn the_wait_for_a_connection_is_a_part_of_the_time_that_an_acquire_has_for_the_node() {
    let server = server();
    server.is_silent.store(true, Ordering::SeqCst);
    let watched = Arc::new(Watched {
        clock: server.clock.clone(),
        node: OnceLock::new(),
        reads: Mutex::default(),
    });
    let time: Arc<dyn VirtualTime> = watched.clone();
    let time = Clock::Virtual(time);
    let node = doubles::node_on(&time, server.clone(), &server.clock, |setup| {
        setup.timeout = MINUTE;
    });
    watched.node.set(Arc::downgrade(&node)).unwrap();
    let taken = node.pool.try_get().unwrap();
    let asked = Arc::clone(&node);
    let answer = thread::spawn(move || {
        let packed = probe();
        let acquire = doubles::acquire_of("job");
        exchange(&asked, &Request::new(&packed, acquire))
    });
    // Its time has begun, and it waits for the connection, which comes when some of the time is over.
    assert!(eventually(MINUTE, || watched.was_read_without_a_lane()));
    server.clock.advance(MINUTE / 3);
    drop(taken);
    let answer = answer.join().unwrap();
    assert!(matches!(answer.result, Err(NodeError::TimedOut)));
    assert_eq!(answer.elapsed, MINUTE);
    assert_eq!(server.clock.elapsed(), MINUTE);
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
        let mut released = release_all(
            [(node, true)].into_iter(),
            &doubles::release_of("job"),
            MINUTE,
        )
        .nodes;
        released.remove(0).vote
    };
    let lane = node.lanes.try_enter(|_| false, 0);
    let both = [(); 2].map(|()| {
        let node = Arc::clone(&node);
        thread::spawn(move || release(&node))
    });
    assert!(eventually(MINUTE, || node.lanes.waiting() == 2));
    // One of them sends both releases and panics. The other one sends its own again, and the node may have executed it before.
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
