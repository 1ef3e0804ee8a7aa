//! Many threads on one manager.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use redlatch::LockManager;
use redlatch_testing::scripted::Scripted;
use redlatch_testing::{BlackHole, Server, eventually, free_port, within};

const TTL: Duration = Duration::from_secs(15);
const BOUND: Duration = Duration::from_secs(100);

/// What the lock protects: it sees when two are in at the same time, and when an increment is lost.
#[derive(Default)]
struct Witness {
    /// The thread that is in, from 1.
    owner: AtomicUsize,
    /// Read and written in two steps.
    count: AtomicU32,
}

impl Witness {
    #[track_caller]
    fn visit(&self, thread: usize) {
        let other = self.owner.swap(thread, Ordering::SeqCst);
        assert_eq!(other, 0, "thread {thread} is in together with {other}");
        let count = self.count.load(Ordering::SeqCst);
        thread::yield_now();
        self.count.store(count + 1, Ordering::SeqCst);
        let left = self.owner.swap(0, Ordering::SeqCst);
        assert_eq!(left, thread, "thread {left} came in");
    }
}

/// Lets threads take locks in turn, each of `rounds` times, and looks that there is never a second one in. Returns the
/// tokens.
#[track_caller]
fn assert_excludes(
    manager: &LockManager,
    threads: usize,
    resources: usize,
    rounds: usize,
) -> Vec<String> {
    let witnesses: Arc<Vec<Witness>> =
        Arc::new((0..resources).map(|_| Witness::default()).collect());
    let seen = Arc::clone(&witnesses);
    let manager = manager.clone();
    let tokens = within(BOUND, move || {
        let start = Arc::new(Barrier::new(threads));
        let workers = (1..=threads).map(|me| {
            let (manager, start) = (manager.clone(), Arc::clone(&start));
            let witnesses = Arc::clone(&witnesses);
            thread::spawn(move || {
                start.wait();
                let mut tokens = Vec::new();
                for round in 0..rounds {
                    let n = (me + round) % witnesses.len();
                    let guard = manager.lock(&format!("job-{n}"), TTL).unwrap();
                    witnesses[n].visit(me);
                    guard.check().unwrap();
                    tokens.push(guard.token().to_owned());
                }
                tokens
            })
        });
        let workers: Vec<_> = workers.collect();
        let tokens = workers.into_iter().map(|worker| worker.join().unwrap());
        tokens.collect::<Vec<_>>().concat()
    });
    let counts = seen.iter().map(|w| w.count.load(Ordering::SeqCst));
    let visits = u32::try_from(threads * rounds).unwrap();
    assert_eq!(counts.sum::<u32>(), visits, "an increment is lost");
    tokens
}

#[test]
fn sixty_four_threads_on_eight_resources_keep_exclusion_and_share_no_token() {
    let servers = Server::cluster(5);
    let manager = LockManager::builder()
        .nodes(servers.iter().map(Server::url))
        .pool_size(4)
        .node_timeout(Duration::from_secs(2))
        .retry_delay(Duration::from_millis(1), Duration::from_millis(5))
        .acquire_timeout(BOUND)
        .build()
        .unwrap();
    let tokens = assert_excludes(&manager, 64, 8, 4);
    let different: HashSet<&String> = tokens.iter().collect();
    assert_eq!((tokens.len(), different.len()), (64 * 4, 64 * 4));
    for server in &servers {
        assert_eq!(server.keys(), 0);
    }
}

#[test]
fn guards_that_are_dropped_together_leave_no_key_on_a_stopped_server_though_the_pool_is_small() {
    let servers = Server::cluster(3);
    let builder = LockManager::builder().nodes(servers.iter().map(Server::url));
    let builder = builder.pool_size(2).node_timeout(Duration::from_secs(1));
    let manager = builder.build().unwrap();
    let ttl = Duration::from_mins(10);
    let lock = |i| manager.lock(&format!("job-{i}"), ttl).unwrap();
    let guards: Vec<_> = (0..12).map(lock).collect();
    assert_eq!(servers[0].keys(), 12);

    servers[0].stop();
    within(BOUND, move || {
        let threads = guards
            .into_iter()
            .map(|guard| thread::spawn(|| drop(guard)));
        let threads: Vec<_> = threads.collect();
        for thread in threads {
            thread.join().unwrap();
        }
    });
    servers[0].resume();
    for server in &servers {
        let empty = eventually(BOUND, || server.keys() == 0);
        assert!(
            empty,
            "{} keys are left on {}",
            server.keys(),
            server.name()
        );
    }
}

#[test]
fn a_manager_over_dead_nodes_is_built_at_once_and_connects_to_nothing() {
    let silent: Vec<Scripted> = (0..5).map(|_| Scripted::start(|_, _| ())).collect();
    let holes: Vec<BlackHole> = (0..3).map(|_| BlackHole::open()).collect();
    let dead = [free_port(), free_port()].map(|port| format!("redis://127.0.0.1:{port}"));
    let unreachable: Vec<String> = holes.iter().map(BlackHole::url).chain(dead).collect();
    let silent_urls: Vec<String> = silent.iter().map(Scripted::url).collect();
    for urls in [silent_urls, unreachable] {
        // Waiting for a single node would take longer than the bound.
        let builder = LockManager::builder().nodes(urls);
        let builder = builder.node_timeout(Duration::from_mins(1));
        let managers = within(Duration::from_secs(50), move || {
            [(); 20].map(|()| builder.clone().build().unwrap())
        });
        drop(managers);
    }
    assert!(silent.iter().all(|server| server.connections() == 0));
}
