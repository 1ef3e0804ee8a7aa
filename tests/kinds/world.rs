//! A lock of each kind, with each protocol and each way to ask the nodes: over fakes, and over real servers.

use std::convert::identity;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use redis::Value;
use redlatch::fake::{FakeClock, FakeNode};
use redlatch::{Builder, Error, Fanout, LockGuard, LockManager, LockStatus, Protocol};
use redlatch_testing::{Server, eventually, side_by_side};

use crate::kinds::call::Call;
use crate::managers::{BOTH, fenced_over, with_protocol};
use crate::waiters::{BOUND, cluster};

pub(crate) const TTL: Duration = Duration::from_mins(1);

/// A reader ends with a whole millisecond of the clock of the node.
pub(crate) const GRAIN: Duration = Duration::from_millis(1);

pub(crate) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Plain,
    /// On three resources.
    Several,
    Writer,
    Reader,
    /// The only one of a semaphore.
    Permit,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Way {
    pub(crate) kind: Kind,
    pub(crate) protocol: Protocol,
    pub(crate) fanout: Fanout,
}

const KINDS: [Kind; 5] = [
    Kind::Plain,
    Kind::Several,
    Kind::Writer,
    Kind::Reader,
    Kind::Permit,
];

/// Plays a case over five fakes, for each kind in each way: one after the other, because none of them waits for real time.
pub(crate) fn on_fakes(case: impl Fn(&World)) {
    let failed = KINDS.map(|kind| play(kind, World::over_fakes, &case));
    assert!(failed.concat().is_empty(), "fails for {failed:#?}");
}

/// Plays a case over three servers, for each kind in each way.
pub(crate) fn on_servers(case: impl Fn(&World) + Sync) {
    let (servers, failed) = (opened(), Mutex::<Vec<_>>::default());
    let world = |way| World::new(way, Site::Servers(Arc::clone(&servers)), identity);
    side_by_side(KINDS, |kind| {
        let its = play(kind, world, &case);
        failed.lock().extend(its);
    });
    let failed = failed.into_inner();
    assert!(failed.is_empty(), "fails for {failed:#?}");
}

/// Plays a case over servers of its own, which it may disturb, with managers that this configures.
pub(crate) fn on_own_servers(
    configure: fn(Builder) -> Builder,
    case: impl Fn(&World, &[Server]) + Sync,
) {
    side_by_side(KINDS, |kind| {
        let servers = opened();
        let world = |way| World::new(way, Site::Servers(Arc::clone(&servers)), configure);
        let failed = play(kind, world, |world| case(world, &servers));
        assert!(failed.is_empty(), "fails for {failed:#?}");
    });
}

pub(crate) fn everywhere(case: impl Fn(&World) + Sync) {
    on_fakes(&case);
    on_servers(&case);
}

/// Returns the ways in which it fails.
fn play(kind: Kind, world: impl Fn(Way) -> World, case: impl Fn(&World)) -> Vec<String> {
    let mut failed = Vec::new();
    for protocol in BOTH {
        for fanout in [Fanout::Sequential, Fanout::Overlapped] {
            let world = world(Way {
                kind,
                protocol,
                fanout,
            });
            let result = catch_unwind(AssertUnwindSafe(|| case(&world)));
            failed.extend(result.is_err().then(|| world.to_string()));
        }
    }
    failed
}

/// Three servers that can be locked with both protocols.
fn opened() -> Arc<Vec<Server>> {
    let servers = Arc::new(cluster(3));
    fenced_over(&servers);
    servers
}

/// The nodes.
enum Site {
    Fakes(Vec<FakeNode>),
    Servers(Arc<Vec<Server>>),
}

/// Some nodes, a lock on them that nobody has yet, and the managers of two processes.
pub(crate) struct World {
    pub(crate) way: Way,
    site: Site,
    /// That of the fakes.
    clock: FakeClock,
    pub(crate) name: String,
    pub(crate) managers: [LockManager; 2],
}

impl fmt::Display for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let site = match self.site {
            Site::Fakes(_) => "fakes",
            Site::Servers(_) => "servers",
        };
        write!(f, "{:?} over {site}", self.way)
    }
}

impl World {
    pub(crate) fn over_fakes(way: Way) -> Self {
        let clock = FakeClock::new();
        let site = Site::Fakes(FakeNode::cluster_on(5, &clock));
        // A node that hangs costs no more than the default.
        let configure = |builder: Builder| builder.node_timeout(ms(50));
        let world = Self::new(way, site, configure);
        if way.protocol == Protocol::Fenced {
            world.managers[0].open_nodes().unwrap();
        }
        Self { clock, ..world }
    }

    #[track_caller]
    fn new(way: Way, site: Site, configure: fn(Builder) -> Builder) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let managers = [(); 2].map(|()| {
            let builder = configure(with_protocol(way.protocol)).fanout(way.fanout);
            let builder = match &site {
                Site::Fakes(nodes) => builder.fakes(nodes),
                Site::Servers(servers) => builder.nodes(servers.iter().map(Server::url)),
            };
            builder.build().unwrap()
        });
        Self {
            way,
            site,
            clock: FakeClock::new(),
            name: format!("job-{}", NUMBER.fetch_add(1, Ordering::SeqCst)),
            managers,
        }
    }

    pub(crate) fn is(&self, kind: Kind) -> bool {
        self.way.kind == kind
    }

    pub(crate) fn is_fenced(&self) -> bool {
        self.way.protocol == Protocol::Fenced
    }

    /// The names of the resources, as they are sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let several = || ["a", "b", "c"].map(|part| format!("{}-{part}", self.name));
        if self.is(Kind::Several) {
            return several().to_vec();
        }
        vec![self.name.clone()]
    }

    /// Their names in texts.
    pub(crate) fn shown(&self) -> String {
        self.names().join(", ")
    }

    /// The keys of the lock itself.
    pub(crate) fn keys(&self) -> Vec<String> {
        if self.is(Kind::Permit) {
            return vec![format!("{}:redlatch:slot:0", self.name)];
        }
        self.names()
    }

    /// A call by one of the processes, which are 0 and 1.
    pub(crate) fn call(&self, process: usize) -> Call<'_> {
        let manager = &self.managers[process];
        let call = match self.way.kind {
            Kind::Plain => Call::Lock(manager.request(&self.name)),
            Kind::Several => Call::Lock(manager.request_all(self.names())),
            Kind::Writer => Call::Write(manager.rw_lock(&self.name)),
            Kind::Reader => Call::Read(manager.rw_lock(&self.name)),
            Kind::Permit => Call::Lock(manager.semaphore(&self.name, 1)),
        };
        call.ttl(TTL)
    }

    /// A call that is refused while another has the lock: where that one reads, a call to write.
    pub(crate) fn rival(&self, process: usize) -> Call<'_> {
        let call = self.call(process);
        match call {
            Call::Read(lock) => Call::Write(lock),
            Call::Lock(_) | Call::Write(_) => call,
        }
    }

    #[track_caller]
    pub(crate) fn take(&self) -> LockGuard {
        self.call(0).try_lock().unwrap()
    }

    /// As an operator does it who knows the token; of several resources, for each of them.
    pub(crate) fn release(&self, process: usize, token: &str) -> Result<(), Error> {
        let manager = &self.managers[process];
        if self.is(Kind::Permit) {
            return manager.release_slot(&self.name, 0, token);
        }
        let mut names = self.names().into_iter();
        names.try_for_each(|name| manager.release(&name, token))
    }

    /// What the other process is told of each resource.
    pub(crate) fn status(&self) -> Vec<LockStatus> {
        let other = &self.managers[1];
        if self.is(Kind::Permit) {
            return other.semaphore_status(&self.name, 1).unwrap();
        }
        let names = self.names().into_iter();
        names.map(|name| other.status(&name).unwrap()).collect()
    }

    pub(crate) fn nodes(&self) -> usize {
        match &self.site {
            Site::Fakes(nodes) => nodes.len(),
            Site::Servers(servers) => servers.len(),
        }
    }

    pub(crate) fn quorum(&self) -> usize {
        self.nodes() / 2 + 1
    }

    pub(crate) fn clock(&self) -> &FakeClock {
        assert!(
            !self.fakes().is_empty(),
            "the time of servers can't be moved"
        );
        &self.clock
    }

    /// In virtual time they run as it goes on.
    pub(crate) fn let_hooks_run(&self) {
        self.clock.advance(ms(1));
    }

    pub(crate) fn fakes(&self) -> &[FakeNode] {
        match &self.site {
            Site::Fakes(nodes) => nodes,
            Site::Servers(_) => &[],
        }
    }

    /// The value of a key, if it is a text.
    pub(crate) fn value(&self, node: usize, key: &str) -> Option<String> {
        match &self.site {
            Site::Fakes(nodes) => nodes[node].token_of(key),
            Site::Servers(servers) => {
                let kind = servers[node].command(&["TYPE", key]);
                let is_text = kind == Value::SimpleString("string".to_owned());
                is_text.then(|| servers[node].get(key).unwrap())
            }
        }
    }

    fn left_of(&self, node: usize, key: &str) -> Option<Duration> {
        match &self.site {
            Site::Fakes(nodes) => nodes[node].ttl_of(key),
            Site::Servers(servers) => u64::try_from(servers[node].pttl(key)).ok().map(ms),
        }
    }

    /// Sets a key, whatever is there.
    fn set(&self, node: usize, key: &str, value: &str, ttl: Duration) {
        match &self.site {
            Site::Fakes(nodes) => nodes[node].hold(key, value, ttl),
            Site::Servers(servers) => {
                let words = ["SET", key, value, "PX", &ttl.as_millis().to_string()];
                let is_forever = ttl == Duration::MAX;
                servers[node].command(&words[..if is_forever { 3 } else { 5 }]);
            }
        }
    }

    /// Whether a node has any of the keys.
    pub(crate) fn any_is_left(&self, node: usize) -> bool {
        let is_left = |key: &String| self.left_of(node, key).is_some();
        self.keys().iter().any(is_left)
    }

    /// How long a node has each of the keys; none, if it has none of them.
    #[track_caller]
    pub(crate) fn left(&self, node: usize) -> Option<Duration> {
        let keys = self.keys().into_iter();
        let all: Vec<_> = keys.map(|key| self.left_of(node, &key)).collect();
        let are_alike = all.iter().all(|left| left.is_some() == all[0].is_some());
        assert!(are_alike, "some of the keys: {all:?}");
        all.into_iter().min().unwrap()
    }

    /// The nodes on which all keys are.
    #[track_caller]
    pub(crate) fn left_on(&self) -> Vec<usize> {
        let is_there = |node: &usize| self.left(*node).is_some();
        (0..self.nodes()).filter(is_there).collect()
    }

    /// Which nodes have the lock of this guard.
    #[track_caller]
    pub(crate) fn with(&self, guard: &LockGuard) -> Vec<usize> {
        let is_there = |node: usize, key: &String| match &self.site {
            _ if !self.is(Kind::Reader) => self.value(node, key).as_deref() == Some(guard.token()),
            _ if self.is_usurped(node) => false,
            Site::Fakes(_) => self.left(node).is_some(),
            Site::Servers(servers) => {
                servers[node].command(&["ZSCORE", key, guard.token()]) != Value::Nil
            }
        };
        let has_all = |node: &usize| self.keys().iter().all(|key| is_there(*node, key));
        (0..self.nodes()).filter(has_all).collect()
    }

    /// Another program takes the last of the keys there, whoever had it.
    pub(crate) fn usurp(&self, node: usize, ttl: Duration) {
        let key = self.keys().pop().unwrap();
        self.set(node, &key, "another", ttl);
    }

    /// What that program has there is its own still.
    pub(crate) fn is_usurped(&self, node: usize) -> bool {
        let key = self.keys().pop().unwrap();
        self.value(node, &key).as_deref() == Some("another")
    }

    /// The keys of the lock are gone on a node, and nothing else.
    pub(crate) fn forget(&self, node: usize) {
        for key in self.keys() {
            self.set(node, &key, "brief", ms(1));
        }
        self.clock.advance(ms(1));
        assert!(eventually(BOUND, || !self.any_is_left(node)));
    }

    #[track_caller]
    pub(crate) fn assert_nobody_gets_it(&self) {
        for process in [0, 1] {
            let result = self.rival(process).try_lock();
            assert!(matches!(result, Err(Error::Held { .. })), "{result:?}");
        }
    }

    /// No node has a key of the lock.
    #[track_caller]
    pub(crate) fn assert_nothing_is_left(&self) {
        for node in 0..self.nodes() {
            assert_eq!(self.left(node), None, "on node {node}");
        }
    }

    /// The same, and the other process gets it.
    #[track_caller]
    pub(crate) fn assert_free(&self) {
        self.assert_nothing_is_left();
        let guard = self.rival(1).try_lock().unwrap();
        assert_eq!(guard.votes().len(), self.nodes());
        guard.unlock().unwrap();
        self.assert_nothing_is_left();
    }
}
