//! The scripts and the commands that they call, on a real server and on the store of a fake node at once: both have to answer
//! the same and to have the same keys.
//!
//! Their clocks stand still together, so nothing is compared by and large. The cases of the scripts are in text files: a
//! script is called with its keys, a slash and its arguments, and `->` leads to the reply. The same lines, and single commands,
//! are played in any order as well.
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
use proptest::sample;
use proptest::test_runner::TestRunner;
use redlatch_testing::Server;

use self::others::{OLD, PAGE};
use self::pair::{Pair, shown};
use crate::fake::store::pack;
use crate::wire::resp::{Reply, of_redis};
use crate::wire::scripts::{
    DROP, INTRODUCE, KEEP, LOOK, OPEN, PASS, PROBE, SCAN, SCRIPTS, SHOW, TAKE,
};

mod others;
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
    fn scan(&mut self, words: [&str; 3]) -> String {
        let (now, store) = (self.now, &mut self.store);
        let found = scanned(words, |words| store.execute(&pack(words), now));
        if let Some(real) = &mut self.real {
            let its = scanned(words, |words| real.execute(&words.map(str::to_owned)));
            assert_eq!(found, its, "left the store, right the server");
        }
        found.join(" ")
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
            ["SCAN", words @ ..] => self.scan(words.try_into().unwrap()),
            [verb, rest @ ..] => {
                let ours = VERBS.iter().find(|(name, _)| name == verb);
                let others = PAGE.get(verb).or(OLD.get(verb)).copied();
                let Some(script) = ours.map(|(_, script)| *script).or(others) else {
                    return self.execute(&words);
                };
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
            [] => panic!("an empty line"),
        }
    }

    /// Has both evaluate a script that is none of ours.
    #[track_caller]
    fn evaluate(&mut self, script: &str, call: &str) -> String {
        let call = call.replace("RULES", "0 86400000 m c");
        let words: Vec<String> = call.split(' ').map(|word| self.meant(word)).collect();
        let mut parts = words.split(|word| word == "/");
        let (keys, arguments) = (parts.next().unwrap(), parts.next().unwrap());
        let count = keys.len().to_string();
        let rest: Vec<&str> = keys.iter().chain(arguments).map(String::as_str).collect();
        let reply = shown(&self.store.evaluate(script, &count, &rest, self.now));
        if let Some(real) = &mut self.real {
            let words = ["EVAL", script, &count].into_iter().chain(rest);
            let its = real.execute(&words.map(str::to_owned).collect::<Vec<_>>());
            assert_eq!(reply, shown(&its), "left the store, right the server");
        }
        reply
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

/// All that the steps of a scan with these words find, in order.
fn scanned(
    [pattern, count, longest]: [&str; 3],
    mut step: impl FnMut(&[&str; 7]) -> Reply,
) -> Vec<String> {
    let (mut found, mut cursor) = (BTreeSet::new(), "0".to_owned());
    loop {
        let words = ["EVAL", SCAN, "0", &cursor, pattern, count, longest];
        let reply = step(&words);
        let Reply::Array(parts) = reply else {
            panic!("no page, but {}", shown(&reply));
        };
        let mut texts = parts.iter().map(shown);
        cursor = texts.next().unwrap();
        found.extend(texts);
        if cursor == "0" {
            return found.into_iter().collect();
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

/// The lines of all cases and single commands in any order, and time that passes.
#[test]
fn the_store_answers_any_sequence_of_calls_as_a_redis_server_does() {
    let cases = [LOCKS, READERS, TURNS, FENCED].into_iter().chain(OTHERS);
    let calls = cases
        .flat_map(str::lines)
        .filter_map(|line| line.split_once("->"));
    let calls = calls
        .map(|(call, _)| call)
        .filter(|call| !call.starts_with("FILL"));
    let calls: Vec<&str> = calls.collect();
    assert!(calls.len() > 800, "{}", calls.len());
    let commands: Vec<&str> = include_str!("commands.txt").lines().collect();
    let spans = [1, 2, 59_999, 60_000, 600_000, 3_600_000];
    let any_of = |lines: &[&'static str]| sample::select(lines.to_vec());
    let step = prop_oneof![
        2 => sample::select(spans.to_vec()).prop_map(Err),
        7 => any_of(&calls).prop_map(Ok),
        7 => any_of(&commands).prop_map(Ok),
    ];
    let sequences = std::env::var("REDLATCH_SEQUENCES").ok();
    let config = ProptestConfig {
        cases: sequences.map_or(600, |number| number.parse().unwrap()),
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let pair = RefCell::new(Pair::start());
    let played = TestRunner::new(config).run(&vec(step, 1..40), |steps| {
        let mut pair = pair.borrow_mut();
        pair.begin();
        for step in steps {
            match step {
                Ok(call) => drop(pair.call(call, &mut BTreeSet::new())),
                Err(ms) => pair.pass(Duration::from_millis(ms)),
            }
        }
        Ok(())
    });
    played.unwrap();
}

/// The script on a server that refuses this command for this key alone.
fn where_refused(command: &str, key: &str, script: &str) -> String {
    let is_refused = format!("words[1] == '{command}' and words[2] == '{key}'");
    let pcall =
        format!("local words = {{...}} if {is_refused} then return {{err = 'NOT here'}} end");
    let pcall = format!("function(...) {pcall} return real.pcall(...) end");
    let redis = format!("setmetatable({{pcall = {pcall}}}, {{__index = real}})");
    format!("local real = redis\nlocal redis = {redis}\n{script}")
}

#[test]
fn a_script_that_can_not_set_a_key_leaves_what_was_there_and_the_counters() {
    let mut pair = Pair::start();
    for (before, command, refused, call, left) in [
        ("", "SET", "c", "a b c / ONE 60000", ""),
        ("", "SET", "a", "a b c / ONE 60000", ""),
        // A heal leaves what the lock had.
        ("SET a ONE PX 60000", "SET", "c", "a b c / ONE 60000 h", "a"),
        ("SET b ONE PX 60000", "SET", "c", "a b c / ONE 60000 h", "b"),
        (
            "SET m OPENED",
            "SET",
            "b",
            "a b / ONE 60000 _ 1700000000000000 RULES",
            "a:fence b:fence m",
        ),
        // The first reader, and one beside another.
        ("", "PEXPIREAT", "a", "a / ONE 60000 r", ""),
        (
            "TAKE a / TWO 1000 r",
            "PEXPIREAT",
            "a",
            "a / ONE 60000 r",
            "a",
        ),
    ] {
        pair.begin();
        if !before.is_empty() {
            pair.call(before, &mut BTreeSet::new());
        }
        let script = where_refused(command, refused, TAKE);
        let reply = pair.evaluate(&script, call);
        assert_eq!(
            (&*reply, &*pair.call("KEYS", &mut BTreeSet::new())),
            ("NOT", left),
            "{call}"
        );
        assert!(
            pair.keys().values().all(|(content, _)| content.len() < 2),
            "{call}"
        );
    }
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
