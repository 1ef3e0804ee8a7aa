//! Servers in the place of real ones, for the unit tests of nodes.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use redlatch_testing::eventually;

use super::command;
use super::request::{Attempt, Verb};
use super::{Node, Setup, lanes};
use crate::claim::Claim;
use crate::clock::{Clock, FakeClock, Timers, Timestamp, one_thread};
use crate::error::NodeError;
use crate::wire::pack::Packed;
use crate::wire::resp::Reply;
use crate::wire::transport::{Connect, Transport};

pub(super) const SECOND: Duration = Duration::from_secs(1);

/// A server, and each connection to it. It takes in what is sent, and has its replies at once; a test says what is different.
pub(super) trait Double: Clone + Send + Sync + 'static {
    /// A new connection.
    fn connected(&self) -> Result<Self, NodeError> {
        Ok(self.clone())
    }

    fn take_in(&mut self, _bytes: &[u8]) -> Result<(), NodeError> {
        Ok(())
    }

    fn has_a_reply(&mut self, _until: Timestamp) -> bool {
        true
    }

    fn reply(&mut self, deadline: Timestamp) -> Result<Reply, NodeError>;

    fn has_more(&self) -> bool {
        false
    }
}

impl<D: Double> Connect for D {
    fn connect(&self, _: Timestamp) -> Result<Box<dyn Transport>, NodeError> {
        Ok(Box::new(self.connected()?))
    }
}

impl<D: Double> Transport for D {
    fn send(&mut self, commands: &[Cow<'_, [u8]>], _: Timestamp) -> Result<(), NodeError> {
        let mut commands = commands.iter();
        commands.try_for_each(|command| self.take_in(command))
    }

    fn wait_for_reply(&mut self, until: Timestamp, _: Timestamp) -> bool {
        self.has_a_reply(until)
    }

    fn recv(&mut self, deadline: Timestamp) -> Result<Reply, NodeError> {
        self.reply(deadline)
    }

    fn has_surplus(&self) -> bool {
        self.has_more()
    }

    fn is_quiet(&mut self) -> bool {
        true
    }
}

/// A node behind this server, with one slot and a timeout of a second, unless `adapt` says otherwise. Its slots are made.
pub(super) fn node(
    server: impl Connect + 'static,
    time: &FakeClock,
    adapt: impl FnOnce(&mut Setup<'_>),
) -> Arc<Node> {
    node_on(&Clock::from(time.clone()), server, time, adapt)
}

/// The same, with another clock than that of its timers.
pub(super) fn node_on(
    clock: &Clock,
    server: impl Connect + 'static,
    time: &FakeClock,
    adapt: impl FnOnce(&mut Setup<'_>),
) -> Arc<Node> {
    let mut setup = Setup {
        name: "node".into(),
        connector: Box::new(server),
        pool_size: 1,
        common_lanes: Arc::new(lanes(1)),
        timeout: SECOND,
        clock,
        timers: &Timers::Virtual(Arc::new(time.clone())),
        thread: &one_thread("slots"),
    };
    adapt(&mut setup);
    let node = Node::new(setup);
    assert!(eventually(Duration::from_mins(1), || node.has_its_slots()));
    node
}

/// The command that releases the lock with this key.
pub(super) fn release_of(key: &str) -> Packed {
    command::release(&Claim::of_key(key))
}

fn attempt_on(key: &str) -> Attempt {
    Attempt::new(&Claim::of_key(key), SECOND)
}

/// An acquire of the lock with this key.
pub(super) fn acquire_of(key: &str) -> Verb {
    Verb::Take(attempt_on(key).repair)
}

/// What undoes it.
pub(super) fn undo_of(key: &str) -> Packed {
    attempt_on(key).undo()
}
