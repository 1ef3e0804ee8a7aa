//! What each thread gets to which a lock passes, and nodes that fail meanwhile.

use std::time::Duration;

use redlatch::fake::FakeNode;
use redlatch::{Error, Fanout, LockManager, LockStatus, NodeError, Vote};
use redlatch_testing::scripted::{Kind, Scripted};
use redlatch_testing::{Proxy, eventually};

use crate::managers::{BOTH, over, patient, processes_by};
use crate::servers::waiting::pass::{assert_granted_by, wanted};
use crate::waiters::{BOUND, TTL, cluster, got, line_up, listeners, slow_fakes};

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
        assert!(matches!(failed, Vote::Failed(NodeError::TimedOut)));
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

#[test]
fn a_node_that_failed_a_moment_ago_is_left_out_unless_it_may_have_the_key() {
    let (nodes, manager) = slow_fakes(3);
    nodes[2].refuse();
    let (guard, waiting) = wanted(&manager);
    nodes[1].refuse();
    assert!(matches!(guard.unlock(), Err(Error::Unconfirmed { .. })));
    nodes[1].recover();
    let second = got(waiting);
    assert_granted_by(&second, 2);
    second.unlock().unwrap();
    assert!(nodes.iter().all(|node| node.token_of("job").is_none()));
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

#[test]
fn an_attempt_without_a_reply_is_undone_behind_it_and_the_release_goes_on_another_connection() {
    let nodes = listeners(3);
    let silent = Scripted::start(|peer, command| {
        if command.kind() != Kind::Pass {
            peer.say(command.consent());
        }
    });
    let builder = over(&nodes).node_timeout(Duration::from_secs(1));
    let manager = builder.node(silent.url()).build().unwrap();
    let (guard, waiting) = wanted(&manager);
    let first = guard.token().to_owned();
    guard.unlock().unwrap();
    let second = got(waiting);
    assert_granted_by(&second, 3);
    second.unlock().unwrap();
    // Nobody waits for these.
    assert!(eventually(BOUND, || silent.heard_of(Kind::Release).len() == 2));
    let set = silent.heard_of(Kind::Set)[0].connection;
    assert_eq!(silent.heard_on(set), [Kind::Set, Kind::Pass, Kind::Release]);
    let passed = silent.heard_of(Kind::Pass)[0].token().to_owned();
    for release in silent.heard_of(Kind::Release) {
        let is_undo = release.connection == set;
        assert_eq!(release.token(), if is_undo { &passed } else { &first });
    }
}

#[test]
fn a_server_with_two_names_has_one_vote_of_the_release_and_one_of_the_attempt() {
    let servers = cluster(2);
    let proxy = Proxy::start(servers[0].port());
    let manager = patient([servers[0].url(), proxy.url(), servers[1].url()]);
    let (guard, waiting) = wanted(&manager);
    guard.unlock().unwrap();
    let second = got(waiting);
    assert_granted_by(&second, 2);
    second.unlock().unwrap();
    assert!(servers.iter().all(|server| server.get("job").is_none()));
}
