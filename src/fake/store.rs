//! The keys of a fake node. It executes commands, and the very scripts that servers execute.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

pub(crate) use self::entry::{Content, Entry};
use self::entry::{bulk, error, integer, refusal, wrong_type};
use self::interpreter::Call;
use self::process::Process;
use crate::wire::resp::{self, Reply};
use crate::wire::scripts::{BY_TEXT, SCRIPTS};

#[cfg(test)]
mod bounds;
mod commands;
#[cfg(test)]
mod differential;
mod entry;
mod interpreter;
pub(crate) mod process;
#[cfg(test)]
mod tests;

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
            process,
            ..Self::default()
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

    /// Executes one packed command.
    pub(crate) fn execute(&mut self, command: &[u8], now: Duration) -> Reply {
        let Some(words) = arguments(command) else {
            return error("Protocol error: expected an array of bulk strings");
        };
        match words.as_slice() {
            ["EVAL", text, number, rest @ ..] => {
                let mut by_digest = SCRIPTS.iter().filter(|script| script.text() == *text);
                let by_digest = by_digest.next();
                self.scripts.extend(by_digest.map(|script| script.digest()));
                let mut by_text = BY_TEXT.into_iter().filter(|script| script == text);
                let script = by_digest.map(|script| script.text());
                match script.or_else(|| by_text.next()) {
                    Some(script) => self.evaluate(script, number, rest, now),
                    None => error("a fake node executes the scripts of this crate alone"),
                }
            }
            ["EVALSHA", digest, number, rest @ ..] => {
                let mut known = SCRIPTS.iter().filter(|_| self.scripts.contains(digest));
                match known.find(|script| script.digest() == *digest) {
                    Some(script) => self.evaluate(script.text(), number, rest, now),
                    None => refusal("NOSCRIPT No matching script. Please use EVAL."),
                }
            }
            words => self.command(words, now),
        }
    }

    fn evaluate(
        &mut self,
        script: &'static str,
        number: &str,
        rest: &[&str],
        now: Duration,
    ) -> Reply {
        let number = match integer(number) {
            Ok(number) => usize::try_from(number).ok(),
            Err(refusal) => return refusal,
        };
        let Some((keys, arguments)) = number.and_then(|number| rest.split_at_checked(number))
        else {
            return error("Number of keys can't be greater than number of args");
        };
        let call = Call {
            script,
            keys,
            arguments,
        };
        call.execute(self, now)
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

    /// The readers of a lock that have not ended, and when the last ms of each begins, on the node's own clock: in that ms, the
    /// end of another reader may delete the key. None if it is not read.
    #[cfg(test)]
    pub(crate) fn readers(
        &mut self,
        lock: &str,
        now: Duration,
    ) -> Option<impl Iterator<Item = (&str, Duration)>> {
        let now_ms = self.wall_ms(now);
        self.get(lock, now)?;
        let Content::Sorted(readers) = &self.keys.get(lock)?.content else {
            return None;
        };
        let readers = readers.0.iter().filter(move |(_, end)| **end > now_ms);
        let last_ms = |end: i64| self.process.after(end.saturating_sub(1));
        Some(readers.map(move |(value, end)| (value.as_str(), last_ms(*end))))
    }

    /// The reply to a `BLPOP` that need not block.
    pub(crate) fn takes_from(&mut self, bell: &str, now: Duration) -> Option<Reply> {
        let Some(elements) = self.get(bell, now)?.content.as_list() else {
            return Some(wrong_type());
        };
        let element = elements.pop_front();
        if elements.is_empty() {
            self.keys.remove(bell);
        }
        Some(Reply::Array(vec![bulk(bell), bulk(&element?)]))
    }

    /// Whether a bell has rung since this was asked last.
    pub(crate) fn has_rung(&mut self) -> bool {
        std::mem::take(&mut self.has_rung)
    }

    /// What the wall clock of the node shows, in whole ms since the Unix epoch.
    fn wall_ms(&self, now: Duration) -> i64 {
        i64::try_from(self.process.wall_micros(now) / 1000).unwrap_or(i64::MAX)
    }

    fn sweep(&mut self, key: &str, now: Duration) {
        if self.keys.get(key).is_some_and(|entry| entry.until <= now) {
            self.keys.remove(key);
        }
    }
}

/// Reads a packed command: an array of bulk strings in canonical form, and nothing behind it. Strings that are not UTF-8
/// are refused: this crate sends them only to release a key of another program, and here such keys hold text.
fn arguments(command: &[u8]) -> Option<Vec<&str>> {
    let words = resp::words(command)?.into_iter();
    words.map(|word| str::from_utf8(word).ok()).collect()
}

#[cfg(test)]
pub(super) fn pack(words: &[impl redis::ToRedisArgs]) -> Vec<u8> {
    let mut command = redis::Cmd::new();
    for word in words {
        command.arg(word);
    }
    command.get_packed_command()
}
