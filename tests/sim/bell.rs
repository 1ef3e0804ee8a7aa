//! Clients that listen at a node until a bell rings: who is woken, who listens in vain, and what a node does not know of them.

use super::network::Connection;
use super::prelude::*;

/// A server that is idle looks ten times a second for clients whose time is over.
const TICK: Nanos = 100 * MILLI;

impl State {
    /// Of the threads of a process that want the same, only the first of their line listens. Here no semaphore has the name of a
    /// lock, whose bell it would have.
    pub(super) fn begins_to_listen(&mut self, id: usize, message: &Message) {
        let client = self.network.connections[id].client;
        let bell = &message.keys[0];
        let listens = |other: &Connection| {
            other.client == client && !other.is_closed && other.bell.as_ref() == Some(bell)
        };
        if let Some(other) = self.network.connections.iter().position(listens) {
            self.fail(format!(
                "two threads of c{client} listen at {bell}: #{other} and #{id}"
            ));
        }
        self.network.connections[id].bell = Some(bell.clone());
    }

    pub(super) fn listens(&mut self, id: usize, message: &Message) {
        let node = self.network.connections[id].node;
        let (reply, until) = self.nodes[node].listens(id, message, self.now);
        let Some(reply) = reply else {
            let late = if self.rng.bool() {
                self.rng.u64(0..TICK)
            } else {
                MICRO
            };
            self.note(|| format!("       n{node} #{id} listens"));
            return self.push(until + late, Event::Unblock(id));
        };
        if matches!(&reply, Reply::Array(_)) {
            self.count("the bell had rung");
        }
        self.reply(id, reply);
    }

    pub(super) fn rings(&mut self, node: usize) {
        for (id, reply) in self.nodes[node].woken(self.now) {
            self.count("woken by the bell");
            self.note(|| format!("       n{node} #{id} is woken"));
            self.reply(id, reply);
        }
    }

    /// The node looks for clients whose time of listening is over, if its process runs.
    pub(super) fn unblock(&mut self, node: usize) {
        let its = &mut self.nodes[node];
        if its.hung > 0 {
            return;
        }
        let time = its.time(self.now);
        for id in its.store.end_listening(time) {
            self.count("listened in vain");
            self.note(|| format!("       n{node} #{id} has listened in vain"));
            self.reply(id, Reply::Nil);
        }
    }

    /// If the clock of the node was set back since it began, a client listens for longer.
    pub(super) fn listens_on(&mut self, connection: usize) {
        let node = &self.nodes[self.network.connections[connection].node];
        let until = node.store.listens_until(connection);
        let until = until.map(|until| node.when(until));
        if let Some(until) = until.filter(|until| *until > self.now) {
            self.push(until, Event::Unblock(connection));
        }
    }

    /// The client has closed its end. Until the node learns of that, if ever, it may ring for nobody.
    pub(super) fn closes(&mut self, id: usize) {
        let connection = &mut self.network.connections[id];
        connection.is_closed = true;
        let node = connection.node;
        self.network.open[node].retain(|other| *other != id);
        if self.is_over || self.nodes[node].store.listens_until(id).is_none() {
            return;
        }
        let delay = self.delay();
        if let Some(at) = self.end_can_be_known(id) {
            self.push(at + delay, Event::Gone(id));
        }
    }
}
