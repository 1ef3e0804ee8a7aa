//! Sequences at the bounds of what the scripts compare: a number less, the number itself, and a number more.

use super::super::entry::TOO_LATE;
use super::Sequence;
use super::crafted::{MINUTE, asks, call, has, heals, is_held, is_read, marker, now};
use super::steps::{Plant, Score, Step, eval, intent, waiting};
use super::words::{ONE, THREE, TWO, Word, counter};
use crate::fencing::MARKER;
use crate::wire::scripts::{
    EXTEND, FIND, INSPECT, INSPECT_READ, LOOK, LOOK_READ, READ, RELEASE, RELEASE_ALL, REREAD,
    RETAKE, UNREAD, fenced,
};

/// A text of a client, with the ttl that a bound is about.
fn lasts(key: &str, plant: Plant, ttl: &str) -> Step {
    Step::Plant(key.to_owned(), plant, Some(ttl.into()))
}

pub(super) fn sequences() -> Vec<Sequence> {
    let all = [
        intents(),
        undos(),
        ends(),
        members(),
        reads(),
        spans(),
        names(),
        ends_of_names(),
        heals_of_markers(),
        last_ms(),
        lengths(),
        counters_of_readers(),
        markers(),
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

/// The intent of a writer that an undo heeds, or not, and who waits.
fn undos() -> Vec<Vec<Step>> {
    let mut all = Vec::new();
    let fenced = [ONE, "0", MINUTE, "86400000", "1"];
    for (script, keys, words) in [
        (RELEASE, &["a"][..], &[ONE, "1"][..]),
        (RELEASE_ALL, &["a"], &[ONE, "1"]),
        (fenced::RELEASE, &["a", "a:fence"], &fenced),
        (fenced::RELEASE_ALL, &["a", "a:fence"], &fenced),
    ] {
        for waits in [&["1", "r"][..], &["1"], &["r"]] {
            let begin = || {
                let waits = has(&waiting("a"), Plant::Set(waits.to_vec()));
                vec![is_held("a"), waits]
            };
            for intended in ["1", "60000", "60001"] {
                let its = lasts(&intent("a"), Plant::Text("1".into()), intended);
                let undo = call(script, keys, words);
                all.push([begin(), vec![its, undo]].concat());
            }
            // Its last ms, as below.
            for later in ["4", "5", "6"] {
                let set = Plant::Sorted(vec![(ONE.into(), Score::Later(5))]);
                let its = lasts(&intent("a"), set, "5");
                let undo = call(script, keys, words);
                all.push([begin(), vec![its, Step::Later(later.into()), undo]].concat());
            }
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
                Step::Scan("", "250"),
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
    let scores = [-1, 0, 1, 5, 9, 999_999_999_999_999, 1_000_000_000_000_000];
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
        .map(|ends| [(ends, -1), (ends, 1), (ends, ends)])
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
    // A reader that ends now still reads, and no intent keeps it out.
    for ends in [-1, 0, 1] {
        all.push(vec![
            is_read(&[(ONE, ends), (TWO, 60_000)]),
            lasts(&intent("a"), Plant::Text("1".into()), "1000"),
            call(READ, &["a"], &[ONE, MINUTE, "1"]),
        ]);
    }
    // The key of those who stay ends with the last of them, and in no earlier ms than the next one.
    for (second, third) in [
        (20, 10),
        (10, 20),
        (20, 20),
        (-1, 20),
        (0, -1),
        (1, 0),
        (0, 0),
    ] {
        all.push(vec![
            is_read(&[(ONE, 60_000), (TWO, second), (THREE, third)]),
            call(UNREAD, &["a"], &[ONE]),
            call(UNREAD, &["a"], &[THREE]),
        ]);
    }
    all
}

/// Times to live that are none, or too long, or end with the last reader.
fn spans() -> Vec<Vec<Step>> {
    let mut all = Vec::new();
    let spans = ["-1", "0", "1", "4", "5", "6"].map(Word::from).into_iter();
    for span in spans.chain([-1, 0, 1].map(|more| Word::Until(TOO_LATE + more))) {
        for readers in [&[(ONE, 5)][..], &[(TWO, 5)], &[(TWO, -5)], &[]] {
            let is_read = if readers.is_empty() {
                Step::Later("1".into())
            } else {
                is_read(readers)
            };
            let key = ["a".to_owned()];
            let read = |again: &str| vec![ONE.into(), span.clone(), again.into()];
            for again in ["0", "1"] {
                all.push(vec![is_read.clone(), eval(READ, &key, read(again))]);
            }
            let reread = vec![ONE.into(), span.clone()];
            all.push(vec![is_read, eval(REREAD, &key, reread)]);
        }
    }
    all
}

/// What is beside locks, and what is not: the end of the name says so.
fn ends_of_names() -> Vec<Vec<Step>> {
    let marker = format!("a{MARKER}");
    let names = [MARKER, &marker, &marker[2..], ":fence", "a:fence", "afence"];
    let mut all: Vec<_> = names
        .map(|name| vec![is_held(name), Step::Scan("", "250")])
        .into();
    // So many that not all are in one page.
    let many = (0..40).map(|n| is_held(&n.to_string()));
    all.push(many.chain([Step::Scan("", "1")]).collect());
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

/// What is in the last ms of its key. Only a sorted set is compared then, so it stands where others have something else.
fn last_ms() -> Vec<Vec<Step>> {
    let mut all = Vec::new();
    for later in ["4", "5", "6"] {
        for key in ["a:redlatch:bell:read".to_owned(), intent("a")] {
            let set = || Plant::Sorted(vec![(ONE.into(), Score::Later(5))]);
            let (look, read) = (["0", "0"], [ONE, MINUTE, "0"]);
            for (script, words) in [(LOOK, &look[..]), (LOOK_READ, &look), (READ, &read)] {
                all.push(vec![
                    lasts(&key, set(), "5"),
                    Step::Later(later.into()),
                    call(script, &["a"], words),
                ]);
            }
        }
    }
    all
}

/// A value as long as what is told of it, and the reader behind as many as are looked at in one go.
fn lengths() -> Vec<Vec<Step>> {
    let mut all = Vec::new();
    for length in [40, 41, 273, 274, 512, 513, 514] {
        all.push(vec![
            has("a", Plant::Text("x".repeat(length).into())),
            call(INSPECT, &["a"], &[]),
            call(EXTEND, &["a"], &[ONE, MINUTE]),
            Step::Scan("", "250"),
        ]);
    }
    for (readers, place) in [(999, 998), (1_000, 999), (1_001, 1_000)] {
        let value = format!("{place:040x}");
        all.push(vec![
            has("a", Plant::Crowd(readers)),
            call(FIND, &["a"], &[&value]),
        ]);
    }
    all
}

/// A counter goes up by one with a reader, if it is a number of the protocol.
fn counters_of_readers() -> Vec<Vec<Step>> {
    let numbers = [
        "0",
        "1",
        "05",
        "5",
        "9",
        "9x",
        "1234567890123456",
        "12345678901234567",
    ];
    let fence = counter("a");
    let keys = ["a", fence.as_str(), MARKER];
    numbers
        .map(|number| {
            vec![
                marker(Word::Marker(true, "c1", Box::new("1".into()), "opened")),
                has(&counter("a"), Plant::Text(number.into())),
                call(fenced::READ, &keys, &[ONE, MINUTE, "0", "0", "c1"]),
            ]
        })
        .into()
}

/// A marker that opens at this moment or beside it, or whose time or configuration is as long as it may be or longer.
fn markers() -> Vec<Vec<Step>> {
    let fence = counter("a");
    let keys = ["a", fence.as_str(), MARKER];
    let mut all = Vec::new();
    let opens = |is_own, config: &'static str, open: Word, why: &'static str| {
        vec![
            has(&counter("a"), Plant::Text(now(-5))),
            marker(Word::Marker(is_own, config, Box::new(open), why)),
        ]
    };
    let mut markers = Vec::new();
    for is_own in [true, false] {
        for why in ["new", "opened", "reborn"] {
            let near = [-1, 0, 1].map(now);
            markers.extend(near.map(|open| opens(is_own, "c1", open, why)));
        }
        for digits in ["999999999999999", "1000000000000000", "10000000000000000"] {
            markers.push(opens(is_own, "c1", digits.into(), "opened"));
        }
        for length in [199, 200, 201] {
            let config = &*"c".repeat(length).leak();
            markers.push(opens(is_own, config, now(-5), "opened"));
        }
    }
    for steps in markers {
        let open = |action: &str| call(fenced::OPEN, &[MARKER], &[action, "20", "c1"]);
        let read = call(fenced::READ, &keys, &[ONE, MINUTE, "0", "0", "c1"]);
        for step in [
            open("look"),
            open("open"),
            open("close"),
            asks(),
            heals(),
            read,
        ] {
            all.push(steps.iter().cloned().chain([step]).collect());
        }
    }
    all
}
