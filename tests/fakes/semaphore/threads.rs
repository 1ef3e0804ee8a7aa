//! The threads of one process that want permits.

use std::sync::{Arc, Barrier};
use std::thread;

use parking_lot::Mutex;
use redlatch::LockManager;

use crate::waiters::{BOUND, TTL, got, line_up, slow_fakes};

#[test]
fn threads_of_one_process_get_permits_in_the_order_in_which_they_asked() {
    let (_nodes, manager) = slow_fakes(3);
    let take = |manager: &LockManager| {
        let request = manager.semaphore("exports", 2).ttl(TTL);
        request.try_lock_for(BOUND).unwrap()
    };
    let mut held = vec![take(&manager), take(&manager)];
    let order = Arc::new(Mutex::new(Vec::new()));
    let waiting = (0..8).map(|thread| {
        let (manager, order) = (manager.clone(), Arc::clone(&order));
        line_up(move || {
            let guard = take(&manager);
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

/// No thread waits for another's guard while there are permits, nor is it refused one.
#[test]
fn threads_that_ask_at_the_same_moment_each_get_a_permit_that_is_free() {
    let (_nodes, manager) = slow_fakes(3);
    let (begin, have_asked) = (Barrier::new(8), Barrier::new(8));
    let refused = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for waits in [true, false].repeat(4) {
            let (manager, refused) = (&manager, &refused);
            let (begin, have_asked) = (&begin, &have_asked);
            scope.spawn(move || {
                for _ in 0..10 {
                    begin.wait();
                    let request = manager.semaphore("exports", 8).ttl(TTL);
                    let result = if waits {
                        request.try_lock_for(TTL / 2)
                    } else {
                        request.try_lock()
                    };
                    have_asked.wait();
                    // A panic here would leave the others at the barrier.
                    refused.lock().extend(result.err());
                }
            });
        }
    });
    assert!(refused.lock().is_empty(), "{refused:?}");
}
