//! Sequences at the bounds of what the scripts compare: a number less, the number itself, and a number more.

use super::Sequence;
use super::crafted::{MINUTE, call, has, heals, is_held, is_read, marker, now};
use super::steps::{Plant, Score, Step, intent};
use super::words::{ONE, THREE, TWO, Word, counter};
use crate::wire::scripts::{
    EXTEND, FIND, INSPECT, INSPECT_READ, LOOK, LOOK_READ, READ, REREAD, RETAKE, UNREAD,
};

/// A text of a client, with the ttl that a bound is about.
fn lasts(key: &str, plant: Plant, ttl: &str) -> Step {
    Step::Plant(key.to_owned(), plant, Some(ttl.into()))
}

pub(super) fn sequences() -> Vec<Sequence> {
    let all = [
        intents(),
        ends(),
        members(),
        reads(),
        names(),
        heals_of_markers(),
    ];
    let sequence = |steps| Sequence {
        micros: 999,
        is_open: false,
        steps,
    };
    all.into_iter().flatten().map(sequence).collect()
}

/// The intent of a writer, beside a client that leaves one or reads.
fn intents() -> Vec<Vec<Step>> {
    let mut all = Vec::new();
    for intended in ["1", "99", "100", "101", "59999", "60000", "60001", "120000"] {
        for announced in ["100", "60000", "60001"] {
            for when_free in ["0", "1"] {
                all.push(vec![
                    is_read(&[(ONE, 60_000)]),
                    lasts(&intent("a"), Plant::Text("1".into()), intended),
                    call(LOOK, &["a"], &[announced, when_free]),
                    call(LOOK_READ, &["a"], &[announced, when_free]),
                ]);
            }
            all.push(vec![
                lasts(&intent("a"), Plant::Text("1".into()), intended),
                call(LOOK, &["a"], &[announced, "2"]),
                call(READ, &["a"], &[ONE, MINUTE, "0"]),
            ]);
        }
        for again in ["0", "1", "2"] {
            all.push(vec![
                is_read(&[(ONE, 1_000)]),
                lasts(&intent("a"), Plant::Text("1".into()), intended),
                call(READ, &["a"], &[ONE, MINUTE, again]),
                call(READ, &["a"], &[TWO, MINUTE, again]),
            ]);
        }
    }
    // One that reads already, for a moment yet.
    for ends in [-1, 0, 1] {
        for again in ["0", "1", "2"] {
            all.push(vec![
                is_read(&[(ONE, ends), (TWO, 1_000)]),
                lasts(&intent("a"), Plant::Text("1".into()), "100"),
                call(READ, &["a"], &[ONE, MINUTE, again]),
            ]);
        }
    }
    all
}

/// The time that a key has left, and the time that it is to have.
fn ends() -> Vec<Vec<Step>> {
    let mut all = Vec::new();
    for later in ["4", "5", "6"] {
        for (member, when_free) in [(ONE, "0"), (ONE, "1"), ("token", "0")] {
            let reader = Plant::Sorted(vec![(member.into(), Score::Later(5))]);
            all.push(vec![
                lasts("a", reader, "5"),
                Step::Later(later.into()),
                call(LOOK, &["a"], &["500", when_free]),
                call(LOOK_READ, &["a"], &["500", when_free]),
                call(INSPECT, &["a"], &[]),
                call(INSPECT_READ, &["a"], &[ONE]),
            ]);
        }
    }
    for script in [EXTEND, RETAKE] {
        for ttl in ["59999", "60000", "60001"] {
            all.push(vec![
                is_held("a"),
                call(script, &["a"], &[ONE, ttl]),
                call(INSPECT, &["a"], &[]),
            ]);
        }
    }
    all
}

/// Members and scores that are those of readers, and others.
fn members() -> Vec<Vec<Step>> {
    let scores = [-1, 0, 1, 999_999_999_999_999, 1_000_000_000_000_000];
    let scores = scores.map(Score::Number).into_iter();
    let scores = scores.chain([-1, 0, 1].map(Score::Later));
    let mut all = Vec::new();
    for score in scores {
        for member in [ONE, TWO, "token", &"1".repeat(39), &"1".repeat(41)] {
            all.push(vec![
                has("a", Plant::Sorted(vec![(member.into(), score.clone())])),
                call(INSPECT, &["a"], &[]),
                call(INSPECT_READ, &["a"], &[member]),
                call(LOOK, &["a"], &["0", "0"]),
                call(READ, &["a"], &[THREE, MINUTE, "0"]),
            ]);
        }
    }
    all
}

/// Readers that have just ended, end now, or end soon.
fn reads() -> Vec<Vec<Step>> {
    let mut all = Vec::new();
    for (ends, other) in [-5, -1, 0, 1, 5]
        .map(|ends| [(ends, -1), (ends, ends)])
        .concat()
    {
        let changes = [
            (READ, &[ONE, "3", "0"][..]),
            (READ, &[ONE, "3", "1"]),
            (REREAD, &[ONE, "3"]),
            (UNREAD, &[ONE]),
        ];
        for (script, words) in changes {
            all.push(vec![
                is_read(&[(ONE, ends), (TWO, other)]),
                call(INSPECT, &["a"], &[]),
                call(INSPECT_READ, &["a"], &[ONE]),
                call(script, &["a"], words),
                call(INSPECT, &["a"], &[]),
            ]);
        }
    }
    all
}

/// A reader by its value, by its token, and by what is less or more.
fn names() -> Vec<Vec<Step>> {
    let is_read = || is_read(&[(ONE, 60_000), (TWO, 60_000)]);
    let lengths = [0, 39, 40, 41, 46, TWO.len()];
    lengths
        .map(|length| vec![is_read(), call(FIND, &["a"], &[&TWO[..length]])])
        .into()
}

/// A node that opened at the moment of a token, or a microsecond before or after it.
fn heals_of_markers() -> Vec<Vec<Step>> {
    let marker_of = |more| marker(Word::Marker(true, "c1", Box::new(now(more)), "opened"));
    [-1, 0, 1]
        .map(|more| {
            vec![
                has(&counter("a"), Plant::Text(now(0))),
                marker_of(more),
                heals(),
            ]
        })
        .into()
}
