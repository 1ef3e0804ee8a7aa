//! Waiting for a lock of another process: one server is asked, and a release wakes a waiting client.
//!
//! Two managers stand for two processes. What is the same for locks of all kinds is in `kinds::waits`.

use std::time::Duration;

use redlatch::{Error, LockGuard, LockManager, LockRequest, Protocol};
use redlatch_testing::scripted::{Command, Kind, Peer, Scripted};
use redlatch_testing::{Server, eventually, now, within};

use crate::managers::{PATIENCE, over, processes_by};
use crate::waiters::{BOUND, LONG, SOON, TTL, Waiting, cluster, process};

/// By a path, and by a release as operators do it.
#[test]
fn a_release_wakes_one_whose_connection_was_killed_long_before_its_next_look() {
    let server = Server::start_with(&["--unixsocket", "{dir}/redis.sock"]);
    let url = format!("unix://{}/redis.sock", server.dir().display());
    let builder = LockManager::builder().node(url).node_timeout(PATIENCE);
    let [holder, waiter] = processes_by(&builder.retry_delay(LONG, LONG), Protocol::Classic);
    let guard = holder.lock("job", TTL).unwrap();
    let waiting = Waiting::listen(&waiter, &server);
    server.command(&["CLIENT", "KILL", "TYPE", "normal"]);
    assert!(eventually(BOUND, || server.blocked() == 1));
    let released = now();
    holder.release("job", guard.token()).unwrap();
    let (_guard, at) = waiting.end();
    assert!(at - released < SOON, "{:?}", at - released);
}

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
        for round in 0..3 {
            let held: [LockGuard; 3] = [(); 3].map(|()| permit(&holder).try_lock().unwrap());
            let waiters = [(); 3].map(|()| {
                let process = process(&servers, LONG);
                Waiting::at(server, move || permit(&process).try_lock_for(BOUND))
            });
            let released = now();
            drop(held);
            let had = waiters.map(Waiting::end);
            let after = had.each_ref().map(|(_guard, at)| *at - released);
            assert!(
                after.iter().all(|it| *it < SOON),
                "{is_down} {round}: {after:?}"
            );
        }
    }
}

/// Waits for so long for a lock that a server does not give. The server answers looks and those who listen as it likes.
#[track_caller]
fn wait_in_vain(
    delay: Duration,
    wait: Duration,
    answer: impl Fn(&mut Peer, &Command) + Send + Sync + 'static,
) -> Scripted {
    let server = Scripted::start(move |peer, command| {
        let kind = command.kind();
        if matches!(kind, Kind::Look | Kind::Listen) {
            return answer(peer, command);
        }
        peer.say(match (kind == Kind::Set, kind == Kind::Release) {
            (true, _) => b"$-1\r\n",
            (_, true) => b"*1\r\n:50000\r\n",
            _ => command.consent(),
        });
    });
    let builder = over(std::slice::from_ref(&server)).node_timeout(Duration::from_secs(2));
    let waiter = builder.retry_delay(delay, delay).build().unwrap();
    let started = now();
    let result = within(BOUND, move || waiter.try_lock_for("job", TTL, wait));
    assert!(matches!(result, Err(Error::Held { .. })), "{result:?}");
    assert!(now() - started < wait * 3 + SOON);
    // A node that failed is probed.
    assert!(server.heard_of(Kind::Probe).is_empty());
    server
}

const IS_HELD: &[u8] = b"*4\r\n:1\r\n:50000\r\n:1\r\n$0\r\n\r\n";

#[test]
fn a_server_that_is_late_to_end_the_listening_or_refuses_a_look_is_not_taken_for_one_that_failed() {
    let delay = Duration::from_millis(50);
    let server = wait_in_vain(delay, Duration::from_secs(3), |peer, command| {
        if command.kind() == Kind::Listen {
            return peer.wait(BOUND);
        }
        peer.say(IS_HELD);
    });
    assert!(server.heard_of(Kind::Look).len() >= 2);

    let server = wait_in_vain(delay, delay * 60, |peer, _| {
        peer.say(b"-LOADING Redis is loading the dataset in memory\r\n");
    });
    // On a busy machine there may be few, and never more than one for each delay.
    let looks = server.heard_of(Kind::Look).len();
    assert!((1..=61).contains(&looks), "{looks}");
}

#[test]
fn one_whose_connection_breaks_listens_again_for_the_rest_of_the_time() {
    let wait = Duration::from_secs(5);
    let server = wait_in_vain(Duration::from_secs(3), wait, |peer, command| {
        if command.kind() == Kind::Look {
            peer.say(IS_HELD);
        } else if command.connection > 0 {
            peer.say(command.consent());
        } else {
            peer.wait(Duration::from_millis(700));
            peer.close();
        }
    });
    let listened = server.heard_of(Kind::Listen);
    let seconds = |at: usize| -> f64 { listened[at].words[2].parse().unwrap() };
    assert!((seconds(0) - 3.0).abs() < 0.01, "{listened:?}");
    assert!(seconds(1) < 2.4, "{listened:?}");
}
