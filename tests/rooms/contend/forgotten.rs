//! Which attempts go again, because something on the way may have forgotten their connections.

use std::time::Duration;

use super::*;
use crate::error::NodeReport;

/// The vote of a node: `g` grants the lock, `h` holds it for another, `o` was silent on an old connection, `s` on another one, `b` is
/// left out, and `-` was not asked.
fn vote(says: char) -> Vote {
    let idle = Some(Duration::from_secs(1)).filter(|_| says == 'o');
    let silence = NodeError::TimedOut {
        option: None,
        limit: Duration::ZERO,
        took: None,
        idle,
        lacks_handshake: false,
    };
    match says {
        'g' => Vote::Granted,
        'h' => Vote::held(None),
        'o' | 's' => Vote::Failed(silence),
        'b' => Vote::Failed(NodeError::BreakerOpen { failure: "".into() }),
        _ => Vote::NotAsked,
    }
}

#[test]
fn an_attempt_goes_again_where_the_votes_of_old_connections_would_be_enough() {
    for (says, goes_again) in [
        ("oo-", true),
        ("ooo", true),
        ("oho", true),
        ("ohg", true),
        ("osg", true),
        ("goo", true),
        ("ohh", false),
        ("oss", false),
        ("ohs", false),
        ("ss-", false),
        ("hh-", false),
        ("bb-", false),
        ("obb", true),
        ("ooohh", true),
        ("oohhh", false),
    ] {
        let report = |says| NodeReport::new(&"n".into(), vote(says), Duration::ZERO);
        let error = Error::Unavailable {
            resource: "job".into(),
            waited: Duration::ZERO,
            nodes: says.chars().map(report).collect(),
        };
        assert_eq!(needs_new_connections(&error), goes_again, "{says}");
    }
}
