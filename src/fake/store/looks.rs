//! The scripts that look at a key, as a fake node executes them, and what those who wait leave there.

use std::time::Duration;

use super::entry::{Content, Entry, count, error, integer, why_not};
use super::{LONGEST_VALUE, Store};
use crate::node::command::{bell, readers_bell, slot_key};
use crate::token::Token;
use crate::wire::resp::Reply;

/// No reader heeds an intent that lasts for longer: the clock was ahead when it was left.
pub(super) const LONGEST_INTENT_MS: i64 = 60_000;

/// The key by which a writer keeps new readers out.
pub(super) fn intent(lock: &str) -> String {
    format!("{lock}:redlatch:intent")
}

/// The key of the set of those who wait.
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
            (Content::Sorted(readers), Reply::Array(mut parts))
                if matches!(parts[..], [_, Reply::Int(_)]) =>
            {
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

    /// Where readers have the key, a client that is to be announced leaves its intent. One that is polite looks again instead, and
    /// one that readers have refused elsewhere leaves it in any case, and is not announced.
    pub(super) fn look(
        &mut self,
        key: &str,
        (announced, when_free): (&str, &str),
        now: Duration,
    ) -> Reply {
        let mut left = self.pttl(key, now);
        if left == -2 {
            // It is the turn of the readers whose bell rings.
            let rung = self.pttl(&readers_bell(key), now);
            left = if rung >= 0 { rung } else { left };
        }
        if let Some(answer) = self.is_looked_at(key, left, (announced, when_free), now) {
            return Reply::Array(answer.into());
        }
        let is_sorted = |entry: &mut Entry| entry.sorted().is_some();
        let is_read = left >= 0 && self.get(key, now).is_some_and(is_sorted);
        if is_read && when_free == "1" {
            left = left.min(20);
        } else if (is_read || when_free == "2")
            && let Some(span @ 1..) = integer(announced)
        {
            let span = span.min(LONGEST_INTENT_MS);
            let intent = intent(key);
            let intended = self.pttl(&intent, now);
            if intended < span || intended > LONGEST_INTENT_MS {
                let span = Duration::from_millis(span.unsigned_abs());
                self.put(&intent, "1", now.saturating_add(span));
            }
            if when_free == "2" {
                return Reply::Array(vec![Reply::Int(left), Reply::Int(0)]);
            }
        }
        let is_announced = self.announce(key, "1", announced, now);
        Reply::Array(vec![Reply::Int(left), Reply::Int(is_announced)])
    }

    /// The answer to a look that announces nobody.
    fn is_looked_at(
        &mut self,
        key: &str,
        left: i64,
        (announced, when_free): (&str, &str),
        now: Duration,
    ) -> Option<[Reply; 2]> {
        if left == -2 && when_free == "1" && self.get(&bell(key), now).is_some() {
            return Some([Reply::Int(-3), Reply::Int(0)]);
        }
        let is_silent = announced == "0" || (left < 0 && when_free == "0");
        is_silent.then_some([Reply::Int(left), Reply::Int(0)])
    }

    pub(super) fn look_at_slots(
        &mut self,
        key: &str,
        (announced, when_free, permits): (&str, &str, &str),
        now: Duration,
    ) -> Reply {
        let slots = 0..permits.parse::<u32>().unwrap_or(0);
        let left: Vec<i64> = slots
            .map(|slot| self.pttl(&slot_key(key, slot), now))
            .collect();
        let free = left.iter().map(|left| if *left == -2 { '1' } else { '0' });
        let free: String = free.collect();
        // A slot that never is free comes last.
        let first = left.iter().min_by_key(|left| (**left == -1, **left));
        let Some(first) = first.copied() else {
            return error("no slot to look at");
        };
        let answer = self.is_looked_at(key, first, (announced, when_free), now);
        let answer = answer.unwrap_or_else(|| {
            let is_announced = self.announce(key, "1", announced, now);
            [Reply::Int(first), Reply::Int(is_announced)]
        });
        let free = Reply::Bulk(free.into_bytes());
        Reply::Array(answer.into_iter().chain([free]).collect())
    }
}
