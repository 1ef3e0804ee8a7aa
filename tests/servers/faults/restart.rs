//! Servers that are killed and started again, and connections that break: no vote is lost, and none is invented.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use redis::Value;
use redlatch::{Error, Fanout, LockGuard, LockManager, NodeError, NodeReport, Vote};
use redlatch_testing::scripted::{Kind, Peer, Scripted};
use redlatch_testing::{Server, eventually, within};

const TTL: Duration = Duration::from_mins(1);
/// No test here waits for it; it only has to be longer than a busy machine may pause a healthy server.
const NODE_TIMEOUT: Duration = Duration::from_secs(10);
const BOUND: Duration = Duration::from_secs(30);
const THREADS: usize = 8;

fn manager(urls: impl IntoIterator<Item = String>, connections: usize) -> LockManager {
    LockManager::builder()
        .nodes(urls)
        .node_timeout(NODE_TIMEOUT)
        .pool_size(u32::try_from(connections).unwrap())
        // All nodes at once, so that all can be asked before any answers.
        .fanout(Fanout::Overlapped)
        .build()
        .unwrap()
}

#[track_caller]
fn assert_all_granted(votes: &[NodeReport]) {
    for report in votes {
        assert!(matches!(report.vote, Vote::Granted), "{report}");
    }
}

/// The last command of each client of a server that has a lock to do with.
#[track_caller]
fn last_commands(server: &Server) -> Vec<String> {
    let Value::BulkString(text) = server.command(&["CLIENT", "LIST", "TYPE", "normal"]) else {
        panic!("no text");
    };
    let text = String::from_utf8(text).unwrap();
    let command = |line: &str| {
        let rest = line.split(" cmd=").nth(1)?;
        rest.split(' ').next().map(ToOwned::to_owned)
    };
    let mut commands: Vec<String> = text.lines().filter_map(command).collect();
    commands.retain(|command| ["set", "eval", "evalsha"].contains(&command.as_str()));
    commands
}

/// Takes a lock in each of eight threads at the same time; they are held together.
#[track_caller]
fn lock_in_all_threads(manager: &LockManager) -> Vec<LockGuard> {
    let start = Arc::new(Barrier::new(THREADS));
    let manager = manager.clone();
    within(BOUND, move || {
        let threads = (0..THREADS).map(|i| {
            let (manager, start) = (manager.clone(), Arc::clone(&start));
            thread::spawn(move || {
                start.wait();
                manager.try_lock(&format!("job-{i}"), TTL).unwrap()
            })
        });
        let threads: Vec<_> = threads.collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    })
}

/// Takes a lock in each of eight threads, each on connections of its own: a thread begins when the commands of those before
/// it wait at the servers. They are held together.
#[track_caller]
fn lock_one_by_one(
    manager: &LockManager,
    waiting: impl Fn() -> usize,
) -> Vec<JoinHandle<LockGuard>> {
    let threads = (0..THREADS).map(|i| {
        assert!(
            eventually(BOUND, || waiting() == i),
            "thread {i} may not begin"
        );
        let manager = manager.clone();
        thread::spawn(move || manager.try_lock(&format!("job-{i}"), TTL).unwrap())
    });
    threads.collect()
}

/// Opens eight connections to each server: each holds back what eight threads ask it.
#[track_caller]
fn warm_up(manager: &LockManager, servers: &[Server]) {
    for server in servers {
        server.command(&["CLIENT", "PAUSE", "60000", "WRITE"]);
    }
    let blocked = || servers.iter().map(Server::blocked).min().unwrap();
    let asking = lock_one_by_one(manager, blocked);
    let all_came = eventually(BOUND, || blocked() == THREADS);
    assert!(all_came, "a server was not asked by all threads");
    for server in servers {
        server.command(&["CLIENT", "UNPAUSE"]);
    }
    let guards: Vec<LockGuard> = asking.into_iter().map(|t| t.join().unwrap()).collect();
    drop(guards);
    for server in servers {
        assert_eq!(last_commands(server).len(), THREADS);
    }
}

/// Eight threads at the same time, and then one, get the votes of all nodes.
#[track_caller]
fn assert_no_vote_is_lost(manager: &LockManager) {
    let guards = lock_in_all_threads(manager);
    for guard in &guards {
        assert_all_granted(&guard.votes());
    }
    drop(guards);
    for _ in 0..THREADS {
        let guard = manager.try_lock("job", TTL).unwrap();
        assert_all_granted(&guard.votes());
        guard.unlock().unwrap();
    }
}

#[test]
fn servers_that_are_killed_and_started_again_or_close_idle_connections_lose_no_vote() {
    let mut servers = Server::cluster(5);
    let manager = manager(servers.iter().map(Server::url), THREADS);
    // All of them, and each.
    for some in [0..5, 0..1, 1..2, 2..3, 3..4, 4..5] {
        warm_up(&manager, &servers);
        servers[some.clone()].iter_mut().for_each(Server::kill);
        servers[some].iter_mut().for_each(Server::restart);
        assert_no_vote_is_lost(&manager);
    }
    warm_up(&manager, &servers);
    for server in &servers {
        let killed = server.command(&["CLIENT", "KILL", "TYPE", "normal"]);
        assert!(matches!(killed, Value::Int(8..)), "{killed:?}");
    }
    assert_no_vote_is_lost(&manager);
}

#[test]
fn a_reset_discards_all_older_connections_unseen() {
    // The first eight connections are dead from then on, as after a power failure: nothing tells but an attempt.
    let dead = Arc::new(AtomicBool::new(false));
    let (dead_now, waiting) = (Arc::clone(&dead), Arc::new(AtomicUsize::new(0)));
    let came = Arc::clone(&waiting);
    let together = Barrier::new(THREADS);
    let server = Scripted::start(move |peer, command| {
        if command.connection < THREADS && dead_now.load(Ordering::SeqCst) {
            return peer.reset();
        }
        let name = command.words.get(1).map_or("", String::as_str);
        if command.kind() == Kind::Set && name.starts_with("job-") {
            came.fetch_add(1, Ordering::SeqCst);
            together.wait();
        }
        peer.say(command.consent());
    });
    let manager = manager([server.url()], THREADS);
    let asking = lock_one_by_one(&manager, || waiting.load(Ordering::SeqCst));
    let guards: Vec<LockGuard> = asking.into_iter().map(|t| t.join().unwrap()).collect();
    drop(guards);
    assert_eq!(server.connections(), THREADS);

    dead.store(true, Ordering::SeqCst);
    let before = server.heard().len();
    assert_all_granted(&manager.try_lock("alone", TTL).unwrap().votes());
    let asking = lock_one_by_one(&manager, || waiting.load(Ordering::SeqCst) - THREADS);
    for guard in asking {
        assert_all_granted(&guard.join().unwrap().votes());
    }
    let after = server.heard().split_off(before);
    let wasted = after.iter().filter(|c| c.connection < THREADS).count();
    assert_eq!(wasted, 1, "commands on dead connections: {after:?}");
}

/// A server behind a proxy that loses the reply to one SET, when it is armed.
struct Lossy {
    server: Server,
    front: Scripted,
    armed: Arc<AtomicBool>,
}

impl Lossy {
    /// `lose` is done in place of the reply; `executes` says whether the server gets that SET at all.
    #[track_caller]
    fn start(executes: Executes, lose: fn(&mut Peer)) -> Self {
        let server = Server::start();
        let port = server.port();
        let armed = Arc::new(AtomicBool::new(false));
        let now = Arc::clone(&armed);
        let front = Scripted::start(move |peer, command| {
            if command.kind() == Kind::Set && now.swap(false, Ordering::SeqCst) {
                if executes == Executes::Yes {
                    assert_eq!(peer.ask(port, command), b"+OK\r\n");
                }
                lose(peer);
            } else if command.kind() == Kind::Other {
                // The login, which the real server has no need of.
                peer.say(b"+OK\r\n");
            } else {
                let reply = peer.ask(port, command);
                peer.say(&reply);
            }
        });
        Self {
            server,
            front,
            armed,
        }
    }

    fn arm(&self) {
        self.armed.store(true, Ordering::SeqCst);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Executes {
    Yes,
    No,
}

const WAYS_TO_LOSE: [fn(&mut Peer); 2] = [Peer::close, Peer::reset];

#[test]
fn a_set_whose_connection_broke_before_the_reply_counts_and_is_never_sent_twice() {
    for executes in [Executes::Yes, Executes::No] {
        for lose in WAYS_TO_LOSE {
            let nodes: Vec<Lossy> = (0..3).map(|_| Lossy::start(executes, lose)).collect();
            let manager = manager(nodes.iter().map(|node| node.front.url()), 1);
            manager.try_lock("job", TTL).unwrap().unlock().unwrap();

            nodes.iter().for_each(Lossy::arm);
            let guard = manager.try_lock("job", TTL).unwrap();
            assert_all_granted(&guard.votes());
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
}

#[test]
fn a_new_connection_that_breaks_before_the_reply_is_a_failure_that_leaves_no_key() {
    for lose in WAYS_TO_LOSE {
        let node = Lossy::start(Executes::Yes, lose);
        let manager = manager([node.front.url()], 1);
        node.arm();
        let error = manager.try_lock("job", TTL).unwrap_err();
        let Error::Unavailable { nodes, .. } = &error else {
            panic!("{error:?}");
        };
        let broken = matches!(nodes[0].vote, Vote::Failed(NodeError::Closed { .. }));
        assert!(broken, "{error}");
        assert!(node.front.heard_of(Kind::Retake).is_empty());
        assert_eq!(node.server.keys(), 0);
    }
}
