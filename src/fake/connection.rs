//! The transport seam of a fake node.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use redis::Value;

use super::{FakeNode, Fault as NodeFault, refused};
use crate::clock::Timestamp;
use crate::node::transport::{Connect, Fault, Transport};

struct FakeConnection {
    node: FakeNode,
    id: u64,
}

impl Connect for FakeNode {
    fn connect(&self, _deadline: Timestamp) -> Result<Box<dyn Transport>, Fault> {
        let mut state = self.server.state.lock();
        if state.fault == NodeFault::Refuse {
            return Err(Fault::connect(refused()));
        }
        state.connected = state.connected.wrapping_add(1);
        let id = state.connected;
        state.connections.insert(id, VecDeque::new());
        Ok(Box::new(FakeConnection {
            node: self.clone(),
            id,
        }))
    }
}

impl Transport for FakeConnection {
    fn send(&mut self, command: &[u8], _deadline: Timestamp) -> Result<(), Fault> {
        let mut state = self.node.server.state.lock();
        if !state.connections.contains_key(&self.id) {
            return Err(closed(io::ErrorKind::BrokenPipe));
        }
        if state.fault == NodeFault::Hang {
            state.backlog.push_back((self.id, command.to_vec()));
        } else {
            self.node.execute(&mut state, self.id, command);
        }
        Ok(())
    }

    fn recv(&mut self, deadline: Timestamp) -> Result<Value, Fault> {
        let server = &self.node.server;
        let mut state = server.state.lock();
        loop {
            let Some(replies) = state.connections.get_mut(&self.id) else {
                return Err(closed(io::ErrorKind::UnexpectedEof));
            };
            let mut now = server.clock.now();
            let due = replies.front().map(|reply| reply.due);
            if self.node.is_asked_in_background() {
                // The wait of another thread, seen at its end.
                now = due.map_or(deadline, |due| due.min(deadline));
            }
            if due.is_some_and(|due| due <= now)
                && let Some(reply) = replies.pop_front()
            {
                return Ok(reply.value);
            }
            if now >= deadline {
                return Err(Fault::TimedOut);
            }
            let until = due.map_or(deadline, |due| due.min(deadline));
            server.clock.wait(&server.changed, &mut state, until);
        }
    }

    fn has_surplus(&self) -> bool {
        false
    }

    fn is_quiet(&self) -> bool {
        let state = self.node.server.state.lock();
        state
            .connections
            .get(&self.id)
            .is_some_and(VecDeque::is_empty)
    }
}

impl Drop for FakeConnection {
    fn drop(&mut self) {
        self.node.server.state.lock().connections.remove(&self.id);
    }
}

fn closed(kind: io::ErrorKind) -> Fault {
    Fault::Closed(Arc::new(kind.into()))
}
