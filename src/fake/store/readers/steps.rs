//! Random sequences of what readers, writers and holders of several locks send, and of what others leave under their keys.

use std::fmt;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use crate::wire::scripts::{
    ACQUIRE_ALL, EXTEND, EXTEND_ALL, FIND, INSPECT, INSPECT_READ, LOOK, LOOK_ALL, LOOK_READ, PASS,
    READ, RELEASE, RELEASE_ALL, REREAD, REST, REST_ALL, RETAKE, UNREAD,
};

pub(super) const LOCKS: [&str; 3] = ["a", "b", "c"];
const ONE: &str = "1111111111111111111111111111111111111111";
const TWO: &str = "2222222222222222222222222222222222222222 web-3 since=2026-11-22T05:52:53Z";
const THREE: &str = "33333333333333333333333333333333333333aF";
/// Values of no client of this crate: one digit too many, one that is none, nothing behind the right place.
const ODD: [&str; 4] = [
    "11111111111111111111111111111111111111111",
    "111111111111111111111111111111111111111g",
    "1111111111111111111111111111111111111111-",
    "",
];

#[derive(Clone)]
pub(super) enum Step {
    Command(Vec<&'static str>),
    /// In place of whatever is under this key.
    Plant(String, Plant),
}

/// With the names of the scripts in place of their texts.
impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command(words) => {
                let words: Vec<&str> = words.iter().map(|word| name(word)).collect();
                f.write_str(&words.join(" "))
            }
            Self::Plant(key, plant) => write!(f, "{key} becomes {plant:?}"),
        }
    }
}

/// What others may leave under a key. Times are in minutes from now; none is a key that never ends.
#[derive(Debug, Clone)]
pub(super) enum Plant {
    Hash,
    Text(&'static str, Option<i64>),
    Sorted(Vec<(&'static str, Score)>, Option<i64>),
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Score {
    Minutes(i64),
    Number(i64),
}

fn value() -> impl Strategy<Value = &'static str> {
    prop_oneof![12 => select(vec![ONE, TWO, THREE]), 1 => select(ODD.to_vec())]
}

fn ttl() -> impl Strategy<Value = &'static str> {
    select(vec!["600000", "1200000", "3600000"])
}

/// With some that no server takes, and others that it takes.
fn odd_ttl() -> impl Strategy<Value = &'static str> {
    let odd = [
        "0",
        "-1",
        "-600000",
        "9223372036854775807",
        "900000000000000000",
        "x",
        "",
    ];
    prop_oneof![8 => ttl(), 1 => select(odd.to_vec())]
}

fn score() -> impl Strategy<Value = Score> {
    // Just at the number of digits that the end of a reader may have, and at both ends of the range.
    let numbers = [0, -5, 7, 999_999_999_999_999, 1_000_000_000_000_000];
    prop_oneof![
        6 => select(vec![-60_i64, -1, 5, 25, 90]).prop_map(Score::Minutes),
        1 => select(numbers.to_vec()).prop_map(Score::Number),
    ]
}

fn plant() -> impl Strategy<Value = Plant> {
    let member = prop_oneof![4 => value(), 1 => Just("other")];
    let ends = || option::weighted(0.8, select(vec![30_i64, 100]));
    prop_oneof![
        1 => Just(Plant::Hash),
        1 => (value(), ends()).prop_map(|(value, ends)| Plant::Text(value, ends)),
        4 => (vec((member, score()), 1..4), ends())
            .prop_map(|(members, ends)| Plant::Sorted(members, ends)),
    ]
}

fn locks() -> impl Strategy<Value = Vec<&'static str>> {
    subsequence(LOCKS.to_vec(), 1..=LOCKS.len())
}

fn eval(script: &'static str, keys: &[&'static str], rest: &[&'static str]) -> Step {
    let count = ["0", "1", "2", "3"][keys.len()];
    Step::Command([&["EVAL", script, count], keys, rest].concat())
}

fn of_readers() -> impl Strategy<Value = Step> {
    let kind = select(vec![
        READ,
        READ,
        READ,
        REREAD,
        UNREAD,
        UNREAD,
        INSPECT_READ,
        FIND,
    ]);
    let rest = (value(), odd_ttl(), select(vec!["0", "1"]));
    (kind, select(LOCKS.to_vec()), rest).prop_map(|(script, lock, (value, ttl, again))| {
        // Whose set it is depends on its last member. Of two that came in one millisecond, the text decides which that is.
        let is_odd = script == READ && ODD.contains(&value);
        let value = if is_odd { ONE } else { value };
        let rest = [value, ttl, again];
        let count = match script {
            READ => 3,
            REREAD => 2,
            _ => 1,
        };
        // A token alone is enough to find a reader.
        let is_short = script == FIND && again == "1" && value.len() > 40;
        let rest = if is_short {
            [&value[..40], ttl, again]
        } else {
            rest
        };
        eval(script, &[lock], &rest[..count])
    })
}

fn of_several() -> impl Strategy<Value = Step> {
    let kind = select(vec![
        ACQUIRE_ALL,
        ACQUIRE_ALL,
        ACQUIRE_ALL,
        RELEASE_ALL,
        RELEASE_ALL,
        REST_ALL,
        EXTEND_ALL,
    ]);
    let rest = (value(), odd_ttl(), ttl(), select(vec!["0", "1"]));
    (kind, locks(), rest).prop_map(|(script, locks, (value, odd, ttl, again))| match script {
        ACQUIRE_ALL => eval(script, &locks, &[value, odd, again]),
        RELEASE_ALL => eval(script, &locks, &[value]),
        _ => eval(script, &locks, &[value, ttl]),
    })
}

fn of_one() -> impl Strategy<Value = Step> {
    let kind = select(vec![
        "SET", "GET", RELEASE, RELEASE, REST, EXTEND, RETAKE, PASS, PASS, INSPECT, INSPECT,
    ]);
    let rest = (value(), value(), ttl());
    (kind, select(LOCKS.to_vec()), rest).prop_map(|(kind, lock, (value, next, ttl))| match kind {
        "SET" => Step::Command(vec!["SET", lock, value, "NX", "PX", ttl]),
        "GET" => Step::Command(vec!["GET", lock]),
        RELEASE => eval(RELEASE, &[lock], &[value]),
        PASS => eval(PASS, &[lock], &[value, next, ttl]),
        INSPECT => eval(INSPECT, &[lock], &[]),
        script => eval(script, &[lock], &[value, ttl]),
    })
}

fn look() -> impl Strategy<Value = Step> {
    let kind = select(vec![LOOK, LOOK, LOOK_READ, LOOK_READ, LOOK_ALL]);
    let announced = select(vec!["0", "40000", "60000", "600000"]);
    (kind, locks(), announced, select(vec!["0", "0", "1"])).prop_map(
        |(script, locks, announced, in_any_case)| {
            let locks = if script == LOOK_ALL {
                &locks[..]
            } else {
                &locks[..1]
            };
            eval(script, locks, &[announced, in_any_case])
        },
    )
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    let planted = (select(LOCKS.to_vec()), plant());
    let planted = planted.prop_map(|(lock, plant)| Step::Plant(lock.to_owned(), plant));
    // One that lasts for more than a minute, or for ever, keeps nobody out.
    let intent = (
        select(LOCKS.to_vec()),
        select(vec![Some(1), Some(1), Some(2), None]),
    );
    let intent = intent.prop_map(|(lock, ends)| {
        Step::Plant(format!("{lock}:redlatch:intent"), Plant::Text("1", ends))
    });
    prop_oneof![
        8 => of_readers(),
        5 => of_several(),
        5 => of_one(),
        4 => look(),
        2 => planted,
        1 => intent,
    ]
}

/// The name of a script of the sequences.
pub(super) fn name(script: &str) -> &str {
    let names = [
        (ACQUIRE_ALL, "ACQUIRE_ALL"),
        (RELEASE_ALL, "RELEASE_ALL"),
        (REST_ALL, "REST_ALL"),
        (EXTEND_ALL, "EXTEND_ALL"),
        (LOOK_ALL, "LOOK_ALL"),
        (READ, "READ"),
        (REREAD, "REREAD"),
        (UNREAD, "UNREAD"),
        (LOOK_READ, "LOOK_READ"),
        (INSPECT_READ, "INSPECT_READ"),
        (RELEASE, "RELEASE"),
        (EXTEND, "EXTEND"),
        (REST, "REST"),
        (PASS, "PASS"),
        (INSPECT, "INSPECT"),
        (FIND, "FIND"),
        (RETAKE, "RETAKE"),
        (LOOK, "LOOK"),
    ];
    let known = names.iter().find(|(text, _)| *text == script);
    known.map_or(script, |(_, name)| name)
}
