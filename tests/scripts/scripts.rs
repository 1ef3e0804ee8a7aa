//! The scripts and the commands that they call, on a real server and on the store of a fake node at once: both have to answer
//! the same and to have the same keys.
//!
//! Their clocks stand still together, so nothing is compared by and large. The cases of the scripts are in text files: a
//! script is called with its keys, a slash and its arguments, and `->` leads to the reply. The single commands are random.
//! It is compiled into the library's unit tests (`src/lib.rs` names this file), because users can send neither at will.

#![expect(
    clippy::arithmetic_side_effects,
    reason = "a test that overflows fails, as it should"
)]

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use redlatch_testing::Server;

use self::old::OLD;
use self::page::PAGE;
use self::pair::{Pair, shown};
use crate::fake::store::pack;
use crate::wire::resp::{Reply, of_redis};
use crate::wire::scripts::{
    DROP, INTRODUCE, KEEP, LOOK, OPEN, PASS, PROBE, SCAN, SCRIPTS, SHOW, TAKE,
};

mod old;
mod page;
mod pair;

const ONE: &str = "1111111111111111111111111111111111111111";

/// What words of a case stand for.
const WORDS: [(&str, &str); 5] = [
    (
        "TWO",
        "2222222222222222222222222222222222222222 web-3 since=2026-11-22T05:52:53Z",
    ),
    ("NAMED", "1111111111111111111111111111111111111111 web-1"),
    ("ONE", ONE),
    ("OLD", "3333333333333333333333333333333333333333"),
    ("FILLED", "000000000000000000000000000000000000"),
];

const VERBS: [(&str, &str); 10] = [
    ("TAKE", TAKE),
    ("KEEP", KEEP),
    ("DROP", DROP),
    ("PASS", PASS),
    ("LOOK", LOOK),
    ("SHOW", SHOW),
    ("SCAN", SCAN),
    ("OPEN", OPEN),
    ("INTRODUCE", INTRODUCE),
    ("PROBE", PROBE),
];

impl Pair {
    /// Whoever scans gets the keys in another order on each server.
    fn scan(&mut self, [pattern, count, longest]: [&str; 3]) -> String {
        let (now, store) = (self.now, &mut self.store);
        let fake = scanned(|cursor| {
            let words = ["EVAL", SCAN, "0", cursor, pattern, count, longest];
            store.execute(&pack(&words), now)
        });
        if let Some(real) = &mut self.real {
            let its = scanned(|cursor| {
                let words = ["EVAL", SCAN, "0", cursor, pattern, count, longest];
                real.execute(&words.map(str::to_owned))
            });
            assert_eq!(fake, its, "left the store, right the server");
        }
        fake.into_iter().collect::<Vec<_>>().join(" ")
    }

    /// Plays one line of a case.
    #[track_caller]
    fn step(&mut self, line: &str, known: &mut BTreeSet<&'static str>) {
        let (line, expected) = line.split_once("->").unwrap();
        let reply = self.call(line, known);
        assert_eq!(reply, self.meant(expected.trim()), "{line}");
    }

    #[track_caller]
    fn call(&mut self, line: &str, known: &mut BTreeSet<&'static str>) -> String {
        let line = line.replace("RULES", "0 86400000 m c");
        let words = line.split_whitespace().map(|word| self.meant(word));
        let words: Vec<String> = words.collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words.as_slice() {
            ["KEYS"] => self.keys().into_keys().collect::<Vec<_>>().join(" "),
            ["LEN", key] => self
                .keys()
                .get(*key)
                .map_or(0, |(content, _)| content.len())
                .to_string(),
            ["FILL", key, count] => self.fill(key, count.parse().unwrap()),
            ["SCAN", pattern, count, longest] => self.scan([pattern, count, longest]),
            [verb, rest @ ..] => {
                let ours = VERBS.iter().find(|(name, _)| name == verb);
                let others = PAGE.get(verb).or(OLD.get(verb)).copied();
                match ours.map(|(_, script)| *script).or(others) {
                    None => self.execute(&words),
                    Some(script) => {
                        let mut parts = rest.split(|word| *word == "/");
                        let (keys, arguments) = (parts.next().unwrap(), parts.next().unwrap());
                        let count = keys.len().to_string();
                        let by_digest = SCRIPTS.iter().find(|it| it.text() == script);
                        let head = match by_digest.filter(|_| !known.insert(script)) {
                            Some(script) => ["EVALSHA", script.digest(), &count],
                            None => ["EVAL", script, &count],
                        };
                        self.execute(&[&head[..], keys, arguments].concat())
                    }
                }
            }
            [] => panic!("an empty line"),
        }
    }

    /// Has so many readers read.
    fn fill(&mut self, key: &str, count: u128) -> String {
        let end = self.now.as_millis() + 3_600_000;
        for n in 1..=count {
            self.send(&["ZADD", key, &(end + n).to_string(), &format!("{n:040}")]);
        }
        self.send(&["PEXPIREAT", key, &(end + count).to_string()])
    }

    /// The text that words of a case stand for.
    fn meant(&self, text: &str) -> String {
        let run = self.store.run_id();
        let opened = format!("{run}|c|1600000000000000|opened");
        let long = "x".repeat(300);
        let more = [("OPENED", &*opened), ("RUN", &*run), ("LONG", &*long)];
        let words = WORDS.iter().chain(&more);
        let meant = words.fold(text.to_owned(), |text, (word, stands_for)| {
            text.replace(word, stands_for)
        });
        if meant == "_" { String::new() } else { meant }
    }
}

/// All that the steps of a scan find.
fn scanned(mut step: impl FnMut(&str) -> Reply) -> BTreeSet<String> {
    let (mut found, mut cursor) = (BTreeSet::new(), "0".to_owned());
    loop {
        let Reply::Array(parts) = step(&cursor) else {
            panic!("no page");
        };
        let mut texts = parts.iter().map(shown);
        cursor = texts.next().unwrap();
        found.extend(texts);
        if cursor == "0" {
            return found;
        }
    }
}

#[track_caller]
fn play(cases: &str) {
    let mut pair = Pair::start();
    for case in cases.split("== ").skip(1) {
        let (name, lines) = case.split_once('\n').unwrap();
        println!("{name}");
        pair.begin();
        let mut known = BTreeSet::new();
        let lines = lines
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'));
        for line in lines {
            pair.step(line, &mut known);
        }
    }
}

const LOCKS: &str = include_str!("locks.txt");
const READERS: &str = include_str!("readers.txt");
const TURNS: &str = include_str!("turns.txt");
const FENCED: &str = include_str!("fenced.txt");
const OTHERS: [&str; 2] = [include_str!("page.txt"), include_str!("old.txt")];

#[test]
fn locks_are_taken_given_back_and_passed_by_their_holders_alone() {
    play(LOCKS);
}

#[test]
fn readers_share_a_lock_and_end_one_by_one() {
    play(READERS);
}

#[test]
fn readers_and_writers_have_their_turns() {
    play(TURNS);
}

#[test]
fn tokens_grow_and_a_node_that_may_have_forgotten_is_closed() {
    play(FENCED);
}

#[test]
fn clients_of_the_page_and_of_earlier_versions_take_part() {
    OTHERS.into_iter().for_each(play);
}

#[test]
fn every_script_of_the_page_and_of_earlier_versions_is_played() {
    assert_eq!(PAGE.len(), 13);
    for (scripts, cases) in [&*PAGE, &*OLD].into_iter().zip(OTHERS) {
        for name in scripts.keys() {
            let call = format!("\n{name} ");
            assert!(cases.contains(&call), "{name} is not called");
        }
    }
}

#[test]
fn a_server_has_the_scripts_under_the_digests_that_are_called() {
    let server = Server::start();
    for script in SCRIPTS {
        let digest = server.command(&["SCRIPT", "LOAD", script.text()]);
        assert_eq!(of_redis(&digest), Some(Reply::Bulk(script.digest().into())));
    }
}

/// What scripts call: `key` is one of three, and what else is a word in small letters is of any kind.
const COMMANDS: &str = "\
GET key
MGET key key key
SET key value
SET key value NX
SET key value PX number
SET key value NX PX number
SET key value PX number XX
SET key number
STRLEN key
INCR key
DEL key key
EXISTS key key key
TYPE key
PTTL key
PEXPIRE key number
PEXPIREAT key end
SADD key value
SREM key value
SISMEMBER key value
RPUSH key value 1 1
ZADD key score value
ZADD key end value
ZADD key NX end value
ZREM key value
ZSCORE key value
ZCOUNT key end +inf
ZCOUNT key -inf (end
ZRANGE key -1 -1 WITHSCORES
ZRANGEBYSCORE key end +inf WITHSCORES LIMIT 0 1
ZRANGEBYSCORE key (end +inf LIMIT 1 2
ZREMRANGEBYSCORE key -inf (end
ZREMRANGEBYSCORE key score score
TIME";

/// What a word stands for. Redis takes more for a score, and rounds large ones; no script sends those.
fn choices(word: &str) -> &'static [&'static str] {
    match word {
        "key" => &["a", "b", "c"],
        "value" => &["1", "r", ONE, "\u{1F512} \r\n*1"],
        "number" => &[
            "1",
            "2",
            "600000",
            "0",
            "-1",
            "9223372036854775807",
            "x",
            "",
            "05",
        ],
        "score" => &["1", "2", "600000", "0", "-1", "x"],
        "end" | "(end" => &["-1", "0", "1", "60000"],
        _ => &[],
    }
}

/// A command, or time that passes; made of these numbers.
fn random_step(pair: &mut Pair, numbers: &[usize]) {
    let mut numbers = numbers.iter();
    let mut pick = |list: &[&'static str]| list[numbers.next().unwrap() % list.len()];
    if pick(&["time", "", "", "", ""]) == "time" {
        let ms = pick(&["1", "2", "59999", "60000", "600000"]);
        return pair.pass(Duration::from_millis(ms.parse().unwrap()));
    }
    let now_ms = i64::try_from(pair.now.as_millis()).unwrap();
    let commands: Vec<&str> = COMMANDS.lines().collect();
    let words = pick(&commands).split(' ').map(|word| match choices(word) {
        [] => word.to_owned(),
        choices if word.ends_with("end") => {
            let end = now_ms + pick(choices).parse::<i64>().unwrap();
            word.replace("end", &end.to_string())
        }
        choices => pick(choices).to_owned(),
    });
    let words: Vec<String> = words.collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    pair.execute(&words);
}

#[test]
fn the_store_answers_single_commands_as_a_redis_server_does() {
    play_at_random(random_step);
}

/// The calls of all cases in any order, and time that passes.
#[test]
fn the_store_answers_scripts_as_a_redis_server_does() {
    let cases = [LOCKS, READERS, TURNS, FENCED].into_iter().chain(OTHERS);
    let is_call = |line: &&str| line.contains(" / ") && !line.starts_with('#');
    let calls: Vec<&str> = cases.flat_map(str::lines).filter(is_call).collect();
    let calls: Vec<&str> = calls
        .iter()
        .filter_map(|it| it.split("->").next())
        .collect();
    assert!(calls.len() > 300, "{}", calls.len());
    play_at_random(|pair, numbers| {
        let spans = [1, 2, 59_999, 60_000, 600_000, 3_600_000];
        if numbers[0] % 8 == 0 {
            pair.pass(Duration::from_millis(spans[numbers[1] % spans.len()]));
        } else {
            pair.call(calls[numbers[1] % calls.len()], &mut BTreeSet::new());
        }
    });
}

fn play_at_random(step: impl Fn(&mut Pair, &[usize])) {
    let pair = RefCell::new(Pair::start());
    let sequences = std::env::var("REDLATCH_SEQUENCES").ok();
    let config = ProptestConfig {
        cases: sequences.map_or(300, |number| number.parse().unwrap()),
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let sequence = vec(vec(any::<usize>(), 8), 1..40);
    let played = TestRunner::new(config).run(&sequence, |steps| {
        let mut pair = pair.borrow_mut();
        pair.begin();
        for numbers in steps {
            step(&mut pair, &numbers);
        }
        Ok(())
    });
    played.unwrap();
}

/// Redis refuses what needs memory only as the first write of a script, so a bell comes behind the `DEL`.
#[test]
fn a_release_wakes_also_where_the_memory_is_used_up() {
    let server = Server::start();
    for (locks, arguments, woken) in [
        ("a", &[ONE][..], "2"),
        ("b e", &[ONE], "{2 1}"),
        // These two write nothing else first.
        ("c:redlatch:slot:0", &[ONE, "0"], "2"),
        ("d", &[ONE, "0", "u"], "2"),
    ] {
        let locks: Vec<&str> = locks.split(' ').collect();
        for lock in &locks {
            server.hold(lock, ONE, 60_000);
        }
        let name = locks[0].split(":redlatch:").next().unwrap();
        server.command(&["SADD", &format!("{name}:redlatch:waiting"), "1"]);
        server.command(&["SET", "d:redlatch:intent", "1", "PX", "60000"]);
        server.command(&["CONFIG", "SET", "maxmemory", "1"]);
        let head = ["EVAL", DROP, &locks.len().to_string()];
        let reply = server.command(&[&head[..], &locks, arguments].concat());
        assert_eq!(shown(&of_redis(&reply).unwrap()), woken, "{name}");
        server.command(&["CONFIG", "SET", "maxmemory", "0"]);
    }
}
