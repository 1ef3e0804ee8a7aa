//! A lock passes from thread to thread of one manager: its release and the next attempt go in one request to each node.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use redlatch::fake::FakeNode;
use redlatch::{Cancel, Error, Fanout, LockGuard, LockManager, Vote};
use redlatch_testing::scripted::{Command, Kind, Scripted};
use redlatch_testing::{Server, eventually, side_by_side};

use crate::managers::{BOTH, PATIENCE, over, processes_by};
use crate::servers::waiting::queue::TTL;
use crate::waiters::{
    BOUND, LONG, answering, cluster, got, heard, line_up, listeners, next, process,
};

/// Time enough for a server that answers, on a busy machine too.
const NODE_TIMEOUT: Duration = Duration::from_secs(2);

/// The reply of a node that has released the lock and woken another client.
const WOKEN: &[u8] = b"*2\r\n:2\r\n:0\r\n";

/// A lock that is held, and a thread of the same manager that waits for it.
#[track_caller]
pub(crate) fn wanted(manager: &LockManager) -> (LockGuard, JoinHandle<LockGuard>) {
    let guard = manager.lock("job", TTL).unwrap();
    (guard, next(manager, TTL))
}

/// How often each node was asked to pass a lock.
fn passes(nodes: &[Scripted]) -> Vec<usize> {
    let of = |node: &Scripted| node.heard_of(Kind::Pass).len();
    nodes.iter().map(of).collect()
}

#[track_caller]
fn assert_all_grant(guard: &LockGuard) {
    let votes = guard.votes();
    let mut votes = votes.iter().map(|report| &report.vote);
    assert!(votes.all(|vote| matches!(vote, Vote::Granted)), "{guard:?}");
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
            let [pass] = &node.heard_of(Kind::Pass)[..] else {
                panic!("{:?}", node.heard());
            };
            assert_eq!(pass.argument(9), Some(&*token));
            assert_eq!(pass.token(), second.token());
            let ttl_ms = (TTL * 2).as_millis().to_string();
            assert_eq!(pass.argument(2), Some(&*ttl_ms));
        }
        assert_ne!(second.token(), token);
        assert_all_grant(&second);
        assert!(second.remaining() > TTL);
        second.unlock().unwrap();
        let stats = manager.stats();
        assert_eq!((stats.acquired, stats.attempts), (2, 2), "{stats}");
        assert_eq!(stats.released, 2, "{stats}");
        assert!(stats.nodes.iter().all(|node| node.granted == 2), "{stats}");
    }
}

/// Servers and a manager over them: both protocols with both fan-outs.
pub(crate) fn each_way(check: impl Fn(&mut Vec<Server>, &LockManager) + Send + Sync) {
    let ways = BOTH.map(|way| [(way, Fanout::Sequential), (way, Fanout::Overlapped)]);
    side_by_side(ways.concat(), |(protocol, fanout)| {
        let mut servers = cluster(3);
        let builder = over(&servers).node_timeout(NODE_TIMEOUT).fanout(fanout);
        let [manager] = processes_by(&builder, protocol);
        // The servers know the scripts from now on.
        let (first, second) = wanted(&manager);
        first.unlock().unwrap();
        got(second).unlock().unwrap();
        check(&mut servers, &manager);
    });
}

#[test]
fn each_thread_has_its_own_ttl_and_label_and_a_larger_fencing_token() {
    each_way(|servers, manager| {
        let mut guard = manager.lock("job", TTL).unwrap();
        for i in 1..=4_u32 {
            let (label, ttl) = (format!("worker-{i}"), TTL * i);
            let waiting = line_up({
                let (manager, label) = (manager.clone(), label.clone());
                move || manager.request("job").ttl(ttl).holder(&label).lock()
            });
            let (old, fencing) = (guard.token().to_owned(), guard.fencing_token());
            guard.unlock().unwrap();
            guard = got(waiting).unwrap();
            assert_all_grant(&guard);
            assert_ne!(guard.token(), old);
            assert!(guard.fencing_token() > fencing || fencing.is_none());
            for server in &*servers {
                let value = server.get("job").unwrap();
                assert!(value.starts_with(guard.token()), "{value}");
                assert!(value.contains(&label), "{value}");
                let left = u128::try_from(server.pttl("job")).unwrap();
                assert!(left * 2 > ttl.as_millis(), "{left}");
                assert!(left <= ttl.as_millis(), "{left}");
            }
        }
        guard.unlock().unwrap();
        assert!(servers.iter().all(|server| server.get("job").is_none()));
    });
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
    assert_eq!(
        kinds,
        [&round[..], &round, &[Kind::Set, Kind::Pass]].concat()
    );
}

/// Six threads of one manager wait, and then another process at the first node. Returns who had the lock in which order.
fn order_with_another_process(fanout: Fanout) -> Vec<&'static str> {
    let servers = cluster(3);
    let manager = over(&servers).fanout(fanout).build().unwrap();
    let other = process(&servers, LONG);
    let order = Arc::new(Mutex::new(Vec::new()));
    let visit = |manager: &LockManager, who: &'static str| {
        let (manager, order) = (manager.clone(), Arc::clone(&order));
        line_up(move || {
            let guard = manager.try_lock_for("job", TTL, BOUND).unwrap();
            order.lock().push(who);
            guard.unlock().unwrap();
        })
    };
    let guard = manager.lock("job", TTL).unwrap();
    let mut visits: Vec<_> = (0..6).map(|_| visit(&manager, "own")).collect();
    let listening = servers[0].blocked();
    visits.push(visit(&other, "other"));
    assert!(eventually(BOUND, || servers[0].blocked() > listening));
    guard.unlock().unwrap();
    visits.into_iter().for_each(got);
    assert!(servers.iter().all(|server| server.get("job").is_none()));
    let order = order.lock();
    order.clone()
}

/// Where another process has announced itself, the lock goes there. It may be passed over once, if it comes to the other
/// nodes before the keys there are undone. A process that a busy machine keeps from running loses its turn, so one of five
/// tries has to show it.
#[test]
fn another_process_that_waits_at_the_first_node_comes_first_or_second() {
    for fanout in [Fanout::Sequential, Fanout::Overlapped] {
        let mut orders = Vec::new();
        let is_fair = eventually(BOUND, || {
            let order = order_with_another_process(fanout);
            let is_fair = order[..2].contains(&"other");
            orders.push(order);
            is_fair || orders.len() == 5
        });
        let last = orders.last().unwrap();
        assert!(is_fair && last[..2].contains(&"other"), "{orders:?}");
    }
}

#[test]
fn nothing_is_asked_for_while_others_are_known_to_wait() {
    // The first release of each says that another client was woken.
    let waking = || answering([(Kind::Pass, WOKEN), (Kind::Release, b":2\r\n")]);
    let nodes = [(); 3].map(|()| waking());
    let manager = over(&nodes).build().unwrap();
    let mut guard = manager.lock("job", TTL).unwrap();
    for _ in 0..3 {
        let waiting = next(&manager, TTL);
        guard.unlock().unwrap();
        guard = got(waiting);
    }
    guard.unlock().unwrap();
    assert_eq!(passes(&nodes), [1, 1, 1]);
    // Where the lock was not asked for, there is nothing to undo.
    let releases = |node: &Scripted| node.heard_of(Kind::Release).len();
    assert!(nodes.iter().all(|node| releases(node) == 3), "{nodes:?}");
}

#[test]
fn where_one_node_has_woken_another_client_the_others_are_released_at_once() {
    let nodes = listeners(3);
    let waking = answering([(Kind::Pass, WOKEN)]);
    let manager = over(&nodes).node(waking.url()).build().unwrap();
    let (guard, waiting) = wanted(&manager);
    guard.unlock().unwrap();
    // Before the release has returned.
    for node in &nodes {
        let [pass] = &node.heard_of(Kind::Pass)[..] else {
            panic!("{:?}", node.heard());
        };
        let [undo] = &node.heard_of(Kind::Release)[..] else {
            panic!("{:?}", node.heard());
        };
        assert_eq!(undo.token(), pass.token());
    }
    assert!(waking.heard_of(Kind::Release).is_empty());
    let passed = nodes[0].heard_of(Kind::Pass)[0].token().to_owned();
    let second = got(waiting);
    assert_ne!(second.token(), passed);
}

#[test]
fn a_node_that_does_not_tell_of_the_key_is_sent_the_release_again() {
    // It can neither pass nor release, as while it loads its data. That it answers, is no answer about the key.
    let loads = Arc::new(AtomicBool::new(true));
    let loading = Scripted::start({
        let loads = Arc::clone(&loads);
        move |peer, command| {
            let is_of_the_key = matches!(command.kind(), Kind::Pass | Kind::Release);
            let refuses = is_of_the_key && loads.load(Ordering::SeqCst);
            let refusal = b"-LOADING wait\r\n";
            peer.say(if refuses { refusal } else { command.consent() });
        }
    });
    let others = listeners(2);
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
    for node in &others {
        assert!(node.heard_of(Kind::Release).is_empty(), "{node:?}");
    }
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
    assert!(eventually(BOUND, || passes(&nodes) == [1, 1, 1]));
    cancel.cancel();
    assert!(matches!(got(leaving), Err(Error::Cancelled { .. })));
    got(releasing).unwrap();
    let behind = got(behind);
    for node in &nodes {
        let pass = &node.heard_of(Kind::Pass)[0];
        let release = &node.heard_of(Kind::Release)[0];
        assert_eq!(release.token(), pass.token());
        assert_eq!(node.heard_of(Kind::Set)[1].token(), behind.token());
    }
}

#[test]
fn a_lock_that_rests_or_is_lost_is_not_passed() {
    let nodes = listeners(3);
    let manager = over(&nodes).build().unwrap();
    let request = manager.request("job").ttl(TTL);
    let resting = request.at_least(Duration::from_secs(5)).lock().unwrap();
    let waiting = next(&manager, TTL);
    resting.unlock().unwrap();
    drop(got(waiting));
    assert_eq!(passes(&nodes), [0, 0, 0]);

    let nodes = FakeNode::cluster(3);
    let builder = LockManager::builder().fakes(&nodes).node_timeout(PATIENCE);
    let manager = builder.build().unwrap();
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
    let nodes = listeners(1);
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
    assert_eq!(passes(&nodes), [0]);
}

/// One who waits until it is cancelled.
fn leaves_by(manager: &LockManager, cancel: &Cancel) -> JoinHandle<Result<LockGuard, Error>> {
    let (manager, cancel) = (manager.clone(), cancel.clone());
    line_up(move || {
        let request = manager.request("job").ttl(TTL).cancelled_by(&cancel);
        request.try_lock_for(BOUND)
    })
}
