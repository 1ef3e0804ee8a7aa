//! What the lock that is tried tells of a node.

use super::*;
use crate::error::Vote;
use crate::fencing::FencingToken;

#[test]
fn what_came_of_a_lock_that_was_tried_is_told() {
    use Severity::{Ok, Warning};
    let refused = |code: &str, message: &str| NodeError::Refused {
        code: code.into(),
        message: message.into(),
    };
    let found = |asked: Vote, given_back: Vote, severity, expected: &[&str], state| {
        let mut node = good("h:1");
        node.note_trial(asked, given_back);
        assert_eq!(node.state(), state);
        assert_eq!(node.can_vote(None), state == "up");
        assert_found(node, severity, expected);
    };
    let fails = |error| Vote::Failed(error);
    for (asked, given_back) in [
        (Vote::Granted, Vote::Released),
        // It has ended before.
        (Vote::Granted, Vote::Missing),
        // Another URL of the same server has it.
        (Vote::held(None), Vote::Missing),
        (Vote::held(None), fails(NodeError::TimedOut)),
        // A lock is asked for again with a larger token.
        (
            Vote::Stale {
                counter: FencingToken::new(1),
            },
            Vote::Missing,
        ),
        (Vote::NotAsked, Vote::NotAsked),
    ] {
        found(asked, given_back, Ok, &[], "up");
    }
    found(
        fails(refused("OOM", "no room")),
        Vote::Missing,
        Warning,
        &[
            "h:1: the server answered OOM no room (the server is out of memory); \
           no lock can be taken there until that is fixed",
        ],
        "refuses",
    );
    found(
        fails(NodeError::TimedOut),
        fails(NodeError::TimedOut),
        Warning,
        &[
            "h:1: answers questions, and no request for a lock within the node timeout; \
           check whether its writes are paused (CLIENT PAUSE), and whether its disk is fast enough for appendfsync",
        ],
        "refuses",
    );
    found(
        fails(self::refused()),
        fails(self::refused()),
        Warning,
        &["h:1: no connection: connection refused; \
           start the server, or fix its address or the network"],
        "failed",
    );
    // It has gone away meanwhile.
    found(
        Vote::Granted,
        fails(NodeError::TimedOut),
        Warning,
        &[
            "h:1: no answer within the node timeout; check whether its process hangs, its machine is up, \
           and the network is faster than node_timeout",
        ],
        "timed_out",
    );
    found(
        Vote::Granted,
        fails(refused("BUSY", "a script")),
        Warning,
        &[
            "h:1: gave a lock that could not be given back: the server answered BUSY a script; \
           until that is fixed, a lock stays there for its ttl, however soon it is released",
        ],
        "up",
    );
    // In the words of each server.
    for (code, message) in [
        ("NOPERM", "no"),
        ("ERR", "ACL failure in script: no"),
        ("@user_script:", "1: The user can't run this command"),
    ] {
        let mut node = good("h:1");
        node.note_trial(fails(refused(code, message)), Vote::Missing);
        assert!(node.can_vote(None), "{code}");
        let health = Health::of(vec![node], None);
        let [finding] = &health.findings[..] else {
            panic!("{health}");
        };
        assert_eq!((finding.code, finding.severity), ("untried", Warning));
        assert!(finding.message.starts_with("could not try"), "{finding}");
    }
}

/// Elsewhere, a request for a lock would write a marker.
#[test]
fn with_fencing_a_lock_is_tried_where_the_marker_is_known_and_open() {
    let rules = rules();
    let node = |quarantine, settings: Option<&str>| Facts {
        quarantine,
        settings: settings.map(str::to_owned),
        ..good("h:1")
    };
    let own = Some(&*rules.config);
    let remaining = Duration::from_secs(1);
    for (node, is_tried) in [
        (node(Some(Quarantine::Open), own), true),
        // Its clock is hidden, and so is whether it is in quarantine.
        (node(None, own), true),
        (node(None, None), false),
        (node(Some(Quarantine::Open), Some("another")), false),
        (node(Some(Quarantine::NoMarker), None), false),
        (node(Some(Quarantine::OtherProcess), None), false),
        (node(Some(Quarantine::Unreadable), None), false),
        (
            node(Some(Quarantine::Quarantined { remaining }), own),
            false,
        ),
    ] {
        assert_eq!(node.is_to_be_tried(Some(&rules)), is_tried, "{node:?}");
        assert!(node.is_to_be_tried(None));
    }
    assert!(!silent("h:1", refused()).is_to_be_tried(None));
}
