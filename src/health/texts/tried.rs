//! What the lock that is tried tells of a node.

use super::*;
use crate::error::Vote;

fn refusal(code: &str, message: &str) -> Vote {
    Vote::Failed(NodeError::Refused {
        code: code.into(),
        message: message.into(),
    })
}

/// A node of which this came, when it was asked for a lock and got it back.
fn tried(asked: Vote, given_back: Vote) -> Facts {
    let mut node = good("h:1");
    node.note_trial(asked, given_back);
    node
}

#[test]
fn a_node_that_gives_a_lock_and_takes_it_back_is_well() {
    let stale = Vote::Stale { counter: 1 };
    for (asked, given_back) in [
        (Vote::Granted, Vote::Released),
        // It has ended before.
        (Vote::Granted, Vote::Missing),
        // Another URL of the same server has it.
        (Vote::held(None), Vote::Missing),
        (Vote::held(None), Vote::Failed(NodeError::TimedOut)),
        // A lock is asked for again with a larger token.
        (stale, Vote::Missing),
        (Vote::NotAsked, Vote::NotAsked),
    ] {
        let node = tried(asked, given_back);
        assert!(node.can_vote(None));
        assert_found(node, Severity::Ok, &[]);
    }
}

#[test]
fn a_node_that_gives_no_lock_or_keeps_it_says_why() {
    let silence = || Vote::Failed(NodeError::TimedOut);
    let unconnected = || Vote::Failed(refused());
    for (asked, given_back, state, line) in [
        (
            refusal("OOM", "no room"),
            Vote::Missing,
            "refuses",
            "the server answered OOM no room (the server is out of memory); \
             no lock can be taken there until that is fixed",
        ),
        (
            silence(),
            silence(),
            "refuses",
            "answers questions, and no request for a lock within the node timeout; \
             check whether its writes are paused (CLIENT PAUSE), and whether its disk is fast enough for appendfsync",
        ),
        (
            unconnected(),
            unconnected(),
            "failed",
            "no connection: connection refused; start the server, or fix its address or the network",
        ),
        // It has gone away meanwhile.
        (
            Vote::Granted,
            silence(),
            "timed_out",
            "no answer within the node timeout; check whether its process hangs, its machine is up, \
             and the network is faster than node_timeout",
        ),
        (
            Vote::Granted,
            refusal("BUSY", "a script"),
            "up",
            "gave a lock that could not be given back: the server answered BUSY a script; \
             until that is fixed, a lock stays there for its ttl, however soon it is released",
        ),
    ] {
        let node = tried(asked, given_back);
        assert_eq!(node.state(), state);
        assert_eq!(node.can_vote(None), state == "up");
        assert_found(node, Severity::Warning, &[&format!("h:1: {line}")]);
    }
}

#[test]
fn what_the_acl_forbids_could_not_be_tried_in_the_words_of_each_server() {
    for (code, message) in [
        ("NOPERM", "no"),
        ("ERR", "ACL failure in script: no"),
        ("@user_script:", "1: The user can't run this command"),
    ] {
        let node = tried(refusal(code, message), Vote::Missing);
        assert!(node.can_vote(None), "{code}");
        let health = Health::of(vec![node], None);
        let [finding] = &health.findings[..] else {
            panic!("{health}");
        };
        assert_eq!(finding.code, "untried");
        assert_eq!(finding.severity, Severity::Warning);
        assert!(finding.message.starts_with("could not try"), "{finding}");
    }
}

/// Elsewhere, a request for a lock would write a marker.
#[test]
fn with_fencing_a_lock_is_tried_where_the_marker_is_known_and_open() {
    let rules = rules();
    let node = |quarantine: Option<&str>, settings: Option<&str>| {
        let node = good("h:1").with("quarantine", quarantine.map(Fact::text));
        node.with("settings", settings.map(Fact::text))
    };
    let own = Some(&*rules.config);
    for (node, is_tried) in [
        (node(Some("open"), own), true),
        // Its clock is hidden, and so is whether it is in quarantine.
        (node(None, own), true),
        (node(None, None), false),
        (node(Some("open"), Some("another")), false),
        (node(Some("no_marker"), None), false),
        (node(Some("other_process"), None), false),
        (node(Some("unreadable"), None), false),
        (node(Some("quarantined"), own), false),
    ] {
        assert_eq!(node.is_to_be_tried(Some(&rules)), is_tried, "{node:?}");
        assert!(node.is_to_be_tried(None));
    }
    assert!(!silent("h:1", refused()).is_to_be_tried(None));
}
