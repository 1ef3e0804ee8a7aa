//! `LockManager::health` on servers whose answers make no sense: the report on other nodes stays right. What no reply is, is tested
//! beside the code that reads it.

use redlatch::fake::FakeNode;
use redlatch::{LockManager, NodeReport, Vote};
use redlatch_testing::scripted::Scripted;

use crate::fakes::operations::health::{TTL, codes};
use crate::managers::PATIENCE;
use crate::servers::operations::foreign_text::is_printable;
use crate::servers::operations::health_servers::health;

fn section(text: &str) -> Vec<u8> {
    format!("${}\r\n{text}\r\n", text.len()).into_bytes()
}

#[test]
fn a_section_without_sense_is_unknown_and_is_not_held_against_the_vote_of_the_node() {
    // As a server with very many replicas has.
    let long = "slave0:ip=10.0.0.1,port=6379,state=online\r\n".repeat(200);
    let odd = "redis_version:\r\nrun_id:x y\r\nrole:boss\r\nredis_mode:\u{202e}x\r\n:::\r\n";
    let noon = b"*2\r\n$1\r\n5\r\n$1\r\n0\r\n";
    let odd_codes = ["unknown_role", "not_standalone", "clock_differs"];
    for (text, time, expected) in [
        (odd, &noon[..], &odd_codes[..]),
        (&long, noon, &["clock_differs", "unreadable"]),
        ("role:master\r\n", b"+noon\r\n", &["unreadable"]),
    ] {
        let text = section(text);
        let server = Scripted::start(move |peer, command| match command.words[0].as_str() {
            "INFO" => peer.say(&text),
            "TIME" => peer.say(time),
            "GET" => peer.say(b"$-1\r\n"),
            _ => peer.say(command.consent()),
        });
        let others = FakeNode::cluster(2);
        let builder = LockManager::builder().node(server.url()).fakes(&others);
        let manager = builder.node_timeout(PATIENCE).build().unwrap();
        let found = health(&manager);
        assert_eq!(
            (codes(&found), found.margin),
            (expected.to_vec(), 1),
            "{found}"
        );
        let text = found.to_string();
        assert!(
            text.chars().all(|c| c == '\n' || is_printable(c)),
            "{text:?}"
        );
        for node in &others {
            let facts = ["state", "role"].map(|fact| found.fact(node.name(), fact).unwrap());
            assert_eq!(facts, ["up", "master"], "{text}");
        }
        // A lock has come to an end there since. So what tells whether it was left out for a moment is the count.
        assert!(manager.stats().nodes.iter().all(|node| node.opened == 0));
        let guard = manager.try_lock("report", TTL).unwrap();
        let is_granted = |report: &NodeReport| matches!(report.vote, Vote::Granted);
        assert!(guard.votes().iter().all(is_granted), "{:?}", guard.votes());
    }
}
