//! The transport seam of a fake node.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use crate::wire::resp::{self, Reply};

use super::{FakeClock, FakeNode, Fault, NodeState};
use crate::clock::Timestamp;
use crate::error::NodeError;
use crate::sync::MutexGuard;
use crate::wire::transport::{Connect, Transport, closed, unconnected};

struct FakeConnection {
    node: FakeNode,
    id: usize,
}

impl Connect for FakeNode {
    fn connect(&self, _deadline: Timestamp) -> Result<Box<dyn Transport>, NodeError> {
        let mut state = self.server.state.lock();
        if state.fault == Fault::Refuse {
            return Err(unconnected(io::ErrorKind::ConnectionRefused.into()));
        }
        state.connected = state.connected.wrapping_add(1);
        let id = state.connected;
        state.connections.insert(id, VecDeque::new());
        Ok(Box::new(FakeConnection {
            node: self.clone(),
            id,
        }))
    }

    fn is_remote(&self) -> bool {
        false
    }
}

impl Transport for FakeConnection {
    fn send(&mut self, commands: &[u8], _: Timestamp) -> Result<(), NodeError> {
        let mut state = self.node.server.state.lock();
        if !state.connections.contains_key(&self.id) {
            return Err(closed(io::ErrorKind::BrokenPipe));
        }
        for command in resp::commands(commands).unwrap_or_default() {
            if state.fault == Fault::Hang {
                state.backlog.push_back((self.id, command.to_vec()));
            } else {
                self.node.execute(&mut state, self.id, command);
            }
        }
        Ok(())
    }

    fn wait_for_reply(&mut self, until: Timestamp, _: Timestamp) -> bool {
        self.wait(&mut self.node.server.state.lock(), until)
    }

    fn recv(&mut self, deadline: Timestamp) -> Result<Reply, NodeError> {
        let mut state = self.node.server.state.lock();
        if !self.wait(&mut state, deadline) {
            return Err(NodeError::silence());
        }
        let replies = state.connections.get_mut(&self.id);
        match replies.and_then(VecDeque::pop_front) {
            Some((_, reply)) => Ok(reply),
            None => Err(closed(io::ErrorKind::UnexpectedEof)),
        }
    }

    fn has_surplus(&self) -> bool {
        false
    }

    fn is_quiet(&mut self) -> bool {
        let state = self.node.server.state.lock();
        let replies = state.connections.get(&self.id);
        replies.is_some_and(VecDeque::is_empty)
    }
}

impl FakeConnection {
    /// Waits until `until` at most for the next reply or the end of the connection. Returns whether it has come.
    fn wait(&self, state: &mut MutexGuard<'_, NodeState>, until: Timestamp) -> bool {
        let server = &self.node.server;
        loop {
            let time = self.node.time(state);
            // A node that hangs ends no listening.
            let hangs = state.fault == Fault::Hang;
            if !hangs {
                for connection in state.store.end_listening(time) {
                    self.node
                        .reply(state, connection, Reply::Nil, Duration::ZERO);
                }
            }
            let Some(replies) = state.connections.get(&self.id) else {
                return true;
            };
            let due = replies.front().map(|(due, _)| *due);
            let mut now = server.clock.now();
            let ends = state.store.listens_until(self.id).filter(|_| !hangs);
            let ends = ends.map(|ends| now.saturating_add(ends.saturating_sub(time)));
            let next = due.into_iter().chain(ends).fold(until, Timestamp::min);
            let fake_clock = server.fake_clock.as_ref();
            if fake_clock.is_some_and(FakeClock::is_in_job) {
                // A background job must not wait for the clock that runs it, so it sees the end of the wait at once.
                now = next;
            }
            if due.is_some_and(|due| due <= now) {
                return true;
            }
            if now >= until {
                return false;
            }
            server.clock.wait(&server.changed, state, next);
        }
    }
}

impl Drop for FakeConnection {
    fn drop(&mut self) {
        let mut state = self.node.server.state.lock();
        state.connections.remove(&self.id);
        state.store.leave(self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::super::store::pack;
    use super::*;
    use crate::claim::Resource;
    use crate::clock::at;
    use crate::wire::scripts::{DROP, LOOK};

    fn node() -> FakeNode {
        let node = FakeNode::cluster_on(1, &FakeClock::new()).remove(0);
        node.hold("job", "token", Duration::from_mins(1));
        node
    }

    fn connection(node: &FakeNode) -> Box<dyn Transport> {
        node.connect(at(0)).unwrap()
    }

    fn send(connection: &mut Box<dyn Transport>, words: &[&str]) {
        let sent = connection.send(&pack(words), at(0));
        sent.unwrap();
    }

    /// The client of a connection that listens until the lock is released.
    fn listener(node: &FakeNode) -> Box<dyn Transport> {
        let mut connection = connection(node);
        let bell = Resource::of_key("job").bell(0);
        send(&mut connection, &["BLPOP", &bell, "60"]);
        connection
    }

    fn has_a_reply(connection: &mut Box<dyn Transport>) -> bool {
        connection.wait_for_reply(at(0), at(0))
    }

    /// Makes one release, and says whether it wakes the client.
    fn is_woken(node: &FakeNode, listener: &mut Box<dyn Transport>) -> bool {
        let mut other = connection(node);
        send(&mut other, &["EVAL", LOOK, "1", "job", "60000", "0"]);
        assert!(!has_a_reply(listener));
        send(&mut other, &["EVAL", DROP, "1", "job", "token"]);
        has_a_reply(listener)
    }

    #[test]
    fn a_bell_wakes_the_next_client_where_the_first_one_has_gone() {
        let node = node();
        let (first, mut second) = (listener(&node), listener(&node));
        drop(first);
        assert!(is_woken(&node, &mut second));
    }

    #[test]
    fn in_real_time_a_client_is_woken_after_the_release_has_reached_the_other_nodes() {
        let node = FakeNode::new();
        node.hold("job", "token", Duration::from_mins(1));
        let (mut woken, mut other) = (listener(&node), connection(&node));
        send(&mut other, &["EVAL", LOOK, "1", "job", "60000", "0"]);
        let released = node.server.clock.now();
        send(&mut other, &["EVAL", DROP, "1", "job", "token"]);
        let deadline = released.saturating_add(Duration::from_mins(1));
        other.recv(deadline).unwrap();
        assert!(woken.wait_for_reply(deadline, deadline));
        let took = node.server.clock.now().saturating_since(released);
        assert!(took >= super::super::WAY_OF_A_WAKE, "{took:?}");
    }

    #[test]
    fn a_bell_wakes_nobody_whose_connection_a_restart_has_ended() {
        let node = node();
        let mut before = listener(&node);
        node.restart_persisted();
        assert!(has_a_reply(&mut before), "its end");
        let mut after = listener(&node);
        assert!(is_woken(&node, &mut after));
    }

    #[test]
    fn a_connection_is_quiet_unless_a_reply_lies_there_or_it_has_ended() {
        let node = node();
        let mut connection = connection(&node);
        assert!(connection.is_quiet());
        send(&mut connection, &["TIME"]);
        assert!(!connection.is_quiet());
        connection.recv(at(0)).unwrap();
        assert!(connection.is_quiet());
        node.refuse();
        assert!(!connection.is_quiet());
    }
}
