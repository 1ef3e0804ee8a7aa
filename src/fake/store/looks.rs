//! The scripts that look at a key, as a fake node executes them, and what those who wait leave there.
//!
//! A fake node knows no blocking command, so it tells nobody that a release will be reported, and rings no bell: clients ask
//! again after a while. It keeps who waits only where readers and writers take turns: the intent of a writer, and that a
//! reader waits.

use std::time::Duration;

use super::entry::{Content, Entry, count, until, why_not};
use super::{LONGEST_VALUE, Store};
use crate::node::command::slot_key;
use crate::wire::resp::Reply;

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

    /// Where readers have the key, a client that is to be announced leaves its intent.
    pub(super) fn look(&mut self, key: &str, announced: &str, now: Duration) -> Reply {
        let left = self.pttl(key, now);
        let is_sorted = self
            .get(key, now)
            .is_some_and(|entry| entry.sorted().is_some());
        if is_sorted
            && left >= 0
            && announced != "0"
            && let Ok(until) = until(announced, now, "set")
        {
            let intent = intent(key);
            if self
                .get(&intent, now)
                .is_none_or(|intent| intent.until < until || intent.until == Entry::NEVER)
            {
                self.put(&intent, "1", until);
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
