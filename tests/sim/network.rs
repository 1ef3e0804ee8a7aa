//! The network between clients and nodes: each connection keeps its order, and nothing else does.

use std::collections::VecDeque;
use std::time::Duration;

use super::clocks::Nanos;
use super::line::Place;
use super::queue::Event;
use super::trouble::Trouble;
use super::unread::Unread;
use super::wire::{Message, Verb};
use super::world::State;
use crate::wire::resp::Reply;

pub(crate) struct Network {
    pub(super) connections: Vec<Connection>,
    /// The connections that are open, by node.
    pub(super) open: Vec<Vec<usize>>,
}

pub(super) struct Connection {
    pub(super) client: usize,
    pub(super) node: usize,
    /// The life of the node's process that it was made in.
    life: u32,
    there: Way,
    back: Way,
    /// Whether the client has learnt that the node has ended it.
    pub(super) is_reset: bool,
    pub(super) is_closed: bool,
    /// What has come and was not read.
    pub(super) inbox: VecDeque<Reply>,
    /// The commands whose replies were not read.
    pub(super) unread: Unread,
    /// The bell at which the client listens on it.
    pub(super) bell: Option<String>,
    waiter: Option<(usize, u64)>,
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
    pub(super) fn send(&mut self, id: usize, message: Message, place: Place) {
        let connection = &self.network.connections[id];
        let (client, node) = (connection.client, connection.node);
        let verb = message.verb;
        match self.network.connections[id].unread.sends(&message, place) {
            Ok(Some(what)) => self.count(what),
            Ok(None) => {}
            Err(when) => self.fail(format!("c{client} sends {verb:?} to n{node} {when}")),
        }
        self.sent(node, &message);
        if verb == Verb::Listen {
            self.begins_to_listen(id, &message);
        }
        if verb == Verb::Retake {
            self.count("SET repeated");
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

    /// What has come to the client on a connection, if anything has, is read there, as the answer to its oldest command.
    pub(super) fn read(&mut self, id: usize) -> Option<Reply> {
        let connection = &mut self.network.connections[id];
        let (client, node) = (connection.client, connection.node);
        let reply = connection.inbox.pop_front();
        if reply.is_some() {
            connection.bell = None;
        }
        match connection.unread.reads(reply.as_ref()) {
            Ok(asked) => self.is_answered(asked, reply.as_ref()),
            Err(_) if self.is_over => {}
            Err(what) => self.fail(format!("c{client} reads from n{node} {what}")),
        }
        reply
    }

    /// A command has come to its node.
    pub(crate) fn arrive(&mut self, id: usize, message: Message) {
        let connection = &self.network.connections[id];
        let node = &mut self.nodes[connection.node];
        if node.is_down() || node.life != connection.life {
            // The node's machine does not know the connection, and answers with a reset.
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
        if message.verb == Verb::Listen {
            return self.listens(id, message);
        }
        let node = self.network.connections[id].node;
        let executed = self.nodes[node].execute(message, self.now);
        let words = self.witness.describe(message);
        let reply = executed.reply.clone();
        let told = self.witness.told(&reply);
        self.note(|| format!("       n{node} #{id} {words}: {told}"));
        self.executed(node, message, &executed);
        self.reply(id, executed.reply);
        self.rings(node);
    }

    /// A node replies on a connection.
    pub(super) fn reply(&mut self, id: usize, value: Reply) {
        let connection = &self.network.connections[id];
        let (client, node) = (connection.client, connection.node);
        let loss = (self.plan.weather.lost_reply, "lost reply");
        let fate = self.fate(client, node, loss);
        if let Some(at) = self.network.connections[id].back.take(fate) {
            let connection = id;
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

    /// All connections of a node end. Clients that it can reach are told.
    pub(crate) fn disconnect(&mut self, node: usize) {
        for id in std::mem::take(&mut self.network.open[node]) {
            let client = self.network.connections[id].client;
            let at = match self.partition(client, node) {
                Some((_, false)) => continue,
                Some((end, true)) => end,
                None => self.now,
            };
            let mut at = at + self.delay();
            // The end comes behind what the node has sent, or in place of it.
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
            unread: Unread::default(),
            bell: None,
            waiter: None,
        });
        self.network.open[node].push(id);
        self.note(|| format!("c{client} == n{node} #{id} connected"));
        id
    }
}
