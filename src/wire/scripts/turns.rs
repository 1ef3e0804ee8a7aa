//! Whose turn it is: the cases of intents, looks and bells of the scripts, on a real `redis-server`.

use super::cases::{HOUR, MINUTE, Node, ONE, TWO, fenced};
use super::{DROP, LOOK, TAKE};

#[test]
fn an_intent_keeps_new_readers_out_until_the_next_writer_gives_back() {
    let mut node = Node::start();
    node.eval(TAKE, &["a"], &[ONE, HOUR, "r"]);
    assert_eq!(node.eval(LOOK, &["a"], &[MINUTE, "0"]), "{1 hour 1}");
    assert_eq!(node.run(&["PTTL", "a:redlatch:intent"]), "minute");
    assert_eq!(node.eval(LOOK, &["a"], &["5", "0"]), "{1 hour 1}");
    assert_eq!(node.run(&["PTTL", "a:redlatch:intent"]), "minute");
    assert_eq!(node.eval(TAKE, &["a"], &[TWO, HOUR, "r"]), "{minute -1}");
    assert_eq!(node.eval(TAKE, &["a"], &[TWO, HOUR, "ra"]), "{minute -1}");
    assert_eq!(node.eval(TAKE, &["a"], &[ONE, HOUR, "ra"]), "OK");
    // An intent does not refuse the heal of a reader that has the lock on other nodes.
    assert_eq!(node.eval(TAKE, &["a"], &[TWO, HOUR, "rh"]), "OK");
    assert_eq!(node.eval(DROP, &["a"], &[TWO, "0", "r"]), "1");
    assert_eq!(node.eval(LOOK, &["a"], &[HOUR, "0", "r"]), "{1 minute 1}");
    assert_eq!(node.run(&["SCARD", "a:redlatch:waiting"]), "2");
    // An intent refuses readers also while its writer has the lock.
    node.run(&["SET", "w", TWO, "PX", HOUR]);
    assert_eq!(
        node.eval(TAKE, &["w"], &[ONE, HOUR, "r"]),
        format!("{{hour {TWO}}}")
    );
    node.run(&["SET", "w:redlatch:intent", "1", "PX", MINUTE]);
    for how in ["r", "ra"] {
        assert_eq!(node.eval(TAKE, &["w"], &[ONE, HOUR, how]), "{minute -1}");
    }
    assert_eq!(
        node.eval(TAKE, &["w"], &[ONE, HOUR, "rh"]),
        format!("{{hour {TWO}}}")
    );
    assert_eq!(node.eval(LOOK, &["w"], &["0", "0", "r"]), "{1 hour 0}");
    node.run(&["DEL", "w", "w:redlatch:intent"]);
    assert_eq!(node.run(&["PTTL", "a:redlatch:waiting"]), "hour");

    // The last reader wakes the writer.
    let unread = (DROP, &["a"][..], &[ONE, "0", "r"][..]);
    assert_eq!(
        node.at_once(unread, &[&["LLEN", "a:redlatch:bell"]]),
        "{2 1}"
    );
    assert_eq!(node.eval(TAKE, &["a"], &[ONE, HOUR, "r"]), "{minute -1}");
    assert_eq!(node.run(&["SET", "a", TWO, "NX", "PX", MINUTE]), "OK");
    node.run(&["DEL", "a:redlatch:bell"]);

    // The release of the writer wakes the readers, and its next release wakes a writer.
    let release = (DROP, &["a"][..], &[TWO][..]);
    let bell = ["LLEN", "a:redlatch:bell:read"];
    let waiting = ["SMEMBERS", "a:redlatch:waiting"];
    assert_eq!(node.at_once(release, &[&bell, &waiting]), "{2 16 {1}}");
    node.run(&["DEL", bell[1]]);
    assert_eq!(node.keys(), ["a:redlatch:waiting"]);

    // A reader that comes now does not hear what rang before.
    node.run(&["SET", "a", TWO, "PX", MINUTE]);
    node.run(&["RPUSH", bell[1], "1"]);
    assert_eq!(node.eval(LOOK, &["a"], &["5000", "0", "r"]), "{1 minute 1}");
    assert_eq!(node.run(&bell), "0");
    node.run(&["SREM", "a:redlatch:waiting", "r"]);
    let bell = ["LLEN", "a:redlatch:bell"];
    assert_eq!(node.at_once(release, &[&bell]), "{2 1}");
}

#[test]
fn an_intent_lasts_for_a_minute_at_most_and_none_that_lasts_longer_is_heeded() {
    let mut node = Node::start();
    let intent = "a:redlatch:intent";
    node.eval(TAKE, &["a"], &[ONE, HOUR, "r"]);
    let read = (TAKE, &["a"][..], &[TWO, HOUR, "r"][..]);
    // This intent was left when the clock of the node was ahead.
    node.run(&["SET", intent, "1", "PX", HOUR]);
    assert_eq!(node.eval(read.0, read.1, read.2), "OK");
    assert_eq!(node.eval(LOOK, &["a"], &["0", "0", "r"]), "{1 -2 0}");
    // A writer that waits replaces it.
    assert_eq!(node.eval(LOOK, &["a"], &[HOUR, "0"]), "{1 hour 1}");
    assert_eq!(node.run(&["PTTL", intent]), "minute");
    assert_eq!(node.eval(DROP, &["a"], &[TWO, "0", "r"]), "1");
    assert_eq!(node.eval(read.0, read.1, read.2), "{minute -1}");
    // A writer that has just given the lock back leaves none, and is to look again in 20 ms.
    node.run(&["DEL", intent]);
    assert_eq!(node.eval(LOOK, &["a"], &[HOUR, "1"]), "{1 20 1}");
    assert_eq!(node.run(&["EXISTS", intent]), "0");
}

#[test]
fn while_the_bell_of_readers_rings_a_lock_is_not_free_for_a_writer() {
    let mut node = Node::start();
    let bell = "a:redlatch:bell:read";
    node.run(&["RPUSH", bell, "1"]);
    node.run(&["PEXPIRE", bell, MINUTE]);
    assert_eq!(node.eval(LOOK, &["a"], &["0", "0"]), "{1 minute 0}");
    assert_eq!(node.eval(LOOK, &["a", "b"], &["0", "0"]), "{1 minute 0}");
    assert_eq!(node.eval(LOOK, &["a"], &["0", "0", "r"]), "{1 -2 0}");
    node.run(&["DEL", bell]);
    assert_eq!(node.eval(LOOK, &["a"], &["0", "0"]), "{1 -2 0}");
}

#[test]
fn a_look_at_several_locks_is_at_the_first_that_is_not_free() {
    let mut node = Node::start();
    let keys = ["a", "b", "c"];
    assert_eq!(node.eval(LOOK, &keys, &[MINUTE, "0"]), "{1 -2 0}");
    node.eval(TAKE, &["c"], &[ONE, HOUR, "r"]);
    assert_eq!(node.eval(LOOK, &keys, &[MINUTE, "0"]), "{3 hour 1}");
    assert_eq!(
        node.keys(),
        ["c", "c:redlatch:intent", "c:redlatch:waiting"]
    );
    node.run(&["SET", "b", ONE]);
    assert_eq!(node.eval(LOOK, &keys, &[MINUTE, "0"]), "{2 -1 0}");
}

/// A millisecond more than an intent may last.
const LONGER: &str = "60001";

/// How often a scene begins anew that has to be over within the millisecond in which it began.
const TRIES: usize = 1_000;

/// The attempt had a vote here, and no majority: nobody had a turn, so it is not yet that of the readers.
#[test]
fn an_undo_leaves_an_intent_and_wakes_no_reader_while_there_is_one() {
    let mut node = Node::start();
    let (intent, waiting) = ("a:redlatch:intent", "a:redlatch:waiting");
    let bells = ["a:redlatch:bell", "a:redlatch:bell:read"];
    let with_token = |how| fenced(ONE, "0", how, "0").to_vec();
    for (keys, release, undo) in [
        (&["a"][..], vec![ONE], vec![ONE, "0", "u"]),
        (&["a", "b"], vec![ONE], vec![ONE, "0", "u"]),
        (&["a"], with_token(""), with_token("u")),
        (&["a", "b"], with_token(""), with_token("u")),
    ] {
        for (is_undo, waits, intended, expected) in [
            (true, &["1", "r"][..], Some(MINUTE), "{2 1 1 0 2 0}"),
            // No writer waits at the bell.
            (true, &["r"], Some(MINUTE), "{1 1 0 0 1 0}"),
            (true, &["1", "r"], None, "{2 0 0 16 1 0}"),
            // Nobody heeds this intent: it was left by a clock that was ahead.
            (true, &["1", "r"], Some(LONGER), "{2 0 0 16 1 0}"),
            (false, &["1", "r"], Some(MINUTE), "{2 0 0 16 1 0}"),
            // Its writer was not announced, and nobody else is.
            (false, &[], Some(MINUTE), "{1 0 0 0 0 0}"),
        ] {
            let words = if is_undo { &undo } else { &release };
            let mut scene = || {
                node.run(&["FLUSHALL"]);
                for key in keys {
                    node.run(&["SET", key, ONE, "PX", HOUR]);
                }
                if !waits.is_empty() {
                    node.run(&[&["SADD", waiting], waits].concat());
                }
                node.run(&["MULTI"]);
                node.run(&["SET", "clock", "1", "PX", LONGER]);
                if let Some(span) = intended {
                    node.run(&["SET", intent, "1", "PX", span]);
                }
                node.eval(DROP, keys, words);
                for words in [
                    ["PTTL", "clock"],
                    ["EXISTS", intent],
                    ["LLEN", bells[0]],
                    ["LLEN", bells[1]],
                    ["SCARD", waiting],
                    ["EXISTS", "a"],
                ] {
                    node.run(&words);
                }
                let found = node.run(&["EXEC"]).replace("OK ", "");
                // Nobody waits for the other lock.
                let found = found.replace("{2 1}", "2").replace("{1 1}", "1");
                // Where a millisecond has ended before the script did, the intent had less than was said.
                found
                    .contains(" time ")
                    .then(|| found.replace(" time ", " "))
            };
            let found = (0..TRIES).find_map(|_| scene());
            let found = found.expect("commands that take less than a millisecond");
            assert_eq!(found, expected, "{keys:?} {words:?}");
        }
    }
}

/// Redis refuses what needs memory only as the first write of a script, so a bell comes behind the `DEL`.
#[test]
fn a_release_wakes_also_where_the_memory_is_used_up() {
    let mut node = Node::start();
    for (locks, words, woken) in [
        (&["a"][..], &[ONE][..], "2"),
        (&["b", "e"], &[ONE], "{2 1}"),
        // These two write nothing else first.
        (&["c:redlatch:slot:0"], &[ONE, "0"], "2"),
        (&["d"], &[ONE, "0", "u"], "2"),
    ] {
        let name = locks[0].split(":redlatch:slot:").next().unwrap();
        for lock in locks {
            node.run(&["SET", lock, ONE, "PX", HOUR]);
        }
        node.run(&["SADD", &format!("{name}:redlatch:waiting"), "1"]);
        node.run(&["SET", "d:redlatch:intent", "1", "PX", MINUTE]);
        node.run(&["CONFIG", "SET", "maxmemory", "1"]);
        assert_eq!(node.eval(DROP, locks, words), woken, "{name}");
        node.run(&["CONFIG", "SET", "maxmemory", "0"]);
    }
}
