//! The fake's store and a real `redis-server` are sent the same random commands and scripts, and have to answer the same and to
//! have the same keys after each.
//!
//! They are at the same moment of a virtual time, to the microsecond, so nothing is compared by and large. It is beside the
//! store, and not with the other tests over real servers, because it compares single commands, which the public API can't
//! send at will.

#![expect(
    clippy::arithmetic_side_effects,
    reason = "a test that overflows fails, as it should"
)]

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestRunner};

use self::pair::Pair;
use self::steps::{Plant, Score, Step};
use self::words::{Moment, Word};
use super::entry::Sorted;
use super::{Content, pack};
use crate::fencing::MARKER;
use crate::wire::resp::Reply;
use crate::wire::scripts::{SCAN, SCRIPTS};

pub(super) mod branches;
mod commands;
mod crafted;
mod fenced_steps;
mod pair;
mod plants;
mod scenes;
mod steps;
mod unreached;
mod words;

/// How many sequences are played where `REDLATCH_SEQUENCES` does not say so.
const SEQUENCES: u32 = 300;
/// So many, always the same, take every branch of the scripts.
const COUNTED: u32 = 400;
/// A number of steps, on a clock that shows so many microseconds beside whole ms.
#[derive(Debug, Clone)]
struct Sequence {
    micros: u64,
    /// The node is open for the fenced protocol.
    is_open: bool,
    steps: Vec<Step>,
}

fn sequence() -> impl Strategy<Value = Sequence> {
    let step = any::<[u16; 32]>().prop_map(|numbers| Step::of(&numbers));
    let micros = prop_oneof![Just(0_u64), Just(999), 0..1000_u64];
    let is_open = prop::bool::weighted(0.7);
    (micros, is_open, vec(step, 1..40)).prop_map(|(micros, is_open, steps)| Sequence {
        micros,
        is_open,
        steps,
    })
}

impl Pair {
    fn play(&mut self, sequence: &Sequence) {
        self.begin(sequence.micros);
        if sequence.is_open {
            let open = Word::Marker(true, "c1", Box::new("1".into()), "opened");
            self.plant_step(MARKER, &Plant::Text(open), None);
        }
        for step in &sequence.steps {
            self.step(step);
        }
    }

    fn moment(&mut self) -> Moment<'_> {
        Moment {
            store: &mut self.store,
            now: self.now,
        }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Command(words) => {
                let words = self.texts(words);
                self.execute(&words, step);
            }
            Step::ByDigest(words) => {
                let mut words = self.texts(words);
                let script = SCRIPTS.iter().find(|script| script.text() == words[1]);
                if let Some(script) = script {
                    words[0] = "EVALSHA".to_owned();
                    words[1] = script.digest().to_owned();
                }
                self.execute(&words, step);
            }
            Step::Flush => self.flush_scripts(),
            Step::Plant(key, plant, ttl) => self.plant_step(key, plant, ttl.as_ref()),
            Step::Later(ms) => {
                let ms: i64 = self.moment().text(ms).parse().unwrap();
                self.pass(Duration::from_millis(
                    ms.clamp(1, 200_000_000).unsigned_abs(),
                ));
            }
            Step::Scene(plants) => {
                for plant in plants {
                    self.step(plant);
                }
            }
            Step::Scan(prefix, count) => self.scan_all(prefix, count),
            Step::LongNames => {
                for length in [3_000, 3_001, 3_002, 3_003, 3_004, 3_005, 65_536, 65_537] {
                    let text = Content::Text("token".to_owned());
                    self.plant(&"a".repeat(length), text, Some(600_000));
                }
            }
        }
    }

    fn texts(&mut self, words: &[Word]) -> Vec<String> {
        let mut moment = self.moment();
        words.iter().map(|word| moment.text(word)).collect()
    }
}

impl Pair {
    fn plant_step(&mut self, key: &str, plant: &Plant, ttl: Option<&Word>) {
        let ttl = ttl.map(|ttl| self.moment().text(ttl).parse().unwrap());
        let now_ms = self.store.wall_ms(self.now);
        let content = match plant {
            Plant::Nothing => {
                self.send(&["DEL", key]);
                self.store.keys.remove(key);
                return;
            }
            Plant::Hash => Content::Other,
            Plant::Text(word) => Content::Text(self.moment().text(word)),
            Plant::Sorted(members) => {
                let members = members.iter().map(|(member, score)| {
                    let score = match score {
                        Score::Later(ms) => now_ms + ms,
                        Score::Number(number) => *number,
                    };
                    (self.moment().text(member), score)
                });
                Content::Sorted(Sorted(members.collect()))
            }
            Plant::Set(members) => {
                Content::Set(members.iter().map(|member| (*member).to_owned()).collect())
            }
            Plant::Crowd(count) => {
                let member = |n: usize| (format!("{n:040x}"), now_ms + 60_000);
                Content::Sorted(Sorted((0..*count).map(member).collect()))
            }
            Plant::List(length) => Content::List(vec!["1".to_owned(); *length].into()),
        };
        self.plant(key, content, ttl);
    }

    /// The steps of a scan come in another order on each server, and find the same at the end.
    fn scan_all(&mut self, prefix: &str, count: &str) {
        let found = [true, false].map(|is_real| {
            let (mut found, mut cursor) = (BTreeSet::new(), "0".to_owned());
            loop {
                let pattern = format!("{prefix}*");
                let words = ["EVAL", SCAN, "0", &cursor, &pattern, count, "512"].map(str::to_owned);
                let reply = if is_real {
                    self.real(&words)
                } else {
                    self.store.execute(&pack(&words), self.now)
                };
                let Reply::Array(parts) = reply else {
                    panic!("{reply:?}");
                };
                let mut texts = parts.into_iter().map(|part| {
                    let Reply::Bulk(text) = part else {
                        panic!("{part:?}");
                    };
                    String::from_utf8(text).unwrap()
                });
                cursor = texts.next().unwrap();
                let page: Vec<String> = texts.collect();
                assert!(is_short(&page, count), "scan {prefix}: {page:?}");
                found.extend(page);
                if cursor == "0" {
                    return found;
                }
            }
        });
        assert_eq!(found[0], found[1], "scan {prefix}: left the server");
    }
}

/// Whether a page has about as many names as were asked for, and no more bytes than there is room for. A server may have put
/// several keys in one place, and looks at all of them at once.
fn is_short(page: &[String], count: &str) -> bool {
    let lengths = || page.iter().map(String::len);
    let longest = lengths().max().unwrap_or_default();
    let count: usize = count.parse().unwrap();
    page.len() <= count + 20 && lengths().sum::<usize>() - longest <= 16_384
}

/// Plays so many sequences; always the same with a seed.
fn play_many(pair: Pair, sequences: u32, seed: RngSeed) {
    let config = ProptestConfig {
        cases: sequences,
        rng_seed: seed,
        // What was found once becomes a test of its own, so no file of failures is kept.
        failure_persistence: None,
        max_shrink_iters: 2_000,
        ..ProptestConfig::default()
    };
    let pair = RefCell::new(pair);
    let result = TestRunner::new(config).run(&sequence(), |sequence| {
        pair.borrow_mut().play(&sequence);
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}

#[test]
fn the_store_answers_as_a_redis_server_does() {
    let Some(pair) = Pair::start() else {
        return;
    };
    let sequences = std::env::var("REDLATCH_SEQUENCES").ok();
    let sequences = sequences.map_or(SEQUENCES, |number| number.parse().unwrap());
    play_many(pair, sequences, RngSeed::Random);
}

/// These sequences are the same each time, so that luck decides nothing.
#[test]
fn every_branch_of_every_script_is_taken_and_a_server_answers_the_same() {
    let Some(mut pair) = Pair::start() else {
        return;
    };
    branches::count();
    for sequence in crafted::sequences() {
        pair.play(&sequence);
    }
    play_many(pair, COUNTED, RngSeed::Fixed(18));
    let (all, missed) = branches::missed();
    let missed: BTreeSet<&str> = missed.iter().map(String::as_str).collect();
    let known: BTreeSet<&str> = unreached::BRANCHES
        .iter()
        .flat_map(|(_, known)| *known)
        .copied()
        .collect();
    let new: Vec<_> = missed.difference(&known).collect();
    assert_eq!(new, Vec::<&&str>::new(), "not taken, of {all}");
    let stale: Vec<_> = known.difference(&missed).collect();
    assert_eq!(stale, Vec::<&&str>::new(), "taken, or gone");
}
