//! `LockManager::health` on servers that lie: nothing panics, and the report on other servers stays right.

use std::iter::repeat_n;
use std::time::Duration;

use redlatch::fake::FakeNode;
use redlatch::{Health, LockManager, NodeReport, Severity, Vote};
use redlatch_testing::scripted::{Command, Peer, Scripted};
use redlatch_testing::{BlackHole, Server, side_by_side};

use crate::fakes::operations::health::codes;
use crate::managers::PATIENCE;
use crate::servers::operations::foreign_text::is_printable;
use crate::servers::operations::health_servers::{
    NODE_TIMEOUT, health, manager, micros, of, remembering,
};

/// A server that answers as it likes, among two that are well: whatever it says, the others are seen as they are.
#[track_caller]
fn assert_bounded(
    name: &str,
    part: impl Fn(&mut Peer, &Command) + Send + Sync + 'static,
) -> Health {
    let liar = Scripted::start(part);
    let servers = remembering(2);
    let urls = servers.iter().map(Server::url).chain([liar.url()]);
    let found = health(&manager(urls));
    let text = found.to_string();
    let is_shown = text.chars().all(|c| c == '\n' || is_printable(c));
    assert!(is_shown, "{name}: {text:?}");
    for server in &servers {
        let facts = ["state", "role"].map(|fact| of(&found, server, fact));
        assert_eq!(facts, ["up", "master"], "{name}: {text}");
    }
    assert!(found.margin >= 0, "{name}: {text}");
    found
}

#[test]
fn replies_that_are_none_are_bounded_and_never_panic() {
    let replies: [&[u8]; 20] = [
        b"+OK\r\n",
        b":1\r\n",
        b":-9223372036854775808\r\n",
        b"$-1\r\n",
        b"*-1\r\n",
        b"*0\r\n",
        b"*2\r\n$1\r\n1\r\n$-1\r\n",
        b"*2\r\n:1\r\n:2\r\n",
        b"*2\r\n$2\r\n-1\r\n$2\r\n-1\r\n",
        b"*2\r\n$20\r\n18446744073709551615\r\n$6\r\n999999\r\n",
        b"$4\r\nrole\r\n",
        b"$5\r\nrole:\r\n",
        b"$9\r\nrole:\x1b[31\r\n",
        b"$8\r\n\xff\xfe\0:\r\n\r\r\n",
        b"-\r\n",
        b"-LOADING \x1b[2J wait\r\n",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"$1000000000\r\nx",
        b"+",
        b"",
    ];
    side_by_side(replies, |reply| {
        let name = reply.escape_ascii().to_string();
        let found = assert_bounded(&name, |peer, _| peer.say(reply));
        assert!(found.severity >= Severity::Warning, "{name}");
    });
    assert_bounded("closed", |peer, _| peer.close());
    assert_bounded("reset", |peer, _| peer.reset());
    assert_bounded("an echo", |peer, command| peer.say(command.raw()));
    assert_bounded("huge", |peer, _| {
        peer.say(&section(&"x".repeat(1 << 20)));
    });
    assert_bounded("drop by drop", |peer, _| {
        let reply = b"$1000\r\n".iter().copied().chain(repeat_n(b'x', 1000));
        peer.drip(reply, Duration::from_millis(50));
    });
}

fn section(text: &str) -> Vec<u8> {
    format!("${}\r\n{text}\r\n", text.len()).into_bytes()
}

/// Answers in the proper types, with these lines for every section.
fn with_section(text: String, time: &'static [u8]) -> impl Fn(&mut Peer, &Command) {
    move |peer, command| match command.words[0].as_str() {
        "INFO" => peer.say(&section(&text)),
        "TIME" => peer.say(time),
        "GET" => peer.say(b"$-1\r\n"),
        _ => peer.say(command.consent()),
    }
}

const TIME: &[u8] = b"*2\r\n$1\r\n5\r\n$1\r\n0\r\n";

#[test]
fn a_section_without_sense_is_unknown_and_nothing_else_is() {
    let odd = "redis_version:\r\nrun_id:x y\r\nrole:boss\r\nredis_mode:\u{202e}x\r\n:::\r\n";
    let found = assert_bounded("odd", with_section(odd.into(), TIME));
    assert_eq!(
        codes(&found),
        ["unknown_role", "not_standalone", "clock_differs"],
        "{found}"
    );
    assert_eq!(found.margin, 1);
    // As a server with very many replicas has.
    let long = "slave0:ip=10.0.0.1,port=6379,state=online\r\n".repeat(200);
    let found = assert_bounded("long", with_section(long, TIME));
    assert!(codes(&found).contains(&"unreadable"), "{found}");
    assert_eq!(found.margin, 1);
}

#[test]
fn an_answer_that_cant_be_read_is_not_held_against_the_vote_of_the_node() {
    let server = Scripted::start(with_section("role:master\r\n".into(), b"+noon\r\n"));
    let others = FakeNode::cluster(2);
    let builder = LockManager::builder().node(server.url()).fakes(&others);
    let manager = builder.node_timeout(PATIENCE).build().unwrap();
    let found = health(&manager);
    assert_eq!(codes(&found), ["unreadable"], "{found}");
    assert_eq!(found.margin, 1);
    // A lock has come to an end there since. So what tells whether it was left out for a moment is the count.
    assert!(manager.stats().nodes.iter().all(|node| node.opened == 0));
    let guard = manager.try_lock("report", Duration::from_secs(10)).unwrap();
    let is_granted = |report: &NodeReport| matches!(report.vote, Vote::Granted);
    assert!(guard.votes().iter().all(is_granted), "{:?}", guard.votes());
}

#[test]
fn ports_that_take_nobody_in_cost_their_time_and_hide_nothing() {
    let holes = [BlackHole::open(), BlackHole::open()];
    let servers = Server::cluster(3);
    let urls = holes.iter().map(BlackHole::url);
    let manager = manager(urls.chain(servers.iter().map(Server::url)));
    for _ in 0..2 {
        let found = health(&manager);
        assert_eq!(found.margin, 0, "{found}");
        for hole in &holes {
            let state = found.fact(&hole.name(), "state");
            assert_eq!(state.as_deref(), Some("timed_out"), "{found}");
        }
        // The look at one that is well does not count the time that was spent on these.
        for server in &servers {
            let uncertainty = micros(&found, server, "clock_uncertainty_us");
            assert!(uncertainty < NODE_TIMEOUT / 2, "{found}");
        }
    }
}
