//! Nodes for unit tests, in this process and without a server. They need the cargo feature `fake`.
//!
//! A [`FakeNode`] is asked through the same commands, connection pools and code paths as a Redis server, and can be
//! made to fail in the ways that servers fail. With a [`FakeClock`] a test moves time itself. `docs/guide.md` has a program with
//! its tests.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::wire::resp::Reply;

mod connection;
mod faults;
pub(crate) mod store;

use self::store::Store;
use self::store::process::Process;
pub use crate::clock::FakeClock;
use crate::clock::{Clock, Timestamp};
use crate::sync::{AtomicU64, Condvar, Mutex};
use crate::value::Content;

/// How long a wake takes in real time. Servers have a whole release before the client that one of them wakes can ask; fake nodes
/// execute it one after the other, while the caller sends.
const WAY_OF_A_WAKE: Duration = Duration::from_millis(1);

/// A simulated Redis server in this process.
///
/// Clones are the same node. A manager over fake nodes is made with [`Builder::fakes`](crate::Builder::fakes).
///
/// The faults [`refuse`](Self::refuse), [`hang`](Self::hang), [`delay`](Self::delay) and
/// [`lose_replies`](Self::lose_replies) replace each other and last until [`recover`](Self::recover) or a restart.
/// A manager leaves a node that failed out for 20 ms and more, and then tries it in the background: right after
/// `recover` its vote can still be [`BreakerOpen`](crate::NodeError::BreakerOpen).
///
/// ```
/// use std::time::Duration;
/// use redlatch::{Error, LockManager};
/// use redlatch::fake::FakeNode;
///
/// let nodes = FakeNode::cluster(5);
/// let manager = LockManager::builder().fakes(&nodes).build()?;
/// let second = Duration::from_secs(1);
///
/// nodes[0].refuse();
/// nodes[1].refuse();
/// assert!(manager.try_lock("report", second).is_ok());
///
/// nodes[2].refuse();
/// assert!(matches!(manager.try_lock("report", second), Err(Error::Unavailable { .. })));
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone)]
pub struct FakeNode {
    server: Arc<Server>,
}

struct Server {
    id: u64,
    name: String,
    clock: Clock,
    /// The same clock, if it is one that a test moves.
    fake_clock: Option<FakeClock>,
    state: Mutex<NodeState>,
    changed: Condvar,
}

struct NodeState {
    store: Store,
    /// How far the node's own clock is ahead of the manager's, which began later than the Unix epoch.
    ahead: Duration,
    fault: Fault,
    /// Commands that arrived while the node hangs, each with its connection.
    backlog: VecDeque<(usize, Vec<u8>)>,
    /// The open connections, each with the replies that are on their way and when they are due.
    connections: HashMap<usize, VecDeque<(Timestamp, Reply)>>,
    connected: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    Refuse,
    Hang,
    Delay(Duration),
    LoseReplies,
}

impl FakeNode {
    /// Makes a node that is up, empty, and on real time.
    ///
    /// ```
    /// # use std::time::Duration;
    /// use redlatch::{LockManager, fake::FakeNode};
    /// let node = FakeNode::new();
    /// let manager = LockManager::builder().fake(&node).build()?;
    /// assert!(manager.try_lock("report", Duration::from_secs(10)).is_ok());
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn new() -> Self {
        Self::with_clock(None)
    }

    /// Makes `n` nodes that are up, empty, and on real time.
    ///
    /// ```
    /// # use std::time::Duration;
    /// use redlatch::{LockManager, fake::FakeNode};
    /// let nodes = FakeNode::cluster(5);
    /// let manager = LockManager::builder().fakes(&nodes).build()?;
    /// assert_eq!(manager.lock("report", Duration::from_secs(10))?.votes().len(), 5);
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn cluster(n: usize) -> Vec<Self> {
        (0..n).map(|_| Self::new()).collect()
    }

    /// Makes `n` nodes that are up, empty, and on `clock`; managers and guards over them are on it too.
    ///
    /// ```
    /// # use std::time::Duration;
    /// use redlatch::LockManager;
    /// use redlatch::fake::{FakeClock, FakeNode};
    /// let clock = FakeClock::new();
    /// let nodes = FakeNode::cluster_on(5, &clock);
    /// let manager = LockManager::builder().fakes(&nodes).build()?;
    /// let guard = manager.lock("report", Duration::from_secs(10))?;
    /// clock.advance(Duration::from_secs(10));
    /// assert!(guard.remaining().is_zero());
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn cluster_on(n: usize, clock: &FakeClock) -> Vec<Self> {
        let node = |_| Self::with_clock(Some(clock.clone()));
        (0..n).map(node).collect()
    }

    fn with_clock(fake_clock: Option<FakeClock>) -> Self {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let clock = fake_clock.clone().map_or_else(Clock::system, Clock::from);
        let wall = Duration::from_micros(clock.wall_micros());
        let now = Duration::from_nanos(clock.now().as_nanos());
        let state = NodeState {
            store: Store::of(Process::new(id, wall)),
            ahead: wall.saturating_sub(now),
            fault: Fault::None,
            backlog: VecDeque::new(),
            connections: HashMap::new(),
            connected: 0,
        };
        Self {
            server: Arc::new(Server {
                id,
                name: format!("fake-{id}"),
                clock,
                fake_clock,
                state: Mutex::new(state),
                changed: Condvar::new(),
            }),
        }
    }

    /// Returns the name by which reports and errors call the node.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let nodes = redlatch::fake::FakeNode::cluster(3);
    /// # let manager = redlatch::LockManager::builder().fakes(&nodes).build()?;
    /// let guard = manager.lock("report", Duration::from_secs(10))?;
    /// assert_eq!(&*guard.votes()[0].node, nodes[0].name());
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn name(&self) -> &str {
        &self.server.name
    }

    /// Puts the key of another holder on the node, whatever was there: the `resource` with the manager's key prefix.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlatch::{Error, LockManager};
    /// # let nodes = redlatch::fake::FakeNode::cluster(3);
    /// # let manager = LockManager::builder().fakes(&nodes).build()?;
    /// let ttl = Duration::from_secs(10);
    /// nodes[0].hold("report", "someone else", ttl);
    /// nodes[1].hold("report", "someone else", ttl);
    /// assert!(matches!(manager.try_lock("report", ttl), Err(Error::Held { .. })));
    /// assert_eq!(nodes[0].token_of("report").as_deref(), Some("someone else"));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn hold(&self, resource: &str, token: &str, ttl: Duration) {
        self.with_store(|store, now| store.put(resource, token, now.saturating_add(ttl)));
    }

    /// Returns the token of a key, as [`LockGuard::token`](crate::LockGuard::token) does, or the value of another
    /// program; if the key is there and has not expired. [`LockManager::status`](crate::LockManager::status) tells the
    /// label of the holder.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let nodes = redlatch::fake::FakeNode::cluster(3);
    /// # let manager = redlatch::LockManager::builder().fakes(&nodes).build()?;
    /// let guard = manager.lock("report", Duration::from_secs(10))?;
    /// assert_eq!(nodes[0].token_of("report").as_deref(), Some(guard.token()));
    /// guard.unlock()?;
    /// assert_eq!(nodes[0].token_of("report"), None);
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn token_of(&self, resource: &str) -> Option<String> {
        let text = self.with_store(|store, now| store.value(resource, now))?;
        let content = Content::read(text.as_bytes());
        Some(content.token(|| text.clone()))
    }

    /// Returns how long a key has left, if it is there and has not expired.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let clock = redlatch::fake::FakeClock::new();
    /// # let nodes = redlatch::fake::FakeNode::cluster_on(3, &clock);
    /// # let manager = redlatch::LockManager::builder().fakes(&nodes).build()?;
    /// let guard = manager.lock("report", Duration::from_secs(10))?;
    /// clock.advance(Duration::from_secs(4));
    /// assert_eq!(nodes[0].ttl_of("report"), Some(Duration::from_secs(6)));
    /// # Ok::<(), redlatch::Error>(())
    /// ```
    pub fn ttl_of(&self, resource: &str) -> Option<Duration> {
        self.with_store(|store, now| {
            let entry = store.get(resource, now)?;
            Some(entry.until.saturating_sub(now))
        })
    }

    /// The key of the canonical order: nodes that were made first come first.
    pub(crate) fn identity(&self) -> String {
        format!("fake-{:020}", self.server.id)
    }

    pub(crate) fn fake_clock(&self) -> Option<&FakeClock> {
        self.server.fake_clock.as_ref()
    }

    /// Runs this with the keys, and the time on the node's own clock.
    fn with_store<T>(&self, run: impl FnOnce(&mut Store, Duration) -> T) -> T {
        let mut state = self.server.state.lock();
        let now = self.time(&state);
        run(&mut state.store, now)
    }

    fn time(&self, state: &NodeState) -> Duration {
        let now = Duration::from_nanos(self.server.clock.now().as_nanos());
        now.saturating_add(state.ahead)
    }

    /// Executes one packed command. Each reply goes to its connection, if that is still there.
    fn execute(&self, state: &mut NodeState, connection: usize, command: &[u8]) {
        let now = self.time(state);
        if let Some(reply) = state.store.serve(connection, command, now) {
            self.reply(state, connection, reply, Duration::ZERO);
        }
        let way = match self.server.clock {
            Clock::System(_) => WAY_OF_A_WAKE,
            Clock::Virtual(_) => Duration::ZERO,
        };
        for (connection, reply) in state.store.woken(now) {
            self.reply(state, connection, reply, way);
        }
        self.server.changed.notify_all();
    }

    /// Replies after this time, and that of a fault.
    fn reply(&self, state: &mut NodeState, connection: usize, reply: Reply, way: Duration) {
        let delay = match state.fault {
            Fault::LoseReplies => return,
            Fault::Delay(span) => span.saturating_add(way),
            Fault::None | Fault::Refuse | Fault::Hang => way,
        };
        let due = self.server.clock.now().saturating_add(delay);
        if let Some(replies) = state.connections.get_mut(&connection) {
            replies.push_back((due, reply));
        }
    }
}

impl Default for FakeNode {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for FakeNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FakeNode").field(&self.name()).finish()
    }
}
