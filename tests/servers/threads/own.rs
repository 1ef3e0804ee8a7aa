//! The threads of a manager, counted in a process of their own.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use redlatch::{KeepAlive, LockGuard, LockManager};
use redlatch_testing::{BlackHole, Server, eventually, free_port, is_alone, now, pause, within};

use crate::managers::{over, patient};

const TTL: Duration = Duration::from_secs(15);
const BOUND: Duration = Duration::from_secs(100);

/// What threads wait for that end before. They are gone after 100 ms, and later on a busy machine.
const LONG_TIMEOUT: Duration = Duration::from_secs(8);

fn all_threads() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    // One that has ended meanwhile has no name any more.
    let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm"));
    tasks.filter_map(|task| name(task.unwrap()).ok()).collect()
}

fn own_threads() -> usize {
    let names = all_threads();
    names.iter().filter(|n| n.starts_with("redlatch")).count()
}

/// A thread has its name only once it runs, and one that ends is there for a while.
#[track_caller]
fn assert_soon(count: usize) {
    assert_within(BOUND, count);
}

#[track_caller]
fn assert_within(bound: Duration, count: usize) {
    let there_are = eventually(bound, || own_threads() == count);
    assert!(there_are, "{:?}", all_threads());
}

#[test]
fn a_manager_has_two_threads_one_more_for_kept_locks_and_one_for_hooks_until_all_is_dropped() {
    if !is_alone(
        "threads::own::a_manager_has_two_threads_one_more_for_kept_locks_and_one_for_hooks_until_all_is_dropped",
    ) {
        return;
    }
    let servers = Server::cluster(3);
    let others = all_threads().len();
    // Names are looked up, on one of the threads.
    let urls = servers
        .iter()
        .map(|server| server.url().replace("127.0.0.1", "localhost"));
    let manager = patient(urls);
    let most = AtomicUsize::new(0);
    let mut guards: Vec<LockGuard> = thread::scope(|scope| {
        let work = |i| {
            let (manager, most) = (manager.clone(), &most);
            scope.spawn(move || {
                let guard = manager.lock(&format!("job-{i}"), TTL).unwrap();
                most.fetch_max(own_threads(), Ordering::SeqCst);
                guard
            })
        };
        let workers: Vec<_> = (0..16).map(work).collect();
        workers.into_iter().map(|w| w.join().unwrap()).collect()
    });
    assert!((1..=2).contains(&most.into_inner()));
    // Nor are there any of another name; those that have just ended may still be there.
    let only = eventually(BOUND, || all_threads().len() <= others + 2);
    assert!(only, "{:?}", all_threads());

    let last = guards.pop().unwrap();
    drop((manager, guards));
    // The last guard alone keeps the manager in work.
    assert!(own_threads() > 0);
    last.extend(TTL).unwrap();
    last.unlock().unwrap();
    assert_soon(0);

    let node_timeout = Duration::from_secs(4);
    let manager = over(&servers).node_timeout(node_timeout).build().unwrap();
    drop(manager.lock("job", TTL).unwrap());
    assert_soon(1);
    let keep = |i| {
        let request = manager.request(&format!("job {i}")).ttl(node_timeout * 3);
        request.keep_alive(KeepAlive::unbounded()).lock().unwrap()
    };
    let guards: Vec<LockGuard> = (0..100).map(keep).collect();
    assert_soon(2);
    for guard in &guards {
        guard.on_lost(|_| ()).unwrap();
    }
    // Every lock is renewed.
    let end_of = |guard: &LockGuard| now() + guard.remaining();
    let ends: Vec<Instant> = guards.iter().map(end_of).collect();
    let is_renewed =
        |(guard, end): (&LockGuard, &Instant)| end_of(guard) > *end + Duration::from_millis(100);
    let are_renewed = || guards.iter().zip(&ends).all(is_renewed);
    assert!(eventually(BOUND, are_renewed));
    assert_soon(3);
    // A watch keeps nothing.
    let watch = guards[0].watch();
    drop((guards, manager));
    assert_soon(0);
    assert!(watch.check().is_err());
    assert!(servers.iter().all(|server| server.keys() == 0));
}

#[test]
fn the_threads_end_while_probes_and_renewals_wait_also_where_the_node_timeout_is_long() {
    if !is_alone(
        "threads::own::the_threads_end_while_probes_and_renewals_wait_also_where_the_node_timeout_is_long",
    ) {
        return;
    }
    let servers = Server::cluster(3);
    let hole = BlackHole::open();
    let dead = format!("redis://127.0.0.1:{}", free_port());
    let urls = servers.iter().map(Server::url).chain([hole.url(), dead]);
    let builder = LockManager::builder().nodes(urls);
    let fails = |manager: &LockManager| {
        let asked = manager.clone();
        assert!(within(BOUND, move || asked.try_lock("job", TTL)).is_err());
    };
    for round in 0..10 {
        servers[0].stop();
        let manager = builder.clone().build().unwrap();
        fails(&manager);
        // At another point of the probes each time.
        pause(Duration::from_millis(round * 17));
        drop(manager);
        assert_soon(0);
        servers[0].resume();
    }

    let manager_over = |servers: &[Server]| {
        let builder = over(servers).node_timeout(LONG_TIMEOUT);
        builder.build().unwrap()
    };
    let stopped = [Server::start()];
    let probing = manager_over(&stopped);
    stopped[0].stop();
    fails(&probing);
    let (renewing, ttl) = (manager_over(&servers), LONG_TIMEOUT * 3);
    let request = renewing.request("job").ttl(ttl);
    let guard = request.keep_alive(KeepAlive::unbounded()).lock().unwrap();
    servers.iter().for_each(Server::stop);
    // The first renewal is under way. Probes begin 20 ms after the failure, and each waits for the node timeout.
    assert!(eventually(BOUND, || guard.remaining() < ttl * 5 / 8));
    drop((guard.into_lease(), probing, renewing));
    assert_within(LONG_TIMEOUT * 3 / 4, 0);
}
