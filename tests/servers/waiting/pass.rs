//! A lock passes from thread to thread of one manager: its release and the next attempt go in one request to each node.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use redlatch::{Cancel, Error, Fanout, LockGuard, LockManager, Vote};
use redlatch_testing::eventually;
use redlatch_testing::scripted::{Command, Kind, Scripted};

use crate::managers::over;
use crate::waiters::{BOUND, answering, got, heard, line_up, listeners, next, slow_fakes};

const TTL: Duration = Duration::from_secs(15);

/// A lock that is held, and a thread of the same manager that waits for it.
#[track_caller]
pub(crate) fn wanted(manager: &LockManager) -> (LockGuard, JoinHandle<LockGuard>) {
    let guard = manager.lock("job", TTL).unwrap();
    (guard, next(manager, TTL))
}

/// The only command of this kind that a node has heard.
#[track_caller]
fn only(node: &Scripted, kind: Kind) -> Command {
    let [only] = &node.heard_of(kind)[..] else {
        panic!("{:?}", node.heard());
    };
    only.clone()
}

/// How many commands of this kind each node has heard.
fn count<const N: usize>(nodes: &[Scripted; N], kind: Kind) -> [usize; N] {
    nodes.each_ref().map(|node| node.heard_of(kind).len())
}

#[track_caller]
pub(crate) fn assert_granted_by(guard: &LockGuard, number: usize) {
    let votes = guard.votes();
    let granted = votes.iter().filter(|it| matches!(it.vote, Vote::Granted));
    assert_eq!(granted.count(), number, "{votes:?}");
}

/// One who waits until it is cancelled.
fn leaves_by(manager: &LockManager, cancel: &Cancel) -> JoinHandle<Result<LockGuard, Error>> {
    let (manager, cancel) = (manager.clone(), cancel.clone());
    line_up(move || {
        let request = manager.request("job").ttl(TTL).cancelled_by(&cancel);
        request.try_lock_for(BOUND)
    })
}

#[test]
fn a_release_and_the_next_attempt_are_one_command_to_each_node() {
    for fanout in [Fanout::Sequential, Fanout::Overlapped] {
        let nodes = listeners(5);
        let manager = over(&nodes).fanout(fanout).build().unwrap();
        let guard = manager.lock("job", TTL).unwrap();
        let (token, before) = (guard.token().to_owned(), heard(&nodes));
        let waiting = next(&manager, TTL * 2);
        guard.unlock().unwrap();
        let second = got(waiting);
        let after: Vec<usize> = before.iter().map(|count| count + 1).collect();
        assert_eq!(heard(&nodes), after);
        for node in &nodes {
            let pass = only(node, Kind::Pass);
            assert_eq!(pass.argument(9), Some(&*token));
            assert_eq!(pass.token(), second.token());
            let ttl_ms = (TTL * 2).as_millis().to_string();
            assert_eq!(pass.argument(2), Some(&*ttl_ms));
        }
        assert_ne!(second.token(), token);
        assert_granted_by(&second, 5);
        assert!(second.remaining() > TTL);
        second.unlock().unwrap();
        let stats = manager.stats();
        let calls = (stats.acquired, stats.attempts, stats.released);
        assert_eq!(calls, (2, 2, 2), "{stats}");
        assert!(stats.nodes.iter().all(|node| node.granted == 2), "{stats}");
    }
}

#[test]
fn every_sixteenth_time_it_is_released_so_that_who_polls_can_get_it() {
    let nodes = listeners(1);
    let manager = over(&nodes).build().unwrap();
    let mut guard = manager.lock("job", TTL).unwrap();
    for _ in 0..33 {
        let waiting = next(&manager, TTL);
        guard.unlock().unwrap();
        guard = got(waiting);
    }
    let kinds: Vec<Kind> = nodes[0].heard().iter().map(Command::kind).collect();
    let round = [&[Kind::Set][..], &[Kind::Pass; 15], &[Kind::Release]].concat();
    let last = [Kind::Set, Kind::Pass];
    assert_eq!(kinds, [&round[..], &round, &last].concat());
}

/// The reply of a node that has released the lock and woken another client.
const WOKEN: (Kind, &[u8]) = (Kind::Pass, b"*2\r\n:2\r\n:0\r\n");

#[test]
fn nothing_is_asked_for_while_others_are_known_to_wait() {
    // The first release of each says that another client was woken.
    let nodes = [(); 3].map(|()| answering([WOKEN, (Kind::Release, b":2\r\n")]));
    let manager = over(&nodes).build().unwrap();
    let mut guard = manager.lock("job", TTL).unwrap();
    for _ in 0..3 {
        let waiting = next(&manager, TTL);
        guard.unlock().unwrap();
        guard = got(waiting);
    }
    guard.unlock().unwrap();
    assert_eq!(count(&nodes, Kind::Pass), [1; 3]);
    // Where the lock was not asked for, there is nothing to undo.
    assert_eq!(count(&nodes, Kind::Release), [3; 3]);
}

#[test]
fn where_one_node_has_woken_another_client_the_others_are_released_at_once() {
    let nodes = listeners(3);
    let waking = answering([WOKEN]);
    let manager = over(&nodes).node(waking.url()).build().unwrap();
    let (guard, waiting) = wanted(&manager);
    guard.unlock().unwrap();
    // Before the release has returned.
    let passed = only(&nodes[0], Kind::Pass).token().to_owned();
    for node in &nodes {
        assert_eq!(only(node, Kind::Pass).token(), passed);
        assert_eq!(only(node, Kind::Release).token(), passed);
    }
    assert!(waking.heard_of(Kind::Release).is_empty());
    assert_ne!(got(waiting).token(), passed);
}

#[test]
fn a_node_that_does_not_tell_of_the_key_is_sent_the_release_again() {
    // It can neither pass nor release, as while it loads its data. That it answers, is no answer about the key.
    let loads = Arc::new(AtomicBool::new(true));
    let is_loading = Arc::clone(&loads);
    let loading = Scripted::start(move |peer, command| {
        let is_of_the_key = matches!(command.kind(), Kind::Pass | Kind::Release);
        let refuses = is_of_the_key && is_loading.load(Ordering::SeqCst);
        let refusal = b"-LOADING wait\r\n";
        peer.say(if refuses { refusal } else { command.consent() });
    });
    let others = [(); 2].map(|()| answering([]));
    let manager = over(&others).node(loading.url()).build().unwrap();
    let (guard, waiting) = wanted(&manager);
    let token = guard.token().to_owned();
    guard.unlock().unwrap();
    let second = got(waiting);
    assert_eq!(loading.heard_of(Kind::Pass).len(), 1);
    loads.store(false, Ordering::SeqCst);
    let is_released = || {
        let releases = loading.heard_of(Kind::Release);
        releases.last().is_some_and(|last| last.token() == token)
    };
    assert!(eventually(BOUND, is_released), "{loading:?}");
    assert_eq!(count(&others, Kind::Release), [0; 2]);
    second.unlock().unwrap();
}

#[test]
fn one_who_leaves_meanwhile_gets_nothing_and_leaves_nothing() {
    let nodes = [(); 3].map(|()| {
        Scripted::start(|peer, command| {
            if command.kind() == Kind::Pass {
                peer.wait(Duration::from_millis(400));
            }
            peer.say(command.consent());
        })
    });
    let manager = over(&nodes).fanout(Fanout::Overlapped).build().unwrap();
    let guard = manager.lock("job", TTL).unwrap();
    let cancel = Cancel::new();
    let leaving = leaves_by(&manager, &cancel);
    let behind = next(&manager, TTL);
    let releasing = line_up(move || guard.unlock());
    assert!(eventually(BOUND, || count(&nodes, Kind::Pass) == [1; 3]));
    cancel.cancel();
    assert!(matches!(got(leaving), Err(Error::Cancelled { .. })));
    got(releasing).unwrap();
    let behind = got(behind);
    for node in &nodes {
        let passed = only(node, Kind::Pass);
        assert_eq!(only(node, Kind::Release).token(), passed.token());
        assert_eq!(node.heard_of(Kind::Set)[1].token(), behind.token());
    }
}

#[test]
fn a_lock_that_rests_or_is_lost_is_not_passed() {
    let nodes = [(); 3].map(|()| answering([]));
    let manager = over(&nodes).build().unwrap();
    let request = manager.request("job").ttl(TTL);
    let resting = request.at_least(Duration::from_secs(5)).lock().unwrap();
    let waiting = next(&manager, TTL);
    resting.unlock().unwrap();
    drop(got(waiting));
    assert_eq!(count(&nodes, Kind::Pass), [0; 3]);

    let (nodes, manager) = slow_fakes(3);
    let lost = manager.lock("job", TTL).unwrap();
    for node in &nodes {
        node.hold("job", "another", Duration::from_millis(300));
    }
    assert!(matches!(lost.extend(TTL), Err(Error::Lost { .. })));
    let waiting = next(&manager, TTL);
    assert!(matches!(lost.unlock(), Err(Error::Lost { .. })));
    got(waiting).unlock().unwrap();
}

#[test]
fn nothing_is_asked_for_one_who_has_cancelled_and_no_permit_is_passed() {
    let nodes = [(); 1].map(|()| answering([]));
    let manager = over(&nodes).build().unwrap();
    let cancel = Cancel::new();
    let guard = manager.lock("job", TTL).unwrap();
    let leaving = leaves_by(&manager, &cancel);
    cancel.cancel();
    guard.unlock().unwrap();
    assert!(got(leaving).is_err());

    let permit = |manager: &LockManager| manager.semaphore("job", 1).ttl(TTL).lock().unwrap();
    let (first, other) = (permit(&manager), manager.clone());
    let waiting = line_up(move || permit(&other));
    first.unlock().unwrap();
    drop(got(waiting));
    assert_eq!(count(&nodes, Kind::Pass), [0]);
}
