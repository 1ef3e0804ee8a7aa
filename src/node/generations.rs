//! Which connections are discarded when one of them was found closed, while others are being made and used.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use parking_lot::Mutex;

use super::Node;
use super::doubles::{self, Double};
use super::votes::release_all;
use crate::clock::{FakeClock, Timestamp};
use crate::error::NodeError;
use crate::wire::resp::Reply;
use crate::wire::transport::closed;

/// At which step of a request another thread finds that the server has closed the older connections.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Connecting,
    /// The server closes the connection then.
    Sending,
    /// What is sent goes out, and the server closes the connection before its reply.
    Sent,
    /// The server closes the connection before its reply.
    Receiving,
}

#[derive(Clone, Default)]
struct Server(Arc<Shared>);

#[derive(Default)]
struct Shared {
    node: OnceLock<Weak<Node>>,
    /// The next one, once.
    step: Mutex<Option<Step>>,
    connections: AtomicU32,
    /// Whether the next reply is the end of its connection.
    closes: AtomicBool,
}

impl Server {
    fn node(&self) -> Arc<Node> {
        self.0.node.get().and_then(Weak::upgrade).expect("a node")
    }

    fn is_now(&self, step: Step) -> bool {
        let mut next = self.0.step.lock();
        let is_now = *next == Some(step);
        if is_now {
            *next = None;
            let node = self.node();
            node.retire(node.generation());
        }
        is_now
    }

    fn connections(&self) -> u32 {
        self.0.connections.load(Ordering::Relaxed)
    }
}

impl Double for Server {
    fn connected(&self) -> Result<Self, NodeError> {
        self.0.connections.fetch_add(1, Ordering::Relaxed);
        self.is_now(Step::Connecting);
        Ok(self.clone())
    }

    fn take_in(&mut self, _: &[u8]) -> Result<(), NodeError> {
        if self.is_now(Step::Sending) {
            return Err(closed(io::ErrorKind::ConnectionReset));
        }
        if self.is_now(Step::Sent) {
            self.0.closes.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    fn reply(&mut self, _: Timestamp) -> Result<Reply, NodeError> {
        let closes = self.0.closes.swap(false, Ordering::Relaxed);
        if self.is_now(Step::Receiving) || closes {
            return Err(closed(io::ErrorKind::ConnectionReset));
        }
        Ok(Reply::Int(1))
    }
}

/// A node behind this server, with a connection if `is_warm`.
fn node(is_warm: bool) -> (Arc<Node>, Server) {
    let server = Server::default();
    let node = doubles::node(server.clone(), &FakeClock::new(), |setup| {
        setup.pool_size = 2;
    });
    server.0.node.set(Arc::downgrade(&node)).expect("one node");
    if is_warm {
        ask(&node);
    }
    (node, server)
}

fn ask(node: &Node) {
    let release = doubles::release_of("job");
    release_all(
        [(node, true)].into_iter(),
        &release,
        Duration::from_hours(1),
    );
}

#[test]
fn a_connection_that_was_being_made_when_others_were_found_closed_is_not_used_again() {
    let (node, server) = node(false);
    *server.0.step.lock() = Some(Step::Connecting);
    ask(&node);
    assert_eq!(server.connections(), 1);
    // It may lead to the process that is gone.
    ask(&node);
    assert_eq!(server.connections(), 2);
    ask(&node);
    assert_eq!(server.connections(), 2);
}

#[test]
fn a_connection_that_is_found_closed_discards_none_that_was_made_since_another_was() {
    for step in [Step::Sending, Step::Sent, Step::Receiving] {
        let (node, server) = node(true);
        let before = node.generation();
        *server.0.step.lock() = Some(step);
        ask(&node);
        assert_eq!(node.generation(), before.wrapping_add(1));
        assert_eq!(server.connections(), 2);
        ask(&node);
        assert_eq!(server.connections(), 2);
    }
}
