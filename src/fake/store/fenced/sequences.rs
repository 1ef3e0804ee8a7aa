//! Random sequences of what clients of the fenced protocol send, and of what others leave under their keys.

#![expect(
    clippy::arithmetic_side_effects,
    reason = "a test that overflows fails, as it should"
)]

use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::{ACQUIRE, EXTEND, OPEN, PASS, READ, RELEASE, REST};
use crate::wire::scripts::fenced::{ACQUIRE_ALL, EXTEND_ALL, RELEASE_ALL, REST_ALL};
use crate::wire::scripts::{REREAD, UNREAD};

pub(super) const KEYS: [&str; 5] = ["a", "a:fence", "b", "b:fence", "m"];
/// A value that is told to those who meet it.
const LABELLED: &str = "00112233445566778899aabbccddeeff00112233 web-3 since=2026-11-22T05:52:53Z";
/// The values of readers.
const READERS: [&str; 2] = [LABELLED, "00112233445566778899aabbccddeeff00112234"];
pub(super) const MINUTE_MICROS: i64 = 60_000_000;

/// Words in which a number of minutes stands for a token that is as far from the beginning.
#[derive(Debug, Clone)]
pub(super) enum Word {
    Text(&'static str),
    Token(i64),
    Tombstone(i64),
    /// A marker of the process that executes the command, with this behind its run id.
    OwnMarker(&'static str),
}

impl Word {
    pub(super) fn text(&self, base: i64, run_id: &str) -> String {
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
pub(super) fn step() -> impl Strategy<Value = Vec<Word>> {
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
    let all = (
        option::of(prop::bool::ANY),
        one(&["v1", "v2"]),
        (ttl(), token(), quarantine(), idle()),
        (config(), one(&["0", "1"]), reserve()),
        select(vec![
            ACQUIRE_ALL,
            ACQUIRE_ALL,
            EXTEND_ALL,
            RELEASE_ALL,
            RELEASE_ALL,
            REST_ALL,
        ]),
    );
    let all = all.prop_map(
        |(only, value, (ttl, token, quarantine, idle), (config, again, reserve), script)| {
            let keys: &[&str] = match only {
                None => &["a", "a:fence", "b", "b:fence"],
                Some(true) => &["a", "a:fence"],
                Some(false) => &["b", "b:fence"],
            };
            let has_marker = [ACQUIRE_ALL, EXTEND_ALL].contains(&script);
            let count = match (keys.len(), has_marker) {
                (4, true) => "5",
                (4, false) => "4",
                (_, true) => "3",
                (_, false) => "2",
            };
            let head = ["EVAL", script, count].map(Text).into_iter();
            let keys = keys.iter().map(|key| Text(key));
            let marker = has_marker.then_some(Text("m"));
            let rest = match script {
                ACQUIRE_ALL => {
                    let token = Token(token);
                    vec![value, ttl, token, quarantine, idle, config, again, reserve]
                }
                EXTEND_ALL => vec![value, ttl, Token(token), idle],
                RELEASE_ALL => vec![value, Tombstone(token), quarantine, idle],
                _ => vec![value, Tombstone(token), quarantine, idle, ttl],
            };
            head.chain(keys).chain(marker).chain(rest).collect()
        },
    );
    let reader = || one(&READERS);
    let read = (
        lock(),
        reader(),
        ttl(),
        one(&["0", "1"]),
        quarantine(),
        config(),
    );
    let read = read.prop_map(|(lock, value, ttl, again, quarantine, config)| {
        let head = ["EVAL", READ, "3", lock.0, lock.1, "m"].map(Text);
        [&head[..], &[value, ttl, again, quarantine, config]].concat()
    });
    let reader = (lock(), reader(), option::of(ttl()));
    let reader = reader.prop_map(|(lock, value, ttl)| {
        let script = if ttl.is_some() { REREAD } else { UNREAD };
        let head = ["EVAL", script, "1", lock.0].map(Text);
        head.into_iter().chain([value]).chain(ttl).collect()
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
    prop_oneof![6 => acquire, 2 => marker, 3 => extend, 4 => release, 3 => pass, 3 => open, 1 => garbage, 2 => counter, 5 => all, 5 => read, 4 => reader]
}
