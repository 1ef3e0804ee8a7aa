//! Managers in the child of a fork: refused if the parent has or has had a manager, and usable if it had none.

use std::fs;
use std::mem::take;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use redlatch::fake::FakeNode;
use redlatch::{Error, KeepAlive, LeaseWatch, LockGuard, LockManager};
use redlatch_testing::scripted::Scripted;
use redlatch_testing::{assert_ends_well, is_alone};
use signal_hook::low_level::exit as leave;

const TTL: Duration = Duration::from_hours(1);
const CHILDREN: usize = 60;
/// So many that the child does not keep the stacks of their threads.
const MANAGERS: usize = 40;
/// As many as a semaphore may have, so that a look at those of this manager takes its time.
const PERMITS: u32 = 256;

/// Does this in the child of a fork, which has to end, and to find it true.
///
/// It leaves at once: what a process does at its exit may wait for a thread that the child does not have.
#[track_caller]
fn in_a_child(job: impl FnOnce() -> bool) {
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
    let builder = LockManager::builder().fakes(&FakeNode::cluster(1));
    // Longer than any machine stalls.
    builder.node_timeout(TTL / 10).build()
}

fn keep(manager: &LockManager, name: &str) -> Result<LockGuard, Error> {
    let request = manager.request(name).ttl(TTL);
    request.keep_alive(KeepAlive::unbounded()).lock()
}

/// Whether managers are refused. Those that are not get work.
fn are_refused() -> bool {
    [over_servers, over_fakes].map(|build| match build() {
        Ok(manager) => {
            drop(keep(&manager, "kept"));
            false
        }
        Err(error) => matches!(error, Error::Forked),
    }) == [true; 2]
}

/// Whether a manager of this process's own takes and keeps locks.
fn one_works() -> bool {
    let works = || {
        let manager = over_fakes()?;
        let kept = keep(&manager, "kept")?;
        manager.try_lock("job", TTL)?.unlock()?;
        kept.unlock()
    };
    works().is_ok()
}

#[test]
fn a_child_is_refused_a_manager_unless_it_was_forked_before_the_first_one() {
    if !is_alone(
        "threads::forks::a_child_is_refused_a_manager_unless_it_was_forked_before_the_first_one",
    ) {
        return;
    }
    // That makes no manager.
    assert!(LockManager::new(["redis://h", "redis://h"]).is_err());
    in_a_child(|| {
        let works = one_works();
        in_a_child(are_refused);
        works
    });
    drop(over_servers().unwrap());
    in_a_child(|| {
        in_a_child(are_refused);
        are_refused()
    });
    assert!(one_works());
}

/// Guards of each kind: three or more, so that each way of ending meets each kind.
fn guards(manager: &LockManager) -> Vec<LockGuard> {
    let names = ["a", "b", "c"];
    let ledger = manager.rw_lock("ledger").ttl(TTL);
    let permits = manager.semaphore("permits", PERMITS).ttl(TTL);
    let locks = names.map(|name| manager.lock(name, TTL).unwrap());
    let several = names.map(|name| [name, "x"].map(|part| format!("{name}{part}")));
    let several = several.map(|names| manager.lock_all(names, TTL).unwrap());
    let read = names.map(|_| ledger.read().unwrap());
    let kept = names.map(|name| keep(manager, &format!("kept {name}")).unwrap());
    for guard in &kept {
        guard.on_lost(|_| ()).unwrap();
    }
    let permits = (0..PERMITS).map(|_| permits.lock().unwrap());
    let all = locks.into_iter().chain(several).chain(read).chain(kept);
    all.chain(permits).collect()
}

/// Whether a guard says in a child what it can say there, and drops a hook.
fn is_sound(guard: &LockGuard) -> bool {
    let (watch, shared) = (guard.watch(), Arc::new(()));
    let of_the_hook = Arc::clone(&shared);
    let refused = [
        guard.on_lost(move |_| drop(of_the_hook)),
        guard.extend(TTL),
        guard.keep_alive(TTL, KeepAlive::unbounded()),
    ];
    let known = [
        guard.wait_lost(Duration::ZERO),
        watch.wait_lost(Duration::ZERO),
    ];
    guard.check().is_ok()
        && watch.check().is_ok()
        && refused.iter().all(is_forked)
        && known.iter().all(Option::is_none)
        && guard.votes().len() == 1
        && !format!("{guard:?} {watch:?}").is_empty()
        && Arc::strong_count(&shared) == 1
}

fn is_forked<T>(result: &Result<T, Error>) -> bool {
    matches!(result, Err(Error::Forked))
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
    refused.iter().all(is_forked) && !said.is_empty()
}

/// Ends the guards, in turn in one of the three ways.
fn end(guards: Vec<LockGuard>) -> bool {
    let end = |(i, guard): (usize, LockGuard)| match i % 3 {
        0 => is_forked(&guard.unlock()),
        1 => guard.into_lease().token().len() == 40,
        _ => {
            drop(guard);
            true
        }
    };
    guards.into_iter().enumerate().all(end)
}

type Job = Box<dyn Fn() + Send>;

/// Each takes mutexes of the managers and guards, and has them for a good part of the time.
fn jobs(manager: &LockManager, remote: &LockManager, held: &[LockGuard]) -> [Job; 8] {
    let watches: Vec<LeaseWatch> = held.iter().take(12).map(LockGuard::watch).collect();
    let [line, slots, waits, agenda, breakers] = [(); 5].map(|()| manager.clone());
    let lanes = || -> Job {
        let remote = remote.clone();
        Box::new(move || drop(remote.try_lock("a", TTL)))
    };
    [
        Box::new(move || drop(line.try_lock("a", TTL))),
        Box::new(move || drop(slots.semaphore("permits", PERMITS).try_lock())),
        Box::new(move || drop(waits.stats())),
        Box::new(move || drop(keep(&agenda, "again"))),
        Box::new(move || drop(format!("{breakers:?}"))),
        Box::new(move || {
            for watch in &watches {
                watch.wait_lost(Duration::ZERO);
            }
        }),
        lanes(),
        lanes(),
    ]
}

/// How many threads this process has.
fn threads() -> usize {
    fs::read_dir("/proc/self/task").map_or(1, Iterator::count)
}

#[test]
fn a_child_waits_for_no_thread_of_the_parent_and_takes_no_mutex_that_one_had_at_the_fork() {
    if !is_alone(
        "threads::forks::a_child_waits_for_no_thread_of_the_parent_and_takes_no_mutex_that_one_had_at_the_fork",
    ) {
        return;
    }
    let (manager, server) = (
        over_fakes().unwrap(),
        Scripted::start(|peer, command| peer.say(command.consent())),
    );
    let remote = LockManager::builder().node(server.url()).pool_size(1);
    let remote = remote.build().unwrap();
    let mut held = guards(&manager);
    let others = (0..MANAGERS).map(|_| {
        let keeper = over_fakes().unwrap();
        let kept = keep(&keeper, "kept").unwrap();
        (kept, keeper, over_servers().unwrap())
    });
    let mut others: Vec<_> = others.collect();
    for job in jobs(&manager, &remote, &held) {
        // They end with the process.
        thread::spawn(move || {
            loop {
                job();
            }
        });
    }
    for _ in 0..CHILDREN {
        in_a_child(|| {
            let is_good = are_refused() && refuses(&manager) && refuses(&remote);
            let is_good = is_good && held.iter().all(is_sound) && threads() == 1;
            // When a thread of its own ends, the child gives back stacks of threads that it does not have.
            thread::spawn(|| ()).join().unwrap();
            drop((take(&mut others), remote.clone()));
            is_good && end(take(&mut held))
        });
    }
}
