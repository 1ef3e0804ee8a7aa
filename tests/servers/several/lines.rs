//! Threads of one manager that want several resources: the lines in which they wait.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::Mutex;
use redlatch::{Cancel, Error, LockGuard, LockManager, Vote};
use redlatch_testing::{eventually, pause, within};

use crate::managers::over;
use crate::waiters::{BOUND, TTL, cluster, got, line_up, slow_fakes};

fn fakes() -> LockManager {
    slow_fakes(3).1
}

/// Which resource is in the way of a call for which no node was asked.
#[track_caller]
fn in_the_way(result: Result<LockGuard, Error>) -> String {
    let error = result.unwrap_err();
    let text = error.to_string();
    let Error::Held {
        resource, nodes, ..
    } = error
    else {
        panic!("{error:?}");
    };
    let was_asked = |vote: &Vote| !matches!(vote, Vote::NotAsked);
    assert!(!nodes.iter().any(|node| was_asked(&node.vote)), "{text}");
    let reason = format!("the lock on {resource:?} is held by another guard of this manager");
    assert!(text.contains(&reason), "{text}");
    resource.to_string()
}

/// One who waits for all of these on a thread, until it is cancelled.
fn lines_up(
    manager: &LockManager,
    names: &[&'static str],
    cancel: &Cancel,
) -> JoinHandle<Result<LockGuard, Error>> {
    let (manager, names, cancel) = (manager.clone(), names.to_vec(), cancel.clone());
    line_up(move || {
        let request = manager.request_all(names).ttl(TTL);
        request.cancelled_by(&cancel).try_lock_for(BOUND)
    })
}

#[test]
fn who_wants_what_this_manager_holds_is_told_which_one_it_is() {
    let manager = fakes();
    let all = |names: &[&str]| manager.request_all(names).ttl(TTL).try_lock();
    let guard = manager.lock("b", TTL).unwrap();
    assert_eq!(in_the_way(all(&["a", "b", "c"])), "b");
    // The turn in the first line was given back.
    drop(manager.try_lock("a", TTL).unwrap());
    drop(guard);

    let guard = all(&["c", "b"]).unwrap();
    assert_eq!(in_the_way(manager.try_lock("c", TTL)), "c");
    assert_eq!(in_the_way(all(&["a", "c"])), "c");
    assert_eq!(in_the_way(all(&["c", "b"])), "b");
    drop(manager.try_lock("a", TTL).unwrap());
    guard.unlock().unwrap();
    drop(all(&["a", "b", "c"]).unwrap());
}

#[test]
fn a_guard_of_several_gives_each_line_its_next_thread_also_if_it_was_adopted() {
    let (manager, never) = (fakes(), Cancel::new());
    let lease = manager.lock_all(["a", "b"], TTL).unwrap().into_lease();
    let guard = manager.adopt(&lease).unwrap();
    let [a, b] = ["a", "b"].map(|name| lines_up(&manager, &[name], &never));
    let both = lines_up(&manager, &["b", "a"], &never);
    drop(guard);
    let [a, b] = [a, b].map(|thread| got(thread).unwrap());
    assert_eq!((a.resource(), b.resource()), ("a", "b"));
    drop((a, b));
    assert_eq!(got(both).unwrap().resources(), ["a", "b"]);
}

#[test]
fn one_who_gives_up_in_the_third_line_gives_back_the_turns_in_the_others() {
    let (manager, cancel) = (fakes(), Cancel::new());
    let _guard = manager.lock("c", TTL).unwrap();
    let request = manager.request_all(["a", "b", "c"]).ttl(TTL);
    let wait = Duration::from_millis(50);
    assert_eq!(in_the_way(request.try_lock_for(wait)), "c");
    drop(manager.lock_all(["a", "b"], TTL).unwrap());

    let waiting = lines_up(&manager, &["a", "b", "c"], &cancel);
    assert_eq!(in_the_way(manager.try_lock("a", TTL)), "a");
    let behind = lines_up(&manager, &["b"], &Cancel::new());
    cancel.cancel();
    let error = got(waiting).unwrap_err();
    let is_told = matches!(&error, Error::Cancelled { resource, .. } if &**resource == "a, b, c");
    assert!(is_told, "{error:?}");
    assert_eq!(got(behind).unwrap().resource(), "b");
    drop(manager.try_lock("a", TTL).unwrap());
}

#[test]
fn one_who_waits_for_another_resource_is_no_reason_that_this_one_is_held() {
    let servers = cluster(3);
    let (manager, cancel) = (over(&servers).build().unwrap(), Cancel::new());
    // Another program has "b" on all servers.
    for server in &servers {
        server.hold("b", "another", 60_000);
    }
    let waiting = lines_up(&manager, &["a", "b"], &cancel);
    assert!(eventually(BOUND, || manager.stats().contended == 1));
    // Of "b", it has learned who has it.
    for name in ["a", "b"] {
        let error = manager.try_lock(name, TTL).unwrap_err();
        let is_held = matches!(&error, Error::Held { resource, .. } if &**resource == name);
        assert!(is_held, "{error}");
    }
    cancel.cancel();
    got(waiting).unwrap_err();
}

/// Sixteen threads take one of four resources again and again, and one takes all four. Returns how often the first of them was
/// taken by others during each wait of that one.
fn overtaken(manager: &LockManager, rounds: usize) -> Vec<usize> {
    const NAMES: [&str; 4] = ["a", "b", "c", "d"];
    let over = AtomicBool::new(false);
    let taken = [(); 4].map(|()| AtomicUsize::new(0));
    let take_again_and_again = |place: usize| {
        while !over.load(Ordering::SeqCst) {
            let guard = manager.try_lock_for(NAMES[place], TTL, BOUND).unwrap();
            taken[place].fetch_add(1, Ordering::SeqCst);
            guard.unlock().unwrap();
        }
    };
    thread::scope(|scope| {
        for thread in 0..16 {
            scope.spawn(move || take_again_and_again(thread % 4));
        }
        let is_busy = || taken.iter().all(|taken| taken.load(Ordering::SeqCst) > 10);
        let is_busy = eventually(BOUND, is_busy);
        let waits = (0..rounds).map(|_| {
            let before = taken[0].load(Ordering::SeqCst);
            let request = manager.request_all(NAMES).ttl(TTL);
            let guard = request.try_lock_for(BOUND);
            let after = taken[0].load(Ordering::SeqCst);
            drop(guard.unwrap());
            // Let the crowd line up again.
            pause(Duration::from_millis(1));
            after - before
        });
        let waits = waits.collect();
        over.store(true, Ordering::SeqCst);
        assert!(is_busy);
        waits
    })
}

/// Four threads at most are before it in the line of the first resource, and then that line stands still.
#[test]
fn one_who_wants_many_is_overtaken_by_those_alone_who_were_there_before() {
    let servers = cluster(3);
    for manager in [over(&servers).build().unwrap(), fakes()] {
        let mut waits = within(BOUND * 3, move || overtaken(&manager, 50));
        waits.sort_unstable();
        // Not the most: the thread may be stopped between its look at the count and its place in the line.
        assert!(waits[waits.len() / 2] <= 5, "{waits:?}");
    }
}

#[test]
fn sixty_four_threads_with_resources_at_random_in_any_order_all_come_to_an_end() {
    const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];
    const ROUNDS: usize = 8;
    let servers = cluster(3);
    let managers = [(); 2].map(|()| over(&servers).build().unwrap());
    let held: Arc<Mutex<BTreeSet<&str>>> = Arc::default();
    let threads = (0..64_u64).map(|thread| {
        let manager = managers[usize::from(thread % 8 == 0)].clone();
        let held = Arc::clone(&held);
        thread::spawn(move || {
            let mut random = fastrand::Rng::with_seed(thread);
            for _ in 0..ROUNDS {
                let mut names = NAMES.to_vec();
                random.shuffle(&mut names);
                names.truncate(random.usize(1..=4));
                let request = manager.request_all(&names).ttl(TTL);
                let guard = request.try_lock_for(BOUND).unwrap();
                {
                    let mut held = held.lock();
                    let all_new = names.iter().all(|name| held.insert(name));
                    assert!(all_new, "{names:?} of {held:?}");
                }
                thread::yield_now();
                guard.check().unwrap();
                held.lock().retain(|name| !names.contains(name));
                guard.unlock().unwrap();
            }
        })
    });
    let threads: Vec<_> = threads.collect();
    within(BOUND * 3, || threads.into_iter().for_each(got));
    assert!(held.lock().is_empty());
}
