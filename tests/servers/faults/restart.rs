//! Connections that break: no vote is lost, and none is invented.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use redlatch::{Error, LockGuard, LockManager, NodeError, Vote};
use redlatch_testing::scripted::{Kind, Peer, Scripted};
use redlatch_testing::{Server, eventually};

use crate::managers::{HasUrl, over};
use crate::servers::faults::nodes::granted;
use crate::waiters::BOUND;

const TTL: Duration = Duration::from_mins(1);
const THREADS: usize = 8;

fn manager(nodes: &[impl HasUrl]) -> LockManager {
    // All nodes at once, so that all can be asked before any answers.
    let builder = over(nodes).fanout(redlatch::Fanout::Overlapped);
    builder.pool_size(8).build().unwrap()
}

/// Takes a lock, for which all nodes vote.
#[track_caller]
fn lock(manager: &LockManager, name: &str) -> LockGuard {
    let guard = manager.try_lock(name, TTL).unwrap();
    let votes = guard.votes();
    assert_eq!(granted(&votes), votes.len(), "{votes:?}");
    guard
}

/// Takes a lock in each of eight threads: a thread begins when so many commands of those before it wait at the servers. They are
/// held together, each on connections of its own.
#[track_caller]
fn lock_in_all_threads(manager: &LockManager, waiting: impl Fn() -> usize) -> Vec<LockGuard> {
    thread::scope(|scope| {
        let threads = (0..THREADS).map(|i| {
            let may_begin = eventually(BOUND, || waiting() == i);
            assert!(may_begin, "thread {i} may not begin");
            scope.spawn(move || lock(manager, &format!("job-{i}")))
        });
        let threads: Vec<_> = threads.collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    })
}

#[test]
fn a_reset_discards_all_older_connections_unseen() {
    // The first eight connections are dead from then on, as after a power failure: nothing tells but an attempt.
    let dead = Arc::new(AtomicBool::new(false));
    let (dead_now, waiting) = (Arc::clone(&dead), Arc::new(AtomicUsize::new(0)));
    let came = Arc::clone(&waiting);
    let servers = [Scripted::start(move |peer, command| {
        if command.connection < THREADS && dead_now.load(Ordering::SeqCst) {
            return peer.reset();
        }
        if command.kind() == Kind::Set && command.key().starts_with("job-") {
            // None is answered before all have come.
            let place = came.fetch_add(1, Ordering::SeqCst);
            while came.load(Ordering::SeqCst) < (place / THREADS + 1) * THREADS {
                peer.wait(Duration::from_millis(1));
            }
        }
        peer.say(command.consent());
    })];
    let manager = manager(&servers);
    drop(lock_in_all_threads(&manager, || {
        waiting.load(Ordering::SeqCst)
    }));
    assert_eq!(servers[0].connections(), THREADS);

    dead.store(true, Ordering::SeqCst);
    let before = servers[0].heard().len();
    drop(lock(&manager, "alone"));
    drop(lock_in_all_threads(&manager, || {
        waiting.load(Ordering::SeqCst) - THREADS
    }));
    let after = servers[0].heard().split_off(before);
    let wasted = after.iter().filter(|c| c.connection < THREADS).count();
    assert_eq!(wasted, 1, "commands on dead connections: {after:?}");
}

/// A server behind a proxy that loses the reply to one SET, when it is armed.
struct Lossy {
    server: Server,
    front: Scripted,
    armed: Arc<AtomicBool>,
}

impl HasUrl for Lossy {
    fn url(&self) -> String {
        self.front.url()
    }
}

impl Lossy {
    /// `lose` is done in place of the reply; `executes` says whether the server gets that SET at all.
    #[track_caller]
    fn start(executes: bool, lose: fn(&mut Peer)) -> Self {
        let server = Server::start();
        let port = server.port();
        let armed = Arc::new(AtomicBool::new(false));
        let now = Arc::clone(&armed);
        let front = Scripted::start(move |peer, command| {
            let is_lost = command.kind() == Kind::Set && now.swap(false, Ordering::SeqCst);
            if command.kind() == Kind::Other {
                // The login, which the real server has no need of.
                peer.say(b"+OK\r\n");
            } else if is_lost && !executes {
                lose(peer);
            } else {
                let reply = peer.ask(port, command);
                if is_lost {
                    lose(peer);
                }
                peer.say(&reply);
            }
        });
        Self {
            server,
            front,
            armed,
        }
    }
}

const WAYS_TO_LOSE: [fn(&mut Peer); 2] = [Peer::close, Peer::reset];

#[test]
fn a_set_whose_connection_broke_before_the_reply_counts_and_is_never_sent_twice() {
    for (executes, lose) in [true, false]
        .into_iter()
        .flat_map(|one| WAYS_TO_LOSE.map(|lose| (one, lose)))
    {
        let nodes: Vec<Lossy> = (0..3).map(|_| Lossy::start(executes, lose)).collect();
        let manager = over(&nodes).pool_size(1).build().unwrap();
        lock(&manager, "job").unlock().unwrap();
        for node in &nodes {
            node.armed.store(true, Ordering::SeqCst);
        }
        let guard = lock(&manager, "job");
        for Lossy { server, front, .. } in &nodes {
            assert_eq!(server.get("job").as_deref(), Some(guard.token()));
            let mut heard = front.heard();
            heard.retain(|command| command.token() == guard.token());
            let kinds: Vec<_> = heard.iter().map(|c| (c.kind(), c.connection)).collect();
            assert_eq!(kinds, [(Kind::Set, 0), (Kind::Retake, 1)]);
        }
        guard.unlock().unwrap();
        assert!(nodes.iter().all(|node| node.server.keys() == 0));
    }
}

#[test]
fn a_new_connection_that_breaks_before_the_reply_is_a_failure_that_leaves_no_key() {
    for lose in WAYS_TO_LOSE {
        let nodes = [Lossy::start(true, lose)];
        let manager = over(&nodes).pool_size(1).build().unwrap();
        nodes[0].armed.store(true, Ordering::SeqCst);
        let error = manager.try_lock("job", TTL).unwrap_err();
        let Error::Unavailable { nodes: votes, .. } = &error else {
            panic!("{error:?}");
        };
        let broken = matches!(votes[0].vote, Vote::Failed(NodeError::Closed { .. }));
        assert!(broken, "{error}");
        assert!(nodes[0].front.heard_of(Kind::Retake).is_empty());
        assert_eq!(nodes[0].server.keys(), 0);
    }
}
