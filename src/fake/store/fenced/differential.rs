//! The fake's fenced protocol and a real `redis-server` are sent the same random scripts, and have to answer the same.
//!
//! The two read their clocks one after the other, so what depends on the clock may differ by the time in between.

use std::time::Duration;

use crate::wire::resp::Reply;
use redis::{Connection, ConnectionLike};
use redlatch_testing::Server;

use super::super::Content;
use super::super::differential::{as_reply, play_sequences, time};
use super::super::frame::pack;
use super::super::process::Process;
use super::super::properties::config;
use super::super::readers::differential::{content, is_content_like};
use super::sequences::{KEYS, MINUTE_MICROS, Word, step};
use super::{ACQUIRE, OPEN, RELEASE, Store};
use proptest::collection::vec;
use proptest::test_runner::TestRunner;

/// More than a busy machine lets pass between the two.
const SLACK_MICROS: u64 = 20_000_000;

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
        let real = content(&mut self.connection, key);
        let pttl: i64 = redis::cmd("PTTL")
            .arg(key)
            .query(&mut self.connection)
            .unwrap();
        let entry = self.store.get(key, now);
        let left = entry.as_ref().map_or(-2, |entry| entry.pttl(now));
        let fake = entry.map(|entry| entry.content.clone());
        let is_same = match (&fake, &real) {
            // Each has an id of its own.
            (Some(Content::Text(fake)), Some(Content::Text(real))) => {
                is_text_like(fake, &real.replace(&self.run_id, &self.store.run_id()))
            }
            (fake, real) => is_content_like(fake.as_ref(), real.as_ref()),
        };
        assert!(is_same, "{words:?}: {key}: {fake:?} {real:?}");
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
    play_sequences(2, step(), |steps| {
        let mut pair = Pair::new(&server);
        for step in steps {
            pair.step(step);
        }
    });
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

/// The random sequences must not stop at the door.
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
                    Some(Reply::Int(1 | 2) | Reply::Array(_)) => "all".into(),
                    _ if matches!(items.get(1), Some(Reply::Int(1 | 2))) => "read".into(),
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
        "all",
        "read",
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
