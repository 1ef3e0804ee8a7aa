//! The network between clients and nodes: each connection keeps its order, and nothing else does.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::io;
use std::iter;
use std::sync::Arc;
use std::time::Duration;

use crate::wire::resp::Reply;

use super::clocks::{MICRO, Nanos};
use super::plan::Trouble;
use super::queue::Event;
use super::wire::{Message, Verb};
use super::world::{State, World};
use crate::clock::Timestamp;
use crate::error::NodeError;
use crate::wire::transport::{Transport, closed};

pub(crate) struct Network {
    connections: Vec<Connection>,
    /// The connections that are open, by node.
    open: Vec<Vec<usize>>,
}

struct Connection {
    client: usize,
    node: usize,
    /// The life of the node's process that it was made in.
    life: u32,
    there: Way,
    back: Way,
    /// Whether the client has learnt that the node has ended it.
    is_reset: bool,
    is_closed: bool,
    /// What has come and was not read.
    inbox: VecDeque<Reply>,
    introduction: Introduction,
    /// Commands whose replies were not read, and the token of the last.
    unread: u32,
    last: String,
    /// Whether reading has failed, so that what comes later belongs to nobody.
    is_spent: bool,
    waiter: Option<(usize, u64)>,
}

/// The first command asks the node who it is, and may have others behind it before its reply is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Introduction {
    Outstanding,
    Sent,
    Read,
}

/// One direction of a connection.
#[derive(Default)]
struct Way {
    /// When the last message arrives: the next one can't be earlier.
    arrival: Nanos,
    /// Whether nothing arrives any more.
    is_lost: bool,
}

impl Way {
    /// When a message with this fate arrives, if it does.
    fn take(&mut self, fate: Fate) -> Option<Nanos> {
        match fate {
            Fate::Arrives(at) if !self.is_lost => {
                self.arrival = at.max(self.arrival + 1);
                Some(self.arrival)
            }
            Fate::Arrives(_) | Fate::Lost => {
                self.is_lost = true;
                None
            }
        }
    }
}

impl Network {
    pub(crate) fn new(nodes: usize) -> Self {
        Self {
            connections: Vec::new(),
            open: vec![Vec::new(); nodes],
        }
    }

    pub(crate) fn expect(&mut self, connection: usize, waiter: (usize, u64)) {
        self.connections[connection].waiter = Some(waiter);
    }
}

/// Where a command stands in its write.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    First,
    Behind,
}

/// What a message meets on its way.
#[derive(Clone, Copy)]
enum Fate {
    Arrives(Nanos),
    Lost,
}

impl State {
    /// The usual time of a message on its way.
    pub(super) fn delay(&mut self) -> Nanos {
        let (lowest, highest) = self.plan.weather.delay;
        self.rng.u64(lowest..=highest)
    }

    pub(super) fn is_unlucky(&mut self, chance: u32) -> bool {
        self.is_stormy && self.rng.u32(0..1_000_000) < chance
    }

    /// A time on the way that now and then is far longer than usual.
    fn long_delay(&mut self) -> Nanos {
        let delay = self.delay();
        if !self.is_unlucky(self.plan.weather.tail) {
            return delay;
        }
        let longest = self.plan.weather.longest;
        // A Pareto distribution: the longer, the rarer, and nothing is too long to be drawn.
        self.count("long delay");
        let factor = (1.0 - self.rng.f64()).powf(-1.5) * 3.0;
        let drawn = Duration::from_nanos(delay).as_secs_f64() * factor;
        super::plan::nanos(Duration::from_secs_f64(drawn.min(1e6))).min(longest)
    }

    /// Until when nothing gets through between the two, and whether it does so then.
    pub(super) fn partition(&self, client: usize, node: usize) -> Option<(Nanos, bool)> {
        let episodes = self.plan.episodes.iter();
        let mut now = episodes.filter(|e| (e.start..e.end).contains(&self.now));
        now.find_map(|episode| {
            let Trouble::Partition {
                client: cut_client,
                node: cut_node,
                holds,
            } = episode.trouble
            else {
                return None;
            };
            ((cut_client, cut_node) == (client, node)).then_some((episode.end, holds))
        })
    }

    fn fate(&mut self, client: usize, node: usize, (loss, name): (u32, &'static str)) -> Fate {
        let delay = self.long_delay();
        match self.partition(client, node) {
            Some((end, true)) => {
                self.count("message held back");
                Fate::Arrives(end + delay)
            }
            Some((_, false)) => {
                self.count("message cut off");
                Fate::Lost
            }
            None if self.is_unlucky(loss) => {
                self.count(name);
                Fate::Lost
            }
            None => Fate::Arrives(self.now + delay),
        }
    }

    /// Puts a command on its way; behind others of the same write, or not.
    fn send(&mut self, id: usize, message: Message, place: Place) {
        let connection = &self.network.connections[id];
        let (client, node) = (connection.client, connection.node);
        let (verb, is_spent, unread) = (message.verb, connection.is_spent, connection.unread);
        let unread = if place == Place::Behind { 0 } else { unread };
        let is_undo = unread > 0 && verb == Verb::Release && message.token == connection.last;
        if unread > 0 && !is_undo {
            let what = format!(
                "c{client} sends {verb:?} to n{node} before the reply to another command is read"
            );
            self.fail(what);
        }
        let connection = &mut self.network.connections[id];
        if connection.introduction == Introduction::Outstanding {
            connection.introduction = Introduction::Sent;
        } else {
            connection.unread += 1;
            connection.is_spent = is_spent || unread > 0;
            message.token.clone_into(&mut connection.last);
        }
        self.witness.sent(self.task(), self.now, &message);
        self.sends_for_the_next(&message);
        self.sends_for_a_rest(&message);
        if let Some(what) = verb.counted_as() {
            self.count(what);
        }
        if is_undo {
            self.count("undo");
        }
        let loss = (self.plan.weather.lost_request, "lost request");
        let fate = self.fate(client, node, loss);
        let arrival = self.network.connections[id].there.take(fate);
        let words = self.witness.describe(&message);
        if let Some(at) = arrival {
            let span = Duration::from_nanos(at.saturating_sub(self.now));
            self.note(|| format!("c{client} -> n{node} #{id} {words}, there in {span:?}"));
            let connection = id;
            self.push(
                at,
                Event::Request {
                    connection,
                    message,
                },
            );
        } else {
            self.note(|| format!("c{client} -> n{node} #{id} {words}, lost"));
        }
    }

    /// A command has come to its node.
    pub(crate) fn arrive(&mut self, id: usize, message: Message) {
        let connection = &self.network.connections[id];
        let node = &mut self.nodes[connection.node];
        if node.is_down() || node.life != connection.life {
            // The node's machine knows no such connection, and says so.
            let (client, node) = (connection.client, connection.node);
            if self.partition(client, node).is_none() {
                let at = self.now + self.delay();
                self.push(at, Event::Reset { connection: id });
            }
            return;
        }
        if node.is_hung() {
            node.put_off(id, message);
        } else {
            self.execute(id, &message);
        }
    }

    pub(crate) fn execute(&mut self, id: usize, message: &Message) {
        let connection = &self.network.connections[id];
        let (client, node) = (connection.client, connection.node);
        let executed = self.nodes[node].execute(message, self.now);
        let words = self.witness.describe(message);
        let reply = executed.reply.clone();
        self.note(|| format!("       n{node} #{id} {words}: {reply:?}"));
        self.executed(node, message, &executed);
        let loss = (self.plan.weather.lost_reply, "lost reply");
        let fate = self.fate(client, node, loss);
        if let Some(at) = self.network.connections[id].back.take(fate) {
            let (connection, value) = (id, executed.reply);
            self.push(at, Event::Reply { connection, value });
        } else {
            self.note(|| format!("       n{node} #{id} the reply is lost"));
        }
    }

    /// A reply has come to its client.
    pub(crate) fn answer(&mut self, id: usize, value: Reply) {
        let connection = &mut self.network.connections[id];
        if connection.is_closed || connection.is_reset {
            return;
        }
        connection.inbox.push_back(value);
        self.notify(id);
    }

    /// The client learns that the node has ended the connection.
    pub(crate) fn reset(&mut self, id: usize) {
        if !std::mem::replace(&mut self.network.connections[id].is_reset, true) {
            self.count("connection reset");
            self.notify(id);
        }
    }

    fn notify(&mut self, id: usize) {
        if let Some(waiter) = self.network.connections[id].waiter.take() {
            self.wake(waiter);
        }
    }

    /// All connections of a node end, and its machine says so to whom it can.
    pub(crate) fn disconnect(&mut self, node: usize) {
        for id in std::mem::take(&mut self.network.open[node]) {
            let client = self.network.connections[id].client;
            let at = match self.partition(client, node) {
                Some((_, false)) => continue,
                Some((end, true)) => end,
                None => self.now,
            };
            let mut at = at + self.delay();
            // Behind what the node has sent before, or in its place.
            if self.rng.bool() {
                at = at.max(self.network.connections[id].back.arrival + 1);
            }
            self.push(at, Event::Reset { connection: id });
        }
    }

    pub(super) fn open(&mut self, client: usize, node: usize) -> usize {
        let id = self.network.connections.len();
        self.network.connections.push(Connection {
            client,
            node,
            life: self.nodes[node].life,
            there: Way::default(),
            back: Way::default(),
            is_reset: false,
            is_closed: false,
            inbox: VecDeque::new(),
            introduction: Introduction::Outstanding,
            unread: 0,
            last: String::new(),
            is_spent: false,
            waiter: None,
        });
        self.network.open[node].push(id);
        self.note(|| format!("c{client} == n{node} #{id} connected"));
        id
    }
}

/// The client's end of a connection.
pub(super) struct Line {
    pub(super) world: Arc<World>,
    pub(super) client: usize,
    pub(super) id: usize,
}

impl Line {
    /// Waits until something has come, or until `until`; returns whether something has.
    fn wait(&self, until: Timestamp) -> bool {
        self.world.step();
        let state = self.world.state();
        let until = state.clients[self.client].clock.when(until.as_nanos());
        drop(state);
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
}

impl Transport for Line {
    fn send(&mut self, command: &[u8], deadline: Timestamp) -> Result<(), NodeError> {
        self.send_all(&[Cow::Borrowed(command)], deadline)
    }

    /// In one write, of which all or the beginning gets through.
    fn send_all(
        &mut self,
        commands: &[Cow<'_, [u8]>],
        deadline: Timestamp,
    ) -> Result<(), NodeError> {
        self.world.step();
        let mut state = self.world.state();
        if state.network.connections[self.id].is_reset || state.is_over {
            return Err(closed(io::ErrorKind::BrokenPipe));
        }
        let chance = state.plan.weather.stuck;
        let is_stuck = state.is_unlucky(chance);
        let count = if is_stuck {
            state.rng.usize(0..commands.len())
        } else {
            commands.len()
        };
        if count > 1 {
            state.count("several at once");
        }
        let places = iter::once(Place::First).chain(iter::repeat(Place::Behind));
        for (command, place) in commands.iter().zip(places).take(count) {
            let message = Message::read(command);
            state.send(self.id, message, place);
        }
        if is_stuck {
            let deadline = state.clients[self.client].clock.when(deadline.as_nanos());
            let id = self.id;
            state.count("stuck write");
            state.note(|| format!("#{id} takes no more bytes"));
            drop(state);
            self.world.block(deadline, None);
            return Err(NodeError::TimedOut);
        }
        // A write takes a moment.
        let moment = state.now + MICRO;
        drop(state);
        self.world.block(moment, None);
        Ok(())
    }

    fn is_ready(&mut self, until: Timestamp, _: Timestamp) -> bool {
        self.wait(until)
    }

    fn recv(&mut self, deadline: Timestamp) -> Result<Reply, NodeError> {
        let has_come = self.wait(deadline);
        let mut state = self.world.state();
        let connection = &mut state.network.connections[self.id];
        let (client, node) = (connection.client, connection.node);
        if std::mem::replace(&mut connection.is_spent, true) && !state.is_over {
            state.fail(format!(
                "c{client} reads from n{node} after a reading that failed"
            ));
        }
        let connection = &mut state.network.connections[self.id];
        if let Some(value) = connection.inbox.pop_front() {
            connection.is_spent = false;
            if connection.introduction == Introduction::Sent {
                connection.introduction = Introduction::Read;
            } else {
                connection.unread -= 1;
            }
            return Ok(value);
        }
        if has_come {
            return Err(closed(io::ErrorKind::UnexpectedEof));
        }
        let id = self.id;
        state.note(|| format!("c{client} <- n{node} #{id} no reply in time"));
        Err(NodeError::TimedOut)
    }

    fn has_surplus(&self) -> bool {
        let state = self.world.state();
        !state.network.connections[self.id].inbox.is_empty()
    }

    fn is_quiet(&mut self) -> bool {
        let state = self.world.state();
        let connection = &state.network.connections[self.id];
        connection.inbox.is_empty() && !connection.is_reset
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let mut state = self.world.state();
        let connection = &mut state.network.connections[self.id];
        connection.is_closed = true;
        let node = connection.node;
        state.network.open[node].retain(|id| *id != self.id);
    }
}
