//! What others leave under the keys of locks, and scans.

use super::steps::{Plant, Score, Step, intent, lock, odd_value, value, waiting};
use super::words::{Dice, ONE, THREE, TWO, Word};
use crate::fencing::MARKER;

pub(super) fn plant(dice: &mut Dice<'_>) -> Step {
    let lock = lock(dice);
    let name = lock.split(":redlatch:slot:").next().unwrap();
    let ends = [
        Some("60000"),
        Some("600000"),
        None,
        Some("1"),
        Some("20"),
        Some("60001"),
    ];
    let ttl = dice.pick(&ends).map(Word::from);
    let (key, plant) = match dice.below(12) {
        0..3 => (lock.to_owned(), Plant::Text(value(dice, lock))),
        3..7 => (lock.to_owned(), Plant::Sorted(readers(dice))),
        7 => (lock.to_owned(), Plant::Hash),
        8 => (lock.to_owned(), Plant::Nothing),
        // One that lasts for more than a minute, or never expires, keeps nobody out.
        9 => (
            intent(lock),
            dice.pick(&[Plant::Text("1".into()), Plant::Hash]),
        ),
        10 => {
            let who = [vec!["1"], vec!["r"], vec!["1", "r"]];
            let set = Plant::Set(dice.pick(&who));
            (
                waiting(name),
                dice.pick(&[set.clone(), set, Plant::Text("1".into())]),
            )
        }
        _ => {
            let bell = dice.pick(&[":redlatch:bell", ":redlatch:bell:read"]);
            let list = Plant::List(dice.pick(&[1, 7, 8, 15, 16]));
            (
                format!("{name}{bell}"),
                dice.pick(&[list.clone(), list, Plant::Hash]),
            )
        }
    };
    Step::Plant(key, plant, ttl)
}

fn readers(dice: &mut Dice<'_>) -> Vec<(Word, Score)> {
    // At both ends of the range, and at the number of digits that the end of a reader may have.
    let numbers = [0, -5, 7, 999_999_999_999_999, 1_000_000_000_000_000];
    let count = dice.below(3) + 1;
    let member = |dice: &mut Dice<'_>| {
        let value = match dice.below(8) {
            0..2 => ONE.into(),
            2..4 => TWO.into(),
            4..6 => THREE.into(),
            6 => odd_value(dice).into(),
            _ => "other".into(),
        };
        let score = match dice.below(10) {
            9 => Score::Number(dice.pick(&numbers)),
            _ => Score::Later(dice.pick(&[60_000, 600_000, 20, 1, 0, -1, -60_000])),
        };
        (value, score)
    };
    (0..count).map(|_| member(dice)).collect()
}

/// What is seldom sent, and what is beside locks.
pub(super) fn beside(dice: &mut Dice<'_>) -> Step {
    match dice.below(8) {
        0 => Step::LongNames,
        1 => Step::Flush,
        2 => {
            let names = [
                MARKER,
                "a:fence",
                "a:redlatch:slot:",
                "a:redlatch:slot:1a",
                "a:redlatch:slot:1:fence",
            ];
            let odd = odd_value(dice);
            let plant = Plant::Text(dice.pick(&[ONE.to_owned(), odd]).into());
            Step::Plant(dice.pick(&names).to_owned(), plant, Some("600000".into()))
        }
        _ => Step::Scan(dice.pick(&["", "a", "a:"]), dice.pick(&["250", "1", "3"])),
    }
}
