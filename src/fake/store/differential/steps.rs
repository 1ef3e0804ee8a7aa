//! Random steps: what clients of both protocols send, what others leave under their keys, and time that passes.

use super::plants::{beside, plant};
use super::words::{Dice, LOCKS, ONE, THREE, TWO, Word, counter};
use super::{commands, fenced_steps, scenes};
use crate::wire::scripts::{DROP, INTRODUCE, KEEP, LOOK, PASS, PROBE, SHOW, TAKE};

#[derive(Clone)]
pub(super) enum Step {
    /// A command; a script by its text, or by its digest.
    Command(Vec<Word>),
    ByDigest(Vec<Word>),
    /// The server forgets all scripts.
    Flush,
    /// In place of whatever is under this key, with a time to live in ms, or without one.
    Plant(String, Plant, Option<Word>),
    /// So many ms pass.
    Later(Word),
    /// A scan for keys that begin so, by so many at a time.
    Scan(&'static str, &'static str),
    /// Names that are in the way of a scan: long ones, and one that is too long.
    LongNames,
    /// Several plants that random steps seldom make at the same time.
    Scene(Vec<Step>),
}

/// What others may leave under a key.
#[derive(Debug, Clone)]
pub(super) enum Plant {
    Nothing,
    Hash,
    Text(Word),
    /// Members with their scores.
    Sorted(Vec<(Word, Score)>),
    Set(Vec<&'static str>),
    List(usize),
    /// This number of readers.
    Crowd(usize),
}

#[derive(Debug, Clone)]
pub(super) enum Score {
    Later(i64),
    Number(i64),
}

impl Step {
    pub(super) fn of(numbers: &[u16]) -> Self {
        let dice = &mut Dice::new(numbers);
        let kind: fn(&mut Dice<'_>) -> Self = dice.weighted(&[
            (10, of_one),
            (8, of_readers),
            (6, of_several),
            (6, look),
            (22, fenced_steps::step),
            (6, later),
            (7, plant),
            (12, commands::command),
            (5, scenes::scene),
            (1, beside),
        ]);
        let step = kind(dice);
        if let Self::Command(words) = &step
            && words[0].is("EVAL")
            && dice.seldom(4)
        {
            return Self::ByDigest(words.clone());
        }
        step
    }
}

impl std::fmt::Debug for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Command(words) => write!(f, "{words:?}"),
            Self::ByDigest(words) => write!(f, "by digest {words:?}"),
            Self::Flush => f.write_str("SCRIPT FLUSH"),
            Self::Plant(key, plant, ttl) => write!(f, "{key} becomes {plant:?} for {ttl:?}"),
            Self::Later(ms) => write!(f, "{ms:?} ms later"),
            Self::Scan(prefix, count) => write!(f, "scan {prefix} by {count}"),
            Self::LongNames => f.write_str("long names"),
            Self::Scene(plants) => write!(f, "{plants:?}"),
        }
    }
}

pub(super) fn lock(dice: &mut Dice<'_>) -> &'static str {
    let [first, second, odd, slot, other_slot] = LOCKS;
    dice.weighted(&[
        (6, first),
        (3, second),
        (1, odd),
        (2, slot),
        (1, other_slot),
    ])
}

/// A value: mostly of the holder, or of a client.
pub(super) fn value(dice: &mut Dice<'_>, lock: &str) -> Word {
    let kind = dice.weighted(&[(5, 0), (3, 1), (3, 2), (1, 3), (2, 4), (1, 5), (1, 6)]);
    match kind {
        0 => Word::Value(lock.to_owned()),
        1 => ONE.into(),
        2 => TWO.into(),
        3 => THREE.into(),
        4 => Word::Reader(lock.to_owned(), dice.below(3)),
        5 => odd_value(dice).into(),
        _ => Word::Token(Box::new(Word::Value(lock.to_owned()))),
    }
}

/// A value that is not of this crate: a digit too many, a character that is no digit, nothing behind the token. Some are as long
/// as the longest value that a reply has in it, some just shorter or longer. The last one is longer than what a reply tells of
/// any value, so it is cut in the middle of a character.
pub(super) fn odd_value(dice: &mut Dice<'_>) -> String {
    let fixed = [
        "",
        "token",
        "token\r\n",
        "rest:1111111111111111111111111111111111111111",
        "11111111111111111111111111111111111111111",
        "111111111111111111111111111111111111111g",
        "1111111111111111111111111111111111111111-",
    ];
    match dice.below(fixed.len() + 6) {
        number @ 0..=4 => "x".repeat([40, 41, 273, 274, 300][number]),
        5 => "ab".to_owned() + &"\u{1F512}".repeat(150),
        number => fixed[number - 6].to_owned(),
    }
}

/// A time to live in ms: what the key has left, a ms more or less, or any other.
pub(super) fn ttl(dice: &mut Dice<'_>, lock: &str) -> Word {
    let fixed = [
        "600000", "1200000", "3600000", "60000", "1000", "20", "5", "2", "1",
    ];
    match dice.below(12) {
        0..3 => Word::Left(lock.to_owned(), dice.pick(&[0, 1, -1])),
        3 => Word::ReaderLeft(lock.to_owned(), dice.below(3), dice.pick(&[0, 1, -1])),
        _ => dice.pick(&fixed).into(),
    }
}

/// A time to live, and now and then a number at the bounds of what a server takes, or beyond.
fn odd_ttl(dice: &mut Dice<'_>, lock: &str) -> Word {
    let odd = [
        "0",
        "-1",
        "-600000",
        "9223372036854775807",
        "9000000000000000",
        "x",
        "",
    ];
    if dice.seldom(8) {
        dice.pick(&odd).into()
    } else {
        ttl(dice, lock)
    }
}

/// A time to live, and now and then a text that Lua takes for a number, and Redis does not.
fn odder_ttl(dice: &mut Dice<'_>, lock: &str) -> Word {
    let odd = [
        "05",
        "5.0",
        "+5",
        " 5",
        "1e3",
        "0x10",
        "9223372036854775808",
        "-0",
    ];
    if dice.seldom(12) {
        dice.pick(&odd).into()
    } else {
        odd_ttl(dice, lock)
    }
}

pub(super) fn eval(script: &'static str, keys: &[String], rest: Vec<Word>) -> Step {
    let head = ["EVAL".into(), script.into(), keys.len().to_string().into()];
    let keys = keys.iter().map(|key| Word::Text(key.clone()));
    Step::Command(head.into_iter().chain(keys).chain(rest).collect())
}

fn of_one(dice: &mut Dice<'_>) -> Step {
    let kind = dice.weighted(&[
        (5, "SET"),
        (1, "GET"),
        (5, "release"),
        (2, "rest"),
        (4, KEEP),
        (2, TAKE),
        (5, PASS),
        (4, SHOW),
        (1, PROBE),
        (1, INTRODUCE),
    ]);
    let lock = lock(dice);
    let (value, next) = (value(dice, lock), value(dice, lock));
    let ttl = odder_ttl(dice, lock);
    let key = [lock.to_owned()];
    match kind {
        "SET" => Step::Command(vec![
            "SET".into(),
            lock.into(),
            next,
            "NX".into(),
            "PX".into(),
            ttl,
        ]),
        "GET" => Step::Command(vec!["GET".into(), lock.into()]),
        "release" => eval(DROP, &key, release(dice, value)),
        // A rest of zero would be a release.
        "rest" => eval(DROP, &key, vec![value, rest(dice)]),
        KEEP => eval(KEEP, &key, vec![value, ttl]),
        PASS => {
            let head = vec![next, ttl, "a".into()];
            let without_fence = std::iter::repeat_n(Word::from(""), 5);
            let words = head.into_iter().chain(without_fence).chain([value]);
            eval(PASS, &key, words.collect())
        }
        TAKE => eval(TAKE, &key, vec![value, ttl, dice.pick(&["", "a"]).into()]),
        SHOW => eval(SHOW, &key, vec![]),
        script => eval(script, &[], vec![]),
    }
}

/// The words of a release: as a client sends it for a lock, for a slot, or to undo an attempt.
fn release(dice: &mut Dice<'_>, value: Word) -> Vec<Word> {
    let behind: &[&str] = dice.pick(&[&[][..], &["0"], &["0", "u"]]);
    let behind = behind.iter().copied().map(Word::from);
    std::iter::once(value).chain(behind).collect()
}

pub(super) fn rest(dice: &mut Dice<'_>) -> Word {
    dice.pick(&["60000", "600000", "5", "1"]).into()
}

fn of_readers(dice: &mut Dice<'_>) -> Step {
    let (script, how) = dice.weighted(&[
        (2, (TAKE, "r")),
        (2, (TAKE, "ra")),
        (2, (TAKE, "rh")),
        (3, (KEEP, "r")),
        (4, (DROP, "r")),
        (2, (SHOW, "r")),
        (2, (SHOW, "n")),
    ]);
    let lock = lock(dice);
    let value = match dice.below(8) {
        0..3 => Word::Reader(lock.to_owned(), dice.below(3)),
        3 => ONE.into(),
        4 => TWO.into(),
        5 => THREE.into(),
        _ => value(dice, lock),
    };
    let ttl = match script {
        TAKE | KEEP => odd_ttl(dice, lock),
        _ => "0".into(),
    };
    // A token alone is enough to find a reader.
    let value = match how {
        "n" if dice.below(2) == 1 => Word::Token(Box::new(value)),
        _ => value,
    };
    eval(script, &[lock.to_owned()], vec![value, ttl, how.into()])
}

/// One to three locks, in their order or another. No set has a slot of a semaphore.
pub(super) fn locks(dice: &mut Dice<'_>) -> Vec<String> {
    let (first, count) = (dice.below(3), dice.below(3) + 1);
    let names = LOCKS[..3].iter().cycle().skip(first).take(count);
    names.map(|lock| (*lock).to_owned()).collect()
}

fn of_several(dice: &mut Dice<'_>) -> Step {
    let kind = dice.weighted(&[(6, TAKE), (3, "release"), (2, "rest"), (2, KEEP), (1, SHOW)]);
    let locks = locks(dice);
    let first = locks[0].clone();
    let of = dice.pick(&locks);
    let value = value(dice, &of);
    match kind {
        TAKE => {
            let ttl = odd_ttl(dice, &first);
            eval(TAKE, &locks, vec![value, ttl, dice.pick(&["", "a"]).into()])
        }
        "release" => eval(DROP, &locks, release(dice, value)),
        "rest" => eval(DROP, &locks, vec![value, rest(dice)]),
        KEEP => eval(KEEP, &locks, vec![value, odd_ttl(dice, &of)]),
        _ => eval(SHOW, &locks, vec![]),
    }
}

fn look(dice: &mut Dice<'_>) -> Step {
    let announced = dice.pick(&[
        "500",
        "20000",
        "0",
        "0",
        "1",
        "60000",
        "60001",
        "9223372036854775807",
    ]);
    let when_free = dice.pick(&["0", "1"]);
    let of_one = |dice: &mut Dice<'_>, when_free: &str, how: &str| {
        let rest = [announced, when_free, how].map(Word::from);
        eval(LOOK, &[lock(dice).to_owned()], rest.to_vec())
    };
    match dice.below(10) {
        0..3 => of_one(dice, when_free, ""),
        9 => of_one(dice, "2", ""),
        3..5 => of_one(dice, when_free, "r"),
        5..7 => {
            let permits = dice.pick(&["3", "1", "4"]);
            let rest = [announced, when_free, "", permits].map(Word::from);
            eval(LOOK, &["a".to_owned()], rest.to_vec())
        }
        _ => {
            let rest = [announced, when_free, ""].map(Word::from);
            eval(LOOK, &locks(dice), rest.to_vec())
        }
    }
}

/// Time passes: until a key or a reader ends, a ms more or less, or for any other span.
fn later(dice: &mut Dice<'_>) -> Step {
    let lock = lock(dice);
    let keys = [lock.to_owned(), counter(lock), intent(lock), waiting(lock)];
    Step::Later(match dice.below(8) {
        0..3 => Word::Left(dice.pick(&keys), dice.pick(&[0, 1, -1])),
        3..5 => Word::ReaderLeft(lock.to_owned(), dice.below(3), dice.pick(&[0, 1, -1])),
        _ => dice
            .pick(&[
                "1", "2", "20", "500", "60000", "600000", "3600000", "86400000",
            ])
            .into(),
    })
}

pub(super) fn intent(lock: &str) -> String {
    format!("{lock}:redlatch:intent")
}

pub(super) fn waiting(lock: &str) -> String {
    format!("{lock}:redlatch:waiting")
}

impl Word {
    pub(super) fn is(&self, text: &str) -> bool {
        matches!(self, Self::Text(word) if word == text)
    }
}
