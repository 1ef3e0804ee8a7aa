//! Many threads on one manager.

use std::collections::HashSet;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use redlatch::LockManager;
use redlatch_testing::scripted::Scripted;
use redlatch_testing::{BlackHole, Server, eventually, free_port, within};

const TTL: Duration = Duration::from_secs(15);
const BOUND: Duration = Duration::from_secs(100);

#[test]
fn sixty_four_threads_on_eight_resources_keep_exclusion_and_share_no_token() {
    const THREADS: usize = 64;
    const ROUNDS: usize = 4;
    let servers = Server::cluster(5);
    let builder = LockManager::builder().nodes(servers.iter().map(Server::url));
    let manager = builder
        .pool_size(4)
        .node_timeout(Duration::from_secs(2))
        .retry_delay(Duration::from_millis(1), Duration::from_millis(5))
        .acquire_timeout(BOUND)
        .build()
        .unwrap();
    // The thread that is in, from 1.
    let owners = [(); 8].map(|()| AtomicUsize::new(0));
    let tokens = within(BOUND, move || {
        let start = Barrier::new(THREADS);
        thread::scope(|scope| {
            let work = |me: usize| {
                let (manager, start, owners) = (&manager, &start, &owners);
                scope.spawn(move || {
                    start.wait();
                    let round = |round: usize| {
                        let n = (me + round) % owners.len();
                        let guard = manager.lock(&format!("job-{n}"), TTL).unwrap();
                        let other = owners[n].swap(me, Ordering::SeqCst);
                        assert_eq!(other, 0, "thread {me} is in together with {other}");
                        thread::yield_now();
                        assert_eq!(owners[n].swap(0, Ordering::SeqCst), me);
                        guard.check().unwrap();
                        guard.token().to_owned()
                    };
                    (0..ROUNDS).map(round).collect::<Vec<String>>()
                })
            };
            let workers: Vec<_> = (1..=THREADS).map(work).collect();
            let tokens = workers.into_iter().map(|worker| worker.join().unwrap());
            tokens.collect::<Vec<_>>().concat()
        })
    });
    let different: HashSet<&String> = tokens.iter().collect();
    assert_eq!(different.len(), THREADS * ROUNDS);
    assert!(servers.iter().all(|server| server.keys() == 0));
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
