//! Rounds to servers that answer, to servers that are silent, and to a pool that is used up.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;
use redlatch_testing::within;

use super::super::command::{Command, Keys, probe};
use super::super::request::{Again, Kind, Rule};
use super::super::{Setup, lanes};
use super::*;
use crate::clock::{FakeClock, Timers, one_thread};
use crate::fake::FakeNode;
use crate::sync::AtomicBool;
use crate::wire::pack::Packed;
use crate::wire::resp::Reply;
use crate::wire::transport::{Connect, Transport};

/// A server on a clock that goes on while a thread waits for its replies.
#[derive(Clone)]
struct Server {
    clock: FakeClock,
    lanes: Arc<NodeLanes>,
    is_silent: Arc<AtomicBool>,
    /// Of each wait for a reply that did not come, at any server, whether the lane was free.
    waits: Arc<Mutex<Vec<bool>>>,
}

impl Connect for Server {
    fn connect(&self, _: Timestamp) -> Result<Box<dyn Transport>, NodeError> {
        Ok(Box::new(self.clone()))
    }
}

impl Transport for Server {
    fn send(&mut self, _: &[u8], _: Timestamp) -> Result<(), NodeError> {
        Ok(())
    }

    fn is_ready(&mut self, until: Timestamp, _: Timestamp) -> bool {
        if !self.is_silent.load(Ordering::SeqCst) {
            return true;
        }
        self.waits.lock().push(self.lanes.are_idle());
        let now = Clock::from(self.clock.clone()).now();
        self.clock.advance(until.saturating_since(now));
        false
    }

    fn recv(&mut self, deadline: Timestamp) -> Result<Reply, NodeError> {
        if self.is_ready(deadline, deadline) {
            Ok(Reply::Int(1))
        } else {
            Err(NodeError::TimedOut)
        }
    }

    fn has_surplus(&self) -> bool {
        false
    }

    fn is_quiet(&mut self) -> bool {
        true
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

/// A node with one slot, which is there.
fn node(server: &Server, timeout: Duration) -> Arc<Node> {
    node_at(Box::new(server.clone()), server, timeout)
}

fn node_at(connector: Box<dyn Connect>, server: &Server, timeout: Duration) -> Arc<Node> {
    let node = Node::new(Setup {
        name: "node".into(),
        connector,
        pool_size: 1,
        common_lanes: Arc::clone(&server.lanes),
        timeout,
        clock: &Clock::from(server.clock.clone()),
        timers: &Timers::Virtual(Arc::new(server.clock.clone())),
        thread: &one_thread("rounds"),
    });
    within(Duration::from_mins(1), move || {
        while !node.has_its_slots() {
            std::thread::yield_now();
        }
        node
    })
}

#[test]
fn a_request_goes_with_those_to_the_same_nodes() {
    let packed = probe();
    let request = Request::new(&packed, Kind::Extend, Rule::any());
    let job = |asked: &[bool]| Batched {
        request: request.for_others().unwrap(),
        asked: asked.into(),
        since: Timestamp::from_nanos(0),
        caller: Caller::here(),
    };
    let one = job(&[true, false]);
    assert!(one.goes_with(&job(&[true, false])) && !one.goes_with(&job(&[true, true])));
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
        let request = Request::new(&packed, Kind::Extend, Rule::any());
        let answer_in_time = || {
            let nodes = nodes.iter().map(|node| (&**node, true));
            let answers = exchange_all(nodes, &request).into_iter();
            answers
                .map(|answer| answer.unwrap().result.is_ok())
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

fn an_undo() -> Packed {
    let command = Command {
        keys: &Keys::Lock("job".into()),
        value: b"token",
        fence: None,
    };
    command.release()
}

#[test]
fn a_round_to_a_node_in_this_process_waits_for_no_other() {
    let server = server();
    let fake = FakeNode::cluster_on(1, &server.clock).remove(0);
    let node = node_at(Box::new(fake), &server, Duration::from_millis(50));
    // All lanes are taken.
    let lane = node.lanes.try_enter(|_| false, MOST);
    assert!(lane.is_some());
    let packed = probe();
    let answer = exchange(&node, &Request::new(&packed, Kind::Extend, Rule::any()));
    assert!(answer.result.is_ok());
    assert_eq!(server.clock.elapsed(), Duration::ZERO);
}

#[test]
fn a_round_waits_half_of_the_node_timeout_for_a_connection_and_then_only_what_insists_gets_one() {
    let server = server();
    let node = node(&server, Duration::from_millis(10));
    let taken = node.pool.try_get().unwrap();
    let asked = Arc::clone(&node);
    let results = within(Duration::from_mins(1), move || {
        let (packed, undo) = (probe(), an_undo());
        let acquire = Kind::Acquire {
            again: Again::Packed(probe()),
            undo: Cow::Borrowed(&undo),
        };
        [acquire, Kind::Release]
            .map(|kind| exchange(&asked, &Request::new(&packed, kind, Rule::any())).result)
    });
    assert!(
        matches!(&results, [Err(NodeError::PoolExhausted), Ok(_)]),
        "{results:?}"
    );
    drop(taken);
}
