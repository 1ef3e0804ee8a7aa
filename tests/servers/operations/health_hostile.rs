//! `LockManager::health` on servers that lie: nothing panics, and the report on other servers stays right.

use std::time::Duration;

use redlatch::fake::FakeNode;
use redlatch::{Health, LockManager, NodeReport, Severity, Vote};
use redlatch_testing::scripted::{Command, Peer, Scripted};
use redlatch_testing::{BlackHole, Server, side_by_side};

use crate::fakes::operations::health::codes;
use crate::managers::PATIENCE;
use crate::servers::operations::foreign_text::is_printable;
use crate::servers::operations::health_servers::{NODE_TIMEOUT, health, manager, micros, of};

/// A server that answers as it likes, among two that are well: whatever it says, the others are seen as they are.
#[track_caller]
fn assert_bounded(
    name: &str,
    part: impl Fn(&mut Peer, &Command) + Send + Sync + 'static,
) -> Health {
    let liar = Scripted::start(part);
    let servers = [(); 2].map(|()| Server::start_with(&["--appendonly", "yes"]));
    let urls = servers.iter().map(Server::url).chain([liar.url()]);
    let found = health(&manager(urls));
    let text = found.to_string();
    assert!(
        text.chars().all(|c| c == '\n' || is_printable(c)),
        "{name}: {text:?}"
    );
    for server in &servers {
        assert_eq!(of(&found, server, "state"), "up", "{name}: {text}");
        assert_eq!(of(&found, server, "role"), "master", "{name}: {text}");
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
        let text = "x".repeat(1 << 20);
        peer.say(format!("${}\r\n{text}\r\n", text.len()).as_bytes());
    });
    assert_bounded("drop by drop", |peer, _| {
        let reply = b"$1000\r\n"
            .iter()
            .copied()
            .chain(std::iter::repeat_n(b'x', 1000));
        peer.drip(reply, Duration::from_millis(50));
    });
}

/// Answers in the proper types, with these lines for every section.
fn say_section(peer: &Peer, command: &Command, section: &str) {
    match command.words[0].as_str() {
        "INFO" => peer.say(format!("${}\r\n{section}\r\n", section.len()).as_bytes()),
        "TIME" => peer.say(b"*2\r\n$1\r\n5\r\n$1\r\n0\r\n"),
        _ => peer.say(b"$-1\r\n"),
    }
}

#[test]
fn a_section_without_sense_is_unknown_field_by_field() {
    let odd = "redis_version:\r\nrun_id:x y\r\nuptime_in_seconds:-5\r\nrole:boss\r\nmaxmemory_policy\r\n\
               aof_enabled:-1\r\nredis_mode:\u{202e}x\r\n:::\r\n\r\n";
    let found = assert_bounded("odd", move |peer, command| say_section(peer, command, odd));
    let is_odd = |node: &&str| found.fact(node, "role").as_deref() == Some("boss");
    let odd = found.nodes().find(is_odd).unwrap();
    for name in ["version", "run_id", "uptime_s", "eviction", "persistence"] {
        assert_eq!(found.fact(odd, name), None, "{name}");
    }
    assert_eq!(found.fact(odd, "mode").as_deref(), Some("\\u{202e}x"));
    let ahead: i64 = found.fact(odd, "clock_ahead_us").unwrap().parse().unwrap();
    assert!(Duration::from_micros(ahead.unsigned_abs()) > Duration::from_hours(24));
    assert_eq!(found.findings.len(), 3, "{found}");
    assert_eq!(found.margin, 1);

    // As a server with very many replicas has.
    let long = "slave0:ip=10.0.0.1,port=6379,state=online\r\n".repeat(200);
    let found = assert_bounded("long", move |peer, command| {
        say_section(peer, command, &long);
    });
    assert!(codes(&found).contains(&"unreadable"), "{found}");
    assert_eq!(found.margin, 1);
}

#[test]
fn an_answer_that_cant_be_read_is_not_held_against_the_vote_of_the_node() {
    let server = Scripted::start(|peer, command| match command.words[0].as_str() {
        "GET" => peer.say(b"$-1\r\n"),
        "INFO" => peer.say(b"$13\r\nrole:master\r\n\r\n"),
        "TIME" => peer.say(b"+noon\r\n"),
        _ => peer.say(command.consent()),
    });
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
