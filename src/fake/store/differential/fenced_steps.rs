//! Random steps of clients of the fenced protocol, and of what others leave under its keys.

use super::steps::{Plant, Step, eval, lock, locks, rest, ttl, value};
use super::words::{Base, Dice, ONE, TWO, Word, counter};
use crate::fencing::MARKER;
use crate::wire::scripts::{DROP, KEEP, OPEN, PASS, SHOW, TAKE};

const MINUTE: i64 = 60_000_000;

/// What a client has in common with the others, mostly: the quarantine and the idle time in ms.
struct Rules {
    quarantine: i64,
    idle: i64,
    config: &'static str,
}

impl Rules {
    fn of(dice: &mut Dice<'_>) -> Self {
        Self {
            quarantine: dice.pick(&[0, 0, 600_000, 20]),
            idle: dice.pick(&[86_400_000, 3_600_000, 500]),
            config: dice.weighted(&[(12, "c1"), (1, "c2")]),
        }
    }

    /// A token that is just above one of its bounds, at it, or below it; or a token of any clock.
    fn token(&self, dice: &mut Dice<'_>, lock: &str) -> Word {
        let near = dice.pick(&[1, 0, 2, -1]);
        let latest = self.quarantine * 1000;
        match dice.below(12) {
            0..4 => Word::Micros(Base::Now, dice.pick(&[0, 1, -1, -MINUTE, MINUTE, 5])),
            4..7 => Word::Micros(Base::Counter(lock.to_owned()), near),
            7 => Word::Micros(Base::Open, near),
            8 => Word::Micros(Base::Now, latest - self.idle * 1000 + near),
            9 => Word::Micros(Base::Now, latest + near),
            // The token of the holder.
            10 => Word::Micros(Base::Counter(lock.to_owned()), 0),
            _ => Word::Micros(
                Base::Now,
                dice.pick(&[-3000 * MINUTE, 3000 * MINUTE, -90 * MINUTE, 90 * MINUTE]),
            ),
        }
    }

    /// The counter that a release leaves: above the token of the holder, of any other token, or unknown.
    fn released(&self, dice: &mut Dice<'_>, lock: &str) -> Word {
        let near = dice.pick(&[0, -1, 1, -2]);
        let latest = self.quarantine * 1000;
        match dice.below(8) {
            0..3 => Word::Micros(Base::Counter(lock.to_owned()), near),
            3 => Word::Micros(
                Base::Now,
                dice.pick(&[0, -1, -MINUTE, MINUTE, 3000 * MINUTE]),
            ),
            4 => Word::Micros(Base::Now, latest + near),
            5 => Word::Micros(Base::Now, latest - self.idle * 1000 + near),
            _ => "0".into(),
        }
    }

    /// Mostly the token of the holder.
    fn own_token(&self, dice: &mut Dice<'_>, lock: &str) -> Word {
        if dice.below(3) > 0 {
            return Word::Micros(Base::Counter(lock.to_owned()), 0);
        }
        self.token(dice, lock)
    }

    fn quarantine(&self) -> Word {
        self.quarantine.to_string().into()
    }

    /// The arguments that all scripts have in common.
    fn words(&self, of_lock: [Word; 2], how: &'static str, token: Word) -> Vec<Word> {
        let idle = self.idle.to_string().into();
        let rules = [self.quarantine(), idle, MARKER.into(), self.config.into()];
        of_lock
            .into_iter()
            .chain([how.into(), token])
            .chain(rules)
            .collect()
    }
}

/// A time to live, and now and then a word that Lua can't compare.
fn extension(dice: &mut Dice<'_>, lock: &str) -> Word {
    if dice.seldom(20) {
        "x".into()
    } else {
        ttl(dice, lock)
    }
}

pub(super) fn step(dice: &mut Dice<'_>) -> Step {
    let kind: fn(&mut Dice<'_>) -> Step =
        dice.weighted(&[(8, of_one), (4, of_several), (2, open), (3, beside)]);
    kind(dice)
}

fn of_one(dice: &mut Dice<'_>) -> Step {
    let kind = dice.weighted(&[(16, ""), (4, PASS), (4, "read"), (1, SHOW)]);
    let (lock, rules) = (lock(dice), Rules::of(dice));
    let key = [lock.to_owned()];
    match kind {
        PASS => {
            let next = [value(dice, lock), ttl(dice, lock)];
            let token = rules.token(dice, lock);
            let held = [value(dice, lock), rules.released(dice, lock)];
            let words = rules.words(next, dice.pick(&["", "a"]), token);
            eval(PASS, &key, words.into_iter().chain(held).collect())
        }
        "read" => {
            let value = match dice.below(4) {
                0 => ONE.into(),
                1 => TWO.into(),
                2 => Word::Reader(lock.to_owned(), 0),
                _ => value(dice, lock),
            };
            let how = dice.pick(&["r", "ra", "rh"]);
            let words = rules.words([value, ttl(dice, lock)], how, "0".into());
            eval(TAKE, &key, words)
        }
        SHOW => {
            let own = [value(dice, lock), "0".into()];
            let token = rules.own_token(dice, lock);
            eval(SHOW, &key, rules.words(own, "", token))
        }
        _ => ask_or_give_back(dice, &rules, &key),
    }
}

fn of_several(dice: &mut Dice<'_>) -> Step {
    let (locks, rules) = (locks(dice), Rules::of(dice));
    ask_or_give_back(dice, &rules, &locks)
}

fn ask_or_give_back(dice: &mut Dice<'_>, rules: &Rules, locks: &[String]) -> Step {
    let kind = dice.weighted(&[(7, TAKE), (3, KEEP), (5, "release"), (2, "rest")]);
    let lock = dice.pick(locks);
    let value = value(dice, &lock);
    let (script, span, how, token) = match kind {
        TAKE => {
            let (ttl, token) = (ttl(dice, &lock), rules.token(dice, &lock));
            (TAKE, ttl, dice.pick(&["", "a"]), token)
        }
        KEEP => {
            let (ttl, token) = (extension(dice, &lock), rules.own_token(dice, &lock));
            (KEEP, ttl, "", token)
        }
        "release" => {
            let how = dice.pick(&["", "u"]);
            (DROP, "0".into(), how, rules.released(dice, &lock))
        }
        _ => (DROP, rest(dice), "", rules.released(dice, &lock)),
    };
    eval(script, locks, rules.words([value, span], how, token))
}

fn open(dice: &mut Dice<'_>) -> Step {
    let rules = Rules::of(dice);
    let action = dice.pick(&["open", "look", "close"]);
    eval(
        OPEN,
        &[MARKER.to_owned()],
        vec![action.into(), rules.quarantine(), rules.config.into()],
    )
}

/// A marker of this process or of one before, and counters.
fn beside(dice: &mut Dice<'_>) -> Step {
    let rules = Rules::of(dice);
    let lock = lock(dice);
    let ttl = dice.pick(&[None, None, Some("600000")]).map(Word::from);
    let near = dice.pick(&[0, 1, -1]);
    if dice.below(2) == 0 {
        let open = match dice.below(6) {
            0..3 => Word::Micros(Base::Now, -MINUTE),
            3 => Word::Micros(Base::Now, near),
            4 => Word::Micros(Base::Now, MINUTE),
            _ => dice
                .pick(&["1", "9007199254700000", "12345678901234567", "x", ""])
                .into(),
        };
        let long = "c".repeat(201).leak();
        let config = dice.weighted(&[(12, "c1"), (1, "c2"), (1, ""), (1, &*long)]);
        let why = dice.weighted(&[(4, "opened"), (3, "new"), (3, "reborn"), (1, "X"), (1, "")]);
        let marker = Word::Marker(dice.below(4) > 0, config, Box::new(open), why);
        let plant = match dice.below(12) {
            0 => Plant::Hash,
            1 => Plant::Text("no marker".into()),
            2 => Plant::Nothing,
            _ => Plant::Text(marker),
        };
        return Step::Plant(MARKER.to_owned(), plant, ttl);
    }
    let latest = rules.quarantine * 1000;
    let number = match dice.below(8) {
        0..2 => Word::Micros(Base::Now, near),
        2 => Word::Micros(Base::Now, dice.pick(&[-MINUTE, MINUTE, -3000 * MINUTE])),
        3..5 => Word::Micros(Base::Now, latest + 1 + near),
        5 => Word::Micros(Base::Open, near),
        _ => dice
            .pick(&[
                "0",
                "5",
                "05",
                "",
                "x",
                "-5",
                "1.5",
                "9007199254700000",
                "12345678901234567",
            ])
            .into(),
    };
    let plant = match dice.below(10) {
        0 => Plant::Hash,
        1 => Plant::Nothing,
        _ => Plant::Text(number),
    };
    Step::Plant(counter(lock), plant, ttl)
}
