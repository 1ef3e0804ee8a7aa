//! `LockManager::health` on servers that lie: nothing panics, and the report on other servers stays right.

use std::iter::repeat_n;
use std::time::Duration;

use redlatch::fake::FakeNode;
use redlatch::{LockManager, NodeReport, Vote};
use redlatch_testing::scripted::{Command, Peer, Scripted};

use crate::fakes::operations::health::{TTL, codes};
use crate::servers::operations::foreign_text::is_printable;
use crate::servers::operations::health_servers::health;

/// What is found of a server that answers so, among two nodes that are well: whatever it says, these are seen as they are. If it
/// gives a lock when one is tried, it is not left out either.
#[track_caller]
fn found(say: impl Fn(&mut Peer, &Command) + Send + Sync + 'static) -> Vec<&'static str> {
    let (liar, others) = (Scripted::start(say), FakeNode::cluster(2));
    let builder = LockManager::builder().node(liar.url()).fakes(&others);
    let builder = builder.node_timeout(Duration::from_secs(2));
    let manager = builder.build().unwrap();
    let found = health(&manager);
    let text = found.to_string();
    let is_shown = text.chars().all(|c| c == '\n' || is_printable(c));
    assert!(is_shown, "{text:?}");
    for node in &others {
        let facts = ["state", "role"].map(|fact| found.fact(node.name(), fact).unwrap());
        assert_eq!(facts, ["up", "master"], "{text}");
    }
    if found.margin == 1 {
        assert!(manager.stats().nodes.iter().all(|node| node.opened == 0));
        let guard = manager.try_lock("report", TTL).unwrap();
        let is_granted = |report: &NodeReport| matches!(report.vote, Vote::Granted);
        assert!(guard.votes().iter().all(is_granted), "{:?}", guard.votes());
    } else {
        assert_eq!(found.margin, 0, "{text}");
    }
    codes(&found)
}

fn section(text: &str) -> Vec<u8> {
    format!("${}\r\n{text}\r\n", text.len()).into_bytes()
}

#[test]
fn replies_that_are_none_are_bounded_and_never_panic() {
    let replies: [&[u8]; 8] = [
        b":-9223372036854775808\r\n",
        b"*2\r\n$20\r\n18446744073709551615\r\n$6\r\n999999\r\n",
        b"$8\r\n\xff\xfe\0:\r\n\r\r\n",
        b"-\r\n",
        b"-LOADING \x1b[2J wait\r\n",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"$1000000000\r\nx",
        b"",
    ];
    for reply in replies {
        let code = if reply.starts_with(b"-") {
            "refuses"
        } else {
            "unreachable"
        };
        assert_eq!(found(move |peer, _| peer.say(reply)), [code], "{reply:?}");
    }
    let drip = |peer: &mut Peer, _: &Command| {
        let reply = b"$1000\r\n".iter().copied().chain(repeat_n(b'x', 1000));
        peer.drip(reply, Duration::from_millis(50));
    };
    assert_eq!(found(drip), ["unreachable"]);
    assert_eq!(found(|peer, _| peer.reset()), ["unreachable"]);
    assert_eq!(
        found(|peer, command| peer.say(command.raw())),
        ["unreachable"]
    );
    assert_eq!(
        found(|peer, _| peer.say(&section(&"x".repeat(1 << 20)))),
        ["unreachable"]
    );
}

#[test]
fn a_section_without_sense_is_unknown_and_is_not_held_against_the_vote_of_the_node() {
    // As a server with very many replicas has.
    let long = "slave0:ip=10.0.0.1,port=6379,state=online\r\n".repeat(200);
    let odd = "redis_version:\r\nrun_id:x y\r\nrole:boss\r\nredis_mode:\u{202e}x\r\n:::\r\n";
    let noon = b"*2\r\n$1\r\n5\r\n$1\r\n0\r\n";
    for (text, time, expected) in [
        (
            odd,
            &noon[..],
            &["unknown_role", "not_standalone", "clock_differs"][..],
        ),
        (&long, noon, &["clock_differs", "unreadable"]),
        ("role:master\r\n", b"+noon\r\n", &["unreadable"]),
    ] {
        let text = section(text);
        let codes = found(move |peer, command| match command.words[0].as_str() {
            "INFO" => peer.say(&text),
            "TIME" => peer.say(time),
            "GET" => peer.say(b"$-1\r\n"),
            _ => peer.say(command.consent()),
        });
        assert_eq!(codes, expected);
    }
}
