//! The names of several resources, as they are given, kept and shown.

use std::time::Duration;

use redlatch::fake::FakeNode;
use redlatch::{Error, Lease, LockManager};

use crate::managers::{invalid_field, over_fakes};

const TTL: Duration = Duration::from_secs(10);

#[test]
fn no_name_too_many_and_the_same_one_twice_are_refused_with_what_is_wrong() {
    let too_many: Vec<String> = (0..65).map(|n| format!("account:{n}")).collect();
    let twice = ["b", "a", "c", "a"].map(str::to_owned);
    for (names, reason) in [
        (
            &[][..],
            "there is no name; give the name of one resource at least",
        ),
        (
            &twice,
            "the name \"a\" is given twice; give each resource once",
        ),
        (
            &too_many,
            "a lock is on 64 resources at most, and these are 65; give fewer names, or one name that stands for all",
        ),
    ] {
        let (_, nodes, manager) = over_fakes(3);
        let request = manager.request_all(names);
        for result in [
            request.try_lock(),
            request.lock(),
            request.try_lock_for(TTL),
            manager.lock_all(names, TTL),
        ] {
            let error = result.unwrap_err();
            assert_eq!(invalid_field(&error), "resource", "{error}");
            assert_eq!(error.to_string(), format!("invalid resource: {reason}"));
        }
        let is_free = |name: &String| nodes.iter().all(|node| node.token_of(name).is_none());
        assert!(names.iter().all(is_free));
    }
}

#[test]
fn names_that_differ_in_a_prefix_only_are_different_resources() {
    let nodes = FakeNode::cluster(1);
    let builder = LockManager::builder().fakes(&nodes).key_prefix("app:");
    let manager = builder.build().unwrap();
    // The first is the second one's key in a manager without the prefix.
    let guard = manager.lock_all(["app:x", "x"], TTL).unwrap();
    assert_eq!(guard.resources(), ["app:x", "x"]);
    let has_key = |key| nodes[0].token_of(key).as_deref() == Some(guard.token());
    assert!(has_key("app:app:x") && has_key("app:x") && !has_key("x"));
}

#[test]
fn one_name_is_an_ordinary_lock() {
    let (_, _nodes, manager) = over_fakes(3);
    let guard = manager.lock_all(["job"], TTL).unwrap();
    assert_eq!((guard.resource(), guard.resources()), ("job", vec!["job"]));
    let error = manager.try_lock("job", TTL).unwrap_err();
    assert!(matches!(&error, Error::Held { resource, .. } if &**resource == "job"));
    let text = guard.into_lease().to_string();
    assert!(text.ends_with(":job"), "{text}");
}

/// What separates names in the text of a lease or of an error, and what pages and terminals would take for something else.
/// They are sorted.
const HOSTILE: &[&str] = &[
    "\0", "\t", "\r\n", "\u{1b}", " ", "%", "%20", "%7E", "*", ", ", "-", "2~~a~~b", "a", "a, b",
    "a~b", "a~read", "a~~b", "a~~~b", "a\u{30a}", "b", "name:3", "{a}b", "{a}{b}", "~", "~read",
    "~~", "~~~", "å", "\u{202e}",
];

#[test]
fn hostile_names_are_as_many_resources_and_survive_the_text_of_a_lease() {
    let (_, nodes, one) = over_fakes(3);
    let other = LockManager::builder().fakes(&nodes).build().unwrap();
    let guard = one.lock_all(HOSTILE.iter().rev(), TTL).unwrap();
    assert_eq!(guard.resources(), HOSTILE);
    let (token, text) = (guard.token().to_owned(), guard.into_lease().to_string());
    assert!(text.bytes().all(|byte| byte.is_ascii_graphic()), "{text:?}");
    for name in HOSTILE {
        let error = other.try_lock(name, TTL).unwrap_err();
        assert!(matches!(&error, Error::Held { resource, .. } if &**resource == *name));
        assert_eq!(nodes[0].token_of(name).as_ref(), Some(&token));
    }
    let guard = other.adopt(&text.parse::<Lease>().unwrap()).unwrap();
    assert_eq!(guard.resources(), HOSTILE);
    guard.unlock().unwrap();
    assert!(HOSTILE.iter().all(|name| nodes[2].token_of(name).is_none()));
}

#[test]
fn a_loss_tells_the_first_three_of_many_names_and_the_one_that_was_taken() {
    let (_, nodes, manager) = over_fakes(3);
    let guard = manager.lock_all(["d", "c", "b", "a"], TTL).unwrap();
    for node in &nodes {
        node.hold("c", "another", TTL);
    }
    let text = guard.extend(TTL).unwrap_err().to_string();
    let head = "the lock on \"a, b, c and 1 more\" is no longer held: a majority of the nodes has lost it, most of them to \
                another holder";
    assert!(text.starts_with(head), "{text}");
    let taken = "\"c\" held by another, for another ";
    assert!(text.contains(taken), "{text}");
}
