//! The ordinary cases of the scripts for several locks and for readers, on a real `redis-server`.
//!
//! The store of the fake nodes runs the same scripts, and is compared with a server by random sequences.

mod looks;
mod tokens;

use redis::{Connection, ConnectionLike};
use redlatch_testing::Server;

use super::*;
use crate::wire::resp::of_redis;

pub(super) const ONE: &str = "1111111111111111111111111111111111111111";
pub(super) const TWO: &str =
    "2222222222222222222222222222222222222222 web-3 since=2026-11-22T05:52:53Z";
pub(super) const MINUTE: &str = "60000";
pub(super) const HOUR: &str = "3600000";

pub(super) struct Node {
    connection: Connection,
    _server: Server,
}

impl Node {
    pub(super) fn start() -> Self {
        let server = Server::start();
        let client = redis::Client::open(server.url()).unwrap();
        Self {
            connection: client.get_connection().unwrap(),
            _server: server,
        }
    }

    /// The reply as text. Times in ms and larger numbers are `minute`, `hour` or `time`, and an error is its first word.
    pub(super) fn run(&mut self, words: &[&str]) -> String {
        let mut cmd = redis::cmd(words[0]);
        for word in &words[1..] {
            cmd.arg(word);
        }
        match self.connection.req_command(&cmd) {
            Ok(value) => shown(&of_redis(&value).unwrap()),
            Err(error) => error.code().unwrap().to_owned(),
        }
    }

    pub(super) fn eval(&mut self, script: &str, keys: &[&str], arguments: &[&str]) -> String {
        let count = keys.len().to_string();
        let head = ["EVAL", script, count.as_str()];
        self.run(&[&head[..], keys, arguments].concat())
    }

    fn open(&mut self) {
        let opened = self.eval(OPEN, &["m"], &["open", HOUR, "c"]);
        assert_eq!(opened, "OK");
    }

    /// What comes of all commands in one step of the server, in which no key ends.
    pub(super) fn at_once(&mut self, script: (&str, &[&str], &[&str]), rest: &[&[&str]]) -> String {
        self.run(&["MULTI"]);
        self.eval(script.0, script.1, script.2);
        for words in rest {
            self.run(words);
        }
        self.run(&["EXEC"])
    }

    /// The server's time in microseconds, and so much more.
    fn token(&mut self, later: u64) -> String {
        let (seconds, micros): (u64, u64) = redis::cmd("TIME").query(&mut self.connection).unwrap();
        let now = seconds.checked_mul(1_000_000).unwrap();
        now.saturating_add(micros).saturating_add(later).to_string()
    }

    /// All keys but the marker.
    pub(super) fn keys(&mut self) -> Vec<String> {
        let mut keys: Vec<String> = redis::cmd("KEYS")
            .arg("*")
            .query(&mut self.connection)
            .unwrap();
        keys.retain(|key| key != "m");
        keys.sort();
        keys
    }
}

/// The arguments of a script with a token.
pub(super) fn fenced<'a>(
    value: &'a str,
    span: &'a str,
    how: &'a str,
    token: &'a str,
) -> [&'a str; 8] {
    [value, span, how, token, HOUR, HOUR, "m", "c"]
}

/// What a [`PASS`] without a token is told: the next value, for how long, and the one that is given back.
pub(super) fn passed<'a>(next: &'a str, ttl: &'a str, held: &'a str) -> [&'a str; 9] {
    [next, ttl, "a", "", "", "", "", "", held]
}

fn shown(reply: &Reply) -> String {
    match reply {
        Reply::Nil => "nil".into(),
        Reply::Okay => "OK".into(),
        Reply::Text(text) => text.clone(),
        Reply::Int(30_000..=60_000) => "minute".into(),
        Reply::Int(3_000_000..=3_600_000) => "hour".into(),
        Reply::Int(number @ ..=100) => number.to_string(),
        Reply::Int(_) => "time".into(),
        Reply::Bulk(text) => String::from_utf8_lossy(text).into_owned(),
        Reply::Error(error) => error.code.clone(),
        Reply::Array(items) => {
            let items: Vec<String> = items.iter().map(shown).collect();
            format!("{{{}}}", items.join(" ").trim_end())
        }
    }
}

#[test]
fn a_script_compiles_and_has_one_digest_for_each_text() {
    let mut node = Node::start();
    let mut digests: Vec<String> = Vec::new();
    for script in SCRIPTS {
        assert_eq!(
            node.run(&["SCRIPT", "LOAD", script.text()]),
            script.digest()
        );
        digests.push(script.digest().to_owned());
    }
    digests.sort();
    digests.dedup();
    assert_eq!(digests.len(), SCRIPTS.len());
}

#[test]
fn a_key_that_is_ours_when_it_is_asked_for_again_lives_for_as_long_as_was_asked_for() {
    let mut node = Node::start();
    node.run(&["SET", "a", ONE, "PX", MINUTE]);
    assert_eq!(node.eval(TAKE, &["a"], &[ONE, HOUR, "a"]), "OK");
    assert_eq!(node.run(&["PTTL", "a"]), "hour");
    assert_eq!(node.eval(TAKE, &["a"], &[ONE, MINUTE, "a"]), "OK");
    assert_eq!(node.run(&["PTTL", "a"]), "hour");
    assert_eq!(node.eval(TAKE, &["a"], &[TWO, HOUR, "a"]), "{hour}");
    assert_eq!(node.run(&["GET", "a"]), ONE);
    assert_eq!(node.eval(TAKE, &["b"], &[TWO, HOUR, "a"]), "OK");
    assert_eq!(node.run(&["GET", "b"]), TWO);
}

#[test]
fn several_locks_are_taken_all_or_none_and_given_back_each() {
    let mut node = Node::start();
    let keys = ["a", "b", "c"];
    assert_eq!(node.eval(TAKE, &keys, &[ONE, MINUTE]), "OK");
    for key in keys {
        assert_eq!(node.run(&["GET", key]), ONE);
        assert_eq!(node.run(&["PTTL", key]), "minute");
    }
    assert_eq!(
        node.eval(TAKE, &keys, &[TWO, MINUTE, "a"]),
        "{{minute} 0 0}"
    );
    assert_eq!(
        node.eval(TAKE, &["0", "1", "b"], &[TWO, MINUTE]),
        "{0 0 {minute}}"
    );
    assert_eq!(node.keys(), keys);

    // Again: those that are ours count, and those that are missing are set.
    assert_eq!(node.eval(TAKE, &keys, &[ONE, HOUR]), "{{minute} 0 0}");
    node.run(&["DEL", "b"]);
    assert_eq!(node.eval(TAKE, &keys, &[ONE, HOUR, "a"]), "OK");
    assert_eq!(node.run(&["PTTL", "b"]), "hour");
    assert_eq!(node.eval(TAKE, &keys, &[ONE, MINUTE, "a"]), "OK");
    assert_eq!(node.run(&["PTTL", "a"]), "hour");
    assert_eq!(node.eval(TAKE, &["a", "d"], &[ONE, HOUR]), "{{hour} 0}");

    node.run(&["SET", "b", TWO, "PX", MINUTE]);
    assert_eq!(
        node.eval(KEEP, &keys, &[ONE, HOUR]),
        format!("{{1 {{minute {TWO}}} 1}}")
    );
    assert_eq!(node.run(&["PTTL", "c"]), "hour");
    assert_eq!(
        node.eval(DROP, &["b", "c", "d"], &[ONE, MINUTE]),
        format!("{{{{minute {TWO}}} 1 {{-2}}}}")
    );
    assert_eq!(node.run(&["GET", "c"]), format!("rest:{ONE}"));
    node.run(&["SADD", "a:redlatch:waiting", "1"]);
    node.run(&["HSET", "h", "f", "v"]);
    let bell = ["LLEN", "a:redlatch:bell"];
    let release = (DROP, &["h", "a", "b"][..], &[ONE][..]);
    let expected = format!("{{{{{{-3}} 2 {{minute {TWO}}}}} 1}}");
    assert_eq!(node.at_once(release, &[&bell]), expected);
    node.run(&["DEL", bell[1]]);
    assert_eq!(node.keys(), ["a:redlatch:waiting", "b", "c", "h"]);

    // Where all are ours, whoever waits is woken as well.
    let keys = ["d", "a"];
    assert_eq!(node.eval(TAKE, &keys, &[ONE, HOUR]), "OK");
    let release = (DROP, &keys[..], &[ONE][..]);
    assert_eq!(node.at_once(release, &[&bell]), "{{1 2} 1}");
    assert_eq!(node.eval(TAKE, &["d", "e"], &[ONE, HOUR]), "OK");
    assert_eq!(node.eval(DROP, &["d", "e"], &[ONE]), "{1 1}");
}

#[test]
fn readers_share_a_lock_that_nobody_else_gets() {
    let mut node = Node::start();
    assert_eq!(node.eval(TAKE, &["a"], &[ONE, MINUTE, "r"]), "OK");
    assert_eq!(node.eval(TAKE, &["a"], &[TWO, HOUR, "r"]), "OK");
    assert_eq!(node.run(&["PTTL", "a"]), "hour");

    assert_eq!(node.run(&["SET", "a", "x", "NX", "PX", MINUTE]), "nil");
    for (script, arguments) in [
        (TAKE, &[ONE, MINUTE, "a"][..]),
        (KEEP, &[ONE, MINUTE]),
        (DROP, &[ONE]),
        (DROP, &[ONE, MINUTE]),
    ] {
        assert_eq!(node.eval(script, &["a"], arguments), "{hour 2}");
    }
    let pass = passed(TWO, MINUTE, ONE);
    assert_eq!(node.eval(PASS, &["a"], &pass), "{{hour 2} {hour 2}}");
    assert_eq!(
        node.eval(TAKE, &["0", "a"], &[ONE, MINUTE, "a"]),
        "{0 {hour 2}}"
    );
    assert_eq!(node.eval(SHOW, &["a"], &[]), "{hour 2 minute}");
    assert_eq!(
        node.eval(SHOW, &["a"], &[ONE, "0", "r"]),
        format!("{{minute 40 {ONE}}}")
    );
    assert_eq!(node.eval(SHOW, &["a"], &["other", "0", "r"]), "{-2}");
    assert_eq!(node.eval(LOOK, &["a"], &["0", "0"]), "{1 hour 0}");
    assert_eq!(node.eval(LOOK, &["a"], &["1000", "0", "r"]), "{1 -2 0}");
    assert_eq!(node.keys(), ["a"]);

    assert_eq!(node.eval(KEEP, &["a"], &[ONE, "1", "r"]), "1");
    assert_eq!(node.eval(SHOW, &["a"], &[]), "{hour 2 minute}");
    assert_eq!(node.eval(KEEP, &["a"], &["other", HOUR, "r"]), "{-2}");
    assert_eq!(node.eval(DROP, &["a"], &[TWO, "0", "r"]), "1");
    assert_eq!(node.run(&["PTTL", "a"]), "minute");
    assert_eq!(node.eval(DROP, &["a"], &[TWO, "0", "r"]), "{-2}");
    assert_eq!(node.eval(KEEP, &["a"], &[ONE, HOUR, "r"]), "1");
    assert_eq!(node.run(&["PTTL", "a"]), "hour");
    assert_eq!(node.eval(DROP, &["a"], &[ONE, "0", "r"]), "1");
    assert_eq!(node.keys(), Vec::<String>::new());
}

#[test]
fn a_reader_is_refused_by_a_string_an_intent_and_what_is_no_lock() {
    let mut node = Node::start();
    node.run(&["SET", "a", TWO, "PX", MINUTE]);
    for (script, arguments) in [
        (TAKE, [ONE, MINUTE, "r"]),
        (KEEP, [ONE, MINUTE, "r"]),
        (DROP, [ONE, "0", "r"]),
    ] {
        assert_eq!(
            node.eval(script, &["a"], &arguments),
            format!("{{minute {TWO}}}")
        );
        node.run(&["SET", "b", "x"]);
        assert_eq!(node.eval(script, &["b"], &arguments), "{-1}");
        node.run(&["HSET", "h", "f", "v"]);
        assert_eq!(node.eval(script, &["h"], &arguments), "{-3}");
        // Of a set that lost its time, the value of the last reader.
        node.run(&["ZADD", "z1", "4", TWO, "5", ONE]);
        let lost = format!("{{-1 {ONE}}}");
        for (script, arguments) in [(script, &arguments[..]), (DROP, &[ONE]), (SHOW, &[])] {
            assert_eq!(node.eval(script, &["z1"], arguments), lost);
        }
        // Foreign sets: no value at the end, an end that is no whole ms.
        node.run(&["ZADD", "z2", "1", ONE, "2000000000000", "other"]);
        node.run(&["ZADD", "z3", "1.5", ONE]);
        node.run(&["ZADD", "z4", "inf", ONE]);
        for key in ["z2", "z3", "z4"] {
            node.run(&["PEXPIRE", key, MINUTE]);
        }
        for key in ["z2", "z3", "z4"] {
            let before = node.run(&["ZRANGE", key, "0", "-1", "WITHSCORES"]);
            assert_eq!(node.eval(script, &[key], &arguments), "{-3}", "{key}");
            assert_eq!(node.run(&["ZRANGE", key, "0", "-1", "WITHSCORES"]), before);
            assert_eq!(node.eval(DROP, &[key], &[ONE]), "{-3}");
        }
    }
    assert_eq!(node.eval(SHOW, &["a"], &[ONE, "0", "r"]), "{-2}");
    assert_eq!(node.eval(LOOK, &["a"], &["0", "0", "r"]), "{1 minute 0}");
    assert_eq!(node.eval(LOOK, &["b"], &["0", "0", "r"]), "{1 -1 0}");
    assert_eq!(node.eval(LOOK, &["z1"], &["0", "0", "r"]), "{1 -1 0}");
    assert_eq!(node.eval(LOOK, &["z2"], &["0", "0", "r"]), "{1 minute 0}");
}

#[test]
fn members_whose_time_is_over_don_t_count_and_go_when_a_reader_comes() {
    let mut node = Node::start();
    let dead = "3333333333333333333333333333333333333333";
    node.eval(TAKE, &["a"], &[ONE, HOUR, "r"]);
    node.run(&["ZADD", "a", "1700000000000", dead]);
    assert_eq!(node.eval(DROP, &["a"], &[TWO]), "{hour 1}");
    assert_eq!(node.eval(SHOW, &["a"], &[]), "{hour 1 hour}");
    for (script, arguments) in [
        (DROP, [dead, "0", "r"]),
        (KEEP, [dead, MINUTE, "r"]),
        (SHOW, [dead, "0", "r"]),
    ] {
        assert_eq!(node.eval(script, &["a"], &arguments), "{-2}");
    }
    assert_eq!(node.run(&["ZCARD", "a"]), "2");
    node.eval(TAKE, &["a"], &[TWO, MINUTE, "r"]);
    assert_eq!(
        node.run(&["ZRANGE", "a", "0", "-1"]),
        format!("{{{TWO} {ONE}}}")
    );
    // One that comes again after its time is a new one.
    node.run(&["ZADD", "a", "1700000000000", dead]);
    assert_eq!(node.eval(TAKE, &["a"], &[dead, HOUR, "ra"]), "OK");
    assert_eq!(node.run(&["ZCARD", "a"]), "3");
    // With the last living one the dead ones go.
    node.run(&["ZADD", "a", "1700000000000", dead]);
    node.eval(DROP, &["a"], &[ONE, "0", "r"]);
    assert_eq!(node.eval(DROP, &["a"], &[TWO, "0", "r"]), "1");
    assert_eq!(node.keys(), Vec::<String>::new());
}
