//! A wait for a lock that another thread cancels.

use std::cell::Cell;
use std::thread;
use std::time::Duration;

use redlatch::fake::FakeNode;
use redlatch::{Cancel, Error, LockGuard, LockManager};
use redlatch_testing::scripted::{Kind, Scripted};
use redlatch_testing::{Server, eventually, within};

use crate::managers::PATIENCE;

/// So long that only a cancelled wait ends within the bound of the test.
const LONG: Duration = Duration::from_mins(30);
const BOUND: Duration = Duration::from_mins(1);

fn manager_of(servers: &[Server]) -> LockManager {
    let builder = LockManager::builder().nodes(servers.iter().map(Server::url));
    let builder = builder.node_timeout(PATIENCE).retry_delay(LONG, LONG);
    builder.build().unwrap()
}

/// Waits for "job" on a thread until it is cancelled, which happens once `is_waiting` says so.
#[track_caller]
fn wait_and_cancel(
    manager: &LockManager,
    is_waiting: impl Fn() -> bool,
) -> Result<LockGuard, Error> {
    let cancel = Cancel::new();
    let waiting = thread::spawn({
        let (manager, cancel) = (manager.clone(), cancel.clone());
        move || {
            let request = manager.request("job").ttl(LONG);
            request.cancelled_by(&cancel).try_lock_for(Duration::MAX)
        }
    });
    assert!(eventually(BOUND, is_waiting));
    assert!(!waiting.is_finished());
    cancel.cancel();
    within(BOUND, move || waiting.join().unwrap())
}

#[track_caller]
fn assert_cancelled(result: Result<LockGuard, Error>) {
    match result {
        Err(Error::Cancelled { resource, .. }) => assert_eq!(&*resource, "job"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn one_who_listens_for_a_release_is_cancelled_and_nothing_is_left_of_it() {
    let servers = Server::cluster(3);
    let (holder, other) = (manager_of(&servers), manager_of(&servers));
    let guard = holder.lock("job", LONG).unwrap();
    let listens = || servers.iter().any(|server| server.blocked() == 1);
    assert_cancelled(wait_and_cancel(&other, listens));
    // The server notices that the connection is gone.
    assert!(eventually(BOUND, || !listens()));
    guard.unlock().unwrap();
    // Its manager goes on as before.
    other.try_lock("job", LONG).unwrap().unlock().unwrap();
}

#[test]
fn one_whose_connection_breaks_while_it_listens_is_cancelled_too() {
    let servers = Server::cluster(1);
    let (holder, other) = (manager_of(&servers), manager_of(&servers));
    let guard = holder.lock("job", LONG).unwrap();
    // It listens on a connection of an earlier command, in place of which it makes another one.
    let is_cut_off = Cell::new(false);
    let listens_again = || {
        let listens = servers[0].blocked() == 1;
        if listens && !is_cut_off.replace(true) {
            servers[0].command(&["CLIENT", "KILL", "TYPE", "normal"]);
            return false;
        }
        listens
    };
    assert_cancelled(wait_and_cancel(&other, listens_again));
    assert!(eventually(BOUND, || servers[0].blocked() == 0));
    guard.unlock().unwrap();
}

#[test]
fn one_who_hears_the_beginning_of_an_answer_is_cancelled_too() {
    let server = Scripted::start(|peer, command| match command.kind() {
        Kind::Set => peer.say(b"$-1\r\n"),
        Kind::Release => peer.say(b"*1\r\n:3600000\r\n"),
        Kind::Look => peer.say(b"*4\r\n:1\r\n:3600000\r\n:1\r\n$0\r\n\r\n"),
        Kind::Listen => peer.say(b"*2\r\n"),
        Kind::Retake | Kind::Pass | Kind::Extend | Kind::Probe | Kind::Other => {
            peer.say(command.consent());
        }
    });
    let builder = LockManager::builder().node(server.url());
    let builder = builder.node_timeout(PATIENCE).retry_delay(LONG, LONG);
    let manager = builder.build().unwrap();
    let listens = || !server.heard_of(Kind::Listen).is_empty();
    assert_cancelled(wait_and_cancel(&manager, listens));
}

#[test]
fn one_who_waits_for_another_thread_is_cancelled_and_the_next_in_line_is_not() {
    let nodes = FakeNode::cluster(3);
    let manager = LockManager::builder().fakes(&nodes).build().unwrap();
    let guard = manager.lock("job", LONG).unwrap();
    let queued = |number: u64| {
        let manager = manager.clone();
        move || manager.stats().queued == number
    };
    let next = thread::spawn({
        let manager = manager.clone();
        move || manager.try_lock_for("job", LONG, Duration::MAX)
    });
    assert!(eventually(BOUND, queued(1)));
    assert_cancelled(wait_and_cancel(&manager, queued(2)));
    assert!(!next.is_finished());
    guard.unlock().unwrap();
    let next = within(BOUND, move || next.join().unwrap()).unwrap();
    next.unlock().unwrap();
}

#[test]
fn one_who_pauses_between_attempts_is_cancelled() {
    let nodes = FakeNode::cluster(3);
    for node in &nodes {
        node.refuse();
    }
    let builder = LockManager::builder().fakes(&nodes);
    let manager = builder.retry_delay(LONG, LONG).build().unwrap();
    let has_tried = || manager.stats().attempts == 1;
    assert_cancelled(wait_and_cancel(&manager, has_tried));
    let stats = manager.stats();
    assert_eq!((stats.attempts, stats.failed_unavailable), (1, 0));
}

#[test]
fn a_call_that_was_cancelled_before_asks_no_node() {
    let nodes = FakeNode::cluster(3);
    let manager = LockManager::builder().fakes(&nodes).build().unwrap();
    let cancel = Cancel::new();
    let request = manager.request("job").cancelled_by(&cancel);
    request.try_lock().unwrap().unlock().unwrap();
    cancel.cancel();
    let attempts = manager.stats().attempts;
    assert_cancelled(request.try_lock());
    assert_cancelled(request.lock());
    assert_eq!(manager.stats().attempts, attempts);
    // Others are not concerned.
    manager.try_lock("job", LONG).unwrap().unlock().unwrap();
}

#[test]
fn a_round_that_is_under_way_ends_as_it_would_and_leaves_nothing_but_a_guard() {
    let nodes = FakeNode::cluster(3);
    let builder = LockManager::builder().fakes(&nodes);
    let builder = builder.node_timeout(Duration::from_millis(500));
    let manager = builder.retry_delay(LONG, LONG).build().unwrap();
    for hanging in [1, 2] {
        nodes.iter().rev().take(hanging).for_each(FakeNode::hang);
        let (cancel, attempts) = (Cancel::new(), manager.stats().attempts);
        let waiting = thread::spawn({
            let (manager, cancel) = (manager.clone(), cancel.clone());
            move || {
                let request = manager.request("job").ttl(LONG);
                request.cancelled_by(&cancel).try_lock_for(Duration::MAX)
            }
        });
        let is_asking = || nodes[0].token_of("job").is_some();
        let begun = || is_asking() || manager.stats().attempts > attempts;
        assert!(eventually(BOUND, begun));
        cancel.cancel();
        match within(BOUND, move || waiting.join().unwrap()) {
            Ok(guard) => drop(guard),
            error => assert_cancelled(error),
        }
        nodes.iter().for_each(FakeNode::recover);
        let is_free = || nodes.iter().all(|node| node.token_of("job").is_none());
        assert!(eventually(BOUND, is_free));
    }
}

#[test]
fn one_who_is_cancelled_when_it_is_called_passes_the_turn_on() {
    let nodes = FakeNode::cluster(3);
    let builder = LockManager::builder().fakes(&nodes).node_timeout(PATIENCE);
    let manager = builder.build().unwrap();
    for round in 0..100_u32 {
        let cancel = Cancel::new();
        let guard = manager.lock("job", LONG).unwrap();
        thread::scope(|scope| {
            for is_patient in [false, false, true, false, true] {
                let request = manager.request("job").ttl(LONG);
                let request = if is_patient {
                    request
                } else {
                    request.cancelled_by(&cancel)
                };
                scope.spawn(move || match request.try_lock_for(Duration::MAX) {
                    Ok(guard) => guard.unlock().unwrap(),
                    error => assert!(!is_patient, "{error:?}"),
                });
            }
            scope.spawn(|| {
                // About when the lock is given back.
                (0..round * 37).for_each(|_| std::hint::spin_loop());
                cancel.cancel();
            });
            drop(guard);
        });
        assert!(nodes.iter().all(|node| node.token_of("job").is_none()));
    }
    assert_eq!(manager.stats().held(), 0);
}
