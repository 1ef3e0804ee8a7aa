//! The scripts that look at a key, as a fake node executes them, and what those who wait leave there.
//!
//! A fake node knows no blocking command, so it tells nobody that a release will be reported, and rings no bell: clients ask
//! again after a while. It keeps who waits only where readers and writers take turns: the intent of a writer, and that a
//! reader waits.

use std::time::Duration;

use super::entry::{Content, Entry, count, integer, until, why_not};
use super::{LONGEST_VALUE, Store};
use crate::node::command::slot_key;
use crate::token::Token;
use crate::wire::resp::Reply;

/// No reader heeds an intent that lasts for longer: the clock was ahead when it was left.
pub(super) const LONGEST_INTENT_MS: i64 = 60_000;

/// The key by which a writer keeps new readers out.
pub(super) fn intent(lock: &str) -> String {
    format!("{lock}:redlatch:intent")
}

/// The key that is there while a reader waits. Real servers have a set in it, for writers as well.
pub(super) fn waiting(lock: &str) -> String {
    format!("{lock}:redlatch:waiting")
}

impl Store {
    pub(super) fn inspect(&mut self, key: &str, now: Duration) -> Reply {
        let now_ms = self.wall_ms(now);
        let refusal = self.refusal(key, now);
        let Some(entry) = self.get(key, now) else {
            return refusal;
        };
        let pttl = Reply::Int(entry.pttl(now));
        match (&entry.content, refusal) {
            (Content::Text(text), _) => {
                let value = text.as_bytes();
                let beginning = value.get(..LONGEST_VALUE).unwrap_or(value);
                Reply::Array(vec![
                    pttl,
                    count(value.len()),
                    Reply::Bulk(beginning.to_vec()),
                ])
            }
            (Content::Sorted(readers), Reply::Array(mut parts)) if parts.len() > 1 => {
                let living = readers.0.values().filter(|end| **end >= now_ms);
                let Some(first) = living.min() else {
                    return why_not(-2);
                };
                parts.push(Reply::Int(first.saturating_sub(now_ms)));
                Reply::Array(parts)
            }
            (_, refusal) => refusal,
        }
    }

    /// The living reader with this value or this token, or what an inspection says of a key that readers don't have.
    pub(super) fn find_reader(&mut self, key: &str, named: &str, now: Duration) -> Reply {
        let now_ms = self.wall_ms(now);
        let seen = self.inspect(key, now);
        let is_read =
            matches!(&seen, Reply::Array(parts) if matches!(parts[..], [_, _, Reply::Int(_)]));
        let readers = self.get(key, now).and_then(Entry::sorted);
        let Some(readers) = readers.filter(|_| is_read) else {
            return seen;
        };
        let is_named = |value: &str| {
            let label = value
                .strip_prefix(named)
                .filter(|_| named.len() == Token::HEX_LEN);
            value == named || label.is_some_and(|label| label.starts_with(' '))
        };
        let living = readers.0.iter().filter(|(_, end)| **end >= now_ms);
        let found = living
            .filter(|(value, _)| is_named(value))
            .min_by_key(|(value, end)| (*end, *value));
        found.map_or(why_not(-2), |(value, _)| {
            let parts = [b"READER".to_vec(), value.clone().into_bytes()];
            Reply::Array(parts.map(Reply::Bulk).into())
        })
    }

    /// Where readers have the key, a client that is to be announced leaves its intent. One that is polite looks again instead.
    pub(super) fn look(
        &mut self,
        key: &str,
        (announced, in_any_case): (&str, &str),
        now: Duration,
    ) -> Reply {
        let mut left = self.pttl(key, now);
        let is_sorted = self
            .get(key, now)
            .is_some_and(|entry| entry.sorted().is_some());
        let is_read = is_sorted && left >= 0 && announced != "0";
        if is_read && in_any_case == "1" {
            left = left.min(20);
        } else if is_read && let Some(span @ 1..) = integer(announced) {
            let span = span.min(LONGEST_INTENT_MS);
            let intent = intent(key);
            let intended = self.pttl(&intent, now);
            if intended < span || intended > LONGEST_INTENT_MS {
                let span = Duration::from_millis(span.unsigned_abs());
                self.put(&intent, "1", now.saturating_add(span));
            }
        }
        Reply::Array(vec![Reply::Int(left), Reply::Int(0)])
    }

    pub(super) fn look_at_slots(&mut self, key: &str, permits: &str, now: Duration) -> Reply {
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

    /// The later end counts, as with real servers.
    pub(super) fn announce_reader(&mut self, lock: &str, announced: &str, now: Duration) {
        let key = waiting(lock);
        let before = self.get(&key, now).map(|entry| entry.until);
        if let Ok(until) = until(announced, now, "pexpire") {
            let until = before.unwrap_or(until).max(until);
            let content = Content::Other;
            self.keys.insert(key, Entry { content, until });
        }
    }

    /// Deletes a lock. Where a reader waits, it is to come before the next writer, and the reply is 2 as if it had been
    /// woken.
    pub(super) fn give_back(&mut self, lock: &str, now: Duration) -> Reply {
        self.keys.remove(lock);
        self.keys.remove(&intent(lock));
        let waits = self.reader_waits(lock, now);
        self.keys.remove(&waiting(lock));
        Reply::Int(if waits { 2 } else { 1 })
    }

    pub(super) fn reader_waits(&mut self, lock: &str, now: Duration) -> bool {
        self.get(&waiting(lock), now).is_some()
    }
}
