//! Shows that the witness knows readers, writers and locks on several resources.

use crate::crafted::{MS, extended, locked, releasing, taken, unlocked, verdict};
use crate::event::Event;
use crate::on::{Kind, On, Sharing};
use crate::witness::Witness;

/// Panics if the witness misses something, or sees what is not there.
pub(crate) fn check() {
    readers();
    several();
    handed_over();
    what_is_none();
    counts();
}

fn read(token: &str, start_ms: u64, until_ms: u64) -> Event {
    taken(On::one(Kind::Read, 0), token, start_ms, until_ms)
}

fn written(token: &str, start_ms: u64, until_ms: u64) -> Event {
    taken(On::one(Kind::Write, 0), token, start_ms, until_ms)
}

fn all_of(resources: &[u32], token: &str, start_ms: u64, until_ms: u64) -> Event {
    taken(on_all(resources), token, start_ms, until_ms)
}

pub(crate) fn on_all(resources: &[u32]) -> On {
    On {
        kind: Kind::Several,
        resources: resources.to_vec(),
    }
}

/// The witness finds these overlaps, which it tells so.
#[track_caller]
fn finds(texts: &[&str], events: &[Event]) {
    let found = verdict(events).overlaps;
    assert_eq!(found.len(), texts.len(), "{found:?}");
    for (found, text) in found.iter().zip(texts) {
        assert!(found.starts_with(text), "{found}");
    }
}

const READ_THEN_ALONE: &str = "resource 0 was taken by one alone while another read it, for ";
const ALONE_THEN_READ: &str = "resource 0 was read by one while another had it alone, for ";
const TWICE: &str = "resource 0 was held twice, for ";

fn readers() {
    finds(
        &[READ_THEN_ALONE],
        &[read("a", 100, 900), written("b", 500, 800)],
    );
    finds(
        &[READ_THEN_ALONE],
        &[read("a", 100, 900), locked(0, "b", 500, 800)],
    );
    // A worker that was stopped tells it late.
    finds(
        &[READ_THEN_ALONE],
        &[written("b", 500, 800), read("a", 100, 900)],
    );
    // By the last nanosecond.
    finds(
        &[READ_THEN_ALONE],
        &[read("a", 100, 500), written("b", 500, 800)],
    );
    finds(
        &[ALONE_THEN_READ],
        &[written("a", 100, 500), read("b", 500, 800)],
    );
    finds(
        &[ALONE_THEN_READ],
        &[locked(0, "a", 100, 900), read("b", 500, 800)],
    );
    finds(
        &[TWICE],
        &[written("a", 100, 900), locked(0, "b", 500, 800)],
    );
    of_many_readers();
}

fn of_many_readers() {
    // Each reader that comes is one.
    finds(
        &[ALONE_THEN_READ, ALONE_THEN_READ],
        &[
            written("a", 100, 900),
            read("b", 200, 300),
            read("c", 400, 500),
        ],
    );
    // The first of three readers stays longest, and it is not the one that came last or left last.
    finds(
        &[READ_THEN_ALONE],
        &[
            read("a", 100, 900),
            read("b", 200, 300),
            read("c", 350, 400),
            releasing("c", 380),
            written("d", 600, 800),
        ],
    );
    // A reader prolonged its own lock, another one gave its own back.
    finds(
        &[READ_THEN_ALONE],
        &[
            read("a", 100, 500),
            read("b", 100, 500),
            extended("a", 400, 1_300),
            releasing("b", 450),
            written("c", 700, 900),
        ],
    );
    // The writer does not hide the reader that was there before, for the next one.
    finds(
        &[READ_THEN_ALONE, READ_THEN_ALONE],
        &[
            read("a", 100, 900),
            written("b", 200, 300),
            written("c", 400, 500),
        ],
    );
}

fn several() {
    let second = "resource 1 was held twice, for ";
    finds(
        &[second],
        &[locked(1, "a", 100, 900), all_of(&[0, 1], "b", 500, 800)],
    );
    finds(
        &[second],
        &[all_of(&[0, 1], "b", 100, 900), locked(1, "a", 500, 800)],
    );
    finds(
        &[TWICE],
        &[locked(0, "a", 100, 900), all_of(&[0, 1, 2], "b", 500, 800)],
    );
    finds(
        &[second],
        &[
            all_of(&[0, 1], "a", 100, 900),
            all_of(&[1, 2], "b", 500, 800),
        ],
    );
    // On each resource that both have.
    finds(
        &[TWICE, "resource 2 was held twice, for "],
        &[
            all_of(&[0, 2], "a", 100, 900),
            all_of(&[0, 1, 2], "b", 500, 800),
        ],
    );
    finds(
        &[READ_THEN_ALONE],
        &[read("a", 100, 900), all_of(&[0, 1], "b", 500, 800)],
    );
    finds(
        &[ALONE_THEN_READ],
        &[all_of(&[0, 1], "b", 100, 900), read("a", 500, 800)],
    );
    finds(
        &[TWICE],
        &[written("a", 100, 900), all_of(&[0, 3], "b", 500, 800)],
    );
    // All of them end as one.
    finds(
        &[second],
        &[
            all_of(&[0, 1], "a", 100, 500),
            locked(2, "b", 100, 200),
            extended("a", 400, 1_300),
            locked(1, "c", 600, 700),
        ],
    );
}

/// Only ordinary locks are ever handed over.
fn handed_over() {
    let found = |event| verdict(&[event]).others.len();
    assert_eq!(found(written("a.1", 100, 900)), 0);
    assert_eq!(found(read("a.1", 100, 900)), 1);
    assert_eq!(found(all_of(&[0, 1], "a.1", 100, 900)), 1);
    // A reader is told of a loss that must not be, as anybody is.
    let lost = [read("a", 100, 900), unlocked("a", 899, "lost-vanished")];
    assert_eq!(verdict(&lost).others.len(), 1);
}

fn what_is_none() {
    finds(
        &[],
        &[
            read("a", 100, 900),
            read("b", 500, 1_400),
            read("c", 600, 700),
        ],
    );
    finds(
        &[],
        &[
            all_of(&[0, 1], "a", 100, 900),
            all_of(&[2, 3], "b", 500, 800),
        ],
    );
    finds(
        &[],
        &[all_of(&[0, 1], "a", 100, 900), locked(2, "b", 500, 800)],
    );
    finds(&[], &[all_of(&[1, 2], "a", 100, 900), read("b", 500, 800)]);
    finds(
        &[],
        &[
            read("a", 100, 900),
            read("b", 100, 800),
            releasing("a", 400),
            releasing("b", 500),
            written("c", 500, 800),
            releasing("c", 600),
            read("d", 600, 900),
            releasing("d", 700),
            all_of(&[0, 1], "e", 700, 900),
        ],
    );
}

fn counts() {
    let events = [
        read("a", 100, 900),
        read("b", 500, 800),
        taken(On::one(Kind::Read, 1), "c", 500, 800),
        read("d", 950, 990),
        written("e", 1_000, 1_100),
        all_of(&[1, 2], "f", 1_000, 1_100),
    ];
    let verdict = verdict(&events);
    assert_eq!(verdict.overlaps, Vec::<String>::new());
    let by_kind = Kind::ALL.map(|kind| verdict.of(kind));
    assert_eq!(by_kind, [0, 1, 4, 1]);
    assert_eq!(verdict.sections, 6);
    assert_eq!(verdict.together, 1);

    let mut witness = Witness::default();
    for event in events {
        witness.hear(1, event);
    }
    let first = witness.acquired_after(900 * MS);
    let first: Vec<_> = first
        .into_iter()
        .map(|(what, at)| (what, at / MS))
        .collect();
    let expected = [
        ((0, Sharing::Alone), 1_000),
        ((0, Sharing::Read), 950),
        ((1, Sharing::Alone), 1_000),
        ((2, Sharing::Alone), 1_000),
    ];
    assert_eq!(first, expected);
}
