//! Who has a lock, and since when, is told where somebody meets it.

use std::time::Duration;

use redlatch::fake::FakeNode;
use redlatch::{LockManager, LockStatus};
use redlatch_testing::scripted::{Command, Kind, Peer, Scripted};

use crate::managers::PATIENCE;
use crate::waiters::{got, line_up};

const TTL: Duration = Duration::from_mins(1);

#[test]
fn two_values_with_one_token_are_two_holders() {
    let nodes = FakeNode::cluster(3);
    let manager = LockManager::builder().fakes(&nodes).build().unwrap();
    let token = "00112233445566778899aabbccddeeff00112233";
    for (node, label) in nodes.iter().zip(["web-3", "web-4", "web-5"]) {
        node.hold("job", &format!("{token} {label}"), TTL);
    }
    let status = manager.status("job").unwrap();
    assert!(matches!(&status, LockStatus::Blocked { .. }), "{status}");
}

#[test]
fn the_holder_of_most_nodes_is_the_one_that_is_named() {
    let nodes = FakeNode::cluster(5);
    let manager = LockManager::builder().fakes(&nodes).build().unwrap();
    let token = "00112233445566778899aabbccddeeff00112233";
    let mut order: Vec<&FakeNode> = nodes.iter().collect();
    order.sort_by_key(|node| node.name().to_owned());
    for (node, label) in order.iter().zip(["left over", "web-3", "web-3", "x", "y"]) {
        node.hold("job", &format!("{token} {label}"), TTL);
    }
    let error = manager.try_lock("job", TTL).unwrap_err();
    assert_eq!(&*error.holder().unwrap().label, "web-3");
}

#[test]
fn a_thread_that_waited_behind_another_thread_is_told_what_that_one_has_or_has_met() {
    let nodes = FakeNode::cluster(3);
    let builder = LockManager::builder().fakes(&nodes).node_timeout(PATIENCE);
    let manager = builder.holder("web-3").build().unwrap();
    let guard = manager.lock("job", TTL).unwrap();
    for wait in [Duration::ZERO, Duration::from_millis(20)] {
        let error = manager.try_lock_for("job", TTL, wait).unwrap_err();
        assert_eq!(&*error.holder().unwrap().label, "web-3");
        let text = error.to_string();
        assert!(
            text.contains("another guard of this manager, web-3 since "),
            "{text}"
        );
    }
    guard.unlock().unwrap();

    for node in &nodes {
        node.hold("job", "00112233445566778899aabbccddeeff00112233 db-1", TTL);
    }
    let first = line_up({
        let manager = manager.clone();
        move || {
            manager
                .try_lock_for("job", TTL, Duration::from_secs(2))
                .unwrap_err()
        }
    });
    let wait = Duration::from_millis(300);
    let error = manager.try_lock_for("job", TTL, wait).unwrap_err();
    assert_eq!(&*error.holder().unwrap().label, "db-1", "{error}");
    assert_eq!(&*got(first).holder().unwrap().label, "db-1");
}

/// Nodes on which another has the lock, and whose answer to a release is lost.
fn hiding(peer: &mut Peer, command: &Command) {
    match command.kind() {
        Kind::Set => peer.say(b"$-1\r\n"),
        Kind::Release => peer.close(),
        Kind::Look => peer.say(b"*4\r\n:1\r\n:60000\r\n:0\r\n$0\r\n\r\n"),
        Kind::Other if command.words.iter().any(|word| word.contains("#value,")) => {
            peer.say(
                b"*3\r\n:60000\r\n:46\r\n$46\r\n00112233445566778899aabbccddeeff00112233 web-3\r\n",
            );
        }
        Kind::Retake | Kind::Pass | Kind::Extend | Kind::Listen | Kind::Probe | Kind::Other => {
            peer.say(command.consent());
        }
    }
}

#[test]
fn where_no_reply_has_told_who_it_is_a_call_that_waited_looks_once() {
    // Both are needed to tell, so each has heard of a look when the call returns.
    let nodes = [(); 2].map(|()| Scripted::start(hiding));
    let builder = LockManager::builder().nodes(nodes.iter().map(Scripted::url));
    let manager = builder.node_timeout(PATIENCE).build().unwrap();
    let is_look = |command: &Command| command.words.iter().any(|word| word.contains(", #value,"));
    let looks = || {
        let heard = nodes.each_ref().map(Scripted::heard);
        heard.map(|heard| heard.iter().filter(|command| is_look(command)).count())
    };

    let error = manager.try_lock("job", TTL).unwrap_err();
    assert!(error.holder().is_none(), "{error}");
    assert_eq!(looks(), [0, 0]);

    let wait = Duration::from_millis(10);
    let error = manager.try_lock_for("job", TTL, wait).unwrap_err();
    assert_eq!(&*error.holder().unwrap().label, "web-3", "{error}");
    assert_eq!(looks(), [1, 1]);
}

#[test]
fn a_token_stands_for_all_values_that_begin_with_it_and_for_itself_where_a_node_is_silent() {
    let nodes = FakeNode::cluster(5);
    let manager = LockManager::builder().fakes(&nodes).build().unwrap();
    let token = "00112233445566778899aabbccddeeff00112233";
    let labelled = |label: &str| format!("{token} {label}");
    let hold = |values: [&str; 5]| {
        for (node, value) in nodes.iter().zip(values) {
            node.hold("job", value, TTL);
        }
    };
    let left = || -> Vec<bool> { nodes.iter().map(|n| n.token_of("job").is_some()).collect() };

    let (web, db) = (labelled("web-3"), labelled("db since=2026-11-22T05:52:53Z"));
    hold([&web, &db, token, &web, "another program's"]);
    manager.release("job", token).unwrap();
    assert_eq!(left(), [false, false, false, false, true]);

    // Where nobody has a value to tell, the token itself is tried.
    hold([token; 5]);
    nodes[0].lose_replies();
    manager.release("job", token).unwrap();
    nodes[0].recover();
    assert_eq!(left(), [false; 5]);

    // Of a longer token, or of a lock that rests, this is not the token.
    let (longer, resting) = (format!("{token}0"), format!("rest:{web}"));
    hold([&longer, &longer, &resting, &resting, &resting]);
    assert!(manager.release("job", token).is_err());
    assert_eq!(left(), [true; 5]);
    manager.release("job", &format!("rest:{token}")).unwrap();
    assert_eq!(left(), [true, true, false, false, false]);
}
