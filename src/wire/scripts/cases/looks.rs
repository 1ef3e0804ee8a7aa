//! What the scripts tell of readers that only look.

use super::*;

const ONE_WITH_NAME: &str = "1111111111111111111111111111111111111111 web-1";

/// Four readers. The value of one begins with that of another one.
fn four_readers() -> Node {
    let mut node = Node::start();
    let third = "3333333333333333333333333333333333333333 web-3";
    for (value, ttl) in [
        (ONE_WITH_NAME, HOUR),
        (TWO, MINUTE),
        (third, HOUR),
        ("1111111111111111111111111111111111111112", HOUR),
    ] {
        assert_eq!(node.eval(TAKE, &["a"], &[value, ttl, "r"]), "OK");
    }
    node
}

#[test]
fn a_look_tells_how_many_read_and_when_the_first_and_the_last_of_them_end() {
    let mut node = four_readers();
    assert_eq!(node.eval(SHOW, &["a"], &[]), "{hour 4 minute}");
    node.run(&["ZADD", "a", "1", TWO]);
    assert_eq!(node.eval(SHOW, &["a"], &[]), "{hour 3 hour}");
}

#[test]
fn a_reader_is_found_by_its_token_or_by_its_whole_value() {
    let mut node = four_readers();
    let found = format!("{{READER {ONE_WITH_NAME}}}");
    for named in [ONE, ONE_WITH_NAME] {
        assert_eq!(node.eval(SHOW, &["a"], &[named, "0", "n"]), found);
    }
    assert_eq!(
        node.eval(SHOW, &["a"], &[TWO, "0", "n"]),
        format!("{{READER {TWO}}}")
    );
    let beginning = &ONE_WITH_NAME[..43];
    for other in [beginning, &ONE[..39], "", "web-1"] {
        assert_eq!(
            node.eval(SHOW, &["a"], &[other, "0", "n"]),
            "{-2}",
            "{other}"
        );
    }
    // The time of this reader is over.
    node.run(&["ZADD", "a", "1", ONE_WITH_NAME]);
    assert_eq!(node.eval(SHOW, &["a"], &[ONE, "0", "n"]), "{-2}");
}

#[test]
fn among_many_readers_each_is_found() {
    let mut node = Node::start();
    let fill = "local now = redis.call('TIME')[1] * 1000 \
                for i = 1, 2500 do redis.call('ZADD', KEYS[1], now + 3600000 + i, string.format('%040d', i)) end \
                return redis.call('PEXPIRE', KEYS[1], '3700000')";
    assert_eq!(node.eval(fill, &["a"], &[]), "1");
    for i in [1, 999, 1000, 1001, 1999, 2000, 2001, 2500] {
        let token = format!("{i:040}");
        let found = format!("{{READER {token}}}");
        assert_eq!(node.eval(SHOW, &["a"], &[&token, "0", "n"]), found);
    }
    let last = format!("{:040}", 2501);
    assert_eq!(node.eval(SHOW, &["a"], &[&last, "0", "n"]), "{-2}");
}

#[test]
fn what_readers_don_t_have_is_found_as_a_look_finds_it() {
    let mut node = Node::start();
    node.run(&["SET", "held", ONE_WITH_NAME, "PX", MINUTE]);
    node.run(&["SET", "forever", "x"]);
    node.run(&["ZADD", "other", "1", "x"]);
    node.run(&["PEXPIRE", "other", MINUTE]);
    node.run(&["HSET", "hash", "x", "1"]);
    for (key, expected) in [
        ("held", format!("{{minute 46 {ONE_WITH_NAME}}}")),
        ("forever", "{-1 1 x}".to_owned()),
        ("other", "{-3}".to_owned()),
        ("hash", "{-3}".to_owned()),
        ("none", "{-2}".to_owned()),
    ] {
        assert_eq!(node.eval(SHOW, &[key], &[]), expected, "{key}");
        assert_eq!(node.eval(SHOW, &[key], &[ONE, "0", "n"]), expected, "{key}");
    }
}

#[test]
fn a_scan_passes_over_what_is_neither_a_lock_nor_read() {
    let mut node = four_readers();
    node.run(&["SET", "held", ONE, "PX", MINUTE]);
    node.run(&["SET", "a:redlatch:intent", "1", "PX", MINUTE]);
    for (key, word) in [("set", "SADD"), ("list", "RPUSH")] {
        node.run(&[word, key, ONE]);
        node.run(&["PEXPIRE", key, MINUTE]);
    }
    // Sorted sets of other programs, and a set of readers that has lost its time to live.
    for (key, member) in [("other", "x"), ("no-number", ONE), ("forever", ONE)] {
        node.run(&["ZADD", key, "5000000000000", member]);
    }
    node.run(&["ZADD", "no-number", "1e300", ONE]);
    node.run(&["PEXPIRE", "other", MINUTE]);
    node.run(&["PEXPIRE", "no-number", MINUTE]);
    let page = node.eval(SCAN, &[], &["0", "*", "250", "512"]);
    let mut keys: Vec<&str> = page.trim_matches(['{', '}']).split(' ').collect();
    keys.sort_unstable();
    assert_eq!(keys, ["0", "a", "held"]);
}

#[test]
fn one_that_has_just_given_the_lock_back_leaves_readers_a_moment_without_its_intent() {
    let mut node = Node::start();
    node.eval(TAKE, &["a"], &[ONE, HOUR, "r"]);
    assert_eq!(node.eval(LOOK, &["a"], &[MINUTE, "1"]), "{1 20 1}");
    assert_eq!(node.eval(TAKE, &["a"], &[TWO, HOUR, "r"]), "OK");
    // The writer is announced all the same, so the last reader wakes it.
    assert_eq!(node.eval(DROP, &["a"], &[ONE, "0", "r"]), "1");
    assert_eq!(node.eval(DROP, &["a"], &[TWO, "0", "r"]), "2");
    // After another look, its intent keeps readers out as that of any writer.
    node.eval(TAKE, &["b"], &[ONE, HOUR, "r"]);
    assert_eq!(node.eval(LOOK, &["b"], &[MINUTE, "1"]), "{1 20 1}");
    assert_eq!(node.eval(LOOK, &["b"], &[MINUTE, "0"]), "{1 hour 1}");
    assert_eq!(node.eval(TAKE, &["b"], &[TWO, HOUR, "r"]), "{minute -1}");
    // A writer that announces nothing leaves no intent.
    assert_eq!(node.eval(LOOK, &["b"], &["0", "1"]), "{1 hour 0}");
}

/// The next attempt of the writer sets the key, and undoes that.
#[test]
fn a_writer_that_only_leaves_its_intent_is_not_announced_and_its_undo_leaves_the_intent() {
    let mut node = Node::start();
    assert_eq!(node.eval(LOOK, &["a"], &[MINUTE, "2"]), "{1 -2 0}");
    assert_eq!(node.run(&["EXISTS", "a:redlatch:waiting"]), "0");
    node.run(&["SET", "a", ONE, "PX", MINUTE]);
    assert_eq!(node.eval(DROP, &["a"], &[ONE, "0", "u"]), "1");
    assert_eq!(node.eval(TAKE, &["a"], &[TWO, HOUR, "r"]), "{minute -1}");
    // The same where readers have the lock.
    assert_eq!(node.eval(TAKE, &["b"], &[ONE, HOUR, "r"]), "OK");
    assert_eq!(node.eval(LOOK, &["b"], &[MINUTE, "2"]), "{1 hour 0}");
    assert_eq!(node.eval(TAKE, &["b"], &[TWO, HOUR, "r"]), "{minute -1}");
    assert_eq!(node.eval(DROP, &["b"], &[ONE, "0", "r"]), "1");
}
