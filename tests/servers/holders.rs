//! Who has a lock, and since when, is told where somebody meets it.

use std::time::Duration;

use redlatch::LockStatus;
use redlatch::fake::FakeNode;
use redlatch_testing::scripted::{Command, Kind, Scripted};

use crate::managers::over;
use crate::waiters::{TTL, got, line_up, slow_fakes};

const TOKEN: &str = "00112233445566778899aabbccddeeff00112233";

fn labelled(label: &str) -> String {
    format!("{TOKEN} {label}")
}

fn hold(nodes: &[FakeNode], values: &[&str]) {
    for (node, value) in nodes.iter().zip(values) {
        node.hold("job", value, TTL);
    }
}

#[test]
fn two_values_with_one_token_are_two_holders_and_that_of_most_nodes_is_named() {
    let (nodes, manager) = slow_fakes(5);
    let [left_over, web, x, y] = ["left over", "web-3", "x", "y"].map(labelled);
    hold(&nodes, &[&left_over, &web, &web, &x, &y]);
    let status = manager.status("job").unwrap();
    assert!(matches!(&status, LockStatus::Blocked { .. }), "{status}");
    let error = manager.try_lock("job", TTL).unwrap_err();
    assert_eq!(&*error.holder().unwrap().label, "web-3");
}

#[test]
fn a_thread_that_waited_behind_another_thread_is_told_what_that_one_has_or_has_met() {
    let (nodes, manager) = slow_fakes(3);
    let guard = manager.request("job").ttl(TTL).holder("web-3");
    let guard = guard.lock().unwrap();
    for wait in [Duration::ZERO, Duration::from_millis(20)] {
        let error = manager.try_lock_for("job", TTL, wait).unwrap_err();
        assert_eq!(&*error.holder().unwrap().label, "web-3");
        let text = error.to_string();
        let holder = "another guard of this manager, web-3 since ";
        assert!(text.contains(holder), "{text}");
    }
    guard.unlock().unwrap();

    let db = labelled("db-1");
    hold(&nodes, &[&db, &db, &db]);
    let first = manager.clone();
    let first = line_up(move || first.try_lock_for("job", TTL, Duration::from_secs(2)));
    let wait = Duration::from_millis(300);
    for result in [manager.try_lock_for("job", TTL, wait), got(first)] {
        let error = result.unwrap_err();
        assert_eq!(&*error.holder().unwrap().label, "db-1", "{error}");
    }
}

#[test]
fn where_no_reply_has_told_who_it_is_a_call_that_waited_looks_once() {
    let is_look = |command: &Command| command.words.iter().any(|word| word.contains(", #value,"));
    // Another has the lock, and the answer to a release is lost. Both nodes are needed to tell, so each has heard of a look when the
    // call returns.
    let nodes = [(); 2].map(|()| {
        Scripted::start(
            move |peer, command| match (command.kind(), is_look(command)) {
                (Kind::Set, _) => peer.say(b"$-1\r\n"),
                (Kind::Release, _) => peer.close(),
                (Kind::Look, _) => peer.say(b"*4\r\n:1\r\n:60000\r\n:0\r\n$0\r\n\r\n"),
                (_, true) => {
                    let value = labelled("web-3");
                    let reply = format!("*3\r\n:60000\r\n:46\r\n$46\r\n{value}\r\n");
                    peer.say(reply.as_bytes());
                }
                _ => peer.say(command.consent()),
            },
        )
    });
    let manager = over(&nodes).build().unwrap();
    for (wait, label, expected) in [(0, None, 0), (10, Some("web-3"), 1)] {
        let wait = Duration::from_millis(wait);
        let error = manager.try_lock_for("job", TTL, wait).unwrap_err();
        assert_eq!(
            error.holder().map(|holder| &*holder.label),
            label,
            "{error}"
        );
        let looks = |node: &Scripted| node.heard().iter().filter(|it| is_look(it)).count();
        assert_eq!(nodes.each_ref().map(looks), [expected; 2]);
    }
}

#[test]
fn a_token_stands_for_all_values_that_begin_with_it_and_for_itself_where_a_node_is_silent() {
    let (nodes, manager) = slow_fakes(5);
    let left = || -> Vec<bool> { nodes.iter().map(|n| n.token_of("job").is_some()).collect() };
    let (web, db) = (labelled("web-3"), labelled("db since=2026-11-22T05:52:53Z"));
    hold(&nodes, &[&web, &db, TOKEN, &web, "another program's"]);
    manager.release("job", TOKEN).unwrap();
    assert_eq!(left(), [false, false, false, false, true]);

    // Where nobody has a value to tell, the token itself is tried.
    hold(&nodes, &[TOKEN; 5]);
    nodes[0].lose_replies();
    manager.release("job", TOKEN).unwrap();
    nodes[0].recover();
    assert_eq!(left(), [false; 5]);

    // Of a longer token, or of a lock that rests, this is not the token.
    let (longer, resting) = (format!("{TOKEN}0"), format!("rest:{web}"));
    hold(&nodes, &[&longer, &longer, &resting, &resting, &resting]);
    assert!(manager.release("job", TOKEN).is_err());
    assert_eq!(left(), [true; 5]);
    manager.release("job", &format!("rest:{TOKEN}")).unwrap();
    assert_eq!(left(), [true, true, false, false, false]);
}
