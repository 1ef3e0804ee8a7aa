//! The fake's store and a real `redis-server` are sent the same random commands, and have to answer the same.
//!
//! It is beside the store, and not with the other tests over real servers, because it compares single commands: the
//! public API can't send a `retake.lua` or an odd time to live at will. The server is started as those tests do it.

#![expect(
    clippy::arithmetic_side_effects,
    reason = "a test that overflows fails, as it should"
)]

use std::fmt::Debug;
use std::time::Duration;

use crate::wire::resp::{Reply, ServerError, of_redis};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::TestRunner;
use redis::{Connection, ConnectionLike, RedisResult, Value};
use redlatch_testing::Server;

use super::entry::integer;
use super::frame::pack;
use super::properties::{config, ttl_text};
use super::*;

/// The last two are slots of a semaphore with the name of a lock.
const KEYS: [&str; 6] = [
    "",
    "job",
    "\u{1F512} {a}\r\n*1",
    "jo",
    "job:redlatch:slot:0",
    "job:redlatch:slot:2",
];
const TOKENS: [&str; 4] = ["", "token", "rest:token", "token\r\n"];

/// No key ends during a sequence, unless the sequence waits for it.
const LONG: Duration = Duration::from_mins(1);

/// A command, and how long to wait after it until what it made has ended.
#[derive(Debug, Clone)]
struct Step {
    words: Vec<String>,
    pause: Option<Duration>,
}

/// Some are as long as a value may be that a reply about another's key has in it, some are just shorter or longer. The last
/// one is longer than what is told of any value, and is cut in the middle of a character.
fn tokens() -> Vec<String> {
    let lengths = [40, 41, 273, 274].map(|length| "x".repeat(length));
    let long = "ab".to_owned() + &"\u{1F512}".repeat(150);
    let short = TOKENS.map(str::to_owned).into_iter();
    short.chain(lengths).chain([long]).collect()
}

type Ttl = (String, Option<Duration>);

fn step() -> impl Strategy<Value = Step> {
    let long = (1..60_u32).prop_map(|n| (LONG.saturating_mul(n).as_millis().to_string(), None));
    let short = (1..4_u64).prop_map(|ms| (ms.to_string(), Some(Duration::from_millis(ms))));
    let odd = ttl_text()
        .prop_filter("ends during the sequence", |text| {
            let ttl: Result<i128, _> = text.trim().parse();
            !ttl.is_ok_and(|ttl| (1..=120_000).contains(&ttl))
        })
        .prop_map(|text| (text, None));
    let ttl = prop_oneof![6 => long, 1 => short, 3 => odd];
    let kind = select(vec![
        "SET", "SET", "RETAKE", "EXTEND", "EXTEND", "INSPECT", "INSPECT", "RELEASE", "PASS",
        "PASS", "REST", "PROBE", "GET", "LOOK", "SLOTS", "SLOTS",
    ]);
    let key_and_tokens = (select(KEYS.to_vec()), select(tokens()), select(tokens()));
    (kind, key_and_tokens, ttl).prop_map(step_of)
}

fn step_of((kind, (key, token, next), (ttl, pause)): (&str, (&str, String, String), Ttl)) -> Step {
    // No rest is shorter, and Redis deletes a key with such a time.
    let is_over = integer(&ttl).is_some_and(|ttl| ttl <= 0);
    let rest = if is_over { "60000" } else { &ttl };
    let words = match kind {
        "PROBE" => vec!["EVAL", PROBE, "0"],
        "GET" => vec!["GET", key],
        "SET" => vec!["SET", key, &token, "NX", "PX", &ttl],
        "RETAKE" => vec!["EVAL", RETAKE, "1", key, &token, &ttl],
        "EXTEND" => vec!["EVAL", EXTEND, "1", key, &token, &ttl],
        "INSPECT" => vec!["EVAL", INSPECT, "1", key],
        // Nobody is announced, as a fake never does it.
        "LOOK" => vec!["EVAL", LOOK, "1", key, "0", "0"],
        "SLOTS" => vec!["EVAL", LOOK, "1", "job", "0", "0", "4"],
        "PASS" => vec!["EVAL", PASS, "1", key, &token, &next, &ttl],
        "REST" => vec!["EVAL", REST, "1", key, &token, rest],
        _ => vec!["EVAL", RELEASE, "1", key, &token],
    };
    Step {
        words: words.into_iter().map(str::to_owned).collect(),
        pause,
    }
}

/// A server, and a store that lives in the server's time.
struct Pair {
    connection: Connection,
    store: Store,
    began: Duration,
}

impl Pair {
    fn new(server: &Server) -> Self {
        server.command(&["FLUSHALL"]);
        let client = redis::Client::open(server.url()).unwrap();
        let mut connection = client.get_connection().unwrap();
        Self {
            began: time(&mut connection),
            connection,
            store: Store::default(),
        }
    }

    fn step(&mut self, step: &Step) {
        let packed = pack(&step.words);
        let now = time(&mut self.connection);
        let fake = self.store.execute(&packed, now);
        let real = as_reply(self.connection.req_packed_command(&packed));
        self.compare(&fake, &real, step);
        if let Some(pause) = step.pause {
            let end = time(&mut self.connection) + pause + Duration::from_millis(2);
            while time(&mut self.connection) <= end {
                redlatch_testing::pause(Duration::from_millis(1));
            }
        }
        self.compare_keys(step);
    }

    fn compare(&mut self, fake: &Reply, real: &Reply, step: &Step) {
        match (fake, real) {
            (Reply::Error(fake), Reply::Error(real)) => {
                // Before Redis 7, an error within a script has the script's name for its code.
                if real.code == "@user_script:" {
                    return;
                }
                assert_eq!(fake.code, real.code, "{step:?}");
                // A script adds its name and line.
                let (fake, real) = (&fake.message, &real.message);
                let is_of_lua = real.contains("attempt to compare");
                // Before Redis 7, the text names the script first, and the command without quotes.
                let is_of_old = real.contains("@user_script");
                let is_of_old = is_of_old || real.starts_with("invalid expire time in");
                assert!(
                    is_of_lua || is_of_old || real.starts_with(fake.as_str()),
                    "{step:?}: {real}"
                );
            }
            // The numbers that only Lua takes for numbers: see `Entry::extend`.
            (Reply::Error(_), Reply::Int(1) | Reply::Okay) => {
                let ttl = step.words.last().unwrap();
                assert!(
                    [EXTEND, RETAKE].contains(&step.words[1].as_str()) && integer(ttl).is_none(),
                    "{step:?}"
                );
            }
            (Reply::Array(fake), Reply::Array(real)) => match (&fake[..], &real[..]) {
                ([fake, fakes], [real, reals])
                    if step.words[1] == PASS && !matches!(fakes, Reply::Bulk(_)) =>
                {
                    assert_eq!(fake, real, "{step:?}");
                    self.compare(fakes, reals, step);
                }
                ([Reply::Int(fake), fakes @ ..], [Reply::Int(real), reals @ ..]) => {
                    self.compare_pttl(*fake, *real, step);
                    assert_eq!(fakes, reals, "{step:?}");
                }
                _ => panic!("{step:?}: {fake:?} {real:?}"),
            },
            _ => assert_eq!(fake, real, "{step:?}"),
        }
    }

    /// What the server does comes later than what the store does, by the time since the beginning at most.
    fn compare_pttl(&mut self, fake: i64, real: i64, step: &Step) {
        let passed = time(&mut self.connection).saturating_sub(self.began);
        // Lua's numbers have 53 bits.
        let rounding = fake.unsigned_abs() >> 52;
        let slack = u64::try_from(passed.as_millis()).unwrap() + 2 + rounding;
        let is_close = fake == real || fake >= 0 && real >= 0 && fake.abs_diff(real) <= slack;
        assert!(is_close, "{step:?}: {fake} {real} after {passed:?}");
    }

    fn compare_keys(&mut self, step: &Step) {
        for key in KEYS {
            let now = time(&mut self.connection);
            let get = redis::cmd("GET").arg(key).query(&mut self.connection);
            let pttl = redis::cmd("PTTL").arg(key).query(&mut self.connection);
            let entry = self.store.get(key, now);
            let left = entry.as_ref().map_or(-2, |entry| {
                i64::try_from(entry.until.saturating_sub(now).as_millis()).unwrap()
            });
            let value = entry.and_then(|entry| entry.text().map(str::to_owned));
            assert_eq!(Ok(value), get, "{step:?}: {key:?}");
            self.compare_pttl(left, pttl.unwrap(), step);
        }
    }
}

pub(super) fn as_reply(reply: RedisResult<Value>) -> Reply {
    match reply {
        Ok(value) => of_redis(&value).unwrap(),
        Err(error) => {
            let (code, detail) = (error.code().unwrap(), error.detail().unwrap());
            Reply::Error(ServerError::new(&format!("{code} {detail}")))
        }
    }
}

/// The server's clock.
pub(super) fn time(connection: &mut Connection) -> Duration {
    let (seconds, micros) = redis::cmd("TIME").query(connection).unwrap();
    Duration::from_secs(seconds) + Duration::from_micros(micros)
}

#[test]
fn the_store_answers_as_a_redis_server_does() {
    let server = Server::start();
    // Some commands wait.
    play_sequences(4, step(), |steps| {
        let mut pair = Pair::new(&server);
        for step in steps {
            pair.step(step);
        }
    });
}

/// Plays random sequences of steps: this part of as many as there are cases, because a sequence has many commands.
pub(super) fn play_sequences<S: Debug>(
    part: u32,
    step: impl Strategy<Value = S>,
    play: impl Fn(&[S]),
) {
    let mut config = config();
    config.cases = (config.cases / part).max(1);
    config.max_shrink_iters = 300;
    let result = TestRunner::new(config).run(&vec(step, 1..40), |steps| {
        play(&steps);
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}
