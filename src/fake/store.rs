//! The keys of a fake node, and the few commands that this crate sends.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use self::process::Process;
use crate::node::command::slot_key;
use crate::wire::resp::{self, Reply, ServerError};
use crate::wire::scripts::{
    EXTEND, FIND, INSPECT, INTRODUCE, LOOK, PASS, PROBE, RELEASE, REST, RETAKE, SCAN, SCRIPTS,
};

#[cfg(test)]
mod differential;
mod fenced;
#[cfg(any(test, fuzzing))]
pub(super) mod frame;
pub(crate) mod process;
#[cfg(test)]
mod properties;
mod scan;
#[cfg(test)]
mod scans;

/// How much of a value inspect.lua returns.
const LONGEST_VALUE: usize = 512;

/// Keys with a time to live, on the node's own clock.
#[derive(Clone, Default)]
pub(crate) struct Store {
    keys: HashMap<String, Entry>,
    process: Process,
    /// The digests of the scripts that this process was sent.
    scripts: BTreeSet<&'static str>,
}

#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) value: String,
    pub(crate) until: Duration,
}

impl Store {
    pub(crate) fn of(process: Process) -> Self {
        Self {
            keys: HashMap::new(),
            process,
            scripts: BTreeSet::new(),
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
            ["GET", key] => self.get(key, now).map_or(Reply::Nil, |entry| {
                Reply::Bulk(entry.value.clone().into_bytes())
            }),
            ["SET", key, token, "NX", "PX", ttl] => self.acquire(key, token, ttl, now),
            ["EVAL", script, "1", key, token, ttl] if *script == RETAKE => {
                if self
                    .get(key, now)
                    .is_some_and(|entry| entry.value == *token)
                {
                    Reply::Okay
                } else {
                    self.acquire(key, token, ttl, now)
                }
            }
            ["EVAL", script, "1", key, token, next, ttl] if *script == PASS => {
                self.pass(key, [token, next], ttl, now)
            }
            ["EVAL", script, "1", key, token] if *script == RELEASE => {
                self.release(key, token, now)
            }
            ["EVAL", script, "1", key, token, ttl] if *script == REST => {
                self.rest(key, token, ttl, now)
            }
            ["EVAL", script, "1", key, token, ttl] if *script == EXTEND => {
                match self
                    .own(key, token, now)
                    .and_then(|entry| entry.extend(ttl, now))
                {
                    Ok(()) => Reply::Int(1),
                    Err(why_not) => why_not,
                }
            }
            ["EVAL", script, "1", key] if *script == INSPECT => self.inspect(key, now),
            ["EVAL", script, "1", key, _] if *script == FIND => self.inspect(key, now),
            ["EVAL", script, "0", cursor, pattern, count, longest] if *script == SCAN => {
                self.scan([cursor, pattern, count, longest], now)
            }
            ["EVAL", script, "1", key, _, _] if *script == LOOK => self.look(key, now),
            ["EVAL", script, "1", key, _, _, permits] if *script == LOOK => {
                self.look_at_slots(key, permits, now)
            }
            other => self
                .execute_fenced(other, now)
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
        if self.keys.get(key).is_some_and(|entry| entry.until <= now) {
            self.keys.remove(key);
        }
        self.keys.get_mut(key)
    }

    pub(crate) fn put(&mut self, key: &str, value: &str, until: Duration) {
        let value = value.to_owned();
        self.keys.insert(key.to_owned(), Entry { value, until });
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

    fn release(&mut self, key: &str, token: &str, now: Duration) -> Reply {
        match self.own(key, token, now) {
            Ok(_) => {
                self.keys.remove(key);
                Reply::Int(1)
            }
            Err(why_not) => why_not,
        }
    }

    fn pass(&mut self, key: &str, [token, next]: [&str; 2], ttl: &str, now: Duration) -> Reply {
        let value = self.get(key, now).map(|entry| entry.value.clone());
        let released = match value.as_deref() {
            Some(value) if value != token && value != next => {
                return self.release(key, token, now);
            }
            Some(value) if value == token => Reply::Int(1),
            _ => why_not(-2),
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

    fn inspect(&mut self, key: &str, now: Duration) -> Reply {
        let Some(entry) = self.get(key, now) else {
            return why_not(-2);
        };
        let value = entry.value.as_bytes();
        let beginning = value.get(..LONGEST_VALUE).unwrap_or(value);
        Reply::Array(vec![
            Reply::Int(entry.pttl(now)),
            Reply::Int(i64::try_from(value.len()).unwrap_or(i64::MAX)),
            Reply::Bulk(beginning.to_vec()),
        ])
    }

    /// Announces nothing, because a fake node knows no blocking command: clients ask again after a while.
    fn look(&mut self, key: &str, now: Duration) -> Reply {
        Reply::Array(vec![Reply::Int(self.pttl(key, now)), Reply::Int(0)])
    }

    fn look_at_slots(&mut self, key: &str, permits: &str, now: Duration) -> Reply {
        let slots = 0..permits.parse::<u32>().unwrap_or(0);
        let left: Vec<i64> = slots
            .map(|slot| self.pttl(&slot_key(key, slot), now))
            .collect();
        let free = left.iter().map(|left| if *left == -2 { '1' } else { '0' });
        let free: String = free.collect();
        // A slot that never is free comes last.
        let first = left.iter().min_by_key(|left| (**left == -1, **left));
        Reply::Array(vec![
            Reply::Int(first.copied().unwrap_or(-1)),
            Reply::Int(0),
            Reply::Bulk(free.into_bytes()),
        ])
    }

    fn pttl(&mut self, key: &str, now: Duration) -> i64 {
        self.get(key, now).map_or(-2, |entry| entry.pttl(now))
    }

    /// The entry with this token, or the reply of the scripts if there is none.
    fn own(&mut self, key: &str, token: &str, now: Duration) -> Result<&mut Entry, Reply> {
        match self.get(key, now) {
            Some(entry) if entry.value == token => Ok(entry),
            Some(entry) => Err(entry.why_not(now)),
            None => Err(why_not(-2)),
        }
    }
}

impl Entry {
    /// The end of a key that has none.
    const NEVER: Duration = Duration::MAX;

    fn pttl(&self, now: Duration) -> i64 {
        if self.until == Self::NEVER {
            return -1;
        }
        let left = self.until.saturating_sub(now).as_millis();
        i64::try_from(left).unwrap_or(i64::MAX)
    }

    /// The reply of the scripts about a key that is another's, with its value if that may tell who has it.
    fn why_not(&self, now: Duration) -> Reply {
        let pttl = Reply::Int(self.pttl(now));
        let value = Some(&self.value).filter(|value| (41..274).contains(&value.len()));
        let value = value.map(|value| Reply::Bulk(value.clone().into_bytes()));
        Reply::Array(std::iter::once(pttl).chain(value).collect())
    }

    /// Never shortens, so a ttl of zero or less is accepted and has no effect, as in extend.lua. Unlike the script, this
    /// refuses numbers that Redis does not take for a time to live (`1e3`).
    fn extend(&mut self, ttl: &str, now: Duration) -> Result<(), Reply> {
        let left_ms = self.until.saturating_sub(now).as_millis();
        let is_longer = |ttl_ms: i64| u128::try_from(ttl_ms).is_ok_and(|ttl_ms| left_ms < ttl_ms);
        if integer(ttl).is_none_or(is_longer) {
            self.until = until(ttl, now, "pexpire")?;
        }
        Ok(())
    }
}

fn why_not(pttl: i64) -> Reply {
    Reply::Array(vec![Reply::Int(pttl)])
}

fn error(message: &str) -> Reply {
    refusal(&format!("ERR {message}"))
}

fn refusal(text: &str) -> Reply {
    Reply::Error(ServerError::new(text))
}

/// The end of a key with this time to live, or the error of Redis for the number. The end in milliseconds has to fit an
/// `i64`, as in Redis.
fn until(ttl: &str, now: Duration, command: &str) -> Result<Duration, Reply> {
    let Some(ttl_ms) = integer(ttl) else {
        return Err(error("value is not an integer or out of range"));
    };
    let now_ms = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
    match u64::try_from(ttl_ms) {
        Ok(ttl @ 1..) if now_ms.checked_add(ttl_ms).is_some() => {
            Ok(now.saturating_add(Duration::from_millis(ttl)))
        }
        _ => Err(error(&format!(
            "invalid expire time in '{command}' command"
        ))),
    }
}

/// A number as Redis reads it: without a plus, a space, or a zero that could be left out.
fn integer(text: &str) -> Option<i64> {
    let number: i64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

/// Reads a packed command: an array of bulk strings in canonical form, and nothing behind it. Strings that are not UTF-8
/// are refused: this crate sends them only to release a key of another program, and here such keys hold text.
fn arguments(command: &[u8]) -> Option<Vec<&str>> {
    let words = resp::words(command)?.into_iter();
    words.map(|word| str::from_utf8(word).ok()).collect()
}
