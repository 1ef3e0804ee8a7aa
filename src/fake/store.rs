//! The keys of a fake node, and the few commands that this crate sends.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use self::bell::Release;
pub(crate) use self::entry::{Content, Entry};
use self::entry::{error, refusal, until, why_not, wrong_type};
use self::looks::waiting;
use self::process::Process;
use crate::wire::resp::{self, Reply};
use crate::wire::scripts::{
    EXTEND, INSPECT, INTRODUCE, LOOK, PASS, PROBE, RELEASE, REST, RETAKE, SCAN, SCRIPTS,
};

mod bell;
#[cfg(test)]
pub(crate) mod differential;
mod entry;
mod fenced;
#[cfg(any(test, fuzzing))]
pub(super) mod frame;
mod looks;
pub(crate) mod process;
#[cfg(test)]
mod properties;
mod readers;
mod scan;
mod several;

/// How much of a value inspect.lua returns.
const LONGEST_VALUE: usize = 512;

/// Keys with a time to live, on the node's own clock.
#[derive(Clone, Default)]
pub(crate) struct Store {
    keys: HashMap<String, Entry>,
    process: Process,
    /// The digests of the scripts that this process was sent.
    scripts: BTreeSet<&'static str>,
    /// Whether a bell has rung, so that those who listen have to be looked for.
    has_rung: bool,
}

impl Store {
    pub(crate) fn of(process: Process) -> Self {
        Self {
            keys: HashMap::new(),
            process,
            scripts: BTreeSet::new(),
            has_rung: false,
        }
    }

    /// Begins another life of the process; the keys stay.
    pub(crate) fn restart(&mut self, now: Duration) {
        self.process.restart(now);
        self.scripts.clear();
    }

    /// Takes the keys of an earlier moment.
    #[cfg(test)]
    pub(crate) fn go_back(&mut self, earlier: Self) {
        self.keys = earlier.keys;
    }

    /// Which process has the keys.
    #[cfg(test)]
    pub(crate) fn run_id(&self) -> String {
        self.process.run_id()
    }

    pub(crate) fn forget(&mut self) {
        self.keys.clear();
    }

    /// As `SCRIPT FLUSH`.
    #[cfg(test)]
    pub(crate) fn forget_scripts(&mut self) {
        self.scripts.clear();
    }

    /// Executes one packed command. Replies with an error to what Redis does not accept or this crate never sends.
    pub(crate) fn execute(&mut self, command: &[u8], now: Duration) -> Reply {
        let Some(arguments) = arguments(command) else {
            return error("Protocol error: expected an array of bulk strings");
        };
        let arguments = match self.with_text(arguments) {
            Ok(arguments) => arguments,
            Err(refusal) => return refusal,
        };
        match arguments.as_slice() {
            ["EVAL", script, "0"] if *script == PROBE => Reply::Int(1),
            ["TIME"] => self.process.time(now),
            ["EVAL", script, "0"] if *script == INTRODUCE => {
                Reply::Bulk(self.process.run_id().into_bytes())
            }
            ["INFO", section] => self.process.info(section, now),
            ["GET", key] => match self.get(key, now).map(|entry| &entry.content) {
                None => Reply::Nil,
                Some(Content::Text(text)) => Reply::Bulk(text.clone().into_bytes()),
                Some(_) => wrong_type(),
            },
            ["SET", key, token, "NX", "PX", ttl] => self.acquire(key, token, ttl, now),
            ["EVAL", script, "1", key, token, ttl] if *script == RETAKE => {
                match self.own(key, token, now) {
                    Ok(entry) => entry
                        .extend(ttl, now)
                        .map_or_else(|error| error, |()| Reply::Okay),
                    Err(_) => self.acquire(key, token, ttl, now),
                }
            }
            ["EVAL", script, "1", key, token, next, ttl] if *script == PASS => {
                self.pass(key, [token, next], ttl, now)
            }
            ["EVAL", script, "1", key, token, undo @ ..] if *script == RELEASE => {
                self.release((key, token), Release::of(undo), now)
            }
            ["EVAL", script, "1", key, token, ttl] if *script == REST => {
                self.rest(key, token, ttl, now)
            }
            ["EVAL", script, "1", key, token, ttl] if *script == EXTEND => {
                self.extend(key, token, ttl, now)
            }
            ["EVAL", script, "1", key] if *script == INSPECT => self.inspect(key, now),
            ["EVAL", script, "0", cursor, pattern, count, longest] if *script == SCAN => {
                self.scan([cursor, pattern, count, longest], now)
            }
            ["EVAL", script, "1", key, announced, when_free] if *script == LOOK => {
                self.look(key, (announced, when_free), now)
            }
            ["EVAL", script, "1", key, announced, when_free, permits] if *script == LOOK => {
                self.look_at_slots(key, (announced, when_free, permits), now)
            }
            other => self
                .execute_for_readers(other, now)
                .or_else(|| self.execute_for_several(other, now))
                .or_else(|| self.execute_fenced(other, now))
                .unwrap_or_else(|| error("a command that a fake node does not know")),
        }
    }

    /// A command with the text of its script, which the server learns from those that have it.
    fn with_text<'a>(&mut self, mut arguments: Vec<&'a str>) -> Result<Vec<&'a str>, Reply> {
        match arguments.as_mut_slice() {
            ["EVAL", text, ..] => {
                let script = SCRIPTS.iter().find(|script| script.text() == *text);
                self.scripts.extend(script.map(|script| script.digest()));
            }
            [name @ "EVALSHA", digest, ..] => {
                let script = SCRIPTS.iter().find(|script| script.digest() == *digest);
                let script = script.filter(|script| self.scripts.contains(script.digest()));
                let Some(script) = script else {
                    return Err(refusal("NOSCRIPT No matching script. Please use EVAL."));
                };
                (*name, *digest) = ("EVAL", script.text());
            }
            _ => (),
        }
        Ok(arguments)
    }

    pub(crate) fn get(&mut self, key: &str, now: Duration) -> Option<&mut Entry> {
        self.sweep(key, now);
        self.keys.get_mut(key)
    }

    pub(crate) fn put(&mut self, key: &str, value: &str, until: Duration) {
        let content = Content::Text(value.to_owned());
        self.keys.insert(key.to_owned(), Entry { content, until });
    }

    pub(crate) fn value(&mut self, key: &str, now: Duration) -> Option<String> {
        let text = self.get(key, now)?.text();
        text.map(str::to_owned)
    }

    fn acquire(&mut self, key: &str, token: &str, ttl: &str, now: Duration) -> Reply {
        // Redis checks the number before the key.
        let until = match until(ttl, now, "set") {
            Ok(until) => until,
            Err(refusal) => return refusal,
        };
        if self.get(key, now).is_some() {
            return Reply::Nil;
        }
        self.put(key, token, until);
        Reply::Okay
    }

    fn release(&mut self, (key, token): (&str, &str), how: Release, now: Duration) -> Reply {
        match self.own(key, token, now) {
            Ok(_) => self.give_back(key, how, now),
            Err(why_not) => why_not,
        }
    }

    fn extend(&mut self, key: &str, token: &str, ttl: &str, now: Duration) -> Reply {
        let own = self.own(key, token, now);
        match own.and_then(|entry| entry.extend(ttl, now)) {
            Ok(()) => Reply::Int(1),
            Err(why_not) => why_not,
        }
    }

    fn pass(&mut self, key: &str, [token, next]: [&str; 2], ttl: &str, now: Duration) -> Reply {
        let is_free = self.get(key, now).is_none();
        let value = self.value(key, now);
        let released = match value.as_deref() {
            Some(value) if value == token => {
                // Nobody is woken where nobody waits, so the key stays until it is set.
                if self.get(&waiting(key), now).is_some()
                    && self.give_back(key, Release::OfALock, now) == Reply::Int(2)
                {
                    return Reply::Int(2);
                }
                Reply::Int(1)
            }
            Some(value) if value == next => why_not(-2),
            None if is_free => why_not(-2),
            _ => return self.refusal(key, now),
        };
        match until(ttl, now, "set") {
            Ok(until) => {
                self.put(key, next, until);
                Reply::Array(vec![released, Reply::Okay])
            }
            Err(refusal) if released == Reply::Int(1) => {
                self.keys.remove(key);
                Reply::Array(vec![released, refusal])
            }
            Err(refusal) => refusal,
        }
    }

    fn rest(&mut self, key: &str, token: &str, ttl: &str, now: Duration) -> Reply {
        let is_own = self.own(key, token, now).map(|_| ());
        match is_own.and_then(|()| until(ttl, now, "pexpire")) {
            Ok(until) => {
                self.put(key, &format!("rest:{token}"), until);
                Reply::Int(1)
            }
            Err(why_not) => why_not,
        }
    }

    fn pttl(&mut self, key: &str, now: Duration) -> i64 {
        self.get(key, now).map_or(-2, |entry| entry.pttl(now))
    }

    /// The entry with this token, or the reply of the scripts if there is none.
    fn own(&mut self, key: &str, token: &str, now: Duration) -> Result<&mut Entry, Reply> {
        let entry = self.get(key, now);
        if entry.is_none_or(|entry| entry.text() != Some(token)) {
            return Err(self.refusal(key, now));
        }
        self.get(key, now).ok_or_else(|| why_not(-2))
    }
}

/// Reads a packed command: an array of bulk strings in canonical form, and nothing behind it. Strings that are not UTF-8
/// are refused: this crate sends them only to release a key of another program, and here such keys hold text.
fn arguments(command: &[u8]) -> Option<Vec<&str>> {
    let words = resp::words(command)?.into_iter();
    words.map(|word| str::from_utf8(word).ok()).collect()
}
