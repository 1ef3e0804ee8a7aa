//! The threads of a manager, counted in a process of their own.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use redlatch::{Error, KeepAlive, LockGuard, LockManager};
use redlatch_testing::{BlackHole, Server, eventually, free_port, is_alone, now, pause, within};

use crate::managers::patient;

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

#[track_caller]
fn assert_soon_gone() {
    assert_soon(0);
}

/// A thread has its name only once it runs, and one that ends is there for a while.
#[track_caller]
fn assert_soon(count: usize) {
    let there_are = eventually(BOUND, || own_threads() == count);
    assert!(there_are, "{:?}", all_threads());
}

/// They do not wait for what takes so long.
#[track_caller]
fn assert_gone_within(long: Duration) {
    let are_gone = eventually(long, || own_threads() == 0);
    assert!(are_gone, "{:?}", all_threads());
}

#[test]
fn a_manager_has_at_most_two_threads_until_its_last_clone_and_guard_are_dropped() {
    if !is_alone(
        "threads::own::a_manager_has_at_most_two_threads_until_its_last_clone_and_guard_are_dropped",
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
    let most = Arc::new(Mutex::new(0));
    let workers = (0..16).map(|i| {
        let (manager, most) = (manager.clone(), Arc::clone(&most));
        thread::spawn(move || {
            let guard = manager.lock(&format!("job-{i}"), TTL).unwrap();
            let own = own_threads();
            let mut most = most.lock();
            *most = own.max(*most);
            guard
        })
    });
    let workers: Vec<_> = workers.collect();
    let mut guards: Vec<_> = workers.into_iter().map(|w| w.join().unwrap()).collect();
    assert!((1..=2).contains(&*most.lock()), "{}", most.lock());
    // Nor are there any of another name; those that have just ended may still be there.
    let only = eventually(BOUND, || all_threads().len() <= others + 2);
    assert!(only, "{:?}", all_threads());

    let another = manager.clone();
    drop(manager);
    drop(another);
    let last = guards.pop().unwrap();
    drop(guards);
    // The last guard alone keeps the manager in work.
    assert!(own_threads() > 0);
    last.extend(TTL).unwrap();
    last.unlock().unwrap();
    assert_soon_gone();
    assert!(servers.iter().all(|server| server.keys() == 0));
}

#[test]
fn kept_locks_take_one_more_thread_and_hooks_another_and_none_before() {
    if !is_alone("threads::own::kept_locks_take_one_more_thread_and_hooks_another_and_none_before")
    {
        return;
    }
    let servers = Server::cluster(3);
    let builder = LockManager::builder().nodes(servers.iter().map(Server::url));
    let node_timeout = Duration::from_secs(4);
    let manager = builder.node_timeout(node_timeout).build().unwrap();
    drop(manager.lock("job", TTL).unwrap());
    let before = 1;
    assert_soon(before);
    let keep = |name: &str| {
        let request = manager.request(name).ttl(node_timeout * 3);
        request.keep_alive(KeepAlive::unbounded()).lock().unwrap()
    };
    let guards: Vec<_> = (0..100).map(|i| keep(&format!("job {i}"))).collect();
    assert_soon(before + 1);
    for guard in &guards {
        guard.on_lost(|_| ());
    }
    // Every lock is renewed.
    let end_of = |guard: &LockGuard| now() + guard.remaining();
    let ends: Vec<_> = guards.iter().map(end_of).collect();
    let more = Duration::from_millis(100);
    let is_renewed = |(guard, end): (&LockGuard, &Instant)| end_of(guard) > *end + more;
    assert!(eventually(BOUND, || guards
        .iter()
        .zip(&ends)
        .all(is_renewed)));
    assert!(guards.iter().all(|guard| guard.check().is_ok()));
    assert_soon(before + 2);
    // A watch keeps nothing.
    let watch = guards[0].watch();
    drop(guards);
    drop(manager);
    assert_soon_gone();
    assert!(watch.check().is_err());
    assert!(servers.iter().all(|server| server.keys() == 0));
}

#[test]
fn the_threads_end_while_nodes_that_hang_are_being_probed() {
    if !is_alone("threads::own::the_threads_end_while_nodes_that_hang_are_being_probed") {
        return;
    }
    let servers = Server::cluster(3);
    let hole = BlackHole::open();
    let dead = format!("redis://127.0.0.1:{}", free_port());
    let urls = servers.iter().map(Server::url).chain([hole.url(), dead]);
    let builder = LockManager::builder().nodes(urls);
    for round in 0..10 {
        servers[0].stop();
        let manager = builder.clone().build().unwrap();
        let asked = manager.clone();
        let result = within(BOUND / 4, move || asked.try_lock("job", TTL));
        let gone = matches!(result, Err(Error::Unavailable { .. }));
        assert!(gone, "{result:?}");
        // At another point of the probes each time.
        pause(Duration::from_millis(round * 17));
        drop(manager);
        assert_soon_gone();
        servers[0].resume();
    }
}

#[test]
fn the_threads_end_while_a_probe_waits_though_the_node_timeout_is_long() {
    if !is_alone(
        "threads::own::the_threads_end_while_a_probe_waits_though_the_node_timeout_is_long",
    ) {
        return;
    }
    let server = Server::start();
    let builder = LockManager::builder().node(server.url());
    let manager = builder.node_timeout(LONG_TIMEOUT).build().unwrap();
    server.stop();
    let asked = manager.clone();
    assert!(within(BOUND, move || asked.try_lock("job", TTL)).is_err());
    // The first probe begins 20 ms after the failure, and would wait for that time.
    pause(Duration::from_millis(100));
    drop(manager);
    assert_gone_within(LONG_TIMEOUT * 3 / 4);
}

#[test]
fn the_threads_end_while_a_renewal_waits_though_the_node_timeout_is_long() {
    if !is_alone(
        "threads::own::the_threads_end_while_a_renewal_waits_though_the_node_timeout_is_long",
    ) {
        return;
    }
    let servers = Server::cluster(3);
    let builder = LockManager::builder().nodes(servers.iter().map(Server::url));
    let manager = builder.node_timeout(LONG_TIMEOUT).build().unwrap();
    let ttl = LONG_TIMEOUT * 3;
    let request = manager.request("job").ttl(ttl);
    let request = request.keep_alive(KeepAlive::unbounded());
    let guard = request.lock().unwrap();
    servers.iter().for_each(Server::stop);
    // The first renewal is under way.
    assert!(eventually(BOUND, || guard.remaining() < ttl * 5 / 8));
    drop(guard.into_lease());
    drop(manager);
    assert_gone_within(LONG_TIMEOUT * 3 / 4);
}
