//! The ordinary cases of the scripts of the fenced protocol.

use super::*;

#[test]
fn several_fenced_locks_have_one_token_that_is_larger_than_every_counter() {
    let mut node = Node::start();
    let keys = ["a", "a:fence", "b", "b:fence", "m"];
    let token = node.token(0);
    let ask = |node: &mut Node, value, token: &str, again| {
        let arguments = [value, MINUTE, token, HOUR, HOUR, "c", again, "0"];
        node.eval(fenced::ACQUIRE_ALL, &keys, &arguments)
    };
    assert_eq!(ask(&mut node, ONE, &token, "0"), "{CLOSED time new}");
    node.open();
    let (first, second) = (node.token(0), node.token(5_000_000));
    node.run(&["SET", "b:fence", &second, "PX", HOUR]);
    assert_eq!(ask(&mut node, ONE, &first, "0"), "{STALE time}");
    node.run(&["SET", "b:fence", "x", "PX", HOUR]);
    assert_eq!(ask(&mut node, ONE, &first, "0"), "{COUNTER 2}");
    node.run(&["SET", "b:fence", &first, "PX", HOUR]);
    assert_eq!(ask(&mut node, ONE, "9000000000000000", "0"), "{SKEW time}");
    assert_eq!(node.keys(), ["b:fence"]);
    assert_eq!(ask(&mut node, ONE, &second, "0"), "OK");
    assert_eq!(
        node.run(&["MGET", "a:fence", "b:fence"]),
        format!("{{{second} {second}}}")
    );
    assert_eq!(ask(&mut node, ONE, &second, "1"), "OK");
    assert_eq!(ask(&mut node, ONE, &second, "0"), "{1 {minute}}");

    // A lock that is gone heals alone.
    node.run(&["DEL", "b"]);
    let extend = [ONE, HOUR, &second, HOUR];
    assert_eq!(node.eval(fenced::EXTEND_ALL, &keys, &extend), "{1 1}");
    assert_eq!(node.run(&["PTTL", "b"]), "hour");
    let tombstone = second.parse::<u64>().unwrap().saturating_add(1).to_string();
    let back = [ONE, tombstone.as_str(), HOUR, HOUR, MINUTE];
    assert_eq!(node.eval(fenced::REST_ALL, &keys[2..4], &back), "{1}");
    assert_eq!(
        node.eval(fenced::RELEASE_ALL, &keys[..4], &back[..4]),
        format!("{{1 {{minute rest:{ONE}}}}}")
    );
    assert_eq!(
        node.run(&["MGET", "a:fence", "b:fence"]),
        format!("{{{tombstone} {tombstone}}}")
    );
}

#[test]
fn readers_and_fenced_writers_keep_each_other_out() {
    let mut node = Node::start();
    let keys = ["a", "a:fence", "m"];
    let read =
        |node: &mut Node, value| node.eval(fenced::READ, &keys, &[value, HOUR, "0", HOUR, "c"]);
    let write = |node: &mut Node, token: &str| {
        let arguments = [TWO, MINUTE, token, HOUR, HOUR, "c", "0", "0"];
        node.eval(fenced::ACQUIRE, &keys, &arguments)
    };
    assert_eq!(read(&mut node, ONE), "{CLOSED time new}");
    assert_eq!(node.keys(), Vec::<String>::new());
    node.open();
    assert_eq!(read(&mut node, ONE), "OK");
    assert_eq!(node.keys(), ["a"]);
    // Larger than the floor, so that nothing but the reader is in the way.
    let token = node.token(5_000_000);
    assert_eq!(write(&mut node, &token), "{hour 1}");
    assert_eq!(node.keys(), ["a"]);
    node.run(&["SET", "a:fence", "5", "PX", HOUR]);
    assert_eq!(write(&mut node, &token), "{hour 1}");
    assert_eq!(write(&mut node, "4"), "{hour 1}");
    assert_eq!(node.run(&["GET", "a:fence"]), "5");
    let all = ["0", "0:fence", "a", "a:fence", "m"];
    let arguments = [TWO, MINUTE, token.as_str(), HOUR, HOUR, "c", "0", "0"];
    assert_eq!(
        node.eval(fenced::ACQUIRE_ALL, &all, &arguments),
        "{2 {hour 1}}"
    );
    assert_eq!(node.keys(), ["a", "a:fence"]);
    assert_eq!(
        node.eval(fenced::EXTEND, &keys, &[TWO, HOUR, "5", HOUR]),
        "{hour 1}"
    );

    // A reader leaves a counter with which no earlier writer heals.
    assert_eq!(node.eval(UNREAD, &["a"], &[ONE]), "1");
    assert_eq!(write(&mut node, &token), "OK");
    node.run(&["DEL", "a"]);
    assert_eq!(read(&mut node, ONE), "OK");
    assert_eq!(node.eval(UNREAD, &["a"], &[ONE]), "1");
    assert_eq!(
        node.eval(fenced::EXTEND, &keys, &[TWO, HOUR, &token, HOUR]),
        "{-2}"
    );
    let counter = token.parse::<u64>().unwrap().saturating_add(1).to_string();
    assert_eq!(node.run(&["GET", "a:fence"]), counter);
    let late = [TWO, counter.as_str(), HOUR, HOUR];
    read(&mut node, ONE);
    assert_eq!(node.eval(fenced::RELEASE, &keys[..2], &late), "{hour 1}");
}
