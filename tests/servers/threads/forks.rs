//! Managers in the child of a fork: refused if the parent had a manager, and usable if it had none.

use std::fs;
use std::mem::take;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use redlatch::fake::FakeNode;
use redlatch::{Error, KeepAlive, LockGuard, LockManager};
use redlatch_testing::{assert_ends_well, is_alone};
use signal_hook::low_level::exit as leave;

const TTL: Duration = Duration::from_secs(10);
const CHILDREN: usize = 50;
/// So many that the child does not keep the stacks of their threads.
const MANAGERS: usize = 40;

/// Does this in the child of a fork, which has to end, and to find it true.
///
/// It leaves at once: what a process does at its exit may wait for a thread that the child does not have.
#[track_caller]
pub(crate) fn in_a_child(job: impl FnOnce() -> bool) {
    match fork::fork().unwrap() {
        fork::Fork::Child => leave(i32::from(!job())),
        fork::Fork::Parent(pid) => assert_ends_well(pid),
    }
}

/// With a thread for probes, and one for lookups. They connect to nothing.
fn over_servers() -> Result<LockManager, Error> {
    LockManager::new(["redis://127.0.0.1:1", "redis://redis.invalid:1"])
}

fn over_fakes() -> Result<LockManager, Error> {
    LockManager::builder().fakes(&FakeNode::cluster(3)).build()
}

fn keep(manager: &LockManager, name: &str, ttl: Duration) -> Result<LockGuard, Error> {
    let request = manager.request(name).ttl(ttl);
    request.keep_alive(KeepAlive::unbounded()).lock()
}

/// Whether managers are refused. Those that are not get work.
fn are_refused() -> bool {
    [over_servers, over_fakes].map(|build| match build() {
        Ok(manager) => {
            drop(keep(&manager, "kept", TTL));
            false
        }
        Err(error) => matches!(error, Error::Forked),
    }) == [true; 2]
}

/// Whether a manager of this process's own takes and keeps locks.
fn one_works() -> bool {
    let works = || {
        let builder = LockManager::builder().fakes(&FakeNode::cluster(3));
        // Longer than any machine stalls.
        let manager = builder.node_timeout(TTL).build()?;
        let kept = keep(&manager, "kept", TTL * 6)?;
        manager.try_lock("job", TTL * 6)?.unlock()?;
        kept.unlock()
    };
    works().is_ok()
}

#[test]
fn a_child_of_a_process_that_has_a_manager_is_refused_one_and_never_hangs() {
    if !is_alone(
        "threads::forks::a_child_of_a_process_that_has_a_manager_is_refused_one_and_never_hangs",
    ) {
        return;
    }
    let mut others: Vec<_> = (0..MANAGERS).map(|_| over_servers().unwrap()).collect();
    let manager = over_fakes().unwrap();
    // Renewed every few milliseconds.
    let ttl = Duration::from_millis(200);
    let kept = (0..50).map(|i| keep(&manager, &format!("kept-{i}"), ttl).unwrap());
    let mut kept: Vec<_> = kept.collect();
    let is_over = Arc::new(AtomicBool::new(false));
    // They wait for each other, as threads of a program do.
    let workers = (0..4).map(|_| {
        let (manager, is_over) = (manager.clone(), Arc::clone(&is_over));
        thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                manager.try_lock_for("job", TTL, TTL).ok();
            }
        })
    });
    let workers: Vec<_> = workers.collect();
    for _ in 0..CHILDREN {
        in_a_child(|| {
            let is_good = are_refused();
            // Nor does it wait for anything to see it and let it go.
            let text = format!("{manager:?} {:?} {:?}", manager.stats(), kept[0]);
            drop((take(&mut kept), take(&mut others), manager.clone()));
            is_good && !text.is_empty()
        });
    }
    is_over.store(true, Ordering::Relaxed);
    for worker in workers {
        worker.join().unwrap();
    }
}

#[test]
fn a_child_that_drops_what_keeps_locks_alive_waits_for_no_thread_of_the_parent() {
    if !is_alone(
        "threads::forks::a_child_that_drops_what_keeps_locks_alive_waits_for_no_thread_of_the_parent",
    ) {
        return;
    }
    let kept = (0..MANAGERS).map(|_| {
        let manager = over_fakes().unwrap();
        (keep(&manager, "kept", TTL).unwrap(), manager)
    });
    let mut kept: Vec<_> = kept.collect();
    in_a_child(|| {
        // When a thread of its own ends, the child gives back stacks of threads that it does not have.
        thread::spawn(|| ()).join().unwrap();
        drop(take(&mut kept));
        true
    });
}

#[test]
fn nor_is_one_of_a_process_that_has_had_a_manager_or_of_its_children() {
    if !is_alone(
        "threads::forks::nor_is_one_of_a_process_that_has_had_a_manager_or_of_its_children",
    ) {
        return;
    }
    drop(over_servers().unwrap());
    in_a_child(|| {
        in_a_child(are_refused);
        are_refused()
    });
    assert!(one_works());
}

/// How many threads this process has.
fn threads() -> usize {
    fs::read_dir("/proc/self/task").map_or(1, Iterator::count)
}

#[test]
fn a_hook_that_is_given_in_a_child_is_dropped_and_starts_no_thread() {
    if !is_alone("threads::forks::a_hook_that_is_given_in_a_child_is_dropped_and_starts_no_thread")
    {
        return;
    }
    let manager = over_fakes().unwrap();
    let guard = manager.lock("job", TTL).unwrap();
    in_a_child(|| {
        let shared = Arc::new(());
        let of_the_hook = Arc::clone(&shared);
        guard.on_lost(move |_| drop(of_the_hook));
        Arc::strong_count(&shared) == 1 && threads() == 1
    });
    guard.unlock().unwrap();
}

#[test]
fn a_child_that_was_forked_before_the_first_manager_has_its_own() {
    if !is_alone("threads::forks::a_child_that_was_forked_before_the_first_manager_has_its_own") {
        return;
    }
    // That makes no manager.
    assert!(LockManager::new(["redis://h", "redis://h"]).is_err());
    for _ in 0..CHILDREN {
        in_a_child(|| {
            let works = one_works();
            in_a_child(are_refused);
            works
        });
    }
    assert!(one_works());
}
