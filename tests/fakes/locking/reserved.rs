//! Resource names that would collide with keys which the library keeps beside locks.

use std::time::Duration;

use redlatch::fake::FakeNode;
use redlatch::{Error, LockManager, Protocol};

use crate::managers::invalid_field;

const TTL: Duration = Duration::from_secs(10);

/// Whether each call that takes a name refuses this one, without a key on any node.
#[track_caller]
fn is_refused(prefix: &str, name: &str, protocol: Protocol) -> bool {
    let nodes = FakeNode::cluster(3);
    let manager = LockManager::builder().fakes(&nodes).key_prefix(prefix);
    let manager = manager.protocol(protocol).build().unwrap();
    if protocol == Protocol::Fenced {
        manager.open_nodes().unwrap();
    }
    let is_reserved = |error: Option<Error>| error.as_ref().map(invalid_field) == Some("resource");
    let refusals = [
        is_reserved(manager.try_lock(name, TTL).err()),
        is_reserved(manager.lock(name, TTL).err()),
        is_reserved(manager.status(name).err()),
        is_reserved(manager.release(name, "token").err()),
    ];
    let is_refused = refusals[0];
    assert_eq!(refusals, [is_refused; 4], "{prefix} {name}");
    is_refused
}

#[test]
fn names_of_keys_that_are_kept_beside_locks_are_refused_in_both_protocols() {
    for protocol in [Protocol::Classic, Protocol::Fenced] {
        for (prefix, name) in [
            ("", "job:fence"),
            ("", ":fence"),
            ("job", ":fence"),
            ("job:", "fence"),
            ("", "redlatch:node"),
            ("a:", "redlatch:node"),
            ("", "a:redlatch:node"),
            // The marker of those whose prefix has no colon.
            ("", "aredlatch:node"),
            ("", "job:redlatch:waiting"),
            ("", "job:redlatch:bell"),
            ("", "job:redlatch:slot:3"),
            ("", "job:redlatch:anything"),
            ("", ":redlatch:"),
            ("", "job:redlatch:bell:more"),
            // In parts.
            ("a:", "redlatch:bell"),
            ("a", ":redlatch:bell"),
            ("a:red", "latch:bell"),
        ] {
            assert!(is_refused(prefix, name, protocol), "{prefix} {name}");
        }
        for (prefix, name) in [
            ("", "redlatch"),
            ("", "redlatch:bell"),
            ("redlatch:", "job"),
            ("redlatch:billing:", "job"),
            ("", "job:redlatch"),
            ("", "job:redlatches:bell"),
            ("", "fence"),
            ("", "job:fences"),
            ("", "job:fence:post"),
        ] {
            assert!(!is_refused(prefix, name, protocol), "{prefix} {name}");
        }
    }
}

#[test]
fn a_prefix_with_which_every_name_is_refused_is_an_error_of_the_builder() {
    for (prefix, is_good) in [
        ("a:redlatch:", false),
        (":redlatch:b:", false),
        ("redlatch:", true),
        ("a:redlatch", true),
    ] {
        let nodes = FakeNode::cluster(3);
        let built = LockManager::builder()
            .fakes(&nodes)
            .key_prefix(prefix)
            .build();
        let is_refused = built.as_ref().err().map(invalid_field) == Some("key_prefix");
        assert_eq!(is_refused, !is_good, "{prefix}: {built:?}");
    }
}
