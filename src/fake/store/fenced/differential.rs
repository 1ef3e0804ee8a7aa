//! The fake's fenced protocol and a real `redis-server` are sent the same random scripts, and have to answer the same.
//!
//! The two read their clocks one after the other, so what depends on the clock may differ by the time in between.

#![expect(
    clippy::arithmetic_side_effects,
    reason = "a test that overflows fails, as it should"
)]

use std::time::Duration;

use crate::wire::resp::Reply;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::TestRunner;
use redis::{Connection, ConnectionLike};
use redlatch_testing::Server;

use super::super::differential::{as_reply, time};
use super::super::frame::pack;
use super::super::process::Process;
use super::super::properties::config;
use super::{ACQUIRE, EXTEND, OPEN, PASS, RELEASE, REST, Store};

const KEYS: [&str; 5] = ["a", "a:fence", "b", "b:fence", "m"];
/// A value that is told to those who meet it.
const LABELLED: &str = "00112233445566778899aabbccddeeff00112233 web-3 since=2026-11-22T05:52:53Z";
const MINUTE_MICROS: i64 = 60_000_000;
/// More than a busy machine lets pass between the two.
const SLACK_MICROS: u64 = 20_000_000;

/// Words in which a number of minutes stands for a token that is as far from the beginning.
#[derive(Debug, Clone)]
enum Word {
    Text(&'static str),
    Token(i64),
    Tombstone(i64),
    /// A marker of the process that executes the command, with this behind its run id.
    OwnMarker(&'static str),
}

impl Word {
    fn text(&self, base: i64, run_id: &str) -> String {
        match self {
            Self::Text(text) => (*text).to_owned(),
            Self::Token(minutes) => (base + minutes * MINUTE_MICROS).to_string(),
            Self::Tombstone(minutes) => (base + minutes * MINUTE_MICROS + 1).to_string(),
            Self::OwnMarker(rest) => format!("{run_id}{rest}"),
        }
    }
}

fn token() -> impl Strategy<Value = i64> {
    // Far beyond, and within, what a quarantine of none, ten minutes or an hour allows.
    select(vec![-3000, -90, -5, -1, 1, 5, 30, 90, 3000])
}

fn one(texts: &[&'static str]) -> impl Strategy<Value = Word> + use<> {
    select(texts.to_vec()).prop_map(Word::Text)
}

#[expect(clippy::too_many_lines, reason = "one list of all commands")]
fn step() -> impl Strategy<Value = Vec<Word>> {
    use Word::{OwnMarker, Text, Token, Tombstone};
    let lock = || select(vec![("a", "a:fence"), ("b", "b:fence")]);
    let value = || one(&["v1", "v2", LABELLED]);
    let ttl = || one(&["600000", "1200000"]);
    let quarantine = || one(&["0", "0", "600000", "3600000"]);
    let idle = || one(&["86400000", "3600000"]);
    let config = || one(&["c1", "c1", "c1", "c2"]);
    // None, a few microseconds, and half a minute.
    let reserve = || one(&["0", "0", "16", "30000000"]);
    let acquire = (
        (lock(), value(), ttl(), token(), quarantine()),
        (idle(), config(), one(&["0", "1"]), reserve()),
    );
    let acquire = acquire.prop_map(
        |((lock, value, ttl, token, quarantine), (idle, config, again, reserve))| {
            let head = [Text("EVAL"), Text(ACQUIRE), Text("3")];
            let keys = [Text(lock.0), Text(lock.1), Text("m")];
            let rest = [
                value,
                ttl,
                Token(token),
                quarantine,
                idle,
                config,
                again,
                reserve,
            ];
            head.into_iter().chain(keys).chain(rest).collect::<Vec<_>>()
        },
    );
    let extend = (lock(), value(), ttl(), token(), idle());
    let extend = extend.prop_map(|(lock, value, ttl, token, idle)| {
        let head = [Text("EVAL"), Text(EXTEND), Text("3")];
        let keys = [Text(lock.0), Text(lock.1), Text("m")];
        let rest = [value, ttl, Token(token), idle];
        head.into_iter().chain(keys).chain(rest).collect()
    });
    let back = one(&["v1", "v2", "rest:v1"]);
    let release = (
        lock(),
        back,
        token(),
        quarantine(),
        idle(),
        option::of(ttl()),
    );
    let release = release.prop_map(|(lock, value, token, quarantine, idle, rests)| {
        let script = if rests.is_some() { REST } else { RELEASE };
        let head = [Text("EVAL"), Text(script), Text("2")];
        let keys = [Text(lock.0), Text(lock.1)];
        let rest = [value, Tombstone(token), quarantine, idle];
        head.into_iter()
            .chain(keys)
            .chain(rest)
            .chain(rests)
            .collect()
    });
    let pass = (
        (lock(), value(), token(), quarantine(), idle()),
        (value(), ttl(), token(), config(), reserve()),
    );
    let pass = pass.prop_map(
        |((lock, old, released, quarantine, idle), (new, ttl, token, config, reserve))| {
            let head = ["EVAL", PASS, "3", lock.0, lock.1, "m"].map(Text);
            let release = [old, Tombstone(released), quarantine.clone(), idle.clone()];
            let proposal = [new, ttl, Token(token), quarantine, idle, config];
            let rest = [Text("1"), reserve];
            [&head[..], &release, &proposal, &rest].concat()
        },
    );
    let open = (one(&["look", "open", "close"]), quarantine(), config());
    let open = open.prop_map(|(action, quarantine, config)| {
        let head = ["EVAL", OPEN, "1", "m"].map(Text);
        [&head[..], &[action, quarantine, config]].concat()
    });
    // What another program may have put there; NX, so that it is seldom.
    let garbage = (
        select(KEYS.to_vec()),
        one(&[
            "v1",
            LABELLED,
            "5",
            "x",
            "",
            "-5",
            "1.5",
            "9999999999999999",
            "r1|c1|1|opened",
            "r1|c1|x|new",
            "|c1|1|new",
        ]),
    );
    let garbage = garbage.prop_map(|(key, value)| {
        let rest = [Text("NX"), Text("PX"), Text("600000")];
        [Text("SET"), Text(key), value]
            .into_iter()
            .chain(rest)
            .collect()
    });
    // So that proposals also meet a counter that is just the same.
    let counter = (lock(), token()).prop_map(|(lock, token)| {
        let rest = [Text("NX"), Text("PX"), Text("600000")];
        let head = [Text("SET"), Text(lock.1), Token(token)];
        head.into_iter().chain(rest).collect()
    });
    // As it was left by a process before, or by this one when it was asked by others.
    let own = ["|c1|1|opened", "|c1|1|new", "|c1|1|reborn", "|c2|1|opened"];
    let marker = prop_oneof![
        2 => one(&["r1|c1|1|opened", "r1|c1|1|new", "r1|c2|1|reborn"]),
        3 => select(own.to_vec()).prop_map(OwnMarker),
    ];
    let marker = marker.prop_map(|marker| {
        let rest = [Text("NX"), Text("PX"), Text("600000")];
        let head = [Text("SET"), Text("m"), marker];
        head.into_iter().chain(rest).collect()
    });
    prop_oneof![6 => acquire, 2 => marker, 3 => extend, 4 => release, 3 => pass, 3 => open, 1 => garbage, 2 => counter]
}

struct Pair {
    connection: Connection,
    store: Store,
    /// The server's time at the beginning, in microseconds.
    base: i64,
    /// Of the server.
    run_id: String,
}

impl Pair {
    fn new(server: &Server) -> Self {
        server.command(&["FLUSHALL"]);
        let client = redis::Client::open(server.url()).unwrap();
        let mut connection = client.get_connection().unwrap();
        let base = time(&mut connection).as_micros();
        Self {
            connection,
            store: in_server_time(),
            base: i64::try_from(base).unwrap(),
            run_id: run_id(server),
        }
    }

    fn step(&mut self, words: &[Word]) {
        let packed = |run_id: &str| {
            let texts = words.iter().map(|word| word.text(self.base, run_id));
            pack(&texts.collect::<Vec<_>>())
        };
        let (for_fake, for_real) = (packed(&self.store.run_id()), packed(&self.run_id));
        let now = time(&mut self.connection);
        let fake = self.store.execute(&for_fake, now);
        let real = as_reply(self.connection.req_packed_command(&for_real));
        assert!(is_like(&fake, &real), "{words:?}: {fake:?} {real:?}");
        for key in KEYS {
            self.compare_key(key, words);
        }
    }

    fn compare_key(&mut self, key: &str, words: &[Word]) {
        let now = time(&mut self.connection);
        let get: Option<String> = redis::cmd("GET")
            .arg(key)
            .query(&mut self.connection)
            .unwrap();
        let pttl: i64 = redis::cmd("PTTL")
            .arg(key)
            .query(&mut self.connection)
            .unwrap();
        let entry = self.store.get(key, now);
        let left = entry.as_ref().map_or(-2, |entry| entry.pttl(now));
        let value = entry.map(|entry| entry.value.clone());
        let is_same = match (&value, &get) {
            // Each has an id of its own.
            (Some(fake), Some(real)) => {
                is_text_like(fake, &real.replace(&self.run_id, &self.store.run_id()))
            }
            (fake, real) => fake == real,
        };
        assert!(is_same, "{words:?}: {key}: {value:?} {get:?}");
        let is_close =
            left == pttl || left > 0 && pttl > 0 && left.abs_diff(pttl) < SLACK_MICROS / 1000;
        assert!(is_close, "{words:?}: {key}: {left} {pttl}");
    }
}

fn run_id(server: &Server) -> String {
    let info = server.info("server");
    let mut lines = info.lines();
    let id = lines.find_map(|line| line.strip_prefix("run_id:"));
    id.unwrap().trim().to_owned()
}

/// A store whose own clock is its wall clock.
fn in_server_time() -> Store {
    Store::of(Process::new(0, Duration::ZERO, 0))
}

fn is_like(fake: &Reply, real: &Reply) -> bool {
    match (fake, real) {
        (Reply::Array(fakes), Reply::Array(reals)) => {
            let pairs = fakes.iter().zip(reals);
            fakes.len() == reals.len() && pairs.into_iter().all(|(fake, real)| is_like(fake, real))
        }
        (Reply::Int(fake), Reply::Int(real)) => is_number_like(*fake, *real),
        _ => fake == real,
    }
}

/// Small numbers are answers, large ones times.
fn is_number_like(fake: i64, real: i64) -> bool {
    fake == real || fake > 1000 && real > 1000 && fake.abs_diff(real) < SLACK_MICROS
}

/// Alike in all parts between bars.
fn is_text_like(fake: &str, real: &str) -> bool {
    let part_like = |(fake, real): (&str, &str)| match (fake.parse(), real.parse()) {
        (Ok(fake), Ok(real)) => is_number_like(fake, real),
        _ => fake == real,
    };
    let (fakes, reals) = (fake.split('|'), real.split('|'));
    fakes.clone().count() == reals.clone().count() && fakes.zip(reals).all(part_like)
}

#[test]
fn the_fenced_store_answers_as_a_redis_server_does() {
    let server = Server::start();
    let mut config = config();
    // A sequence has many commands.
    config.cases = (config.cases / 2).max(1);
    config.max_shrink_iters = 200;
    let mut runner = TestRunner::new(config);
    let result = runner.run(&vec(step(), 1..40), |steps| {
        let mut pair = Pair::new(&server);
        for step in &steps {
            pair.step(step);
        }
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}

/// What random sequences seldom come to: a counter and a proposal, both in minutes, at a node that was opened now.
#[track_caller]
fn assert_granted(counter: i64, proposal: Word, expected: bool) {
    assert_granted_with("0", counter, proposal, expected);
}

#[track_caller]
fn assert_granted_with(reserve: &'static str, counter: i64, proposal: Word, expected: bool) {
    use Word::{Text, Token};
    let server = Server::start();
    let mut pair = Pair::new(&server);
    let open = ["EVAL", OPEN, "1", "m", "open", "600000", "c1"].map(Text);
    pair.step(&open);
    let set = ["NX", "PX", "600000"].map(Text);
    let set = [Text("SET"), Text("a:fence"), Token(counter)]
        .into_iter()
        .chain(set);
    pair.step(&set.collect::<Vec<_>>());
    let head = ["EVAL", ACQUIRE, "3", "a", "a:fence", "m", "v1", "600000"].map(Text);
    let tail = ["600000", "86400000", "c1", "0", reserve].map(Text);
    let acquire = head.into_iter().chain([proposal]).chain(tail);
    pair.step(&acquire.collect::<Vec<_>>());
    let now = time(&mut pair.connection);
    assert_eq!(pair.store.get("a", now).is_some(), expected);
}

#[test]
fn a_proposal_that_equals_the_counter_is_stale() {
    assert_granted(1, Word::Token(1), false);
    assert_granted(1, Word::Tombstone(1), true);
}

#[test]
fn all_tokens_that_are_set_apart_have_to_be_above_the_counter() {
    assert_granted_with("0", 1, Word::Tombstone(1), true);
    assert_granted_with("1", 1, Word::Tombstone(1), false);
    assert_granted_with("60000000", 1, Word::Token(2), false);
    assert_granted_with("59999999", 1, Word::Token(2), true);
}

#[test]
fn a_proposal_from_before_the_opening_is_stale_though_the_counter_is_smaller() {
    assert_granted(-5, Word::Token(-1), false);
    assert_granted(-5, Word::Token(1), true);
}

/// The sequences above must not stop at the door.
#[test]
fn random_sequences_get_every_answer() {
    use std::collections::BTreeSet;

    let mut seen = BTreeSet::new();
    let mut config = config();
    config.cases = 400;
    config.rng_seed = proptest::test_runner::RngSeed::Fixed(7);
    let mut runner = TestRunner::new(config);
    let now = Duration::from_secs(1_700_000_000);
    let base = i64::try_from(now.as_micros()).unwrap();
    let seen_by_run = std::cell::RefCell::new(&mut seen);
    let result = runner.run(&vec(step(), 1..40), |steps| {
        let mut store = in_server_time();
        for words in &steps {
            let texts = words.iter().map(|word| word.text(base, &store.run_id()));
            let packed = pack(&texts.collect::<Vec<_>>());
            let word = match store.execute(&packed, now) {
                Reply::Array(items) => match items.first() {
                    Some(Reply::Bulk(word)) => String::from_utf8(word.clone()).unwrap(),
                    Some(Reply::Int(-2)) => "gone".into(),
                    _ if items.len() > 1 => "held, by whom".into(),
                    _ => "held".into(),
                },
                Reply::Okay => "OK".into(),
                Reply::Int(1) => "1".into(),
                Reply::Error(error) => panic!("{error:?}"),
                Reply::Nil | Reply::Text(_) | Reply::Int(_) | Reply::Bulk(_) => "nil".into(),
            };
            seen_by_run.borrow_mut().insert(word);
        }
        Ok(())
    });
    result.unwrap();
    for word in [
        "OK",
        "1",
        "gone",
        "held",
        "held, by whom",
        "CLOSED",
        "CONFIG",
        "COUNTER",
        "FUTURE",
        "MARKER",
        "SERVING",
        "SKEW",
        "STALE",
    ] {
        assert!(seen.contains(word), "no {word}: {seen:?}");
    }
}

/// One whose clock is far ahead is refused, and must not take the resource away from all others by giving up.
#[test]
fn a_release_leaves_no_tombstone_of_a_token_that_is_too_far_ahead_to_be_granted() {
    use Word::{Text, Token, Tombstone};

    let server = Server::start();
    let mut pair = Pair::new(&server);
    let marker = [Text("SET"), Text("m"), Word::OwnMarker("|c1|1|opened")];
    let rest = ["NX", "PX", "600000"].map(Text);
    pair.step(&[&marker[..], &rest[..]].concat());
    let acquire = |value, minutes| {
        let head = ["EVAL", ACQUIRE, "3", "a", "a:fence", "m", value, "600000"].map(Text);
        let rest = ["600000", "86400000", "c1", "0", "0"].map(Text);
        [&head[..], &[Token(minutes)], &rest[..]].concat()
    };
    let release = |value, minutes| {
        let head = ["EVAL", RELEASE, "2", "a", "a:fence", value].map(Text);
        let rest = ["600000", "86400000"].map(Text);
        [&head[..], &[Tombstone(minutes)], &rest[..]].concat()
    };
    let counter = |pair: &mut Pair| {
        let counter: i64 = server.get("a:fence").unwrap().parse().unwrap();
        counter.saturating_sub(pair.base)
    };
    // Without a counter, with that of a holder, and with that of one before.
    pair.step(&acquire("ahead", 60));
    pair.step(&release("ahead", 60));
    assert!(counter(&mut pair) < 0);
    pair.step(&acquire("good", 1));
    pair.step(&acquire("ahead", 60));
    pair.step(&release("ahead", 60));
    assert_eq!(counter(&mut pair), MINUTE_MICROS);
    pair.step(&release("good", 1));
    pair.step(&release("ahead", 60));
    assert_eq!(counter(&mut pair), MINUTE_MICROS + 1);
    pair.step(&acquire("next", 2));
    assert_eq!(counter(&mut pair), 2 * MINUTE_MICROS);
    // What was granted is refused in any case: with no span at all, the clock was set back since.
    let mut late = release("next", 2);
    late[7] = Text("0");
    pair.step(&late);
    assert_eq!(counter(&mut pair), 2 * MINUTE_MICROS + 1);
}
