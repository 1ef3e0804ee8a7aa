//! The network between clients and nodes: each connection keeps its order, and nothing else does.

use super::prelude::*;
use super::unread::Unread;
use super::world::Wait;

pub(super) struct Network {
    pub(super) connections: Vec<Connection>,
    pub(super) open: Vec<Vec<usize>>,
}

#[derive(Default)]
pub(super) struct Connection {
    pub(super) client: usize,
    pub(super) node: usize,
    /// The life of the node's process that it was made in.
    life: u32,
    there: Direction,
    back: Direction,
    /// Whether the client has learnt that the node has ended it.
    pub(super) is_reset: bool,
    pub(super) is_closed: bool,
    pub(super) inbox: VecDeque<Reply>,
    /// The commands whose replies were not read.
    pub(super) unread: Unread,
    pub(super) bell: Option<String>,
    pub(super) waiter: Option<Wait>,
}

#[derive(Default)]
struct Direction {
    /// When the last message arrives: the next one can't be earlier.
    arrival: Nanos,
    /// Whether nothing arrives any more.
    is_lost: bool,
}

impl Direction {
    /// When a message arrives that would arrive at this time, if at all.
    fn take(&mut self, at: Option<Nanos>) -> Option<Nanos> {
        let Some(at) = at.filter(|_| !self.is_lost) else {
            self.is_lost = true;
            return None;
        };
        self.arrival = at.max(self.arrival + 1);
        Some(self.arrival)
    }
}

impl State {
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
        // A Pareto distribution: the longer, the rarer, and nothing is too long to be drawn.
        self.count("long delay");
        let factor = (1.0 - self.rng.f64()).powf(-1.5) * 3.0;
        let drawn = Duration::from_nanos(delay).as_secs_f64() * factor;
        nanos(Duration::from_secs_f64(drawn.min(1e6))).min(self.plan.weather.longest)
    }

    /// Until when nothing gets through between the two, and whether it does so then.
    pub(super) fn partition(&self, client: usize, node: usize) -> Option<(Nanos, bool)> {
        let episodes = self.plan.episodes.iter();
        let mut now = episodes.filter(|e| (e.start..e.end).contains(&self.now));
        now.find_map(|episode| {
            if let Trouble::Partition {
                client: cut,
                node: from,
                holds,
            } = episode.trouble
            {
                return ((cut, from) == (client, node)).then_some((episode.end, holds));
            }
            None
        })
    }

    /// When something arrives that is sent now, if it does; by how likely it is lost, and what that is called.
    fn arrival(&mut self, id: usize, (loss, name): (u32, &'static str)) -> Option<Nanos> {
        let connection = &self.network.connections[id];
        let (client, node) = (connection.client, connection.node);
        let delay = self.long_delay();
        match self.partition(client, node) {
            Some((end, true)) => {
                self.count("message held back");
                Some(end + delay)
            }
            Some((_, false)) => {
                self.count("message cut off");
                None
            }
            None if self.is_unlucky(loss) => {
                self.count(name);
                None
            }
            None => Some(self.now + delay),
        }
    }

    /// Puts a command on its way; behind others of the same write, or not.
    pub(super) fn send(&mut self, id: usize, message: Message, is_behind: bool) {
        let connection = &self.network.connections[id];
        let (client, node, verb) = (connection.client, connection.node, message.verb);
        let unread = &mut self.network.connections[id].unread;
        match unread.sends(&message, is_behind) {
            Ok(Some(what)) => self.count(what),
            Ok(None) => {}
            Err(when) => self.fail(format!("P8: c{client} sends {verb:?} to n{node} {when}")),
        }
        self.sent(node, &message);
        if verb == Verb::Listen {
            self.begins_to_listen(id, &message);
        }
        if verb == Verb::Retake {
            self.count("SET repeated");
        }
        let at = self.arrival(id, (self.plan.weather.lost_request, "lost request"));
        let at = self.network.connections[id].there.take(at);
        let words = self.witness.describe(&message);
        let there = at.map_or("lost".to_owned(), |at| {
            format!(
                "there in {:?}",
                Duration::from_nanos(at.saturating_sub(self.now))
            )
        });
        self.note(|| format!("c{client} -> n{node} #{id} {words}, {there}"));
        if let Some(at) = at {
            self.push(at, Event::Request(id, message));
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
            Err(what) => self.fail(format!("P8: c{client} reads from n{node} {what}")),
        }
        reply
    }

    pub(super) fn arrive(&mut self, id: usize, message: Message) {
        let connection = &self.network.connections[id];
        let node = &mut self.nodes[connection.node];
        if node.down > 0 || node.life != connection.life {
            // The node's machine does not know the connection, and answers with a reset.
            if self.partition(connection.client, connection.node).is_none() {
                let at = self.now + self.delay();
                self.push(at, Event::Reset(id));
            }
        } else if node.hung > 0 {
            node.backlog.push_back((id, message));
        } else {
            self.execute(id, &message);
        }
    }

    pub(super) fn execute(&mut self, id: usize, message: &Message) {
        if message.verb == Verb::Listen {
            return self.listens(id, message);
        }
        let node = self.network.connections[id].node;
        let executed = self.nodes[node].execute(message, self.now);
        let words = self.witness.describe(message);
        let told = self.witness.told(&executed.reply);
        self.note(|| format!("       n{node} #{id} {words}: {told}"));
        self.executed(node, message, &executed);
        self.reply(id, executed.reply);
        self.rings(node);
    }

    pub(super) fn reply(&mut self, id: usize, value: Reply) {
        let at = self.arrival(id, (self.plan.weather.lost_reply, "lost reply"));
        let connection = &mut self.network.connections[id];
        if let Some(at) = connection.back.take(at) {
            self.push(at, Event::Reply(id, value));
        } else {
            let node = connection.node;
            self.note(|| format!("       n{node} #{id} the reply is lost"));
        }
    }

    pub(super) fn answer(&mut self, id: usize, value: Reply) {
        let connection = &mut self.network.connections[id];
        if !connection.is_closed && !connection.is_reset {
            connection.inbox.push_back(value);
            self.notify(id);
        }
    }

    pub(super) fn reset(&mut self, id: usize) {
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

    /// Since when one end of a connection can learn that the other has gone, if it ever does.
    pub(super) fn end_can_be_known(&self, id: usize) -> Option<Nanos> {
        let connection = &self.network.connections[id];
        match self.partition(connection.client, connection.node) {
            Some((end, holds)) => holds.then_some(end),
            None => Some(self.now),
        }
    }

    /// All connections of a node end. Clients that it can reach are told.
    pub(super) fn disconnect(&mut self, node: usize) {
        for id in std::mem::take(&mut self.network.open[node]) {
            let Some(at) = self.end_can_be_known(id) else {
                continue;
            };
            let mut at = at + self.delay();
            // The end comes behind what the node has sent, or in place of it.
            if self.rng.bool() {
                at = at.max(self.network.connections[id].back.arrival + 1);
            }
            self.push(at, Event::Reset(id));
        }
    }

    pub(super) fn open(&mut self, client: usize, node: usize) -> usize {
        let id = self.network.connections.len();
        self.network.connections.push(Connection {
            client,
            node,
            life: self.nodes[node].life,
            ..Connection::default()
        });
        self.network.open[node].push(id);
        self.note(|| format!("c{client} == n{node} #{id} connected"));
        id
    }
}
