//! Semaphores over real servers: the wake-up of those who wait, and threads of one process. Two managers stand for two processes.
//! That there are never more holders than permits, whatever fails, simulation and soak show.

use std::sync::{Arc, Barrier};
use std::thread;

use parking_lot::Mutex;
use redlatch::{LockGuard, LockManager};
use redlatch_testing::{Server, now};

use crate::waiters::{BOUND, LONG, SOON, TTL, Waiting, cluster, got, line_up, process};

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
fn those_who_wait_for_a_lock_of_the_same_name_are_woken_as_ever() {
    let servers = cluster(3);
    let [holder, waiter] = [(); 2].map(|()| process(&servers, LONG));
    let _all = [(); 2].map(|()| take(&holder, 2));
    let lock = holder.lock("exports", TTL).unwrap();
    let waiting = Waiting::at(&servers[0], move || {
        waiter.try_lock_for("exports", TTL, BOUND)
    });
    let released = now();
    lock.unlock().unwrap();
    let (_lock, at) = waiting.end();
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
        held.push(got(thread));
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
    let guards: Vec<_> = threads.into_iter().map(got).collect();
    assert!(guards.iter().all(|(_, at)| *at - started < SOON));
    let error = manager.semaphore("exports", 8).try_lock().unwrap_err();
    assert!(error.to_string().contains("no node was asked"), "{error}");
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
