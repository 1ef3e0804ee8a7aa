//! What is there at the same time only if all clients are about: a holder or readers, those who wait, bells and intents.

use super::steps::{Plant, Score, Step, intent, lock, value, waiting};
use super::words::{Base, Dice, ONE, THREE, TWO, Word, counter};
use crate::fencing::MARKER;

pub(super) fn scene(dice: &mut Dice<'_>) -> Step {
    let lock = lock(dice);
    let name = lock.split(":redlatch:slot:").next().unwrap();
    let mut plants = Vec::new();
    let mut add = |key: String, plant: Plant, ttl: Option<&str>| {
        plants.push(Step::Plant(key, plant, ttl.map(Word::from)));
    };
    let holder = match dice.below(12) {
        0..2 => Plant::Nothing,
        2..6 => Plant::Text(value(dice, lock)),
        11 => Plant::Crowd(dice.pick(&[999, 1_000, 1_001])),
        _ => readers(dice),
    };
    add(lock.to_owned(), holder, Some("60000"));
    let who = [vec!["1"], vec!["r"], vec!["1", "r"]];
    if dice.below(4) > 0 {
        add(waiting(name), Plant::Set(dice.pick(&who)), Some("60000"));
    }
    for (bell, most) in [(":redlatch:bell", 8), (":redlatch:bell:read", 16)] {
        let bell = format!("{name}{bell}");
        match dice.below(6) {
            0 => add(bell, Plant::Hash, Some("500")),
            1 => add(bell, Plant::List(most), Some("500")),
            2 => add(bell, Plant::List(1), Some("500")),
            _ => (),
        }
    }
    if dice.below(2) == 0 {
        let ttl = dice.pick(&[Some("20000"), Some("60000"), Some("60001"), None]);
        add(intent(lock), Plant::Text("1".into()), ttl);
    }
    if dice.below(3) == 0 {
        for slot in 0..3 {
            let slot = format!("a:redlatch:slot:{slot}");
            match dice.below(4) {
                0 => add(slot, Plant::Text(ONE.into()), None),
                1 => add(slot, Plant::Text(TWO.into()), Some("20")),
                2 => add(slot, Plant::Text(THREE.into()), Some("60000")),
                _ => (),
            }
        }
    }
    if dice.below(3) == 0 {
        fence(dice, lock, &mut add);
    }
    Step::Scene(plants)
}

/// One to three readers. Two may end in the same ms, and one may have ended already.
fn readers(dice: &mut Dice<'_>) -> Plant {
    let ends = [60_000, 60_000, 20, 0, -1];
    let mut members = vec![(ONE.into(), Score::Later(60_000))];
    for value in [TWO, THREE] {
        if dice.below(2) == 0 {
            members.push((value.into(), Score::Later(dice.pick(&ends))));
        }
    }
    Plant::Sorted(members)
}

/// A marker and a counter, one of which is odd.
fn fence(dice: &mut Dice<'_>, lock: &str, add: &mut impl FnMut(String, Plant, Option<&str>)) {
    let now = |more| Word::Micros(Base::Now, more);
    let marker = |is_own, open, why| Plant::Text(Word::Marker(is_own, "c1", Box::new(open), why));
    let opened = || marker(true, now(-60_000_000), "opened");
    let (its, number) = match dice.below(8) {
        0 => (opened(), Plant::Text("12345678901234567".into())),
        1 => (opened(), Plant::Text("x1".into())),
        2 => (
            marker(true, "12345678901234567".into(), "opened"),
            Plant::Text(now(-5)),
        ),
        3 => (
            marker(false, now(-60_000_000), "opened"),
            Plant::Text(now(-5)),
        ),
        4 => (marker(true, now(0), "new"), Plant::Text(now(0))),
        5 => (opened(), Plant::Hash),
        _ => (opened(), Plant::Text(now(-5))),
    };
    add(MARKER.to_owned(), its, None);
    add(counter(lock), number, Some("600000"));
}
