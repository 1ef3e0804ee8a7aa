//! The ordinary cases of the scripts of the fenced protocol.

use super::*;

#[test]
fn several_fenced_locks_have_one_token_that_is_larger_than_every_counter() {
    let mut node = Node::start();
    let keys = ["a", "b"];
    let token = node.token(0);
    let ask = |node: &mut Node, value, token: &str, how| {
        node.eval(TAKE, &keys, &fenced(value, MINUTE, how, token))
    };
    assert_eq!(ask(&mut node, ONE, &token, ""), "{CLOSED time new}");
    node.open();
    let (first, second) = (node.token(0), node.token(5_000_000));
    node.run(&["SET", "b:fence", &second, "PX", HOUR]);
    assert_eq!(ask(&mut node, ONE, &first, ""), "{STALE time}");
    node.run(&["SET", "b:fence", "x", "PX", HOUR]);
    assert_eq!(ask(&mut node, ONE, &first, ""), "{COUNTER 2}");
    node.run(&["SET", "b:fence", &first, "PX", HOUR]);
    assert_eq!(ask(&mut node, ONE, "9000000000000000", ""), "{SKEW time}");
    assert_eq!(node.keys(), ["b:fence"]);
    assert_eq!(ask(&mut node, ONE, &second, ""), "OK");
    assert_eq!(
        node.run(&["MGET", "a:fence", "b:fence"]),
        format!("{{{second} {second}}}")
    );
    assert_eq!(ask(&mut node, ONE, &second, "a"), "OK");
    assert_eq!(ask(&mut node, ONE, &second, ""), "{{minute} 0}");

    // A lock that is gone heals alone.
    node.run(&["DEL", "b"]);
    let extend = fenced(ONE, HOUR, "", &second);
    assert_eq!(node.eval(KEEP, &keys, &extend), "{1 1}");
    assert_eq!(node.run(&["PTTL", "b"]), "hour");
    let tombstone = second.parse::<u64>().unwrap().saturating_add(1).to_string();
    let rest = fenced(ONE, MINUTE, "", &second);
    assert_eq!(node.eval(DROP, &["b"], &rest), "1");
    assert_eq!(
        node.eval(DROP, &keys, &fenced(ONE, "0", "", &second)),
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
    let read = |node: &mut Node, value| node.eval(TAKE, &["a"], &fenced(value, HOUR, "r", "0"));
    let write =
        |node: &mut Node, token: &str| node.eval(TAKE, &["a"], &fenced(TWO, MINUTE, "", token));
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
    let both = fenced(TWO, MINUTE, "", &token);
    assert_eq!(node.eval(TAKE, &["0", "a"], &both), "{0 {hour 1}}");
    assert_eq!(node.keys(), ["a", "a:fence"]);
    assert_eq!(
        node.eval(KEEP, &["a"], &fenced(TWO, HOUR, "", "5")),
        "{hour 1}"
    );

    // A reader leaves a counter with which no earlier writer heals.
    assert_eq!(node.eval(DROP, &["a"], &[ONE, "0", "r"]), "1");
    assert_eq!(write(&mut node, &token), "OK");
    node.run(&["DEL", "a"]);
    assert_eq!(read(&mut node, ONE), "OK");
    assert_eq!(node.eval(DROP, &["a"], &[ONE, "0", "r"]), "1");
    assert_eq!(
        node.eval(KEEP, &["a"], &fenced(TWO, HOUR, "", &token)),
        "{-2}"
    );
    let counter = token.parse::<u64>().unwrap().saturating_add(1).to_string();
    assert_eq!(node.run(&["GET", "a:fence"]), counter);
    read(&mut node, ONE);
    let late = fenced(TWO, "0", "", &token);
    assert_eq!(node.eval(DROP, &["a"], &late), "{hour 1}");
}

#[test]
fn a_reader_that_is_let_in_is_told_so_whatever_is_under_the_key_of_the_counter() {
    let mut node = Node::start();
    node.open();
    node.run(&["HSET", "a:fence", "f", "v"]);
    let read = fenced(ONE, HOUR, "r", "0");
    assert_eq!(node.eval(TAKE, &["a"], &read), "OK");
    let token = node.token(5_000_000);
    let write = fenced(TWO, MINUTE, "", &token);
    assert_eq!(node.eval(TAKE, &["b", "a"], &write), "{0 {hour 1}}");
    assert_eq!(node.eval(DROP, &["a"], &read), "1");
    assert_eq!(node.eval(TAKE, &["b", "a"], &write), "{COUNTER 2}");
}

#[test]
fn what_is_no_marker_is_said_to_be_none() {
    let mut node = Node::start();
    for plant in [&["SET", "m", "x"][..], &["HSET", "m", "f", "v"]] {
        node.run(&["DEL", "m"]);
        node.run(plant);
        for how in ["", "r"] {
            let ask = fenced(ONE, MINUTE, how, "1");
            assert_eq!(node.eval(TAKE, &["a"], &ask), "{MARKER}");
        }
        assert_eq!(node.keys(), Vec::<String>::new());
    }
}

#[test]
fn a_lock_is_passed_with_its_token_or_without_one() {
    let mut node = Node::start();
    node.run(&["SET", "a", ONE, "PX", MINUTE]);
    let pass = passed(TWO, HOUR, ONE);
    assert_eq!(node.eval(PASS, &["a"], &pass), "{1 OK}");
    assert_eq!(node.run(&["GET", "a"]), TWO);
    assert_eq!(node.run(&["PTTL", "a"]), "hour");
    // The second time, its own key counts.
    let again = node.eval(PASS, &["a"], &pass);
    assert_eq!(again, format!("{{{{hour {TWO}}} OK}}"));
    let back = passed("3", HOUR, ONE);
    let other = format!("{{hour {TWO}}}");
    assert_eq!(
        node.eval(PASS, &["a"], &back),
        format!("{{{other} {other}}}")
    );
    assert_eq!(
        node.keys(),
        ["a"],
        "no node of the classic protocol has a marker"
    );

    node.open();
    let (first, second) = (node.token(5_000_000), node.token(9_000_000));
    let pass = [&fenced(ONE, HOUR, "a", &second)[..], &[TWO, &first]].concat();
    assert_eq!(node.eval(PASS, &["a"], &pass), "{1 OK}");
    assert_eq!(node.run(&["GET", "a"]), ONE);
    assert_eq!(node.run(&["GET", "a:fence"]), second);
    // The second time, the counter is that of the next holder, and its own key counts.
    assert_eq!(node.eval(PASS, &["a"], &pass), "{{hour} OK}");
    assert_eq!(node.run(&["GET", "a:fence"]), second);
}
