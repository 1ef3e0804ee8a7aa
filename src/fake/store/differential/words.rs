//! What a step of a random sequence is made of: words that depend on what is there when the step is played, so that they meet
//! a key at its millisecond, a counter at its number, and the holder by its value.

use std::fmt;
use std::time::Duration;

use super::super::entry::integer;
use super::super::{Content, Store};
use crate::fencing::{FENCE, MARKER};

/// Locks, of which the last ones are slots of a semaphore with the name of a lock.
pub(super) const LOCKS: [&str; 5] = [
    "a",
    "b",
    "\u{1F512} {c}\r\n*1",
    "a:redlatch:slot:0",
    "a:redlatch:slot:2",
];

pub(super) const ONE: &str = "1111111111111111111111111111111111111111";
pub(super) const TWO: &str =
    "2222222222222222222222222222222222222222 web-3 since=2026-11-22T05:52:53Z";
pub(super) const THREE: &str = "33333333333333333333333333333333333333aF";

/// Random numbers, from which a step is read. Behind the last number, all are zero.
pub(super) struct Dice<'n> {
    numbers: std::slice::Iter<'n, u16>,
}

impl<'n> Dice<'n> {
    pub(super) fn new(numbers: &'n [u16]) -> Self {
        Self {
            numbers: numbers.iter(),
        }
    }

    pub(super) fn below(&mut self, limit: usize) -> usize {
        usize::from(self.numbers.next().copied().unwrap_or_default()) % limit
    }

    pub(super) fn pick<T: Clone>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())].clone()
    }

    /// True once in this number of calls.
    pub(super) fn seldom(&mut self, times: usize) -> bool {
        self.below(times) == times - 1
    }

    /// One of these, each as often as the number beside it.
    pub(super) fn weighted<T: Copy>(&mut self, list: &[(usize, T)]) -> T {
        let mut number = self.below(list.iter().map(|(weight, _)| weight).sum());
        for (weight, item) in list {
            if number < *weight {
                return *item;
            }
            number -= weight;
        }
        list[0].1
    }
}

#[derive(Clone)]
pub(super) enum Word {
    Text(String),
    /// The value under a key; where there is no key, the value of a client.
    Value(String),
    /// The value of the reader at this place, from the one that ends first.
    Reader(String, usize),
    /// The token that a value begins with.
    Token(Box<Word>),
    /// As many ms as the key has left, and so many more; one at least.
    Left(String, i64),
    /// As many ms as the reader at this place has left, and so many more.
    ReaderLeft(String, usize, i64),
    /// This ms of the wall clock, and so many more, behind a sign.
    End(&'static str, i64),
    /// A time in microseconds, and so many more.
    Micros(Base, i64),
    /// A marker: whether it is this process's own, the configuration, when it opens, and why.
    Marker(bool, &'static str, Box<Word>, &'static str),
}

#[derive(Debug, Clone)]
pub(super) enum Base {
    Now,
    Counter(String),
    /// When the marker says that the node opens.
    Open,
}

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(&shown(text)),
            Self::Value(key) => write!(f, "value of {key}"),
            Self::Reader(key, place) => write!(f, "reader {place} of {key}"),
            Self::Token(word) => write!(f, "token of {word:?}"),
            Self::Left(key, more) => write!(f, "ms of {key} {more:+}"),
            Self::ReaderLeft(key, place, more) => {
                write!(f, "ms of reader {place} of {key} {more:+}")
            }
            Self::End(sign, more) => write!(f, "{sign}now {more:+}"),
            Self::Micros(base, more) => write!(f, "{base:?} {more:+}"),
            Self::Marker(is_own, config, open, why) => {
                let who = if *is_own { "own" } else { "r1" };
                write!(f, "{who}|{config}|{open:?}|{why}")
            }
        }
    }
}

/// The last line of a script, in place of the whole text.
fn shown(text: &str) -> String {
    let last = text.lines().last();
    let last = last.filter(|_| text.contains('\n'));
    last.map_or_else(|| format!("{text:?}"), |last| format!("script .. {last}"))
}

impl From<&str> for Word {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Word {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

pub(super) fn counter(lock: &str) -> String {
    format!("{lock}{FENCE}")
}

/// What a word stands for in a store at a time.
pub(super) struct Moment<'s> {
    pub(super) store: &'s mut Store,
    pub(super) now: Duration,
}

impl Moment<'_> {
    pub(super) fn text(&mut self, word: &Word) -> String {
        match word {
            Word::Text(text) => text.clone(),
            Word::Value(key) => {
                let value = self.store.value(key, self.now);
                value.unwrap_or_else(|| ONE.to_owned())
            }
            Word::Reader(key, place) => self.reader(key, *place).0,
            Word::Token(value) => {
                let value = self.text(value);
                let token = value.get(..ONE.len());
                token.unwrap_or(&value).to_owned()
            }
            Word::Left(key, more) => (self.left_ms(key) + more).max(1).to_string(),
            Word::ReaderLeft(key, place, more) => {
                let now_ms = self.store.wall_ms(self.now);
                (self.reader(key, *place).1 - now_ms + more)
                    .max(1)
                    .to_string()
            }
            Word::End(sign, more) => format!("{sign}{}", self.store.wall_ms(self.now) + more),
            Word::Micros(base, more) => {
                // No number of the protocol is smaller.
                (self.base(base) + more).max(0).to_string()
            }
            Word::Marker(is_own, config, open, why) => {
                let id = self.store.run_id();
                let id = if *is_own { &id } else { "r1" };
                let open = self.text(open);
                format!("{id}|{config}|{open}|{why}")
            }
        }
    }

    /// What is left to a key; of one that is not there or does not end, 20 ms.
    pub(super) fn left_ms(&mut self, key: &str) -> i64 {
        let left = self
            .store
            .get(key, self.now)
            .map(|entry| entry.pttl(self.now));
        left.filter(|left| *left >= 0).unwrap_or(20)
    }

    /// The value and the end of a reader.
    pub(super) fn reader(&mut self, key: &str, place: usize) -> (String, i64) {
        let now_ms = self.store.wall_ms(self.now);
        let content = self.store.get(key, self.now).map(|entry| &entry.content);
        let Some(Content::Sorted(readers)) = content else {
            return (TWO.to_owned(), now_ms + 20);
        };
        let mut readers: Vec<_> = readers.0.iter().map(|(value, end)| (*end, value)).collect();
        readers.sort();
        let (end, value) = readers[place % readers.len()];
        (value.clone(), end)
    }

    fn base(&mut self, base: &Base) -> i64 {
        let wall = i64::try_from(self.now.as_micros()).unwrap();
        let number = match base {
            Base::Now => None,
            Base::Counter(lock) => self.store.value(&counter(lock), self.now),
            Base::Open => {
                let marker = self.store.value(MARKER, self.now).unwrap_or_default();
                marker.split('|').nth(2).map(str::to_owned)
            }
        };
        // Of a number that is none, there is nothing near.
        let number = number.and_then(|number| integer(&number).ok());
        number.filter(|number| *number < 1 << 53).unwrap_or(wall)
    }
}
