//! What the scripts answer at the bounds of their rules: a microsecond, a ms or a digit further, the answer is another one.
//!
//! Here the clock stands still. That a server answers as the store does is shown beside it.

use std::time::Duration;

use super::*;
use crate::wire::scripts::{DROP, KEEP, OPEN, PASS, SHOW, TAKE};

/// 1700000000000000 in microseconds.
const NOW: Duration = Duration::from_secs(1_700_000_000);

const ONE: &str = "1111111111111111111111111111111111111111";
const TWO: &str = "2222222222222222222222222222222222222222";

fn shown(reply: &Reply) -> String {
    match reply {
        Reply::Nil => "nil".into(),
        Reply::Okay => "OK".into(),
        Reply::Text(text) => text.clone(),
        Reply::Int(number) => number.to_string(),
        Reply::Bulk(text) => String::from_utf8_lossy(text).into_owned(),
        Reply::Error(error) => error.code.clone(),
        Reply::Array(items) => {
            let items: Vec<String> = items.iter().map(shown).collect();
            format!("{{{}}}", items.join(" "))
        }
    }
}

/// What a script answers where these commands came before it, and what the last one answers then.
#[track_caller]
fn answers(
    before: &[&str],
    script: &str,
    words: &str,
    expected: &str,
    (after, left): (&str, &str),
) {
    let mut store = Store::of(Process::new(1, Duration::ZERO, 0));
    let run_id = store.run_id();
    let named = |text: &str| {
        let text = text.replace("ONE", ONE).replace("TWO", TWO);
        text.replace("RUN", &run_id)
    };
    let mut execute = |head: &[&str], text: &str| {
        let text = named(text);
        let words: Vec<&str> = head.iter().copied().chain(text.split(' ')).collect();
        shown(&store.execute(&pack(&words), NOW))
    };
    for command in before {
        execute(&[], command);
    }
    assert_eq!(
        execute(&["EVAL", script], words),
        named(expected),
        "{words}"
    );
    assert_eq!(execute(&[], after), named(left), "{after} behind {words}");
}

const OPENED: &str = "SET m RUN|c1|1600000000000000|opened";

#[test]
fn a_token_is_granted_only_above_the_counter_and_the_opening() {
    let (now, before) = ("1700000000000000", "1699999999999999");
    let late = "SET m RUN|c1|1699999999999999|opened";
    for (open, counter, token, expected) in [
        (OPENED, now, now, "{STALE 1700000000000000}"),
        (OPENED, before, now, "OK"),
        // The counter that the release of the latest possible token leaves is not taken for one of the future.
        (OPENED, "1700000000000001", now, "{STALE 1700000000000001}"),
        (OPENED, "1700000000000002", now, "{FUTURE 2}"),
        (OPENED, "17000000000000000", now, "{COUNTER 1}"),
        (late, "1699999999999000", before, "{STALE 1699999999999999}"),
    ] {
        let counter = format!("SET a:fence {counter}");
        let words = format!("1 a ONE 60000  {token} 0 86400000 m c1");
        let left = if expected == "OK" { "1" } else { "0" };
        answers(
            &[open, &counter],
            TAKE,
            &words,
            expected,
            ("EXISTS a", left),
        );
    }
}

#[test]
fn the_own_key_is_a_vote_only_where_it_is_asked_for_again() {
    let own = &[OPENED, "SET a ONE PX 60000"];
    for (how, expected) in [("", "{60000}"), ("a", "OK")] {
        let words = format!("1 a ONE 60000 {how} 1700000000000000 0 86400000 m c1");
        answers(own, TAKE, &words, expected, ("EXISTS a:fence", "0"));
    }
}

#[test]
fn a_key_is_set_again_only_on_a_server_that_opened_before_the_token() {
    for (open, expected, left) in [
        ("1699999999999999", "1", "ONE"),
        ("1700000000000000", "{-2}", "nil"),
    ] {
        let marker = format!("SET m RUN|c1|{open}|opened");
        let before = &[marker.as_str(), "SET a:fence 1700000000000000"];
        let words = "1 a ONE 60000  1700000000000000 0 86400000 m c1";
        answers(before, KEEP, words, expected, ("GET a", left));
    }
}

#[test]
fn a_lock_is_shown_to_its_holder_only_where_its_token_was_granted() {
    for (counter, expected) in [
        ("SET a:fence 5", "{60000 40 ONE}"),
        ("SET a:fence 6", "{60000 40 ONE}"),
        ("SET a:fence 4", "{-2}"),
        ("SET a:fence x", "{-2}"),
        ("DEL a:fence", "{-2}"),
    ] {
        let before = &["SET a ONE PX 60000", counter];
        let words = "1 a ONE 0  5 0 86400000 m c1";
        answers(before, SHOW, words, expected, ("GET a", "ONE"));
    }
}

#[test]
fn a_server_whose_quarantine_is_over_is_not_opened_as_a_new_one() {
    for (open, expected) in [
        ("1700000000000001", "OK"),
        ("1700000000000000", "{SERVING}"),
    ] {
        let marker = format!("SET m RUN|c1|{open}|new");
        answers(
            &[&marker],
            OPEN,
            "1 m look 1000 c1",
            expected,
            ("EXISTS m", "1"),
        );
    }
}

#[test]
fn a_tombstone_that_no_token_can_have_left_is_not_kept() {
    for (token, left) in [
        ("1700000000000000", "1700000000000001"),
        ("1700000000000001", "1699913600000000"),
    ] {
        let words = format!("1 a ONE 0  {token} 0 86400000 m c1");
        answers(&[], DROP, &words, "{-2}", ("GET a:fence", left));
    }
}

#[test]
fn a_lock_is_passed_or_made_to_rest_by_its_holder_alone_and_a_release_takes_its_intent_along() {
    let held = &["SET a TWO PX 60000"];
    answers(
        held,
        PASS,
        "1 a ONE1 60000 a - - - - - ONE",
        "{{60000} {60000}}",
        ("GET a", "TWO"),
    );
    answers(
        held,
        PASS,
        "1 a TWO 70000 a - - - - - ONE",
        "{{60000} OK}",
        ("PTTL a", "70000"),
    );
    answers(held, DROP, "1 a ONE 70000", "{60000}", ("GET a", "TWO"));
    let intended = &["SET a ONE PX 60000", "SET a:redlatch:intent 1 PX 60000"];
    answers(
        intended,
        DROP,
        "1 a ONE",
        "1",
        ("EXISTS a:redlatch:intent", "0"),
    );
}

#[test]
fn the_key_of_readers_ends_with_the_last_of_them() {
    let before = |ends: [&'static str; 2]| {
        let [one, two] = ends;
        [
            format!("ZADD a {one} ONE"),
            format!("ZADD a {two} TWO"),
            "PEXPIREAT a 1700000001000".to_owned(),
        ]
    };
    for (ends, script, words, expected, after) in [
        (
            ["1700000001000", "1700000000500"],
            DROP,
            "1 a ONE 0 r",
            "1",
            ("PTTL a", "500"),
        ),
        // In its last ms a reader still reads.
        (
            ["1700000001000", "1700000000000"],
            DROP,
            "1 a ONE 0 r",
            "1",
            ("PTTL a", "1"),
        ),
        (
            ["1700000001000", "1699999999999"],
            DROP,
            "1 a ONE 0 r",
            "1",
            ("EXISTS a", "0"),
        ),
        (
            ["1700000001000", "1700000000500"],
            KEEP,
            "1 a ONE 700 r",
            "1",
            ("ZSCORE a ONE", "1700000001000"),
        ),
        (
            ["1700000001000", "1700000000000"],
            SHOW,
            "1 a TWO 0 r",
            "{0 40 TWO}",
            ("PTTL a", "1000"),
        ),
    ] {
        let before = before(ends);
        let before: Vec<&str> = before.iter().map(String::as_str).collect();
        answers(&before, script, words, expected, after);
    }
}
