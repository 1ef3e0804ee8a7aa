//! What the crate sends, as the simulation understands it.

use crate::wire::resp;
use crate::wire::scripts::{DROP, INTRODUCE, KEEP, LOOK, OPEN, PASS, PROBE, SCRIPTS, SHOW, TAKE};

/// A command on its way.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) bytes: Vec<u8>,
    pub(crate) verb: Verb,
    pub(crate) keys: Vec<String>,
    pub(crate) token: String,
    /// The token of the lock that a pass gives back.
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
    /// A look of a client that waits.
    Look,
    /// Waits until a bell rings.
    Listen,
    /// A question about the server, or about its marker.
    Ask,
    Probe,
}

/// The token of a value, which may have a label behind it.
pub(crate) fn token_of(value: &str) -> &str {
    value.split_once(' ').map_or(value, |(token, _)| token)
}

impl Message {
    /// The token of the lock that the node is told to release, if it is one of these commands.
    pub(crate) fn releases(&self) -> Option<&String> {
        if matches!(self.verb, Verb::Release | Verb::Rest) {
            return Some(&self.token);
        }
        self.released.as_ref()
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
        let message = match words.as_slice() {
            ["EVAL", script, count, rest @ ..] => {
                let (keys, arguments) = rest.split_at(count.parse().unwrap());
                Self::by_script(script, keys, arguments)
            }
            ["SET", key, token, "NX", "PX", ttl] => Self::new(Verb::Set, &[key], &[token, ttl]),
            ["BLPOP", bell, _] => Self::new(Verb::Listen, &[bell], &[]),
            ["INFO", _] | ["TIME"] => Self::new(Verb::Ask, &[], &[]),
            ["GET", key] => Self::new(Verb::Ask, &[key], &[]),
            other => panic!("an unknown command: {other:?}"),
        };
        Self {
            bytes: bytes.to_vec(),
            ..message
        }
    }

    /// The arguments are a value, and a time to live behind it, as far as the command has them.
    fn new(verb: Verb, keys: &[&str], arguments: &[&str]) -> Self {
        let argument = |place| arguments.get(place).copied().unwrap_or("");
        Self {
            bytes: Vec::new(),
            verb,
            keys: keys.iter().map(|key| (*key).to_owned()).collect(),
            token: token_of(argument(0)).to_owned(),
            released: None,
            ttl: argument(1).to_owned(),
        }
    }

    fn by_script(script: &str, keys: &[&str], arguments: &[&str]) -> Self {
        let argument = |place| arguments.get(place).copied().unwrap_or("");
        let (span, how) = (argument(1), argument(2));
        match script {
            PROBE | OPEN => Self::new(Verb::Probe, &[], &[]),
            INTRODUCE => Self::new(Verb::Ask, keys, &[]),
            SHOW => Self::new(Verb::Inspect, keys, &[]),
            LOOK => Self::new(Verb::Look, keys, &[]),
            TAKE if how.contains('a') => Self::new(Verb::Retake, keys, arguments),
            TAKE => Self::new(Verb::Set, keys, arguments),
            KEEP => Self::new(Verb::Extend, keys, arguments),
            // A reader has no minimum.
            DROP if matches!(span, "" | "0") || how.contains('r') => {
                Self::new(Verb::Release, keys, &arguments[..1])
            }
            DROP => Self::new(Verb::Rest, keys, arguments),
            PASS => Self {
                released: Some(token_of(arguments[8]).to_owned()),
                ..Self::new(Verb::Pass, keys, arguments)
            },
            other => panic!("an unknown script: {other}"),
        }
    }
}
