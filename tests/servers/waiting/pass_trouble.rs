//! Nodes that fail while a lock passes from thread to thread of one manager.

use std::time::Duration;

use redlatch::fake::FakeNode;
use redlatch::{Error, LockGuard, LockManager, NodeError, NodeReport, Vote};
use redlatch_testing::scripted::{Kind, Scripted};
use redlatch_testing::{Proxy, eventually, within};

use crate::managers::{PATIENCE, over, patient};
use crate::servers::waiting::pass::{each_way, wanted};
use crate::servers::waiting::queue::TTL;
use crate::waiters::{BOUND, answering, cluster, got, line_up, listeners};

#[track_caller]
fn assert_granted_by(guard: &LockGuard, number: usize) {
    let is_granted = |report: &&NodeReport| matches!(report.vote, Vote::Granted);
    let votes = guard.votes();
    assert_eq!(votes.iter().filter(is_granted).count(), number, "{votes:?}");
}

#[test]
fn a_node_that_stands_still_meanwhile_has_neither_key_when_it_goes_on() {
    each_way(|servers, manager| {
        let (guard, waiting) = wanted(manager);
        servers[1].stop();
        guard.unlock().unwrap();
        let next = got(waiting);
        next.check().unwrap();
        let failed = &next.votes()[1].vote;
        assert!(matches!(failed, Vote::Failed(NodeError::TimedOut)));
        assert_granted_by(&next, 2);
        let token = next.token().to_owned();
        servers[1].resume();
        // Also while the lock is held: the undo is behind the attempt.
        let is_gone = || servers[1].get("job").is_none();
        assert!(eventually(BOUND, is_gone), "{:?}", servers[1].get("job"));
        for server in [&servers[0], &servers[2]] {
            assert_eq!(server.get("job"), Some(token.clone()));
        }
        next.unlock().unwrap();
    });
}

#[test]
fn without_a_majority_nothing_is_left_and_the_next_thread_is_told() {
    each_way(|servers, manager| {
        let guard = manager.lock("job", TTL).unwrap();
        let waiting = line_up({
            let manager = manager.clone();
            move || manager.try_lock_for("job", TTL, Duration::from_secs(5))
        });
        servers[1].kill();
        servers[2].kill();
        assert!(matches!(guard.unlock(), Err(Error::Unconfirmed { .. })));
        let error = got(waiting).unwrap_err();
        assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
        assert_eq!(servers[0].get("job"), None);
        // It was asked for, and refused, once or more often, and nothing was counted twice.
        let stats = manager.stats();
        let calls = (stats.acquired, stats.failed_unavailable);
        assert_eq!(calls, (3, 1), "{stats}");
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
    let releases = silent.heard_of(Kind::Release);
    let of = |is_undo: bool| {
        releases
            .iter()
            .find(|it| (it.connection == set) == is_undo)
            .unwrap()
    };
    assert_eq!(of(true).token(), silent.heard_of(Kind::Pass)[0].token());
    assert_eq!(of(false).token(), first);
}

#[test]
fn an_attempt_is_undone_behind_a_reply_that_only_the_other_protocol_has() {
    let nodes = listeners(2);
    let strange = answering([(Kind::Pass, b"*2\r\n:1\r\n*2\r\n$5\r\nSTALE\r\n:5\r\n")]);
    let manager = over(&nodes).node(strange.url()).build().unwrap();
    let (guard, waiting) = wanted(&manager);
    guard.unlock().unwrap();
    let second = got(waiting);
    assert_granted_by(&second, 2);
    // It may have been executed.
    let passed = &strange.heard_of(Kind::Pass)[0];
    let undone = || strange.heard_on(passed.connection).last() == Some(&Kind::Release);
    assert!(eventually(BOUND, undone), "{:?}", strange.heard());
    assert_eq!(strange.heard_of(Kind::Release)[0].token(), passed.token());
    second.unlock().unwrap();
}

#[test]
fn where_all_connections_are_in_use_a_pass_gets_one_of_its_own_as_a_release_does() {
    let node = Scripted::start(|peer, command| {
        if command.key() == "slow" && command.kind() == Kind::Set {
            peer.wait(BOUND);
        }
        peer.say(command.consent());
    });
    let builder = over(std::slice::from_ref(&node)).pool_size(1);
    let builder = builder.node_timeout(Duration::from_secs(3));
    let manager = builder.build().unwrap();
    let (guard, waiting) = wanted(&manager);
    let slow = line_up({
        let manager = manager.clone();
        move || manager.try_lock("slow", TTL).map(drop)
    });
    assert!(eventually(BOUND, || node.heard_of(Kind::Set).len() == 2));
    guard.unlock().unwrap();
    let second = got(waiting);
    assert_eq!(node.heard_of(Kind::Pass).len(), 1);
    second.unlock().unwrap();
    assert!(got(slow).is_err());
}

#[test]
fn a_node_that_failed_a_moment_ago_is_left_out_unless_it_may_have_the_key() {
    let nodes = FakeNode::cluster(3);
    let builder = LockManager::builder().fakes(&nodes).node_timeout(PATIENCE);
    let manager = builder.build().unwrap();
    nodes[2].refuse();
    let (guard, waiting) = wanted(&manager);
    nodes[1].refuse();
    assert!(matches!(guard.unlock(), Err(Error::Unconfirmed { .. })));
    nodes[1].recover();
    let second = within(BOUND, || got(waiting));
    assert_granted_by(&second, 2);
    second.unlock().unwrap();
    assert!(nodes.iter().all(|node| node.token_of("job").is_none()));
}

#[test]
fn a_server_with_two_names_has_one_vote_of_the_release_and_one_of_the_attempt() {
    let servers = cluster(2);
    let proxy = Proxy::start(servers[0].port());
    let names = [servers[0].url(), proxy.url(), servers[1].url()];
    let manager = patient(names);
    let (guard, waiting) = wanted(&manager);
    guard.unlock().unwrap();
    let second = got(waiting);
    assert_granted_by(&second, 2);
    second.unlock().unwrap();
    assert!(servers.iter().all(|server| server.get("job").is_none()));
}
