//! The names of several resources, as they are given and as they are shown.

use std::time::Duration;

use redlatch::fake::FakeNode;
use redlatch::{Error, LockManager};

use crate::managers::invalid_field;

const TTL: Duration = Duration::from_secs(10);

fn fakes() -> (Vec<FakeNode>, LockManager) {
    fakes_with("")
}

fn fakes_with(prefix: &str) -> (Vec<FakeNode>, LockManager) {
    let nodes = FakeNode::cluster(3);
    let builder = LockManager::builder().fakes(&nodes).key_prefix(prefix);
    (nodes, builder.build().unwrap())
}

/// Why these names are refused, by each call that takes them.
#[track_caller]
fn refusal(names: &[String]) -> String {
    let (nodes, manager) = fakes();
    let request = manager.request_all(names);
    let errors = [
        request.try_lock().unwrap_err(),
        request.lock().unwrap_err(),
        request.try_lock_for(TTL).unwrap_err(),
        manager.lock_all(names, TTL).unwrap_err(),
    ];
    let texts = errors.map(|error| {
        assert_eq!(invalid_field(&error), "resource", "{error:?}");
        error.to_string()
    });
    assert!(texts.iter().all(|text| *text == texts[0]), "{texts:?}");
    let is_free = |name: &String| nodes.iter().all(|node| node.token_of(name).is_none());
    assert!(names.iter().all(is_free));
    texts[0].clone()
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

fn numbered(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("account:{n}")).collect()
}

#[test]
fn no_name_too_many_and_the_same_one_twice_are_refused_with_what_is_wrong() {
    assert_eq!(
        refusal(&[]),
        "invalid resource: there is no name; give the name of one resource at least"
    );
    assert_eq!(
        refusal(&owned(&["b", "a", "c", "a"])),
        "invalid resource: the name \"a\" is given twice; give each resource once"
    );
    assert_eq!(
        refusal(&numbered(65)),
        "invalid resource: a lock is on 64 resources at most, and these are 65; give fewer names, or one name that stands \
         for all"
    );
}

#[test]
fn names_that_differ_in_a_prefix_only_are_different_resources() {
    let (nodes, manager) = fakes_with("app:");
    // The first is the second one's key in a manager without the prefix.
    let guard = manager.lock_all(["app:x", "x"], TTL).unwrap();
    assert_eq!(guard.resources(), ["app:x", "x"]);
    for node in &nodes {
        assert_eq!(node.token_of("app:app:x").as_deref(), Some(guard.token()));
        assert_eq!(node.token_of("app:x").as_deref(), Some(guard.token()));
        assert_eq!(node.token_of("x"), None);
    }
}

#[test]
fn one_name_is_an_ordinary_lock() {
    let (_nodes, manager) = fakes();
    let guard = manager.lock_all(["job"], TTL).unwrap();
    assert_eq!((guard.resource(), guard.resources()), ("job", vec!["job"]));
    assert!(
        matches!(manager.try_lock("job", TTL), Err(Error::Held { resource, .. }) if &*resource == "job")
    );
    let text = guard.into_lease().to_string();
    assert!(text.ends_with(":job"), "{text}");
}
