//! Threads of one manager that want several resources: the lines in which they wait.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use redlatch::fake::FakeNode;
use redlatch::{Cancel, Error, LockGuard, LockManager, Vote};
use redlatch_testing::{Server, eventually, pause, within};

use crate::managers::{PATIENCE, patient};
use crate::servers::waiting::queue::TTL;
use crate::waiters::{BOUND, got, line_up};

fn fakes() -> (Vec<FakeNode>, LockManager) {
    let nodes = FakeNode::cluster(3);
    let builder = LockManager::builder().fakes(&nodes);
    let manager = builder.node_timeout(PATIENCE).build().unwrap();
    (nodes, manager)
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
    assert!(
        nodes.iter().all(|node| matches!(node.vote, Vote::NotAsked)),
        "{text}"
    );
    assert!(
        text.contains(&format!(
            "the lock on {resource:?} is held by another guard of this manager"
        )),
        "{text}"
    );
    resource.to_string()
}

fn lines_up(manager: &LockManager, names: &[&'static str]) -> thread::JoinHandle<LockGuard> {
    let (manager, names) = (manager.clone(), names.to_vec());
    line_up(move || {
        manager
            .request_all(names)
            .ttl(TTL)
            .try_lock_for(BOUND)
            .unwrap()
    })
}

#[test]
fn who_wants_what_this_manager_holds_is_told_which_one_it_is() {
    let (_nodes, manager) = fakes();
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
    for name in ["a", "b", "c"] {
        drop(manager.try_lock(name, TTL).unwrap());
    }
}

#[test]
fn a_guard_of_several_gives_each_line_its_next_thread() {
    let (_nodes, manager) = fakes();
    let guard = manager.lock_all(["a", "b"], TTL).unwrap();
    let [a, b] = [lines_up(&manager, &["a"]), lines_up(&manager, &["b"])];
    let both = lines_up(&manager, &["b", "a"]);
    drop(guard);
    let [a, b] = [got(a), got(b)];
    assert_eq!((a.resource(), b.resource()), ("a", "b"));
    drop((a, b));
    assert_eq!(got(both).resources(), ["a", "b"]);
}

#[test]
fn one_who_gives_up_in_the_third_line_gives_back_the_turns_in_the_others() {
    let (_nodes, manager) = fakes();
    let _guard = manager.lock("c", TTL).unwrap();
    let wait = Duration::from_millis(50);
    let request = manager.request_all(["a", "b", "c"]).ttl(TTL);
    assert_eq!(in_the_way(request.try_lock_for(wait)), "c");
    drop(manager.try_lock("a", TTL).unwrap());
    drop(manager.try_lock("b", TTL).unwrap());

    let cancel = Cancel::new();
    let waiting = {
        let (manager, cancel) = (manager.clone(), cancel.clone());
        line_up(move || {
            let request = manager.request_all(["a", "b", "c"]).ttl(TTL);
            request.cancelled_by(&cancel).try_lock_for(BOUND)
        })
    };
    assert_eq!(in_the_way(manager.try_lock("a", TTL)), "a");
    let behind = lines_up(&manager, &["b"]);
    cancel.cancel();
    let error = got(waiting).unwrap_err();
    assert!(
        matches!(&error, Error::Cancelled { resource, .. } if &**resource == "a, b, c"),
        "{error:?}"
    );
    assert_eq!(got(behind).resource(), "b");
    drop(manager.try_lock("a", TTL).unwrap());
}

#[test]
fn one_who_waits_for_another_resource_is_no_reason_that_this_one_is_held() {
    let servers = Server::cluster(3);
    let manager = patient(servers.iter().map(Server::url));
    // Another program has "b" on all servers.
    for server in &servers {
        server.hold("b", "another", 60_000);
    }
    let cancel = Cancel::new();
    let waiting = {
        let (manager, cancel) = (manager.clone(), cancel.clone());
        line_up(move || {
            let request = manager.request_all(["a", "b"]).ttl(TTL);
            request.cancelled_by(&cancel).try_lock_for(BOUND)
        })
    };
    assert!(eventually(BOUND, || manager.stats().contended == 1));
    let error = manager.try_lock("a", TTL).unwrap_err();
    assert!(
        matches!(&error, Error::Held { resource, .. } if &**resource == "a"),
        "{error}"
    );
    // It has learned who has "b".
    let error = manager.try_lock("b", TTL).unwrap_err();
    assert!(
        matches!(&error, Error::Held { resource, .. } if &**resource == "b"),
        "{error}"
    );
    cancel.cancel();
    got(waiting).unwrap_err();
}

#[test]
fn nothing_is_passed_to_a_thread_that_waits_for_several_nor_from_a_guard_of_several() {
    let servers = Server::cluster(3);
    let manager = patient(servers.iter().map(Server::url));
    // On each connection, the scripts are called by their digests from the second time on.
    drop(manager.lock_all(["a", "b"], TTL).unwrap());
    let guard = manager.lock("a", TTL).unwrap();
    let both = lines_up(&manager, &["a", "b"]);
    let token = guard.token().to_owned();
    let scripts = || servers[0].count("eval") + servers[0].count("evalsha");
    let before = scripts();
    drop(guard);
    let both = got(both);
    // The release, and the attempt. A pass would be a third one, whose lock nobody wants.
    assert_eq!(scripts() - before, 2);
    assert_ne!(both.token(), token);
    assert_eq!(both.resources(), ["a", "b"]);
    for server in &servers {
        for name in ["a", "b"] {
            assert_eq!(server.get(name).as_deref(), Some(both.token()));
        }
    }
    let one = lines_up(&manager, &["a"]);
    let token = both.token().to_owned();
    drop(both);
    let one = got(one);
    assert_ne!(one.token(), token);
    for server in &servers {
        assert_eq!(server.get("a").as_deref(), Some(one.token()));
        assert_eq!(server.get("b"), None);
    }
}

/// Sixteen threads take one of four resources again and again, and one takes all four. Returns how often the first of them was
/// taken by others during each wait of that one.
fn overtaken(manager: &LockManager, rounds: usize) -> Vec<usize> {
    const NAMES: [&str; 4] = ["a", "b", "c", "d"];
    let over = Arc::new(AtomicBool::new(false));
    let taken = Arc::new([(); 4].map(|()| AtomicUsize::new(0)));
    let crowd = (0..16).map(|thread| {
        let (manager, over, taken) = (manager.clone(), Arc::clone(&over), Arc::clone(&taken));
        thread::spawn(move || {
            let (name, taken) = (NAMES[thread % 4], &taken[thread % 4]);
            while !over.load(Ordering::SeqCst) {
                let guard = manager.try_lock_for(name, TTL, BOUND).unwrap();
                taken.fetch_add(1, Ordering::SeqCst);
                guard.unlock().unwrap();
            }
        })
    });
    let crowd: Vec<_> = crowd.collect();
    let is_busy = || taken.iter().all(|taken| taken.load(Ordering::SeqCst) > 10);
    assert!(eventually(BOUND, is_busy));
    let waits = (0..rounds).map(|_| {
        let before = taken[0].load(Ordering::SeqCst);
        let request = manager.request_all(NAMES).ttl(TTL);
        let guard = request.try_lock_for(BOUND).unwrap();
        let after = taken[0].load(Ordering::SeqCst);
        guard.unlock().unwrap();
        // Let the crowd line up again.
        pause(Duration::from_millis(1));
        after - before
    });
    let waits = waits.collect();
    over.store(true, Ordering::SeqCst);
    within(BOUND, || {
        for thread in crowd {
            thread.join().unwrap();
        }
    });
    waits
}

/// Four threads at most are before it in the line of the first resource, and then that line stands still.
#[test]
fn one_who_wants_many_is_overtaken_by_those_alone_who_were_there_before() {
    let servers = Server::cluster(3);
    let real = patient(servers.iter().map(Server::url));
    let (_nodes, fake) = fakes();
    for manager in [real, fake] {
        let mut waits = overtaken(&manager, 50);
        waits.sort_unstable();
        // Not the most: the thread may be stopped between its look at the count and its place in the line.
        assert!(waits[waits.len() / 2] <= 5, "{waits:?}");
    }
}

#[test]
fn sixty_four_threads_with_resources_at_random_in_any_order_all_come_to_an_end() {
    const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];
    const ROUNDS: usize = 8;
    let servers = Server::cluster(3);
    let managers = [(); 2].map(|()| patient(servers.iter().map(Server::url)));
    let held: Arc<Mutex<BTreeSet<&str>>> = Arc::default();
    let threads = (0..64_u64).map(|thread| {
        let (manager, held) = (
            managers[usize::from(thread % 8 == 0)].clone(),
            Arc::clone(&held),
        );
        thread::spawn(move || {
            let mut random = fastrand::Rng::with_seed(thread);
            for _ in 0..ROUNDS {
                let count = random.usize(1..=4);
                let mut names = NAMES.to_vec();
                random.shuffle(&mut names);
                names.truncate(count);
                let guard = manager
                    .request_all(&names)
                    .ttl(TTL)
                    .try_lock_for(BOUND)
                    .unwrap();
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
    within(BOUND * 3, || {
        for thread in threads {
            thread.join().unwrap();
        }
    });
    assert!(held.lock().is_empty());
}
