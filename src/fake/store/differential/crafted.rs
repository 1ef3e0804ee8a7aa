//! Sequences that take the branches to which random ones seldom come.

use super::Sequence;
use super::steps::{Plant, Score, Step, eval, waiting};
use super::words::{Base, ONE, THREE, TWO, Word, counter};
use crate::fencing::MARKER;
use crate::wire::scripts::{DROP, KEEP, LOOK, PASS, SHOW, TAKE};

pub(super) const MINUTE: &str = "60000";

pub(super) fn has(key: &str, plant: Plant) -> Step {
    Step::Plant(key.to_owned(), plant, Some(MINUTE.into()))
}

pub(super) fn is_held(lock: &str) -> Step {
    has(lock, Plant::Text(ONE.into()))
}

pub(super) fn is_read(readers: &[(&str, i64)]) -> Step {
    let readers = readers.iter();
    let readers = readers.map(|(value, ms)| ((*value).into(), Score::Later(*ms)));
    has("a", Plant::Sorted(readers.collect()))
}

pub(super) fn call(script: &'static str, keys: &[&str], rest: &[&str]) -> Step {
    let keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
    eval(
        script,
        &keys,
        rest.iter().map(|word| (*word).into()).collect(),
    )
}

pub(super) fn marker(text: Word) -> Step {
    Step::Plant(MARKER.to_owned(), Plant::Text(text), None)
}

pub(super) fn now(more: i64) -> Word {
    Word::Micros(Base::Now, more)
}

/// A call of a client with a token, which keeps a counter for this time.
fn fenced(script: &'static str, keys: &[&str], how: &str, (token, idle): (Word, &str)) -> Step {
    let keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
    let words = [ONE.into(), MINUTE.into(), how.into(), token];
    let rules = ["0", idle, MARKER, "c1"].map(Word::from);
    eval(script, &keys, words.into_iter().chain(rules).collect())
}

/// A holder whose key is gone sets it again, if the counter is still its own.
pub(super) fn heals() -> Step {
    let token = Word::Micros(Base::Counter("a".to_owned()), 0);
    fenced(KEEP, &["a"], "", (token, "500"))
}

pub(super) fn asks() -> Step {
    fenced(TAKE, &["a"], "", (now(0), "86400000"))
}

/// A repeated acquire by a client that has both locks, and whose proposal is stale by now.
fn asks_for_its_own() -> Vec<Step> {
    let open = Word::Marker(true, "c1", Box::new(now(0)), "opened");
    let again = fenced(TAKE, &["a", "b"], "a", (now(-5), "86400000"));
    vec![is_held("a"), is_held("b"), marker(open), again]
}

fn asks_for_two() -> Step {
    fenced(TAKE, &["a", "b"], "", (now(0), "86400000"))
}

#[expect(clippy::too_many_lines, reason = "one list of all sequences")]
pub(super) fn sequences() -> Vec<Sequence> {
    let (open, closed) = (true, false);
    let a_counter = |plant| has(&counter("a"), plant);
    let labelled = format!("{ONE} {}", "x".repeat(300));
    let lasting = vec![(labelled.into(), Score::Later(60_000))];
    let sequences = [
        (
            closed,
            vec![is_held("a"), call(TAKE, &["a", "b"], &[ONE, "0", "a"])],
        ),
        (
            closed,
            vec![
                Step::Plant("a".to_owned(), Plant::Text(ONE.into()), None),
                call(TAKE, &["a", "b"], &[ONE, "0", "a"]),
            ],
        ),
        (
            closed,
            vec![
                is_held("a"),
                has(&waiting("a"), Plant::Hash),
                call(LOOK, &["a"], &["500", "0"]),
            ],
        ),
        (
            closed,
            vec![is_held("a"), call(KEEP, &["a", "b"], &[ONE, "x"])],
        ),
        (
            closed,
            vec![
                is_held("a"),
                is_held("b"),
                has(&waiting("a"), Plant::Set(vec!["1"])),
                call(DROP, &["a", "b"], &[ONE]),
            ],
        ),
        // The bell of the readers can't be rung, and nobody else waits.
        (
            closed,
            vec![
                is_held("a"),
                has(&waiting("a"), Plant::Set(vec!["r"])),
                has("a:redlatch:bell:read", Plant::Hash),
                call(DROP, &["a"], &[ONE]),
            ],
        ),
        (
            closed,
            vec![
                is_held("a"),
                has(&waiting("a"), Plant::Set(vec!["1"])),
                has("a:redlatch:bell", Plant::Hash),
                call(PASS, &["a"], &[TWO, MINUTE, "a", "", "", "", "", "", ONE]),
            ],
        ),
        (
            closed,
            vec![
                is_held("a"),
                call(PASS, &["a"], &[TWO, "0", "a", "", "", "", "", "", ONE]),
            ],
        ),
        (
            closed,
            vec![Step::LongNames, Step::Scan("", "250"), Step::Scan("a", "1")],
        ),
        (open, vec![a_counter(Plant::Hash), asks()]),
        (
            closed,
            vec![
                has("a", Plant::Crowd(1_001)),
                call(SHOW, &["a"], &[THREE, "0", "n"]),
            ],
        ),
        (
            closed,
            vec![
                is_read(&[(ONE, 60_000)]),
                call(KEEP, &["a"], &[ONE, "9000000000000000", "r"]),
            ],
        ),
        (
            closed,
            vec![
                is_read(&[(ONE, 60_000), (TWO, 60_000)]),
                call(DROP, &["a"], &[TWO, "0", "r"]),
            ],
        ),
        (
            closed,
            vec![
                is_read(&[(ONE, 60_000), (TWO, -1)]),
                call(DROP, &["a"], &[ONE, "0", "r"]),
            ],
        ),
        (
            closed,
            vec![
                is_read(&[(ONE, 60_000), (TWO, 20)]),
                call(DROP, &["a"], &[ONE, "0", "r"]),
            ],
        ),
        (
            closed,
            vec![
                is_held("a"),
                call(
                    KEEP,
                    &["a", "b"],
                    &[ONE, "x", "", "5", "0", "500", MARKER, "c1"],
                ),
            ],
        ),
        // Readers whose key has lost its time to live, and the last of them has a long label.
        (
            closed,
            vec![
                Step::Plant("a".to_owned(), Plant::Sorted(lasting), None),
                call(SHOW, &["a"], &[]),
                call(DROP, &["a"], &[ONE]),
            ],
        ),
        (closed, vec![a_counter(Plant::Text(now(0))), heals()]),
        (
            closed,
            vec![
                a_counter(Plant::Text(now(0))),
                marker("no marker".into()),
                heals(),
            ],
        ),
        (
            closed,
            vec![
                a_counter(Plant::Text(now(0))),
                marker("r1|c1|1|opened".into()),
                heals(),
            ],
        ),
        (open, vec![a_counter(Plant::Text(now(0))), heals()]),
        (
            open,
            vec![a_counter(Plant::Text("x1".into())), asks_for_two()],
        ),
        (
            open,
            vec![a_counter(Plant::Text(now(5_000_000))), asks_for_two()],
        ),
        (open, vec![a_counter(Plant::Hash), asks_for_two()]),
        (
            open,
            vec![a_counter(Plant::Text(now(-5_000_000))), asks_for_two()],
        ),
        (open, asks_for_its_own()),
    ];
    let sequence = |(is_open, steps)| Sequence {
        micros: 0,
        is_open,
        steps,
    };
    sequences.into_iter().map(sequence).collect()
}
