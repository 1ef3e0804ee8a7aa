//! The fake's store and a real `redis-server` are sent the same random commands of readers, writers and holders of several
//! locks, among what others leave under the keys, and have to answer the same.
//!
//! The two read their clocks one after the other, so what depends on the clock may differ by the time in between.

#![expect(
    clippy::arithmetic_side_effects,
    reason = "a test that overflows fails, as it should"
)]

use std::collections::BTreeSet;
use std::time::Duration;

use proptest::collection::vec;
use proptest::test_runner::{RngSeed, TestRunner};
use redis::{Connection, ConnectionLike};
use redlatch_testing::Server;

use super::super::differential::{as_reply, play_sequences, time};
use super::super::frame::pack;
use super::super::process::Process;
use super::super::properties::config;
use super::super::{Content, Entry, Store};
use super::steps::{LOCKS, Plant, Score, Step, step};
use super::{Sorted, looks};
use crate::wire::resp::Reply;
use crate::wire::scripts::{LOOK, LOOK_ALL, LOOK_READ, PASS, RELEASE, RELEASE_ALL, UNREAD};

/// More than a busy machine lets pass between the two.
const SLACK_MS: u64 = 20_000;

/// A store whose own clock is its wall clock.
fn in_server_time() -> Store {
    Store::of(Process::new(0, Duration::ZERO, 0))
}

/// A server, and a store that lives in the server's time.
struct Pair {
    connection: Connection,
    store: Store,
}

impl Pair {
    fn new(server: &Server) -> Self {
        server.command(&["FLUSHALL"]);
        let client = redis::Client::open(server.url()).unwrap();
        Self {
            connection: client.get_connection().unwrap(),
            store: in_server_time(),
        }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Command(words) => self.command(words, step),
            Step::Plant(key, plant) => self.plant(key, plant),
        }
        for lock in LOCKS {
            for key in [lock.to_owned(), looks::intent(lock)] {
                self.compare_key(&key, step);
            }
            let waiting = looks::waiting(lock);
            let real = self.real(&["SISMEMBER", &waiting, "r"]) == Reply::Int(1);
            let now = time(&mut self.connection);
            assert_eq!(self.store.reader_waits(lock, now), real, "{step:?}: {lock}");
        }
    }

    fn real(&mut self, words: &[&str]) -> Reply {
        as_reply(self.connection.req_packed_command(&pack(words)))
    }

    /// Whether a writer waits on the real server. The fake tells nobody that he would be woken.
    fn writer_waits(&mut self) -> bool {
        let is_there = |lock: &str| self.real(&["SISMEMBER", &looks::waiting(lock), "1"]);
        LOCKS.map(is_there).contains(&Reply::Int(1))
    }

    fn command(&mut self, words: &[&str], step: &Step) {
        let script = words[1];
        // A pass leaves the lock to a writer who waits, and the fake knows of none.
        let waiting = looks::waiting(words.get(3).unwrap_or(&""));
        let is_hidden = script == PASS && self.real(&["SREM", &waiting, "1"]) == Reply::Int(1);
        let wakes = [RELEASE, RELEASE_ALL, UNREAD].contains(&script) && self.writer_waits();
        let is_look = [LOOK, LOOK_READ, LOOK_ALL].contains(&script);
        let now = time(&mut self.connection);
        let mut fake = self.store.execute(&pack(words), now);
        let mut real = self.real(words);
        for reply in [&mut fake, &mut real] {
            if let (true, Reply::Array(parts)) = (is_look, reply) {
                // Whether the wait was announced, or there is a bell for it.
                *parts.last_mut().unwrap() = Reply::Nil;
            }
        }
        assert!(is_like(&fake, &real, wakes), "{step:?}: {fake:?} {real:?}");
        if is_hidden {
            self.real(&["SADD", &waiting, "1"]);
        }
        for lock in LOCKS {
            let bell = format!("{lock}:redlatch:bell");
            self.real(&["DEL", &bell, &format!("{bell}:read")]);
        }
    }

    /// Puts something there in both.
    fn plant(&mut self, key: &str, plant: &Plant) {
        let now = time(&mut self.connection);
        let now_ms = i64::try_from(now.as_millis()).unwrap();
        let after = |minutes: i64| now_ms + minutes * 60_000;
        self.real(&["DEL", key]);
        let (content, ends) = match plant {
            Plant::Hash => {
                self.real(&["HSET", key, "field", "value"]);
                (Content::Other, Some(10))
            }
            Plant::Text(text, ends) => {
                self.real(&["SET", key, text]);
                (Content::Text((*text).to_owned()), *ends)
            }
            Plant::Sorted(members, ends) => {
                let mut sorted = Sorted::default();
                for (member, score) in members {
                    let score = match score {
                        Score::Minutes(minutes) => after(*minutes),
                        Score::Number(number) => *number,
                    };
                    self.real(&["ZADD", key, &score.to_string(), member]);
                    sorted.0.insert((*member).to_owned(), score);
                }
                (Content::Sorted(sorted), *ends)
            }
        };
        let mut until = Entry::NEVER;
        if let Some(minutes) = ends {
            self.real(&["PEXPIREAT", key, &after(minutes).to_string()]);
            until = match content {
                Content::Sorted(_) => self.store.process.after(after(minutes)),
                Content::Text(_) | Content::Other => {
                    now + Duration::from_mins(minutes.unsigned_abs())
                }
            };
        }
        self.store
            .keys
            .insert(key.to_owned(), Entry { content, until });
        if let Some(lock) = key.strip_suffix(":redlatch:intent") {
            // As the look of a writer leaves it.
            self.real(&["SADD", &looks::waiting(lock), "1"]);
        }
    }

    fn compare_key(&mut self, key: &str, step: &Step) {
        let now = time(&mut self.connection);
        let real = content(&mut self.connection, key);
        let pttl = self.real(&["PTTL", key]);
        let entry = self.store.get(key, now);
        let left = Reply::Int(entry.as_ref().map_or(-2, |entry| entry.pttl(now)));
        assert!(
            is_like(&left, &pttl, false),
            "{step:?}: {key}: {left:?} {pttl:?}"
        );
        let fake = entry.map(|entry| entry.content.clone());
        let is_same = is_content_like(fake.as_ref(), real.as_ref());
        assert!(is_same, "{step:?}: {key}: {fake:?} {real:?}");
    }
}

/// What a real server has under a key.
pub(in super::super) fn content(connection: &mut Connection, key: &str) -> Option<Content> {
    let kind: String = redis::cmd("TYPE").arg(key).query(connection).unwrap();
    match kind.as_str() {
        "none" => None,
        "string" => {
            let text = redis::cmd("GET").arg(key).query(connection);
            Some(Content::Text(text.unwrap()))
        }
        "zset" => {
            let mut all = redis::cmd("ZRANGE");
            all.arg(key).arg(0).arg(-1).arg("WITHSCORES");
            let members: Vec<(String, i64)> = all.query(connection).unwrap();
            Some(Content::Sorted(Sorted(members.into_iter().collect())))
        }
        _ => Some(Content::Other),
    }
}

pub(in super::super) fn is_content_like(fake: Option<&Content>, real: Option<&Content>) -> bool {
    let (Some(Content::Sorted(fakes)), Some(Content::Sorted(reals))) = (fake, real) else {
        return fake == real;
    };
    let pairs = fakes.0.iter().zip(&reals.0);
    let is_like = |(fake, real): ((&String, &i64), (&String, &i64))| {
        fake.0 == real.0 && is_number_like(*fake.1, *real.1)
    };
    fakes.0.len() == reals.0.len() && pairs.into_iter().all(is_like)
}

/// With `wakes`, the real server may have woken one whom the fake does not know.
fn is_like(fake: &Reply, real: &Reply, wakes: bool) -> bool {
    match (fake, real) {
        (Reply::Array(fakes), Reply::Array(reals)) => {
            let mut pairs = fakes.iter().zip(reals);
            fakes.len() == reals.len() && pairs.all(|(fake, real)| is_like(fake, real, wakes))
        }
        (Reply::Int(1), Reply::Int(2)) => wakes,
        (Reply::Int(fake), Reply::Int(real)) => is_number_like(*fake, *real),
        // A script adds its name and line.
        (Reply::Error(fake), Reply::Error(real)) => fake.code == real.code,
        _ => fake == real,
    }
}

/// Small numbers are answers, large ones times.
fn is_number_like(fake: i64, real: i64) -> bool {
    fake == real || fake > 1000 && real > 1000 && fake.abs_diff(real) < SLACK_MS
}

#[test]
fn the_store_answers_readers_and_sets_as_a_redis_server_does() {
    let server = Server::start();
    play_sequences(1, step(), |steps| {
        let mut pair = Pair::new(&server);
        for step in steps {
            pair.step(step);
        }
    });
}

/// What the random sequences have to come to.
const ANSWERS: [&str; 36] = [
    "READ OK",
    "READ {ms}",
    "READ {ms value}",
    "READ {ms -1}",
    "READ error",
    "REREAD 1",
    "REREAD {-2}",
    "REREAD {ms}",
    "UNREAD 1",
    "UNREAD {-2}",
    "UNREAD {ms value}",
    "RELEASE 1",
    "RELEASE 2",
    "RELEASE {ms 1}",
    "RELEASE {ms 2}",
    "PASS 2",
    "PASS {ms 1}",
    "PASS {1 OK}",
    "EXTEND {ms 1}",
    "REST {ms 1}",
    "INSPECT {ms 2 ms}",
    "INSPECT_READ {ms 40 value}",
    "INSPECT_READ {-2}",
    "FIND {value value}",
    "FIND {-2}",
    "FIND {ms 40 value}",
    "LOOK_READ {-2 0}",
    "LOOK_READ {ms 0}",
    "LOOK_ALL {3 ms 0}",
    "ACQUIRE_ALL OK",
    "ACQUIRE_ALL error",
    "ACQUIRE_ALL {2 {ms 1}}",
    "ACQUIRE_ALL {2 {ms value}}",
    "RELEASE_ALL {2}",
    "EXTEND_ALL {1 {ms 1}}",
    "REST_ALL {1 1 1}",
];

/// The random sequences must not stop at the door.
#[test]
fn random_sequences_of_readers_and_sets_get_every_answer() {
    let mut seen = BTreeSet::new();
    let mut config = config();
    config.cases = 1000;
    config.rng_seed = RngSeed::Fixed(7);
    let mut runner = TestRunner::new(config);
    let seen_by_run = std::cell::RefCell::new(&mut seen);
    let now = Duration::from_secs(1_700_000_000);
    let result = runner.run(&vec(step(), 1..40), |steps| {
        let mut store = in_server_time();
        for step in &steps {
            let Step::Command(words) = step else {
                continue;
            };
            let name = super::steps::name(words[1]);
            let shape = shape(&store.execute(&pack(words), now));
            seen_by_run.borrow_mut().insert(format!("{name} {shape}"));
        }
        Ok(())
    });
    result.unwrap();
    for answer in ANSWERS {
        assert!(seen.contains(answer), "no {answer}: {seen:#?}");
    }
}

fn shape(reply: &Reply) -> String {
    match reply {
        Reply::Okay => "OK".into(),
        Reply::Int(number @ ..=1000) => number.to_string(),
        Reply::Int(_) => "ms".into(),
        Reply::Error(_) => "error".into(),
        Reply::Array(parts) => {
            let parts: Vec<String> = parts.iter().map(shape).collect();
            format!("{{{}}}", parts.join(" "))
        }
        Reply::Nil => "nil".into(),
        Reply::Text(_) | Reply::Bulk(_) => "value".into(),
    }
}
