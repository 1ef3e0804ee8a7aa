//! A server in the place of real ones, for the unit tests of nodes.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::attempt::{Attempt, Purpose};
use super::command::{self, probe};
use super::key_report::KeyReport;
use super::lanes::Lanes;
use super::request::Verb;
use super::round::ask_one;
use super::{Node, Setup, lanes};
use crate::claim::Claim;
use crate::clock::{Clock, FakeClock, Timers, Timestamp, VirtualTime, one_thread};
use crate::error::{NodeError, Vote};
use crate::sync::AtomicBool;
use crate::wire::pack::Packed;
use crate::wire::resp::{self, Reply, ServerError};
use crate::wire::transport::{Connect, Transport, closed, unconnected};

pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// An extension that is in no hurry.
pub(super) const KEEP: Verb = Verb::Keep {
    connect_by: Timestamp::from_nanos(u64::MAX),
};

/// What a server does next.
#[derive(Debug, Clone)]
pub(crate) enum Event {
    Says(Reply),
    /// The connection ends, or what comes is no reply.
    Fails(NodeError),
    /// It takes no connection.
    Away(NodeError),
    /// Nothing comes in time.
    Late,
    /// It takes nothing in, in time.
    Stuck,
    /// A write finds that the connection has ended.
    Breaks,
    Panics,
    /// A write to it panics.
    Tears,
}

pub(crate) use Event::{Breaks, Fails, Late, Panics, Says, Stuck, Tears};

/// What a server does at each step of a connection, unless something is on its list: 0 is that the connection is made, 1 the answer
/// to the introduction, and all others are replies to commands.
pub(crate) type Mood = dyn Fn(usize) -> Event + Send + Sync;

/// A server. Its clock goes on while a client waits for its replies.
pub(crate) struct Server {
    /// Its place among the nodes of a cluster.
    place: usize,
    pub(crate) clock: FakeClock,
    mood: Mutex<Box<Mood>>,
    /// What the server does first, on whichever connection, but for the introductions.
    pub(crate) events: Mutex<VecDeque<Event>>,
    /// How long after a command its reply comes.
    pub(crate) distance: Mutex<Duration>,
    /// How long a connection to it takes.
    pub(crate) connecting: Mutex<Duration>,
    /// Connections up to this one are silent for good.
    pub(crate) forgotten: AtomicUsize,
    /// Connections up to this one were closed while they were idle.
    pub(crate) closed: AtomicUsize,
    pub(crate) sent: Arc<Mutex<Vec<Write>>>,
    /// The lanes of the node for rounds to several nodes.
    pub(crate) lanes: Arc<Lanes>,
    /// When connections were asked for, and whether no batch had a lane then.
    pub(crate) connects: Mutex<Vec<(Duration, bool)>>,
    /// For each wait for a reply that did not come, whether no batch had a lane.
    pub(crate) waits: Mutex<Vec<bool>>,
}

/// The place of a node, and the commands that it was sent in one write.
pub(crate) type Write = (usize, Vec<Vec<u8>>);

struct Connection {
    server: Arc<Server>,
    /// From 1.
    number: usize,
    /// How many steps are done.
    steps: usize,
    /// When something was sent last.
    sent_at: Timestamp,
}

impl Server {
    pub(crate) fn new(mood: impl Fn(usize) -> Event + Clone + Send + Sync + 'static) -> Arc<Self> {
        let [server] = Self::cluster(1, move |_, step| mood(step));
        server
    }

    /// Servers in the canonical order, whose moods depend on their places. They have one clock, one list of what they were sent, and
    /// one set of lanes, for pools of this size.
    pub(crate) fn cluster<const N: usize>(
        pool_size: u32,
        mood: impl Fn(usize, usize) -> Event + Clone + Send + Sync + 'static,
    ) -> [Arc<Self>; N] {
        let (clock, sent) = (FakeClock::new(), Arc::default());
        let common = Arc::new(lanes(pool_size));
        std::array::from_fn(|place| {
            let mood = mood.clone();
            Arc::new(Self {
                place,
                clock: clock.clone(),
                mood: Mutex::new(Box::new(move |step| mood(place, step))),
                events: Mutex::default(),
                distance: Mutex::default(),
                connecting: Mutex::default(),
                forgotten: AtomicUsize::new(0),
                closed: AtomicUsize::new(0),
                sent: Arc::clone(&sent),
                lanes: Arc::clone(&common),
                connects: Mutex::default(),
                waits: Mutex::default(),
            })
        })
    }

    /// A server that does as this list says, and then nothing more.
    pub(crate) fn of_list(events: impl IntoIterator<Item = Event>) -> Arc<Self> {
        let server = Self::new(|step| if step < 2 { Says(Reply::Nil) } else { Late });
        server.events.lock().extend(events);
        server
    }

    pub(crate) fn set(&self, mood: impl Fn(usize) -> Event + Send + Sync + 'static) {
        *self.mood.lock() = Box::new(mood);
    }

    pub(crate) fn connections(&self) -> usize {
        self.connects.lock().len()
    }

    /// How many connections are open.
    pub(crate) fn open(self: &Arc<Self>) -> usize {
        // One is the server itself, and one the node has.
        Arc::strong_count(self).saturating_sub(2)
    }
}

impl Connect for Arc<Server> {
    fn connect(&self, deadline: Timestamp) -> Result<Box<dyn Transport>, NodeError> {
        let try_of = (self.clock.elapsed(), self.lanes.are_idle());
        self.connects.lock().push(try_of);
        let left = deadline.saturating_since(self.clock.now());
        let connecting = *self.connecting.lock();
        self.clock.advance(connecting.min(left));
        if connecting > left {
            return Err(NodeError::silence());
        }
        if let Event::Away(error) = (self.mood.lock())(0) {
            return Err(error);
        }
        Ok(Box::new(Connection {
            server: Arc::clone(self),
            number: self.connections(),
            steps: 1,
            sent_at: Timestamp::from_nanos(0),
        }))
    }
}

impl Connection {
    fn next(&self) -> Event {
        let of_list = self.server.events.lock().front().cloned();
        let of_list = of_list.filter(|_| self.steps > 1);
        of_list.unwrap_or_else(|| (self.server.mood.lock())(self.steps))
    }

    /// What is next is done.
    fn step(&mut self) {
        if self.steps > 1 {
            self.server.events.lock().pop_front();
        }
        self.steps = self.steps.saturating_add(1);
    }
}

impl Transport for Connection {
    fn send(&mut self, commands: &[u8], _: Timestamp) -> Result<(), NodeError> {
        match self.next() {
            Stuck => return Err(NodeError::silence()),
            Breaks => {
                self.server.events.lock().pop_front();
                return Err(closed(io::ErrorKind::BrokenPipe));
            }
            Tears => {
                self.server.events.lock().pop_front();
                panic!("as the list says");
            }
            Says(_) | Fails(_) | Event::Away(_) | Late | Panics => {}
        }
        let commands = resp::commands(commands).unwrap();
        let commands = commands.into_iter().map(<[u8]>::to_vec);
        let write = (self.server.place, commands.collect());
        self.server.sent.lock().push(write);
        self.sent_at = self.server.clock.now();
        Ok(())
    }

    fn wait_for_reply(&mut self, until: Timestamp, _: Timestamp) -> bool {
        let is_forgotten = self.number <= self.server.forgotten.load(Ordering::SeqCst);
        let is_late = is_forgotten || matches!(self.next(), Late);
        if is_late && !is_forgotten {
            self.step();
        }
        let server = &self.server;
        let due = self.sent_at.saturating_add(*server.distance.lock());
        let is_there = !is_late && due <= until;
        if !is_there {
            server.waits.lock().push(server.lanes.are_idle());
        }
        let end = if is_there { due } else { until };
        server
            .clock
            .advance(end.saturating_since(server.clock.now()));
        is_there
    }

    fn recv(&mut self, deadline: Timestamp) -> Result<Reply, NodeError> {
        if !self.wait_for_reply(deadline, deadline) {
            return Err(NodeError::silence());
        }
        let event = self.next();
        self.step();
        match event {
            Says(reply) => Ok(reply),
            Fails(error) | Event::Away(error) => Err(error),
            Late | Stuck | Breaks | Tears => Err(NodeError::silence()),
            Panics => panic!("as the list says"),
        }
    }

    fn has_surplus(&self) -> bool {
        false
    }

    fn is_quiet(&mut self) -> bool {
        self.number > self.server.closed.load(Ordering::SeqCst)
    }
}

/// A node in front of this server, with one slot and a timeout of a second, unless `adapt` says otherwise.
pub(crate) fn node(server: &Arc<Server>, adapt: impl FnOnce(&mut Setup<'_>)) -> Arc<Node> {
    let clock = Clock::from(server.clock.clone());
    node_on(&clock, &server.clock, server, adapt)
}

/// The same on another clock, with timers on this one.
pub(crate) fn node_on(
    clock: &Clock,
    timers: &FakeClock,
    server: &Arc<Server>,
    adapt: impl FnOnce(&mut Setup<'_>),
) -> Arc<Node> {
    let mut setup = Setup {
        name: format!("node-{}", server.place).into(),
        connector: Box::new(Arc::clone(server)),
        pool_size: 1,
        common_lanes: Arc::clone(&server.lanes),
        timeout: SECOND,
        connect_timeout: SECOND.saturating_mul(4),
        clock,
        timers: &Timers::Virtual(Arc::new(timers.clone())),
        thread: &one_thread("slots").unwrap(),
    };
    adapt(&mut setup);
    Node::new(setup)
}

/// What the node answers to a probe that is sent with this verb.
pub(super) fn asked(node: &Arc<Node>, verb: &Verb) -> KeyReport {
    ask_one(node, &probe(), verb.clone())
}

/// The same for a verb that the server is about to answer.
pub(super) fn answered(server: &Server, node: &Arc<Node>, verb: &Verb) -> bool {
    let reply = if let Verb::Take(_) = verb {
        number(1)
    } else {
        Says(Reply::Int(1))
    };
    server.events.lock().push_back(reply);
    asked(node, verb).has_replied
}

pub(crate) fn error(text: &str) -> Event {
    Says(Reply::Error(ServerError::new(text)))
}

pub(crate) fn closes() -> Event {
    Fails(closed(io::ErrorKind::ConnectionReset))
}

pub(crate) fn is_away() -> Event {
    Event::Away(unconnected(io::ErrorKind::ConnectionRefused.into()))
}

/// That another holder has the key for so many milliseconds; or that there is none, if it is -2.
pub(crate) fn number(number: i64) -> Event {
    Says(Reply::Array(vec![Reply::Int(number)]))
}

/// The number in the answer.
pub(crate) fn number_of(report: KeyReport) -> u128 {
    let KeyReport { vote, .. } = report;
    let Vote::Held { remaining, .. } = &*vote else {
        panic!("{}", *vote);
    };
    remaining.unwrap().as_millis()
}

/// The command that releases the lock with this key.
pub(crate) fn release_of(key: &str) -> Packed {
    command::release(&Claim::of_key(key))
}

pub(crate) fn attempt_on(key: &str) -> Arc<Attempt> {
    Attempt::new(Claim::of_key(key), SECOND, Purpose::Lock)
}

/// An acquire of the lock with this key.
pub(super) fn acquire_of(key: &str) -> Verb {
    Verb::Take(attempt_on(key))
}

/// A wait for a release, for so long, that may be given up by this flag.
pub(super) fn listen(patience: Duration, given_up: Option<Arc<AtomicBool>>) -> Verb {
    Verb::Listen(Arc::new(super::request::Listen {
        bell: "bell".into(),
        until: Timestamp::from_nanos(0),
        patience,
        given_up,
    }))
}
