//! Properties of the fake's parser and store, over random commands and what is left of them after an accident.

use std::time::Duration;

use crate::wire::resp::Reply;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::frame::{check, check_words, is_error, occupied, pack, state};
use super::*;
use crate::fencing::MARKER;
use crate::node::command::{Command, inspect, probe};
use crate::wire::pack::Packed;
use crate::wire::scripts::{ACQUIRE_ALL, EXTEND_ALL, LOOK_ALL, RELEASE_ALL, REST_ALL, fenced};

/// Some day in this century.
const NOW: Duration = Duration::from_secs(1_700_000_000);

/// Numbers at their bounds, and what is almost a number.
const ODD_NUMBERS: [&str; 29] = [
    "0",
    "-0",
    "-1",
    "+5",
    "05",
    "00",
    " 5",
    "5 ",
    "5\n",
    "5\0",
    "",
    "-",
    "5.0",
    "5,0",
    "٣",
    "1e3",
    "0x10",
    "inf",
    "nan",
    "five",
    "--5",
    "9223372036854775806",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "-9223372036854775809",
    "18446744073709551615",
    "18446744073709551616",
    "99999999999999999999999999",
];

/// What was found once becomes a test of its own, so no file of failures is kept.
pub(super) fn config() -> ProptestConfig {
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => select(vec!["held", "over", "free", ""]).prop_map(str::to_owned),
        4 => any::<String>(),
        4 => "[ -~]{0,3}\r\n[*$:+-]?[0-9]{0,3}(\r\n)?",
        1 => (1_000..70_000_usize).prop_map(|n| "é".repeat(n)),
    ]
}

fn token() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => select(vec!["token", "other", ""]).prop_map(str::to_owned),
        1 => any::<String>(),
    ]
}

pub(super) fn ttl_text() -> impl Strategy<Value = String> {
    prop_oneof![
        2 => (1_u64..100_000).prop_map(|ttl| ttl.to_string()),
        1 => any::<u64>().prop_map(|ttl| ttl.to_string()),
        1 => any::<i64>().prop_map(|ttl| ttl.to_string()),
        2 => select(ODD_NUMBERS.to_vec()).prop_map(str::to_owned),
    ]
}

/// What is sent to a server that has no scripts.
fn bytes(command: &Packed) -> Vec<u8> {
    command.in_full().into_owned()
}

/// The commands of this crate, with any ttl that a `Duration` can be.
fn packed() -> impl Strategy<Value = Vec<u8>> {
    (key(), token(), any::<Duration>(), 0..7).prop_map(|(key, token, ttl, kind)| {
        let (key, token) = (key.as_str(), token.as_bytes());
        let command = Command {
            keys: &crate::node::command::Keys::Lock(key.into()),
            value: token,
            fence: None,
        };
        bytes(&match kind {
            0 => command.acquire(ttl),
            1 => command.retake(ttl),
            2 => command.extend(ttl),
            3 => command.release(),
            4 => inspect(key),
            5 => command.rest(ttl),
            _ => probe(),
        })
    })
}

/// Times of the node's clock, which a test may move anywhere.
pub(super) fn now() -> impl Strategy<Value = Duration> {
    let edges = [
        Duration::ZERO,
        Duration::MAX,
        Duration::from_millis(u64::MAX),
    ];
    prop_oneof![
        2 => Just(NOW),
        1 => any::<Duration>(),
        1 => select(edges.to_vec()),
    ]
}

/// A script that is none of this crate's.
const UNKNOWN: &str = "return 2";

#[test]
fn what_this_crate_never_sends_is_answered_with_an_error_and_changes_nothing() {
    let counter = "held:fence";
    let commands: [&[&str]; 12] = [
        &["EVAL", UNKNOWN, "0"],
        &["EVAL", UNKNOWN, "0", "0", "*", "10", "512"],
        &["EVAL", UNKNOWN, "1", MARKER, "open", "60000", "c1"],
        // Without a lock or a slot.
        &["EVAL", ACQUIRE_ALL, "0", "token", "100", "0"],
        &["EVAL", RELEASE_ALL, "0", "token"],
        &["EVAL", REST_ALL, "0", "token", "100"],
        &["EVAL", EXTEND_ALL, "0", "token", "100"],
        &["EVAL", LOOK_ALL, "0", "100", "0"],
        &["EVAL", LOOK, "1", "held", "100", "0", "0"],
        // With a marker where there must be none, and without one.
        &[
            "EVAL",
            fenced::RELEASE_ALL,
            "3",
            "held",
            counter,
            MARKER,
            "token",
            "90000",
            "5",
            "90000",
        ],
        &[
            "EVAL",
            fenced::EXTEND_ALL,
            "2",
            "held",
            counter,
            "token",
            "5",
            "60000",
            "90000",
            "90000",
        ],
        &[
            "EVAL",
            fenced::ACQUIRE_ALL,
            "2",
            "held",
            counter,
            "token",
            "5",
            "60000",
            "90000",
            "90000",
        ],
    ];
    for command in commands {
        let mut store = occupied(NOW);
        let before = state(&store);
        let reply = store.execute(&pack(command), NOW);
        assert!(is_error(&reply), "{command:?}: {reply:?}");
        assert_eq!(state(&store), before, "{command:?}");
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_bytes_are_answered_and_have_no_effect_unless_they_are_a_command(
        bytes in vec(any::<u8>(), 0..200),
        now in now(),
    ) {
        check(&bytes, now);
    }

    #[test]
    fn what_looks_like_a_command_is_answered_and_has_no_effect_unless_it_is_one(
        bytes in r"(\*[0-9+ -]{0,3}(\r\n|\n))?(\$[0-9+-]{1,2}\r\n(EVAL|SET|NX|[a-z]{0,4})(\r\n)?){0,6}",
        now in now(),
    ) {
        check(bytes.as_bytes(), now);
    }

    #[test]
    fn words_are_read_back_as_they_were_packed(
        words in vec(prop_oneof![vec(any::<u8>(), 0..20), key().prop_map(String::into_bytes)], 1..8),
        now in now(),
    ) {
        check_words(words.iter().map(Vec::as_slice), now);
    }

    #[test]
    fn a_command_with_any_key_token_and_ttl_changes_its_own_key_at_most(
        (key, token, ttl) in (key(), token(), ttl_text()),
        name in select(vec!["SET", RETAKE, EXTEND, REST, RELEASE, INSPECT, "GET", "TIME", "INFO"]),
        now in now(),
    ) {
        let words = match name {
            "SET" => vec!["SET", &key, &token, "NX", "PX", &ttl],
            RELEASE => vec!["EVAL", RELEASE, "1", &key, &token],
            INSPECT => vec!["EVAL", INSPECT, "1", &key],
            "TIME" => vec!["TIME"],
            "GET" | "INFO" => vec![name, &key],
            script => vec!["EVAL", script, "1", &key, &token, &ttl],
        };
        check_words(words.iter().map(|word| word.as_bytes()), now);
        check_words(words.iter().rev().map(|word| word.as_bytes()), now);
    }

    #[test]
    fn a_mutated_command_is_answered_and_has_no_effect_unless_it_is_one(
        mut bytes in packed(),
        (at, byte) in (any::<Index>(), any::<u8>()),
        kind in 0..4,
        now in now(),
    ) {
        let at = at.index(bytes.len());
        match kind {
            0 => bytes[at] = byte,
            1 => bytes.insert(at, byte),
            2 => drop(bytes.remove(at)),
            _ => bytes.swap(at, 0),
        }
        check(&bytes, now);
    }

    #[test]
    fn a_length_in_another_spelling_is_refused(
        bytes in packed(),
        header in any::<Index>(),
        (before, after) in select(vec![("+", ""), ("0", ""), (" ", ""), ("-", ""), ("", " "), ("", ".0")]),
        now in now(),
    ) {
        let text = String::from_utf8(bytes).unwrap();
        let lines: Vec<&str> = text.split("\r\n").collect();
        // The first line, and every second one after it, if no word has a line break of its own.
        let n = header.index(lines.len().div_ceil(2)).checked_mul(2).and_then(|n| n.checked_sub(1));
        let n = n.unwrap_or(0);
        let (mark, length) = lines[n].split_at_checked(1).unwrap_or_default();
        prop_assume!(["*", "$"].contains(&mark) && length.parse::<u32>().is_ok());
        let odd = format!("{mark}{before}{length}{after}");
        let lines = [&lines[..n], &[odd.as_str()], &lines[n..][1..]].concat();
        let mut store = occupied(now);
        let before = state(&store);
        prop_assert!(is_error(&store.execute(lines.join("\r\n").as_bytes(), now)));
        prop_assert_eq!(state(&store), before);
    }

    #[test]
    fn a_part_of_a_command_and_two_commands_at_once_are_refused(
        (one, other) in (packed(), packed()),
        at in any::<Index>(),
        now in now(),
    ) {
        let mut store = occupied(now);
        let before = state(&store);
        for bytes in [&one[..at.index(one.len())], &[one.as_slice(), &other].concat()] {
            prop_assert!(is_error(&store.execute(bytes, now)));
            prop_assert_eq!(state(&store), before.clone());
        }
    }

    #[test]
    fn nothing_that_the_former_holder_sends_touches_a_lock_that_rests(
        (token, ttl, left) in (token(), 1_u64..100_000, 1_u64..100_000),
        late in vec(0..5, 1..10),
    ) {
        let ms = Duration::from_millis;
        let command = Command { keys: &crate::node::command::Keys::Lock("k".into()), value: token.as_bytes(), fence: None };
        let mut store = Store::default();
        store.execute(&bytes(&command.acquire(ms(ttl))), NOW);
        prop_assert_eq!(store.execute(&bytes(&command.rest(ms(left))), NOW), Reply::Int(1));
        let rests = state(&store);
        for kind in late {
            let late = match kind {
                0 => command.acquire(ms(ttl)),
                1 => command.retake(ms(ttl)),
                2 => command.extend(ms(ttl)),
                3 => command.rest(ms(ttl)),
                _ => command.release(),
            };
            store.execute(&bytes(&late), NOW);
            prop_assert_eq!(&state(&store), &rests);
        }
    }

    #[test]
    fn a_set_accepts_the_times_that_redis_accepts(ttl in ttl_text()) {
        let mut store = Store::default();
        let reply = store.execute(&pack(&["SET", "k", "t", "NX", "PX", &ttl]), NOW);
        let is_canonical = !ttl.starts_with('0') && ttl.bytes().all(|byte| byte.is_ascii_digit());
        let number: i128 = if is_canonical { ttl.parse().unwrap_or(0) } else { 0 };
        let most = i64::MAX.saturating_sub_unsigned(NOW.as_secs().saturating_mul(1000));
        if number > 0 && number <= i128::from(most) {
            prop_assert_eq!(reply, Reply::Okay);
            let left = store.get("k", NOW).unwrap().until.saturating_sub(NOW);
            prop_assert_eq!(i128::try_from(left.as_millis()).unwrap(), number);
        } else {
            prop_assert!(is_error(&reply), "{:?}", reply);
            prop_assert!(store.get("k", NOW).is_none());
        }
    }

    #[test]
    fn an_extension_never_brings_the_end_of_a_key_forward(
        (left, ttl) in (1_u64..5_000, 1_u64..5),
        script in select(vec![EXTEND, RETAKE]),
    ) {
        let mut store = Store::default();
        let until = NOW.saturating_add(Duration::from_micros(left));
        store.put("k", "t", until);
        store.execute(&pack(&["EVAL", script, "1", "k", "t", &ttl.to_string()]), NOW);
        let after = store.get("k", NOW).unwrap().until;
        // Redis sees whole ms.
        prop_assert!(after >= until, "{after:?} {until:?}");
        prop_assert!(after == until || after == NOW.saturating_add(Duration::from_millis(ttl)));
    }

    #[test]
    fn an_intent_that_lasts_as_long_as_another_would_is_left_as_it_is(beyond in 0_u64..1_000) {
        let mut store = Store::default();
        let until = NOW.saturating_add(Duration::from_micros(100_000_u64.saturating_add(beyond)));
        store.put(&looks::intent("k"), "1", until);
        store.put("k", "t", NOW.saturating_add(Duration::from_secs(5)));
        // In any case.
        store.execute(&pack(&["EVAL", LOOK, "1", "k", "100", "2"]), NOW);
        prop_assert_eq!(store.get(&looks::intent("k"), NOW).unwrap().until, until);
    }

    #[test]
    fn times_that_no_clock_can_count_do_not_panic(
        (until, at, later) in (now(), now(), now()),
        ttl in any::<Duration>(),
    ) {
        let mut store = Store::default();
        store.put("k", "t", until);
        for token in [b"t", b"u"] {
            let command = Command { keys: &crate::node::command::Keys::Lock("k".into()), value: token, fence: None };
            store.execute(&bytes(&command.extend(ttl)), at);
            store.execute(&bytes(&command.acquire(ttl)), later);
            store.execute(&bytes(&command.retake(ttl)), at);
            store.execute(&bytes(&command.rest(ttl)), at);
            store.execute(&bytes(&inspect("k")), at);
            store.execute(&bytes(&command.release()), later);
        }
    }
}
