//! Those who wait for a lock: threads of one manager, and processes, for which managers stand. And nodes that count what they hear.

use std::fs;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use redlatch::fake::FakeNode;
use redlatch::{Error, LockGuard, LockManager, NodeReport, Protocol, Vote};
use redlatch_testing::scripted::{Kind, Scripted};
use redlatch_testing::{Server, eventually, now, within};

use crate::managers::{PATIENCE, over, processes_by};

pub(crate) const TTL: Duration = Duration::from_mins(1);
pub(crate) const BOUND: Duration = Duration::from_mins(1);
/// A time between two looks that a test notices if it is waited for.
pub(crate) const LONG: Duration = Duration::from_secs(8);
/// Less than half of that, and far more than a wake-up takes.
pub(crate) const SOON: Duration = Duration::from_secs(3);
/// Who waits announces it for some looks in advance.
const ENDS_WITHIN_MS: i64 = 30_000;

/// Servers in the order in which they are asked.
#[track_caller]
pub(crate) fn cluster(n: usize) -> Vec<Server> {
    let mut servers = Server::cluster(n);
    servers.sort_by_key(Server::name);
    servers
}

/// The manager of a process that looks at a lock so often at least.
#[track_caller]
pub(crate) fn process(servers: &[Server], delay: Duration) -> LockManager {
    let [process] = processes(Protocol::Classic, servers, delay);
    process
}

/// Managers of as many processes that look again so often.
#[track_caller]
pub(crate) fn processes<const N: usize>(
    protocol: Protocol,
    servers: &[Server],
    delay: Duration,
) -> [LockManager; N] {
    processes_by(&over(servers).retry_delay(delay, delay), protocol)
}

/// Fake nodes in real time, and a manager over them that waits long for a reply.
pub(crate) fn slow_fakes(n: usize) -> (Vec<FakeNode>, LockManager) {
    let nodes = FakeNode::cluster(n);
    let builder = LockManager::builder().fakes(&nodes);
    let manager = builder.node_timeout(PATIENCE).build().unwrap();
    (nodes, manager)
}

/// One who waits for a lock on a thread.
pub(crate) struct Waiting(JoinHandle<(Result<LockGuard, Error>, Instant)>);

impl Waiting {
    pub(crate) fn of(call: impl FnOnce() -> Result<LockGuard, Error> + Send + 'static) -> Self {
        Self(thread::spawn(move || (call(), now())))
    }

    /// The same, and returns once it listens at the server.
    #[track_caller]
    pub(crate) fn at(
        server: &Server,
        call: impl FnOnce() -> Result<LockGuard, Error> + Send + 'static,
    ) -> Self {
        let already = server.blocked();
        let waiting = Self::of(call);
        let listens = eventually(BOUND, || server.blocked() > already);
        assert!(listens, "nobody listens at {}", server.name());
        waiting
    }

    /// For "job".
    pub(crate) fn begin(manager: &LockManager) -> Self {
        let manager = manager.clone();
        Self::of(move || manager.try_lock_for("job", TTL, BOUND))
    }

    /// For "job", at the server.
    #[track_caller]
    pub(crate) fn listen(manager: &LockManager, server: &Server) -> Self {
        let manager = manager.clone();
        Self::at(server, move || manager.try_lock_for("job", TTL, BOUND))
    }

    pub(crate) fn is_over(&self) -> bool {
        self.0.is_finished()
    }

    /// What it got, and when.
    #[track_caller]
    pub(crate) fn end(self) -> (LockGuard, Instant) {
        let (result, at) = within(BOUND * 2, || self.0.join().unwrap());
        (result.unwrap(), at)
    }
}

/// A majority granted it, and no other node failed: where the one who has just had it is slow to give it back, the key may
/// still have been there.
#[track_caller]
pub(crate) fn assert_no_node_failed(guard: &LockGuard) {
    let votes = guard.votes();
    let is_vote = |report: &NodeReport| matches!(report.vote, Vote::Granted | Vote::Held { .. });
    assert!(votes.iter().all(is_vote), "{votes:?}");
}

/// Nothing is left but what was written for those who waited, and that ends by itself.
#[track_caller]
pub(crate) fn assert_nothing_is_left(servers: &[Server]) {
    for server in servers {
        let mut left = Vec::new();
        let soon_ends = |key: &String| {
            let is_notice = key.contains(":redlatch:") && !key.contains(":slot:");
            let left = server.pttl(key);
            is_notice && left != -1 && left < ENDS_WITHIN_MS
        };
        let is_clean = eventually(BOUND, || {
            let keys = server.command(&["KEYS", "*"]);
            left = redis::from_redis_value(keys).unwrap();
            left.iter().all(soon_ends)
        });
        assert!(is_clean, "{}: {left:?}", server.name());
    }
}

/// What was asked of a server by clients: attempts, scripts, and listening.
pub(crate) fn asked(server: &Server) -> u64 {
    let commands = ["set", "eval", "evalsha", "blpop"];
    commands.map(|command| server.count(command)).iter().sum()
}

/// Starts a thread that has to wait for the threads before it, and waits until it does: it sleeps.
#[track_caller]
pub(crate) fn line_up<T: Send + 'static>(
    run: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    let (tell, told) = mpsc::channel();
    let thread = thread::spawn(move || {
        tell.send(fs::read_link("/proc/thread-self").unwrap())
            .unwrap();
        run()
    });
    let stat = Path::new("/proc").join(told.recv().unwrap()).join("stat");
    let sleeps = || fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(") S "));
    assert!(eventually(BOUND, sleeps), "it does not wait");
    thread
}

/// Lines up a thread that takes the lock and hands its guard out.
#[track_caller]
pub(crate) fn next(manager: &LockManager, ttl: Duration) -> JoinHandle<LockGuard> {
    let manager = manager.clone();
    line_up(move || manager.try_lock_for("job", ttl, BOUND).unwrap())
}

/// What the thread has got, soon.
#[track_caller]
pub(crate) fn got<T: Send + 'static>(thread: JoinHandle<T>) -> T {
    within(BOUND, move || {
        thread.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

/// A node that says this to commands of these kinds, and consents to all others.
pub(crate) fn answering<const N: usize>(answers: [(Kind, &'static [u8]); N]) -> Scripted {
    Scripted::start(move |peer, command| {
        let answer = answers.iter().find(|(kind, _)| *kind == command.kind());
        peer.say(answer.map_or_else(|| command.consent(), |(_, answer)| answer));
    })
}

/// Nodes that grant everything, and remember what they were told.
pub(crate) fn listeners(n: usize) -> Vec<Scripted> {
    (0..n).map(|_| answering([])).collect()
}

/// How many commands they have got.
pub(crate) fn heard(nodes: &[Scripted]) -> Vec<usize> {
    nodes.iter().map(|node| node.heard().len()).collect()
}
