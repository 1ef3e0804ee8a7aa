//! A lock passes from thread to thread of one manager: its release and the next attempt go in one request to each node.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use redlatch::fake::FakeNode;
use redlatch::{Cancel, Error, Fanout, LockGuard, LockManager, LockStatus, NodeError, Vote};
use redlatch_testing::scripted::{Command, Kind, Scripted};
use redlatch_testing::{eventually, pause};

use crate::managers::{BOTH, over, processes_by};
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
fn assert_granted_by(guard: &LockGuard, number: usize) {
    let votes = guard.votes();
    let granted = votes.iter().filter(|it| matches!(it.vote, Vote::Granted));
    assert_eq!(granted.count(), number, "{votes:?}");
}

/// One who waits until it is cancelled.
pub(crate) fn leaves_by(
    manager: &LockManager,
    cancel: &Cancel,
) -> JoinHandle<Result<LockGuard, Error>> {
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

/// The first node says of each release, also of that with an attempt, that it has woken another client.
#[test]
fn where_one_node_has_woken_another_client_the_others_are_released_at_once_and_it_goes_first() {
    let waking = answering([
        (Kind::Pass, b"*2\r\n:2\r\n:0\r\n"),
        (Kind::Release, b":2\r\n"),
    ]);
    let nodes = [waking, answering([]), answering([])];
    let manager = over(&nodes).build().unwrap();
    let (guard, waiting) = wanted(&manager);
    guard.unlock().unwrap();
    // Before the release has returned.
    let passed = only(&nodes[1], Kind::Pass).token().to_owned();
    for node in &nodes[1..] {
        assert_eq!(only(node, Kind::Pass).token(), passed);
        assert_eq!(only(node, Kind::Release).token(), passed);
    }
    let mut guard = got(waiting);
    assert_ne!(guard.token(), passed);
    for _ in 0..2 {
        let waiting = next(&manager, TTL);
        guard.unlock().unwrap();
        guard = got(waiting);
    }
    // Nothing is asked for while others are known to wait, and where it was not asked for, there is nothing to undo.
    assert_eq!(count(&nodes, Kind::Pass), [1; 3]);
    assert_eq!(count(&nodes, Kind::Release), [2, 3, 3]);
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
fn nobody_asks_meanwhile_and_one_who_leaves_gets_nothing_and_leaves_nothing() {
    let gate = Arc::new(AtomicBool::new(false));
    let nodes = [(); 3].map(|()| {
        let is_open = Arc::clone(&gate);
        Scripted::start(move |peer, command| {
            while command.kind() == Kind::Pass && !is_open.load(Ordering::SeqCst) {
                peer.wait(Duration::from_millis(1));
            }
            peer.say(command.consent());
        })
    });
    let manager = over(&nodes).fanout(Fanout::Overlapped).build().unwrap();
    let guard = manager.lock("job", TTL).unwrap();
    let cancel = Cancel::new();
    let leaving = leaves_by(&manager, &cancel);
    let behind = next(&manager, TTL);
    let watch = guard.watch();
    let releasing = line_up(move || guard.unlock());
    assert!(eventually(BOUND, || count(&nodes, Kind::Pass) == [1; 3]));
    // Before a node can have passed the key on.
    assert!(watch.check().is_err());
    // Longer than those who wait take to look: a guard that is given back is no lock that has ended.
    pause(Duration::from_millis(150));
    assert_eq!(count(&nodes, Kind::Set), [1; 3]);
    cancel.cancel();
    assert!(matches!(got(leaving), Err(Error::Cancelled { .. })));
    gate.store(true, Ordering::SeqCst);
    got(releasing).unwrap();
    let behind = got(behind);
    for node in &nodes {
        let passed = only(node, Kind::Pass);
        assert_eq!(only(node, Kind::Release).token(), passed.token());
        assert_eq!(node.heard_of(Kind::Set)[1].token(), behind.token());
    }
}

type Take = fn(&LockManager) -> LockGuard;

#[test]
fn nothing_is_asked_for_one_who_has_cancelled_and_no_permit_is_passed_nor_anything_of_several() {
    let nodes = [Scripted::start(|peer, command| {
        let is_of_both = command.kind() == Kind::Release && command.words[2] == "2";
        let released: &[u8] = b"*2\r\n:1\r\n:1\r\n";
        peer.say(if is_of_both {
            released
        } else {
            command.consent()
        });
    })];
    let manager = over(&nodes).build().unwrap();
    let cancel = Cancel::new();
    let guard = manager.lock("job", TTL).unwrap();
    let leaving = leaves_by(&manager, &cancel);
    cancel.cancel();
    guard.unlock().unwrap();
    assert!(got(leaving).is_err());

    let permit: Take = |manager| manager.semaphore("job", 1).ttl(TTL).lock().unwrap();
    let one: Take = |manager| manager.lock("a", TTL).unwrap();
    let both: Take = |manager| manager.lock_all(["a", "b"], TTL).unwrap();
    for (take, next) in [(permit, permit), (one, both), (both, one)] {
        let (first, other) = (take(&manager), manager.clone());
        let waiting = line_up(move || next(&other));
        first.unlock().unwrap();
        drop(got(waiting));
    }
    assert_eq!(count(&nodes, Kind::Pass), [0]);
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

/// Fake nodes and a manager over them: both protocols with both fan-outs.
fn each_way(check: impl Fn(&[FakeNode], &LockManager)) {
    for protocol in BOTH {
        for fanout in [Fanout::Sequential, Fanout::Overlapped] {
            let nodes = FakeNode::cluster(3);
            let builder = LockManager::builder().fakes(&nodes).fanout(fanout);
            // Time enough for a node that answers, on a busy machine too.
            let builder = builder.node_timeout(Duration::from_secs(2));
            let [manager] = processes_by(&builder, protocol);
            check(&nodes, &manager);
            assert!(nodes.iter().all(|node| node.token_of("job").is_none()));
        }
    }
}

#[test]
fn each_thread_has_its_own_ttl_and_label_and_a_larger_fencing_token() {
    each_way(|nodes, manager| {
        let mut guard = manager.lock("job", TTL).unwrap();
        for i in 1..=4_u32 {
            let (label, ttl) = (format!("worker-{i}"), TTL * i);
            let waiting = line_up({
                let (manager, label) = (manager.clone(), label.clone());
                move || manager.request("job").ttl(ttl).holder(&label).lock()
            });
            let (old, fencing) = (guard.token().to_owned(), guard.fencing_token());
            // A node that failed a moment ago is asked if it may have the key.
            nodes[1].refuse();
            manager.status("another").unwrap();
            nodes[1].recover();
            guard.unlock().unwrap();
            guard = got(waiting).unwrap();
            assert_granted_by(&guard, 3);
            assert_ne!(guard.token(), old);
            assert!(guard.fencing_token() > fencing || fencing.is_none());
            for node in nodes {
                assert_eq!(node.token_of("job").as_deref(), Some(guard.token()));
                let left = node.ttl_of("job").unwrap();
                assert!(left * 2 > ttl && left <= ttl, "{left:?}");
            }
            let LockStatus::Held { holder, .. } = manager.status("job").unwrap() else {
                panic!("nobody has it");
            };
            assert_eq!(*holder.unwrap().label, *label);
        }
        guard.unlock().unwrap();
    });
}

#[test]
fn a_node_that_stands_still_meanwhile_has_neither_key_when_it_goes_on() {
    each_way(|nodes, manager| {
        let (guard, waiting) = wanted(manager);
        nodes[1].hang();
        guard.unlock().unwrap();
        let next = got(waiting);
        next.check().unwrap();
        let failed = &next.votes()[1].vote;
        assert!(matches!(failed, Vote::Failed(NodeError::TimedOut { .. })));
        assert_granted_by(&next, 2);
        nodes[1].recover();
        // Also while the lock is held: the undo is behind the attempt.
        assert!(eventually(BOUND, || nodes[1].token_of("job").is_none()));
        for node in [&nodes[0], &nodes[2]] {
            assert_eq!(node.token_of("job").as_deref(), Some(next.token()));
        }
        next.unlock().unwrap();
    });
}

#[test]
fn an_attempt_without_a_reply_is_undone_behind_it_and_the_release_goes_on_another_connection() {
    let silent = Scripted::start(|peer, command| {
        if command.kind() != Kind::Pass {
            peer.say(command.consent());
        }
    });
    let others = listeners(3);
    let builder = over(&others).node_timeout(Duration::from_secs(2));
    let manager = builder.node(silent.url()).build().unwrap();
    let (guard, waiting) = wanted(&manager);
    let first = guard.token().to_owned();
    guard.unlock().unwrap();
    got(waiting).unlock().unwrap();
    // Nobody waits for these.
    assert!(eventually(BOUND, || silent.heard_of(Kind::Release).len() == 2));
    let pass = only(&silent, Kind::Pass);
    for release in silent.heard_of(Kind::Release) {
        let is_undo = release.connection == pass.connection;
        assert_eq!(release.token(), if is_undo { pass.token() } else { &first });
    }
}

#[test]
fn without_a_majority_nothing_is_left_and_the_next_thread_is_told() {
    each_way(|nodes, manager| {
        let guard = manager.lock("job", TTL).unwrap();
        let next = manager.clone();
        let waiting = line_up(move || next.try_lock_for("job", TTL, Duration::from_secs(3)));
        nodes[1..].iter().for_each(FakeNode::refuse);
        assert!(matches!(guard.unlock(), Err(Error::Unconfirmed { .. })));
        let error = got(waiting).unwrap_err();
        assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
        assert_eq!(nodes[0].token_of("job"), None);
        // It was asked for, and refused, once or more often, and nothing was counted twice.
        let stats = manager.stats();
        let calls = (stats.acquired, stats.failed_unavailable);
        assert_eq!(calls, (1, 1), "{stats}");
        nodes.iter().for_each(FakeNode::recover);
        // What is owed to the others is sent when they are back.
        let is_free = || nodes.iter().all(|node| node.token_of("job").is_none());
        assert!(eventually(BOUND, is_free));
    });
}

/// The second answer to a pass whose connection broke is about the first one as well.
#[test]
fn what_a_connection_that_breaks_may_have_done_already_says_nothing_and_a_repeated_release_counts()
{
    let gone: &[u8] = b"*2\r\n*1\r\n:-2\r\n+OK\r\n";
    for (answer, is_confirmed) in [(gone, false), (b"*2\r\n:1\r\n+OK\r\n", true)] {
        let node =
            Scripted::start(
                move |peer, command| match (command.kind(), command.connection) {
                    (Kind::Pass, 0) => peer.close(),
                    (Kind::Pass, _) => peer.say(answer),
                    _ => peer.say(command.consent()),
                },
            );
        let manager = over(std::slice::from_ref(&node)).build().unwrap();
        let (guard, waiting) = wanted(&manager);
        let result = guard.unlock();
        let is_unconfirmed = matches!(result, Err(Error::Unconfirmed { .. }));
        assert!(result.is_ok() == is_confirmed && is_unconfirmed != is_confirmed);
        let second = got(waiting);
        let passes = node.heard_of(Kind::Pass);
        assert_eq!(passes.len(), 2);
        assert_eq!(passes[0].words, passes[1].words);
        assert_eq!(second.token(), passes[0].token());
        assert_eq!(node.heard_of(Kind::Set).len(), 1);
        second.unlock().unwrap();
    }
}
