//! Semaphores over real servers: many holders, servers that fail, and the wake-up of those who wait.
//!
//! Two managers stand for two processes.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use redlatch::{Fanout, LockGuard, LockManager};
use redlatch_testing::{Server, eventually, now, pause, within};

use crate::waiters::line_up;
use crate::waiters::{BOUND, LONG, SOON, TTL, Waiting, asked, cluster, process};

/// A thread that waits for one of the permits of "exports", and listens at the server.
#[track_caller]
fn listen(manager: &LockManager, permits: u32, server: &Server) -> Waiting {
    let manager = manager.clone();
    Waiting::at(server, move || {
        let request = manager.semaphore("exports", permits).ttl(TTL);
        request.try_lock_for(BOUND)
    })
}

fn take(manager: &LockManager, permits: u32) -> LockGuard {
    let request = manager.semaphore("exports", permits).ttl(TTL);
    request.try_lock().unwrap()
}

/// Who is in which slot, and how many are in at most at a time.
struct Witness {
    slots: Mutex<Vec<Option<usize>>>,
    most: AtomicUsize,
    visits: AtomicUsize,
}

impl Witness {
    fn new(permits: u32) -> Arc<Self> {
        let permits = usize::try_from(permits).unwrap();
        Arc::new(Self {
            slots: Mutex::new(vec![None; permits]),
            most: AtomicUsize::new(0),
            visits: AtomicUsize::new(0),
        })
    }

    #[track_caller]
    fn visit(&self, thread: usize, guard: &LockGuard) {
        let slot = usize::try_from(guard.slot().unwrap()).unwrap();
        let mut slots = self.slots.lock();
        let other = slots[slot].replace(thread);
        assert_eq!(other, None, "thread {thread} is in slot {slot} as well");
        let inside = slots.iter().flatten().count();
        drop(slots);
        self.most.fetch_max(inside, Ordering::SeqCst);
        pause(Duration::from_millis(1));
        guard.check().unwrap();
        let left = self.slots.lock()[slot].take();
        assert_eq!(left, Some(thread));
        self.visits.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn sixty_four_threads_of_three_processes_never_have_more_permits_than_there_are_while_servers_fail()
{
    const PERMITS: u32 = 4;
    const ROUNDS: usize = 3;
    // One that is killed comes back with what it has voted.
    let durable = ["--appendonly", "yes", "--appendfsync", "always"];
    let mut servers: Vec<Server> = (0..5).map(|_| Server::start_with(&durable)).collect();
    servers.sort_by_key(Server::name);
    let managers = [Fanout::Sequential, Fanout::Overlapped, Fanout::Sequential].map(|fanout| {
        let builder = LockManager::builder().nodes(servers.iter().map(Server::url));
        let builder = builder
            .node_timeout(Duration::from_millis(200))
            .fanout(fanout);
        let builder = builder.retry_delay(Duration::from_millis(5), Duration::from_millis(50));
        builder.build().unwrap()
    });
    let witness = Witness::new(PERMITS);
    let workers = (0..64).map(|thread| {
        let (manager, witness) = (managers[thread % 3].clone(), Arc::clone(&witness));
        thread::spawn(move || {
            for _ in 0..ROUNDS {
                let request = manager.semaphore("exports", PERMITS).ttl(TTL);
                let guard = request.try_lock_for(BOUND * 2).unwrap();
                witness.visit(thread, &guard);
                // Whether a majority answers to the release is not what this is about.
                drop(guard);
            }
        })
    });
    let workers: Vec<_> = workers.collect();
    // Two of five at a time, the first one among them.
    for i in [0, 1, 2, 0, 3] {
        servers[i].kill();
        servers[(i + 2) % 5].stop();
        pause(Duration::from_millis(300));
        servers[(i + 2) % 5].resume();
        servers[i].restart();
        pause(Duration::from_millis(200));
    }
    within(BOUND * 3, || {
        for worker in workers {
            worker.join().unwrap();
        }
    });
    assert_eq!(witness.visits.load(Ordering::SeqCst), 64 * ROUNDS);
    let most = witness.most.load(Ordering::SeqCst);
    assert!((2..=4).contains(&most), "{most}");
}

#[test]
fn as_many_are_woken_as_permits_are_given_back_at_once() {
    let servers = cluster(3);
    let holder = process(&servers, LONG);
    for _ in 0..5 {
        let held = [(); 3].map(|()| take(&holder, 3));
        let waiters = [(); 3].map(|()| {
            let process = process(&servers, LONG);
            listen(&process, 3, &servers[0])
        });
        let released = now();
        for guard in held {
            drop(guard);
        }
        for waiting in waiters {
            let (_guard, at) = waiting.end();
            assert!(at - released < SOON, "{:?}", at - released);
        }
    }
}

#[test]
fn a_bell_has_an_element_for_each_permit_that_is_given_back_and_no_more_than_eight() {
    const BELL: &str = "exports:redlatch:bell";
    let servers = cluster(1);
    let manager = process(&servers, LONG);
    let rings = || redis::from_redis_value::<u64>(servers[0].command(&["LLEN", BELL])).unwrap();
    let announce = ["SADD", "exports:redlatch:waiting", "1"];
    servers[0].command(&announce);
    // Somebody has looked, and does not listen yet. What is in a bell expires, on a slow machine before it is counted.
    let is_rung = eventually(BOUND, || {
        let held = [(); 2].map(|()| take(&manager, 2));
        drop(held);
        rings() == 2
    });
    assert!(is_rung, "{}", rings());
    for _ in 0..50 {
        take(&manager, 2).unlock().unwrap();
        assert!(rings() <= 8);
    }
}

#[test]
fn those_who_wait_for_a_lock_of_the_same_name_are_woken_as_ever() {
    let servers = cluster(3);
    let [holder, waiter] = [(); 2].map(|()| process(&servers, LONG));
    let _all = [(); 2].map(|()| take(&holder, 2));
    let lock = holder.lock("exports", TTL).unwrap();
    let waiting = thread::spawn({
        let waiter = waiter.clone();
        move || (waiter.try_lock_for("exports", TTL, BOUND).unwrap(), now())
    });
    assert!(eventually(BOUND, || servers[0].blocked() == 1));
    let released = now();
    lock.unlock().unwrap();
    let (_lock, at) = within(BOUND, || waiting.join().unwrap());
    assert!(at - released < SOON);
}

#[test]
fn threads_of_one_process_get_permits_in_the_order_in_which_they_asked() {
    let servers = cluster(3);
    let manager = process(&servers, LONG);
    let mut held = vec![take(&manager, 2), take(&manager, 2)];
    let order = Arc::new(Mutex::new(Vec::new()));
    let waiting = (0..8).map(|thread| {
        let (manager, order) = (manager.clone(), Arc::clone(&order));
        line_up(move || {
            let request = manager.semaphore("exports", 2).ttl(TTL);
            let guard = request.try_lock_for(BOUND).unwrap();
            order.lock().push(thread);
            guard
        })
    });
    let waiting: Vec<_> = waiting.collect();
    for thread in waiting {
        held.remove(0).unlock().unwrap();
        held.push(within(BOUND, move || thread.join().unwrap()));
    }
    assert_eq!(*order.lock(), (0..8).collect::<Vec<_>>());
}

#[test]
fn a_thread_that_has_its_permit_lets_the_next_one_ask_for_another() {
    let servers = cluster(3);
    let manager = process(&servers, LONG);
    // No thread waits for another's guard while there are permits.
    let threads = (0..8).map(|_| {
        let manager = manager.clone();
        thread::spawn(move || {
            let request = manager.semaphore("exports", 8).ttl(TTL);
            (request.try_lock_for(BOUND).unwrap(), now())
        })
    });
    let (started, threads) = (now(), threads.collect::<Vec<_>>());
    let guards: Vec<_> = threads
        .into_iter()
        .map(|thread| within(BOUND, || thread.join().unwrap()))
        .collect();
    assert!(guards.iter().all(|(_, at)| *at - started < SOON));
    let error = manager.semaphore("exports", 8).try_lock().unwrap_err();
    assert!(error.to_string().contains("no node was asked"), "{error}");
}

#[test]
fn who_asks_while_this_manager_has_all_permits_is_refused_without_a_command() {
    let servers = cluster(3);
    let manager = process(&servers, LONG);
    let held = [(); 2].map(|()| take(&manager, 2));
    let heard = || servers.iter().map(asked).sum::<u64>();
    let before = heard();
    let request = manager.semaphore("exports", 2).ttl(TTL);
    for _ in 0..3 {
        let error = request.try_lock().unwrap_err();
        assert!(error.to_string().contains("no node was asked"), "{error}");
    }
    assert_eq!(heard(), before);
    drop(held);
    request.try_lock().unwrap().unlock().unwrap();
}

#[test]
fn threads_that_ask_once_at_the_same_moment_each_get_a_permit_that_is_free() {
    let servers = cluster(3);
    let manager = process(&servers, LONG);
    let (begin, have_asked) = (Barrier::new(8), Barrier::new(8));
    let refused = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..10 {
                    begin.wait();
                    let result = manager.semaphore("exports", 8).ttl(TTL).try_lock();
                    have_asked.wait();
                    // A panic here would leave the others at the barrier.
                    refused.lock().extend(result.err());
                }
            });
        }
    });
    assert!(refused.lock().is_empty(), "{refused:?}");
}

#[test]
fn while_the_first_node_is_down_the_second_tells_which_slots_are_free_and_wakes() {
    let mut servers = cluster(3);
    servers[0].kill();
    let [holder, waiter] = [(); 2].map(|()| process(&servers, LONG));
    let held = [(); 2].map(|()| take(&holder, 2));
    let waiting = listen(&waiter, 2, &servers[1]);
    let released = now();
    drop(held);
    let (_guard, at) = waiting.end();
    assert!(at - released < SOON);
}
