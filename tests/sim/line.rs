//! The client's end of a connection, and what makes one.

use std::io;

use super::prelude::*;
use crate::error::NodeError;
use crate::wire::resp;
use crate::wire::transport::{Connect, Transport, closed, unconnected};

struct Line {
    world: Arc<World>,
    client: usize,
    id: usize,
}

impl Line {
    /// Waits until something has come, or until `until`; returns whether something has.
    fn wait(&self, until: Timestamp) -> bool {
        self.world.step();
        let until = self.world.state().clients[self.client].when(until);
        loop {
            let state = self.world.state();
            let connection = &state.network.connections[self.id];
            if !connection.inbox.is_empty() || connection.is_reset || state.is_over {
                return true;
            }
            if state.now >= until {
                return false;
            }
            drop(state);
            self.world.block(until, Some(self.id));
        }
    }

    fn gives_up(&self) {
        let (id, client, mut state) = (self.id, self.client, self.world.state());
        let node = state.network.connections[id].node;
        state.note(|| format!("c{client} <- n{node} #{id} no reply in time"));
    }
}

impl Transport for Line {
    /// In one write, of which all or the beginning gets through.
    fn send(&mut self, commands: &[u8], deadline: Timestamp) -> Result<(), NodeError> {
        let commands = resp::commands(commands).unwrap();
        self.world.step();
        self.world.may_die();
        let mut state = self.world.state();
        let id = self.id;
        if state.network.connections[id].is_reset || state.is_over {
            return Err(closed(io::ErrorKind::BrokenPipe));
        }
        let chance = state.plan.weather.stuck;
        let is_stuck = state.is_unlucky(chance);
        let count = if is_stuck {
            state.rng.usize(0..commands.len())
        } else {
            commands.len()
        };
        let messages = commands.iter().map(|command| Message::read(command));
        let messages: Vec<Message> = messages.collect();
        state.writes(id, &messages);
        for (place, message) in messages.into_iter().take(count).enumerate() {
            state.send(id, message, place > 0);
        }
        if is_stuck {
            let deadline = state.clients[self.client].when(deadline);
            state.count("stuck write");
            state.note(|| format!("#{id} takes no more bytes"));
            drop(state);
            self.world.block(deadline, None);
            return Err(NodeError::silence());
        }
        // A write takes a moment.
        let moment = state.now + MICRO;
        drop(state);
        self.world.block(moment, None);
        Ok(())
    }

    fn wait_for_reply(&mut self, until: Timestamp, deadline: Timestamp) -> bool {
        let in_records = self.world.state().has_come_in_records();
        let has_come = in_records.unwrap_or_else(|| {
            let has_come = self.wait(until);
            self.world.may_die();
            has_come
        });
        if !has_come && until >= deadline {
            self.gives_up();
        }
        has_come
    }

    fn recv(&mut self, deadline: Timestamp) -> Result<Reply, NodeError> {
        let has_come = self.wait(deadline);
        self.world.may_die();
        let mut state = self.world.state();
        if let Some(reply) = state.read(self.id) {
            return Ok(reply);
        }
        if has_come {
            return Err(closed(io::ErrorKind::UnexpectedEof));
        }
        drop(state);
        self.gives_up();
        Err(NodeError::silence())
    }

    fn stop_asking(&mut self) {
        self.world.state().network.connections[self.id]
            .unread
            .is_left = true;
    }

    fn has_surplus(&self) -> bool {
        let state = self.world.state();
        !state.network.connections[self.id].inbox.is_empty()
    }

    fn is_quiet(&mut self) -> bool {
        let mut state = self.world.state();
        if state.is_sealed_now() {
            // More than an idle connection is used with.
            state.count("too many records without data");
            return false;
        }
        let connection = &state.network.connections[self.id];
        connection.inbox.is_empty() && !connection.is_reset
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.world.state().closes(self.id);
    }
}

/// What comes is cut into records, where connections behave as those with TLS do.
impl State {
    fn is_sealed_now(&mut self) -> bool {
        let chance = self.plan.sealed;
        chance > 0 && self.is_unlucky(chance)
    }

    /// What a wait for a reply says that ends before its time; none if this one does not.
    fn has_come_in_records(&mut self) -> Option<bool> {
        if !self.is_sealed_now() || self.is_over {
            return None;
        }
        let is_part_of_a_reply = self.rng.bool();
        self.count(if is_part_of_a_reply {
            "a part of a reply"
        } else {
            "records without data"
        });
        Some(is_part_of_a_reply)
    }
}

pub(super) struct Dialer {
    pub(super) world: Arc<World>,
    pub(super) client: usize,
    pub(super) node: usize,
}

impl Connect for Dialer {
    fn connect(&self, deadline: Timestamp) -> Result<Box<dyn Transport>, NodeError> {
        let refused = || unconnected(io::ErrorKind::ConnectionRefused.into());
        self.world.step();
        let mut state = self.world.state();
        if state.is_over {
            return Err(refused());
        }
        let (client, node) = (self.client, self.node);
        let deadline = state.clients[client].when(deadline);
        let chance = state.plan.weather.stuck;
        let is_stuck = state.is_unlucky(chance);
        let mut done = state.now + state.delay() + state.delay();
        if state.plan.sealed > 0 {
            done += state.delay() + state.delay();
        }
        if is_stuck {
            state.count("connection not made");
        }
        if is_stuck || state.partition(client, node).is_some() || done > deadline {
            state.note(|| format!("c{client} == n{node} can't connect in time"));
            drop(state);
            self.world.block(deadline, None);
            return Err(NodeError::silence());
        }
        drop(state);
        self.world.block(done, None);
        let mut state = self.world.state();
        if state.nodes[node].down > 0 || state.is_over {
            state.count("connection refused");
            return Err(refused());
        }
        let id = state.open(client, node);
        drop(state);
        let world = Arc::clone(&self.world);
        Ok(Box::new(Line { world, client, id }))
    }
}
