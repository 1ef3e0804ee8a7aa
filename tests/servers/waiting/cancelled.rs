//! A wait for a lock that another thread cancels. While one listens at a server, or asks the nodes, it is cancelled in `kinds::waits`.

use std::thread::{self, JoinHandle};
use std::time::Duration;

use redlatch::fake::FakeNode;
use redlatch::{Builder, Cancel, Error, LockGuard, LockManager};
use redlatch_testing::scripted::Kind;
use redlatch_testing::{Server, eventually, within};

use crate::managers::over;
use crate::waiters::{BOUND, answering};

/// So long that only a cancelled wait ends within the bound of the test.
const LONG: Duration = Duration::from_mins(30);

fn seldom(builder: Builder) -> LockManager {
    builder.retry_delay(LONG, LONG).build().unwrap()
}

/// Waits for "job" on a thread until it is cancelled.
fn wait(manager: &LockManager, cancel: &Cancel) -> JoinHandle<Result<LockGuard, Error>> {
    let (manager, cancel) = (manager.clone(), cancel.clone());
    thread::spawn(move || {
        let request = manager.request("job").ttl(LONG);
        request.cancelled_by(&cancel).try_lock_for(Duration::MAX)
    })
}

/// One who waits is cancelled once `is_waiting` says that it does.
#[track_caller]
fn assert_is_cancelled(manager: &LockManager, is_waiting: impl Fn() -> bool) {
    let cancel = Cancel::new();
    let waiting = wait(manager, &cancel);
    assert!(eventually(BOUND, is_waiting));
    assert!(!waiting.is_finished());
    cancel.cancel();
    assert_cancelled(within(BOUND, move || waiting.join().unwrap()));
}

#[track_caller]
fn assert_cancelled(result: Result<LockGuard, Error>) {
    match result {
        Err(Error::Cancelled { resource, .. }) => assert_eq!(&*resource, "job"),
        other => panic!("{other:?}"),
    }
}

/// It listens on a connection of an earlier command, in place of which it makes another one.
#[test]
fn one_who_listens_for_a_release_on_its_second_connection_is_cancelled_and_nothing_is_left_of_it() {
    let servers = Server::cluster(3);
    let [holder, other] = [(); 2].map(|()| seldom(over(&servers)));
    let guard = holder.lock("job", LONG).unwrap();
    let listens = || servers.iter().any(|server| server.blocked() == 1);
    assert_is_cancelled(&other, || {
        assert!(eventually(BOUND, listens));
        for server in &servers {
            server.command(&["CLIENT", "KILL", "TYPE", "normal"]);
        }
        eventually(BOUND, listens)
    });
    // The server notices that the connection is gone.
    assert!(eventually(BOUND, || !listens()));
    guard.unlock().unwrap();
    // Its manager goes on as before.
    other.try_lock("job", LONG).unwrap().unlock().unwrap();
}

#[test]
fn one_who_hears_the_beginning_of_an_answer_is_cancelled_too() {
    let server = answering([
        (Kind::Set, b"$-1\r\n"),
        (Kind::Release, b"*1\r\n:3600000\r\n"),
        (Kind::Look, b"*4\r\n:1\r\n:3600000\r\n:1\r\n$0\r\n\r\n"),
        (Kind::Listen, b"*2\r\n"),
    ]);
    let manager = seldom(over(std::slice::from_ref(&server)));
    assert_is_cancelled(&manager, || !server.heard_of(Kind::Listen).is_empty());
}

#[test]
fn one_who_waits_for_another_thread_or_between_attempts_is_cancelled_and_the_next_in_line_is_not() {
    let nodes = FakeNode::cluster(3);
    let manager = seldom(LockManager::builder().fakes(&nodes));
    nodes.iter().for_each(FakeNode::refuse);
    assert_is_cancelled(&manager, || manager.stats().attempts == 1);
    let stats = manager.stats();
    assert_eq!((stats.attempts, stats.failed_unavailable), (1, 0));
    nodes.iter().for_each(FakeNode::recover);

    let guard = manager.lock("job", LONG).unwrap();
    let queued = |number: u64| manager.stats().queued == number;
    let next = wait(&manager, &Cancel::new());
    assert!(eventually(BOUND, || queued(1)));
    assert_is_cancelled(&manager, || queued(2));
    assert!(!next.is_finished());
    guard.unlock().unwrap();
    let next = within(BOUND, move || next.join().unwrap()).unwrap();
    next.unlock().unwrap();
}
