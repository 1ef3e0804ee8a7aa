//! Many threads on one manager.

use std::collections::HashSet;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use redlatch::Protocol;
use redlatch_testing::scripted::Scripted;
use redlatch_testing::{Server, eventually, within};

use crate::managers::{BOTH, fenced_over, over};

const TTL: Duration = Duration::from_mins(10);
const BOUND: Duration = Duration::from_secs(100);

#[test]
fn sixty_four_threads_on_eight_resources_exclude_each_other_and_leave_no_key_and_no_connection() {
    const THREADS: usize = 64;
    const ROUNDS: usize = 4;
    const POOL: u32 = 4;
    for protocol in BOTH {
        let servers = Server::cluster(5);
        if protocol == Protocol::Fenced {
            fenced_over(&servers);
        }
        let builder = over(&servers).protocol(protocol).pool_size(POOL);
        let builder = builder.retry_delay(Duration::from_millis(1), Duration::from_millis(5));
        let manager = builder.acquire_timeout(BOUND).build().unwrap();
        // The thread that is in, from 1.
        let owners = [(); 8].map(|()| AtomicUsize::new(0));
        let asked = manager.clone();
        let tokens = within(BOUND, move || {
            let start = Barrier::new(THREADS);
            thread::scope(|scope| {
                let work = |me: usize| {
                    let (manager, start, owners) = (&asked, &start, &owners);
                    scope.spawn(move || {
                        start.wait();
                        let round = |round: usize| {
                            let n = (me + round) % owners.len();
                            let guard = manager.lock(&format!("job-{n}"), TTL).unwrap();
                            let other = owners[n].swap(me, Ordering::SeqCst);
                            assert_eq!(other, 0, "thread {me} is in together with {other}");
                            guard.extend(TTL * 2).unwrap();
                            assert_eq!(owners[n].swap(0, Ordering::SeqCst), me);
                            let token = guard.token().to_owned();
                            guard.unlock().unwrap();
                            token
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
        for server in &servers {
            let is_left = (0..8).any(|n| server.get(&format!("job-{n}")).is_some());
            assert!(!is_left, "{protocol:?}");
            let clients = || -> u32 {
                let info = server.info("clients");
                let mut lines = info.lines();
                let clients = lines.find_map(|line| line.strip_prefix("connected_clients:"));
                clients.unwrap().trim().parse().unwrap()
            };
            // This question has one itself; and a server that is busy closes late what was closed here.
            assert!(eventually(BOUND, || clients() <= POOL + 1), "{protocol:?}");
        }
        let stats = manager.stats();
        assert_eq!(stats.held(), 0);
        assert!(stats.nodes.iter().all(|node| node.opened == 0), "{stats:?}");
    }
}

#[test]
fn a_manager_is_built_without_a_connection() {
    let silent: Vec<Scripted> = (0..5).map(|_| Scripted::start(|_, _| ())).collect();
    for _ in 0..20 {
        // Waiting for a single node would take longer than the bound.
        let builder = over(&silent).node_timeout(BOUND * 2);
        drop(within(BOUND, move || builder.build().unwrap()));
    }
    assert!(silent.iter().all(|server| server.connections() == 0));
}
