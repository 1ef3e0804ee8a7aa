//! One Redis server as the algorithm sees it: requests by a deadline, and replies that are read as votes.
//!
//! From the top down:
//!
//! - `verbs`, `wait`: the verbs. `command` packs their commands, and `reply` reads the replies: what a node says of locks is read
//!   there and nowhere else. The reply to a raw command is handed up as it came.
//! - `round`: requests to several nodes at once, and those of several threads together. `lanes` says which thread sends.
//! - `asked`: which nodes are asked, and that each server has one vote.
//! - `exchange`: requests to one node and their replies. The table of its states is at the head of the file.
//! - `attempt`: an attempt to take a lock, packed once. `request`: a command, and what follows from its verb.
//! - `key_report`: what a node says of a request.
//! - `pool`: the slots for connections. `connection`: what a slot holds, and the rule for when it must not be used again.
//! - `without_login`: commands on a connection without a login.
//! - `undo`: the undos of commands without an answer. The table of their ends is at the head of the file.
//! - `retry_queue`: releases and undos that go again until the node has answered. `background` sends them, and the probes.
//! - `gate`: what a node remembers of connections that could not be made. The breaker, for all failures, is in this file.
//! - `pace`: how fast the node answered last, for messages only.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use scheduled_thread_pool::ScheduledThreadPool;

pub(crate) mod asked;
mod attempt;
pub(crate) mod command;
mod connection;
#[cfg(test)]
pub(crate) mod doubles;
mod exchange;
mod gate;
pub(crate) mod key_report;
pub(crate) mod lanes;
#[cfg(test)]
mod lanes_model;
mod pace;
mod pool;
mod reply;
#[cfg(all(any(test, fuzzing), feature = "fake", target_os = "linux"))]
pub(crate) mod reply_path;
mod request;
mod retry_queue;
mod round;
#[cfg(test)]
mod sizes;
mod undo;
pub(crate) mod verbs;
pub(crate) mod wait;
mod without_login;

pub(crate) use self::attempt::{Attempt, Purpose};
use self::gate::Gate;
use self::lanes::Lanes;
use self::pace::Pace;
use self::pool::Pool;
pub(crate) use self::reply::one_vote;
use self::retry_queue::RetryQueue;
pub(crate) use self::undo::{Leftover, Receipt};
use crate::clock::{self, Clock, Timers, Timestamp};
use crate::error::{CONNECT_TIMEOUT, NODE_TIMEOUT, NodeError};
use crate::stats::NodeRecorder;
use crate::sync::{self, AtomicBool, AtomicU32, AtomicU64, Mutex, OnceLock};
use crate::wire::transport::Connect;

/// A node: its connections, and what is known of its health.
pub(crate) struct Node {
    name: Arc<str>,
    pool: Pool,
    connector: Box<dyn Connect>,
    timeout: Duration,
    connect_timeout: Duration,
    clock: Clock,
    timers: Timers,
    /// Goes up when the server has closed connections. Idle connections of an earlier generation are discarded.
    generation: AtomicU64,
    /// The breaker, which keeps callers away: how the node failed, from then until its next reply.
    failure: Mutex<Option<Failure>>,
    /// Whether there is one.
    has_failed: AtomicBool,
    pace: Pace,
    gate: Gate,
    /// How many connections are busy with listening for releases.
    listening: AtomicU32,
    /// The generation of the connections in which the server refused to block.
    listening_refused: AtomicU64,
    retry_queue: Mutex<RetryQueue>,
    /// The thread that probes this node and repeats releases. It is started when it is needed first, and ends with the node.
    background: OnceLock<Timers>,
    /// For requests to this node alone.
    lanes: Lanes,
    /// For requests to several nodes of the manager.
    common_lanes: Arc<Lanes>,
    pub(crate) stats: NodeRecorder,
    /// For scheduled probes, which must not keep the node alive.
    me: Weak<Self>,
}

/// How a node failed.
struct Failure {
    /// The error that has opened the breaker.
    opening: Arc<str>,
    /// The last time-out since then. If there is one, the node is known to hang, and a connection to it gets no time of its own. A
    /// silence on an old connection does not count, because something on the way may have forgotten the connection.
    silence: Option<NodeError>,
}

/// What a node is made with. All but the name and the connector are the same for all nodes of a manager.
pub(crate) struct Setup<'a> {
    pub(crate) name: Arc<str>,
    pub(crate) connector: Box<dyn Connect>,
    pub(crate) pool_size: u32,
    pub(crate) common_lanes: Arc<Lanes>,
    pub(crate) timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) clock: &'a Clock,
    pub(crate) timers: &'a Timers,
    /// The thread on which r2d2 makes its slots.
    pub(crate) thread: &'a Arc<ScheduledThreadPool>,
}

/// Lanes for nodes with pools of this size.
pub(crate) fn lanes(pool_size: u32) -> Lanes {
    Lanes::new(usize::try_from(pool_size).unwrap_or(usize::MAX))
}

impl Node {
    pub(crate) fn new(setup: Setup<'_>) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            stats: NodeRecorder::new(&[("node", &setup.name)]),
            name: setup.name,
            pool: Pool::new(setup.pool_size, setup.thread),
            connector: setup.connector,
            timeout: setup.timeout,
            connect_timeout: setup.connect_timeout,
            clock: setup.clock.clone(),
            timers: setup.timers.clone(),
            generation: AtomicU64::new(0),
            failure: Mutex::default(),
            has_failed: AtomicBool::new(false),
            pace: Pace::default(),
            gate: Gate::default(),
            listening: AtomicU32::new(0),
            listening_refused: AtomicU64::new(u64::MAX),
            retry_queue: Mutex::new(RetryQueue::new()),
            background: OnceLock::new(),
            lanes: lanes(setup.pool_size),
            common_lanes: setup.common_lanes,
            me: Weak::clone(me),
        })
    }

    /// What remains when nobody asks the node for anything, although it should not.
    #[cfg(test)]
    pub(crate) fn remains(&self) -> Option<String> {
        let name = &self.name;
        if !self.lanes.are_idle() || !self.common_lanes.are_idle() {
            return Some(format!("a lane or a job at {name}"));
        }
        let is_left = self.listening.load(Ordering::Acquire) > 0;
        is_left.then(|| format!("one who listens at {name}"))
    }

    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// How long the last connection took.
    pub(crate) fn last_connection(&self) -> Option<Duration> {
        self.pace.connection.last()
    }

    /// Whether the breaker is closed: the node has not failed lately.
    pub(crate) fn is_well(&self) -> bool {
        !self.has_failed.load(Ordering::Acquire)
    }

    /// Why the breaker is open, if it is.
    pub(crate) fn recent_failure(&self) -> Option<Arc<str>> {
        self.of_failure(|failure| Some(Arc::clone(&failure.opening)))
    }

    /// The last time-out of a node that is known to hang.
    fn known_silence(&self) -> Option<NodeError> {
        self.of_failure(|failure| failure.silence.clone())
    }

    fn of_failure<T>(&self, part: impl FnOnce(&Failure) -> Option<T>) -> Option<T> {
        if self.is_well() {
            return None;
        }
        self.failure.lock().as_ref().and_then(part)
    }

    /// Opens the breaker if the error is one of the node. Returns whether it was closed before.
    fn open_breaker(&self, error: &NodeError) -> bool {
        let is_hanging = error.is_silence() && !error.is_of_old_connection();
        let silence = is_hanging.then(|| error.clone());
        let mut failure = self.failure.lock();
        if let Some(failure) = &mut *failure {
            failure.silence = silence.or(failure.silence.take());
            return false;
        }
        if !error.is_of_node() {
            return false;
        }
        *failure = Some(Failure {
            opening: error.to_string().into(),
            silence,
        });
        self.has_failed.store(true, Ordering::Release);
        drop(failure);
        self.plan_probe();
        self.stats.opened.count();
        true
    }

    /// Closes the breaker, because the node has answered. Returns whether it was open.
    fn close_breaker(&self) -> bool {
        if self.is_well() {
            return false;
        }
        let mut failure = self.failure.lock();
        let was_open = failure.take().is_some();
        self.has_failed.store(false, Ordering::Release);
        drop(failure);
        if was_open {
            self.stats.closed.count();
        }
        was_open
    }

    /// Returns the error if no answer came in time.
    fn silence(&self, idle: Option<Duration>) -> NodeError {
        NodeError::TimedOut {
            option: Some(NODE_TIMEOUT),
            limit: self.timeout,
            took: self.pace.answer.last(),
            idle,
            lacks_handshake: false,
        }
    }

    /// Returns the error if no connection was made in time. `silence` is the error of the connector.
    fn unconnected(&self, silence: &NodeError) -> NodeError {
        NodeError::TimedOut {
            option: Some(CONNECT_TIMEOUT),
            limit: self.connect_timeout,
            took: self.pace.connection.last(),
            idle: None,
            lacks_handshake: silence.lacks_handshake(),
        }
    }

    /// Discards the idle connections of `generation` and before.
    fn retire(&self, generation: u64) {
        // If another thread was first, the connections of the next generation are good.
        let next = generation.wrapping_add(1);
        let (set, seen) = (Ordering::AcqRel, Ordering::Acquire);
        let _already_retired = self
            .generation
            .compare_exchange(generation, next, set, seen);
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node")
            .field("name", &self.name)
            .field("closed", &self.is_well())
            .finish_non_exhaustive()
    }
}
