//! What the crate sends, as the simulation understands it.

use crate::wire::resp;

use crate::wire::scripts::fenced;
use crate::wire::scripts::{
    EXTEND, INSPECT, INTRODUCE, LOOK, PASS, PROBE, RELEASE, REST, RETAKE, SCRIPTS,
};

/// A command on its way.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) bytes: Vec<u8>,
    pub(crate) verb: Verb,
    pub(crate) keys: Vec<String>,
    pub(crate) token: String,
    /// Of the lock that is given back with it, if it is a pass.
    pub(crate) released: Option<String>,
    pub(crate) ttl: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Set,
    Retake,
    Extend,
    Release,
    /// A release of a lock that has to rest.
    Rest,
    /// A release, and the acquire of the next thread.
    Pass,
    Inspect,
    /// A look of one who waits.
    Look,
    /// A question about the server, or about its marker.
    Ask,
    Probe,
}

/// The token of a value, which may have a label behind it.
pub(crate) fn token_of(value: &str) -> &str {
    value.split_once(' ').map_or(value, |(token, _)| token)
}

/// The only key of a command, if it has one.
fn keys_of(key: &str) -> Vec<String> {
    let key = Some(key).filter(|key| !key.is_empty());
    key.map(str::to_owned).into_iter().collect()
}

impl Verb {
    /// The name of a command that is counted.
    pub(crate) fn counted_as(self) -> Option<&'static str> {
        let counted = [(Self::Retake, "SET repeated"), (Self::Probe, "probe")];
        let mut counted = counted.into_iter();
        counted
            .find(|(verb, _)| *verb == self)
            .map(|(_, what)| what)
    }
}

impl Message {
    /// The token of the lock that the node is told to release, if it is one of these commands.
    pub(crate) fn releases(&self) -> Option<&String> {
        match self.verb {
            Verb::Release | Verb::Rest => Some(&self.token),
            Verb::Set
            | Verb::Retake
            | Verb::Extend
            | Verb::Pass
            | Verb::Inspect
            | Verb::Look
            | Verb::Ask
            | Verb::Probe => self.released.as_ref(),
        }
    }

    /// Whether it asks for a lock.
    pub(crate) fn asks(&self) -> bool {
        matches!(self.verb, Verb::Set | Verb::Retake | Verb::Pass)
    }

    pub(crate) fn read(bytes: &[u8]) -> Self {
        let Some(words) = resp::words(bytes) else {
            panic!("not a command: {}", String::from_utf8_lossy(bytes));
        };
        let words = words.into_iter().map(std::str::from_utf8);
        let mut words: Vec<&str> = words.collect::<Result<_, _>>().unwrap();
        if let [name @ "EVALSHA", digest, ..] = words.as_mut_slice() {
            let script = SCRIPTS.iter().find(|script| script.digest() == *digest);
            (*name, *digest) = ("EVAL", script.unwrap().text());
        }
        if let Some(pass) = Self::pass(bytes, &words) {
            return pass;
        }
        let (verb, key, token, ttl) = match words.as_slice() {
            ["EVAL", PROBE, "0"] => (Verb::Probe, "", "", ""),
            ["EVAL", INTRODUCE, "0"] | ["INFO", _] | ["TIME"] => (Verb::Ask, "", "", ""),
            ["GET", key] => (Verb::Ask, *key, "", ""),
            ["SET", key, token, "NX", "PX", ttl] => (Verb::Set, *key, *token, *ttl),
            [
                "EVAL",
                fenced::ACQUIRE,
                "3",
                key,
                _,
                _,
                value,
                ttl,
                rest @ ..,
            ] => {
                let is_again = rest.get(4) == Some(&"1");
                let verb = if is_again { Verb::Retake } else { Verb::Set };
                (verb, *key, *value, *ttl)
            }
            ["EVAL", fenced::EXTEND, "3", key, _, _, value, ttl, ..] => {
                (Verb::Extend, *key, *value, *ttl)
            }
            ["EVAL", fenced::RELEASE, "2", key, _, value, ..] => (Verb::Release, *key, *value, ""),
            ["EVAL", fenced::REST, "2", key, _, value, .., ttl] => (Verb::Rest, *key, *value, *ttl),
            ["EVAL", INSPECT, "1", key] => (Verb::Inspect, *key, "", ""),
            ["EVAL", LOOK, "1", key, _, _, ..] => (Verb::Look, *key, "", ""),
            ["EVAL", script, "1", key, token, rest @ ..] => {
                let verb = match *script {
                    RETAKE => Verb::Retake,
                    EXTEND => Verb::Extend,
                    RELEASE => Verb::Release,
                    REST => Verb::Rest,
                    other => panic!("an unknown script: {other}"),
                };
                (verb, *key, *token, rest.first().copied().unwrap_or(""))
            }
            other => panic!("an unknown command: {other:?}"),
        };
        Self {
            bytes: bytes.to_vec(),
            verb,
            keys: keys_of(key),
            token: token_of(token).to_owned(),
            released: None,
            ttl: ttl.to_owned(),
        }
    }

    fn pass(bytes: &[u8], words: &[&str]) -> Option<Self> {
        let (["EVAL", PASS, "1", key, old, new, ttl]
        | [
            "EVAL",
            fenced::PASS,
            "3",
            key,
            _,
            _,
            old,
            _,
            _,
            _,
            new,
            ttl,
            ..,
        ]) = words
        else {
            return None;
        };
        Some(Self {
            bytes: bytes.to_vec(),
            verb: Verb::Pass,
            keys: keys_of(key),
            token: token_of(new).to_owned(),
            released: Some(token_of(old).to_owned()),
            ttl: (*ttl).to_owned(),
        })
    }
}
