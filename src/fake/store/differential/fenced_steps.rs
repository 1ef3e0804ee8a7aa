//! Random steps of clients of the fenced protocol, and of what others leave under its keys.

use super::steps::{Plant, Step, eval, lock, locks, perhaps_undo, rest, ttl, value};
use super::words::{Base, Dice, ONE, TWO, Word, counter};
use crate::fencing::MARKER;
use crate::wire::scripts::fenced::{
    ACQUIRE, ACQUIRE_ALL, EXTEND, EXTEND_ALL, OPEN, PASS, READ, RELEASE, RELEASE_ALL, REST,
    REST_ALL,
};

const MINUTE: i64 = 60_000_000;

/// What a client has in common with the others, mostly: the quarantine and the idle time in ms.
struct Rules {
    quarantine: i64,
    idle: i64,
    config: &'static str,
    reserve: i64,
}

impl Rules {
    fn of(dice: &mut Dice<'_>) -> Self {
        Self {
            quarantine: dice.pick(&[0, 0, 600_000, 20]),
            idle: dice.pick(&[86_400_000, 3_600_000, 500]),
            config: dice.weighted(&[(12, "c1"), (1, "c2")]),
            // None, a few microseconds, and half a minute.
            reserve: dice.pick(&[0, 0, 16, 30_000_000]),
        }
    }

    /// Just above what it has to be larger than, or just not; or of anybody's clock.
    fn token(&self, dice: &mut Dice<'_>, lock: &str) -> Word {
        let near = dice.pick(&[1, 0, 2, -1]);
        let latest = self.quarantine * 1000;
        match dice.below(12) {
            0..4 => Word::Micros(Base::Now, dice.pick(&[0, 1, -1, -MINUTE, MINUTE, 5])),
            4..7 => Word::Micros(Base::Counter(lock.to_owned()), self.reserve + near),
            7 => Word::Micros(Base::Open, self.reserve + near),
            8 => Word::Micros(Base::Now, latest - self.idle * 1000 + self.reserve + near),
            9 => Word::Micros(Base::Now, latest + near),
            // That of the holder.
            10 => Word::Micros(Base::Counter(lock.to_owned()), 0),
            _ => Word::Micros(
                Base::Now,
                dice.pick(&[-3000 * MINUTE, 3000 * MINUTE, -90 * MINUTE, 90 * MINUTE]),
            ),
        }
    }

    /// The token and one more, of a holder or of nobody.
    fn tombstone(&self, dice: &mut Dice<'_>, lock: &str) -> Word {
        let near = dice.pick(&[1, 0, 2, -1]);
        let latest = self.quarantine * 1000;
        match dice.below(8) {
            0..3 => Word::Micros(Base::Counter(lock.to_owned()), near),
            3 => Word::Micros(
                Base::Now,
                dice.pick(&[0, 1, -MINUTE, MINUTE, 3000 * MINUTE]),
            ),
            4 => Word::Micros(Base::Now, latest + near),
            5 => Word::Micros(Base::Now, latest - self.idle * 1000 + near),
            _ => "0".into(),
        }
    }

    /// Mostly that of the holder.
    fn own_token(&self, dice: &mut Dice<'_>, lock: &str) -> Word {
        if dice.below(3) > 0 {
            return Word::Micros(Base::Counter(lock.to_owned()), 0);
        }
        self.token(dice, lock)
    }

    fn quarantine(&self) -> Word {
        self.quarantine.to_string().into()
    }

    fn idle(&self) -> Word {
        self.idle.to_string().into()
    }

    fn ask(&self, dice: &mut Dice<'_>, lock: &str) -> Vec<Word> {
        vec![
            value(dice, lock),
            ttl(dice, lock),
            self.token(dice, lock),
            self.quarantine(),
            self.idle(),
            self.config.into(),
            dice.pick(&["0", "1"]).into(),
            self.reserve.to_string().into(),
        ]
    }

    fn give_back(&self, dice: &mut Dice<'_>, lock: &str) -> Vec<Word> {
        vec![
            value(dice, lock),
            self.tombstone(dice, lock),
            self.quarantine(),
            self.idle(),
        ]
    }
}

/// With one that Lua can't compare.
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
    let script = dice.weighted(&[
        (7, ACQUIRE),
        (3, EXTEND),
        (5, RELEASE),
        (2, REST),
        (4, PASS),
        (4, READ),
    ]);
    let (lock, rules) = (lock(dice), Rules::of(dice));
    let pair = [lock.to_owned(), counter(lock)];
    let all = [lock.to_owned(), counter(lock), MARKER.to_owned()];
    match script {
        ACQUIRE => eval(script, &all, rules.ask(dice, lock)),
        EXTEND => {
            let extend = vec![
                value(dice, lock),
                extension(dice, lock),
                rules.own_token(dice, lock),
                rules.idle(),
            ];
            eval(script, &all, extend)
        }
        RELEASE => {
            let back = rules.give_back(dice, lock);
            eval(script, &pair, perhaps_undo(dice, back))
        }
        REST => {
            let back = rules.give_back(dice, lock);
            eval(
                script,
                &pair,
                back.into_iter().chain([rest(dice)]).collect(),
            )
        }
        PASS => {
            let back = rules.give_back(dice, lock);
            eval(
                script,
                &all,
                back.into_iter().chain(rules.ask(dice, lock)).collect(),
            )
        }
        _ => {
            let value = match dice.below(4) {
                0 => ONE.into(),
                1 => TWO.into(),
                2 => Word::Reader(lock.to_owned(), 0),
                _ => value(dice, lock),
            };
            let again = dice.pick(&["0", "1"]).into();
            let read = vec![
                value,
                ttl(dice, lock),
                again,
                rules.quarantine(),
                rules.config.into(),
            ];
            eval(script, &all, read)
        }
    }
}

fn of_several(dice: &mut Dice<'_>) -> Step {
    let script = dice.weighted(&[
        (6, ACQUIRE_ALL),
        (3, RELEASE_ALL),
        (1, REST_ALL),
        (3, EXTEND_ALL),
    ]);
    let (locks, rules) = (locks(dice), Rules::of(dice));
    let lock = dice.pick(&locks);
    let pairs: Vec<String> = locks
        .iter()
        .flat_map(|lock| [lock.clone(), counter(lock)])
        .collect();
    let with_marker: Vec<String> = pairs.iter().cloned().chain([MARKER.to_owned()]).collect();
    match script {
        ACQUIRE_ALL => eval(script, &with_marker, rules.ask(dice, &lock)),
        EXTEND_ALL => {
            let extend = vec![
                value(dice, &lock),
                extension(dice, &lock),
                rules.own_token(dice, &lock),
                rules.idle(),
            ];
            eval(script, &with_marker, extend)
        }
        RELEASE_ALL => {
            let back = rules.give_back(dice, &lock);
            eval(script, &pairs, perhaps_undo(dice, back))
        }
        _ => {
            let back = rules.give_back(dice, &lock);
            eval(
                script,
                &pairs,
                back.into_iter().chain([rest(dice)]).collect(),
            )
        }
    }
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
