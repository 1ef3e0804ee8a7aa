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
        let opened = self.eval(fenced::OPEN, &["m"], &["open", HOUR, "c"]);
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
            format!("{{{}}}", items.join(" "))
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
    assert_eq!(node.eval(RETAKE, &["a"], &[ONE, HOUR]), "OK");
    assert_eq!(node.run(&["PTTL", "a"]), "hour");
    assert_eq!(node.eval(RETAKE, &["a"], &[ONE, MINUTE]), "OK");
    assert_eq!(node.run(&["PTTL", "a"]), "hour");
    assert_eq!(node.eval(RETAKE, &["a"], &[TWO, HOUR]), "nil");
}

#[test]
fn several_locks_are_taken_all_or_none_and_given_back_each() {
    let mut node = Node::start();
    let keys = ["a", "b", "c"];
    assert_eq!(node.eval(ACQUIRE_ALL, &keys, &[ONE, MINUTE, "0"]), "OK");
    for key in keys {
        assert_eq!(node.run(&["GET", key]), ONE);
        assert_eq!(node.run(&["PTTL", key]), "minute");
    }
    assert_eq!(
        node.eval(ACQUIRE_ALL, &keys, &[TWO, MINUTE, "1"]),
        "{1 {minute}}"
    );
    assert_eq!(
        node.eval(ACQUIRE_ALL, &["0", "1", "b"], &[TWO, MINUTE, "0"]),
        "{3 {minute}}"
    );
    assert_eq!(node.keys(), keys);

    // Again: those that are ours count, and those that are missing are set.
    assert_eq!(
        node.eval(ACQUIRE_ALL, &keys, &[ONE, HOUR, "0"]),
        "{1 {minute}}"
    );
    node.run(&["DEL", "b"]);
    assert_eq!(node.eval(ACQUIRE_ALL, &keys, &[ONE, HOUR, "1"]), "OK");
    assert_eq!(node.run(&["PTTL", "b"]), "hour");
    assert_eq!(node.eval(ACQUIRE_ALL, &keys, &[ONE, MINUTE, "1"]), "OK");
    assert_eq!(node.run(&["PTTL", "a"]), "hour");
    assert_eq!(
        node.eval(ACQUIRE_ALL, &["a", "d"], &[ONE, HOUR, "0"]),
        "{1 {hour}}"
    );

    node.run(&["SET", "b", TWO, "PX", MINUTE]);
    assert_eq!(
        node.eval(EXTEND_ALL, &keys, &[ONE, HOUR]),
        format!("{{1 {{minute {TWO}}} 1}}")
    );
    assert_eq!(node.run(&["PTTL", "c"]), "hour");
    assert_eq!(
        node.eval(REST_ALL, &["b", "c", "d"], &[ONE, MINUTE]),
        format!("{{{{minute {TWO}}} 1 {{-2}}}}")
    );
    assert_eq!(node.run(&["GET", "c"]), format!("rest:{ONE}"));
    node.run(&["SADD", "a:redlatch:waiting", "1"]);
    node.run(&["HSET", "h", "f", "v"]);
    let bell = ["LLEN", "a:redlatch:bell"];
    let release = (RELEASE_ALL, &["h", "a", "b"][..], &[ONE][..]);
    let expected = format!("{{{{{{-3}} 2 {{minute {TWO}}}}} 1}}");
    assert_eq!(node.at_once(release, &[&bell]), expected);
    node.run(&["DEL", bell[1]]);
    assert_eq!(node.keys(), ["a:redlatch:waiting", "b", "c", "h"]);

    // Where all are ours, whoever waits is woken as well.
    let keys = ["d", "a"];
    assert_eq!(node.eval(ACQUIRE_ALL, &keys, &[ONE, HOUR, "0"]), "OK");
    let release = (RELEASE_ALL, &keys[..], &[ONE][..]);
    assert_eq!(node.at_once(release, &[&bell]), "{{1 2} 1}");
    assert_eq!(node.eval(ACQUIRE_ALL, &["d", "e"], &[ONE, HOUR, "0"]), "OK");
    assert_eq!(node.eval(RELEASE_ALL, &["d", "e"], &[ONE]), "{1 1}");
}

#[test]
fn readers_share_a_lock_that_nobody_else_gets() {
    let mut node = Node::start();
    assert_eq!(node.eval(READ, &["a"], &[ONE, MINUTE, "0"]), "OK");
    assert_eq!(node.eval(READ, &["a"], &[TWO, HOUR, "0"]), "OK");
    assert_eq!(node.run(&["PTTL", "a"]), "hour");

    assert_eq!(node.run(&["SET", "a", "x", "NX", "PX", MINUTE]), "nil");
    for script in [RELEASE, EXTEND, REST] {
        let arguments = [ONE, MINUTE];
        let count = if script == RELEASE { 1 } else { 2 };
        assert_eq!(node.eval(script, &["a"], &arguments[..count]), "{hour 2}");
    }
    assert_eq!(node.eval(PASS, &["a"], &[ONE, TWO, MINUTE]), "{hour 2}");
    assert_eq!(
        node.eval(ACQUIRE_ALL, &["0", "a"], &[ONE, MINUTE, "1"]),
        "{2 {hour 2}}"
    );
    assert_eq!(node.eval(INSPECT, &["a"], &[]), "{hour 2 minute}");
    assert_eq!(
        node.eval(INSPECT_READ, &["a"], &[ONE]),
        format!("{{minute 40 {ONE}}}")
    );
    assert_eq!(node.eval(INSPECT_READ, &["a"], &["other"]), "{-2}");
    assert_eq!(node.eval(LOOK, &["a"], &["0", "0"]), "{hour 0}");
    assert_eq!(node.eval(LOOK_READ, &["a"], &["1000", "0"]), "{-2 0}");
    assert_eq!(node.keys(), ["a"]);

    assert_eq!(node.eval(REREAD, &["a"], &[ONE, "1"]), "1");
    assert_eq!(node.eval(INSPECT, &["a"], &[]), "{hour 2 minute}");
    assert_eq!(node.eval(REREAD, &["a"], &["other", HOUR]), "{-2}");
    assert_eq!(node.eval(UNREAD, &["a"], &[TWO]), "1");
    assert_eq!(node.run(&["PTTL", "a"]), "minute");
    assert_eq!(node.eval(UNREAD, &["a"], &[TWO]), "{-2}");
    assert_eq!(node.eval(REREAD, &["a"], &[ONE, HOUR]), "1");
    assert_eq!(node.run(&["PTTL", "a"]), "hour");
    assert_eq!(node.eval(UNREAD, &["a"], &[ONE]), "1");
    assert_eq!(node.keys(), Vec::<String>::new());
}

#[test]
fn a_reader_is_refused_by_a_string_an_intent_and_what_is_no_lock() {
    let mut node = Node::start();
    node.run(&["SET", "a", TWO, "PX", MINUTE]);
    for (script, rest) in [
        (READ, &[MINUTE, "0"][..]),
        (REREAD, &[MINUTE]),
        (UNREAD, &[]),
    ] {
        let arguments = [&[ONE], rest].concat();
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
        for script in [script, RELEASE, INSPECT] {
            let arguments = match script {
                RELEASE => &[ONE][..],
                INSPECT => &[],
                _ => &arguments,
            };
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
            assert_eq!(node.eval(RELEASE, &[key], &[ONE]), "{-3}");
        }
    }
    assert_eq!(node.eval(INSPECT_READ, &["a"], &[ONE]), "{-2}");
    assert_eq!(node.eval(LOOK_READ, &["a"], &["0", "0"]), "{minute 0}");
    assert_eq!(node.eval(LOOK_READ, &["b"], &["0", "0"]), "{-1 0}");
    assert_eq!(node.eval(LOOK_READ, &["z1"], &["0", "0"]), "{-1 0}");
    assert_eq!(node.eval(LOOK_READ, &["z2"], &["0", "0"]), "{minute 0}");
}

#[test]
fn members_whose_time_is_over_don_t_count_and_go_when_a_reader_comes() {
    let mut node = Node::start();
    let dead = "3333333333333333333333333333333333333333";
    node.eval(READ, &["a"], &[ONE, HOUR, "0"]);
    node.run(&["ZADD", "a", "1700000000000", dead]);
    assert_eq!(node.eval(RELEASE, &["a"], &[TWO]), "{hour 1}");
    assert_eq!(node.eval(INSPECT, &["a"], &[]), "{hour 1 hour}");
    for (script, arguments) in [
        (UNREAD, &[dead][..]),
        (REREAD, &[dead, MINUTE]),
        (INSPECT_READ, &[dead]),
    ] {
        assert_eq!(node.eval(script, &["a"], arguments), "{-2}");
    }
    assert_eq!(node.run(&["ZCARD", "a"]), "2");
    node.eval(READ, &["a"], &[TWO, MINUTE, "0"]);
    assert_eq!(
        node.run(&["ZRANGE", "a", "0", "-1"]),
        format!("{{{TWO} {ONE}}}")
    );
    // One that comes again after its time is a new one.
    node.run(&["ZADD", "a", "1700000000000", dead]);
    assert_eq!(node.eval(READ, &["a"], &[dead, HOUR, "1"]), "OK");
    assert_eq!(node.run(&["ZCARD", "a"]), "3");
    // With the last living one the dead ones go.
    node.run(&["ZADD", "a", "1700000000000", dead]);
    node.eval(UNREAD, &["a"], &[ONE]);
    assert_eq!(node.eval(UNREAD, &["a"], &[TWO]), "1");
    assert_eq!(node.keys(), Vec::<String>::new());
}
