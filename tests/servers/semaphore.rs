//! The wake-up of those who wait for permits, on real servers. That there are never more holders than permits, whatever fails,
//! simulation and soak show.

use redlatch::{LockGuard, LockManager, LockRequest};
use redlatch_testing::now;

use crate::waiters::{BOUND, LONG, SOON, TTL, Waiting, cluster, process};

fn permit(manager: &LockManager) -> LockRequest<'_> {
    manager.semaphore("exports", 3).ttl(TTL)
}

/// Also while the first node is down: the second one tells which slots are free, and wakes.
#[test]
fn as_many_are_woken_as_permits_are_given_back_at_once() {
    for is_down in [false, true] {
        let mut servers = cluster(3);
        if is_down {
            servers[0].kill();
        }
        let server = &servers[usize::from(is_down)];
        let holder = process(&servers, LONG);
        for _ in 0..3 {
            let held: [LockGuard; 3] = [(); 3].map(|()| permit(&holder).try_lock().unwrap());
            let waiters = [(); 3].map(|()| {
                let process = process(&servers, LONG);
                Waiting::at(server, move || permit(&process).try_lock_for(BOUND))
            });
            let released = now();
            drop(held);
            for waiting in waiters {
                let (_guard, at) = waiting.end();
                assert!(at - released < SOON, "{:?}", at - released);
            }
        }
    }
}
