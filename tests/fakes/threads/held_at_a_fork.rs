//! Mutexes that threads of the parent have at the moment of a fork: nobody unlocks them in the child, so it takes none.

use std::mem::take;
use std::thread;
use std::time::Duration;

use redlatch::fake::FakeNode;
use redlatch::{Error, KeepAlive, LeaseWatch, LockGuard, LockManager};
use redlatch_testing::is_alone;

use crate::servers::threads::forks::in_a_child;

const TTL: Duration = Duration::from_hours(1);
const CHILDREN: usize = 60;
/// As many as a semaphore may have, so that a look at those of this manager takes its time.
const PERMITS: u32 = 256;

fn over_fakes() -> LockManager {
    let builder = LockManager::builder().fakes(&FakeNode::cluster(1));
    // Longer than any machine stalls.
    builder.node_timeout(TTL / 10).build().unwrap()
}

/// Guards of each kind: three or more, so that each way of ending meets each kind.
fn guards(manager: &LockManager) -> Vec<LockGuard> {
    let names = ["a", "b", "c"];
    let ledger = manager.rw_lock("ledger").ttl(TTL);
    let permits = manager.semaphore("permits", PERMITS).ttl(TTL);
    let kept = |name: &str| {
        let request = manager.request(name).ttl(TTL);
        let guard = request.keep_alive(KeepAlive::unbounded()).lock().unwrap();
        guard.on_lost(|_| ());
        guard
    };
    let locks = names.map(|name| manager.lock(name, TTL).unwrap());
    let several = names.map(|name| [name, "x"].map(|part| format!("{name}{part}")));
    let several = several.map(|names| manager.lock_all(names, TTL).unwrap());
    let read = names.map(|_| ledger.read().unwrap());
    let kept = names.map(|name| kept(&format!("kept {name}")));
    let permits = (0..PERMITS).map(|_| permits.lock().unwrap());
    let all = locks.into_iter().chain(several).chain(read).chain(kept);
    all.chain(permits).collect()
}

/// Whether a guard says in a child what it can say there.
fn is_sound(guard: &LockGuard) -> bool {
    let watch = guard.watch();
    guard.on_lost(|_| ());
    let said = format!("{guard:?} {watch:?}");
    let refused = [
        guard.extend(TTL),
        guard.keep_alive(TTL, KeepAlive::unbounded()),
    ];
    let known = [
        guard.wait_lost(Duration::ZERO),
        watch.wait_lost(Duration::ZERO),
    ];
    guard.check().is_ok()
        && watch.check().is_ok()
        && refused
            .iter()
            .all(|result| matches!(result, Err(Error::Forked)))
        && known.iter().all(Option::is_none)
        && guard.votes().len() == 1
        && !said.is_empty()
}

/// Whether a manager refuses in a child what it can't do there.
fn refuses(manager: &LockManager) -> bool {
    let refused = [
        manager.try_lock("a", TTL),
        manager.semaphore("permits", PERMITS).try_lock(),
        manager.rw_lock("ledger").try_read(),
        manager.request_all(["a", "ax"]).try_lock(),
    ];
    let said = format!("{manager:?} {}", manager.stats());
    refused
        .iter()
        .all(|result| matches!(result, Err(Error::Forked)))
        && !said.is_empty()
}

/// Ends the guards, in turn in one of the three ways.
fn end(guards: Vec<LockGuard>) -> bool {
    let end = |(i, guard): (usize, LockGuard)| match i % 3 {
        0 => matches!(guard.unlock(), Err(Error::Forked)),
        1 => guard.into_lease().token().len() == 40,
        _ => {
            drop(guard);
            true
        }
    };
    guards.into_iter().enumerate().all(end)
}

type Job = Box<dyn Fn() + Send>;

/// Each takes mutexes of the manager and its guards, and has them for a good part of the time.
fn jobs(manager: &LockManager, held: &[LockGuard]) -> [Job; 5] {
    let watches: Vec<LeaseWatch> = held.iter().take(12).map(LockGuard::watch).collect();
    let managers = || manager.clone();
    let [line, slots, waits, agenda] = [managers(), managers(), managers(), managers()];
    [
        Box::new(move || drop(line.try_lock("a", TTL))),
        Box::new(move || drop(slots.semaphore("permits", PERMITS).try_lock())),
        Box::new(move || drop(waits.stats())),
        Box::new(move || {
            let request = agenda.request("again").ttl(TTL);
            drop(request.keep_alive(KeepAlive::unbounded()).try_lock());
        }),
        Box::new(move || {
            for watch in &watches {
                watch.wait_lost(Duration::ZERO);
            }
        }),
    ]
}

#[test]
fn a_child_takes_no_mutex_that_a_thread_of_the_parent_had_at_the_fork() {
    if !is_alone(
        "threads::held_at_a_fork::a_child_takes_no_mutex_that_a_thread_of_the_parent_had_at_the_fork",
    ) {
        return;
    }
    let manager = over_fakes();
    let mut held = guards(&manager);
    for job in jobs(&manager, &held) {
        // They end with the process.
        thread::spawn(move || {
            loop {
                job();
            }
        });
    }
    for _ in 0..CHILDREN {
        in_a_child(|| {
            let is_good = refuses(&manager) && held.iter().all(is_sound);
            is_good && end(take(&mut held))
        });
    }
}
