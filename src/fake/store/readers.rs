//! The scripts of readers, as a fake node executes them.

use std::collections::BTreeMap;
use std::time::Duration;

use super::bell::READER;
use super::entry::{Content, Entry, Sorted, TOO_LATE, bad_end, count, error, integer, why_not};
use super::{Store, looks};
use crate::wire::resp::Reply;
use crate::wire::scripts::{FIND, INSPECT_READ, LOOK_READ, READ, REREAD, UNREAD};

#[cfg(test)]
mod properties;

/// A reader, or one that wants to be one.
pub(super) struct Reader {
    /// The largest end of all readers; 0 where nobody reads.
    last: i64,
    /// Until when it reads itself; before all times where it does not.
    its: i64,
}

impl Store {
    /// Executes a script for readers, if it is one.
    pub(super) fn execute_for_readers(&mut self, words: &[&str], now: Duration) -> Option<Reply> {
        Some(match words {
            ["EVAL", script, "1", lock, value, ttl, again] if *script == READ => {
                self.read(lock, value, ttl, again, now)
            }
            ["EVAL", script, "1", lock, value, ttl] if *script == REREAD => {
                self.reread(lock, value, ttl, now)
            }
            ["EVAL", script, "1", lock, value] if *script == UNREAD => {
                self.unread(lock, value, now)
            }
            ["EVAL", script, "1", lock, value] if *script == INSPECT_READ => {
                self.inspect_read(lock, value, now)
            }
            ["EVAL", script, "1", lock, named] if *script == FIND => {
                self.find_reader(lock, named, now)
            }
            ["EVAL", script, "1", lock, announced, when_free] if *script == LOOK_READ => {
                self.look_read(lock, announced, when_free, now)
            }
            _ => return None,
        })
    }

    /// What the wall clock of the node shows, in whole ms since the Unix epoch.
    pub(super) fn wall_ms(&self, now: Duration) -> i64 {
        i64::try_from(self.process.wall_micros(now) / 1000).unwrap_or(i64::MAX)
    }

    /// The largest end of the readers of a lock, or 0 where there is no key. None of a key that readers don't have.
    pub(super) fn last_end(&mut self, lock: &str, now: Duration) -> Option<i64> {
        let Some(entry) = self.get(lock, now) else {
            return Some(0);
        };
        let is_for_ever = entry.until == Entry::NEVER;
        let last = entry.sorted().and_then(|readers| readers.last_end());
        last.filter(|_| !is_for_ever)
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

    /// What the scripts reply about a key that is not the caller's.
    pub(super) fn refusal(&mut self, lock: &str, now: Duration) -> Reply {
        let now_ms = self.wall_ms(now);
        let is_read = self.last_end(lock, now).is_some();
        let Some(entry) = self.get(lock, now) else {
            return why_not(-2);
        };
        let pttl = entry.pttl(now);
        let behind = match &entry.content {
            // The value, if it may tell who has the lock, or had it before it lost its time to live.
            Content::Text(text) => {
                let shortest = if pttl < 0 { 40 } else { 41 };
                (shortest..274)
                    .contains(&text.len())
                    .then(|| Reply::Bulk(text.clone().into_bytes()))
            }
            Content::Sorted(readers) if is_read => Some(count(readers.count_from(now_ms))),
            Content::Sorted(readers) => match (readers.last(), readers.last_end()) {
                (Some((last, _)), Some(_)) => {
                    let last = last.as_bytes();
                    Some(Reply::Bulk(last.get(..274).unwrap_or(last).to_vec()))
                }
                _ => return why_not(-3),
            },
            Content::Set(_) | Content::List(_) | Content::Other => return why_not(-3),
        };
        Reply::Array(std::iter::once(Reply::Int(pttl)).chain(behind).collect())
    }

    /// What is left of the intent of a writer. One that lasts for too long is of a time when the clock was ahead.
    pub(super) fn intent(&mut self, lock: &str, now: Duration) -> Option<i64> {
        let left = self.pttl(&looks::intent(lock), now);
        (0..=looks::LONGEST_INTENT_MS)
            .contains(&left)
            .then_some(left)
    }

    fn find(&mut self, lock: &str, value: &str, now: Duration) -> Result<Reader, Reply> {
        let Some(last) = self.last_end(lock, now) else {
            return Err(self.refusal(lock, now));
        };
        let readers = self.get(lock, now).and_then(Entry::sorted);
        let its = readers.and_then(|readers| readers.0.get(value).copied());
        let its = its.unwrap_or(i64::MIN);
        Ok(Reader { last, its })
    }

    pub(super) fn read(
        &mut self,
        lock: &str,
        value: &str,
        ttl: &str,
        again: &str,
        now: Duration,
    ) -> Reply {
        let is_text = |entry: &mut Entry| matches!(entry.content, Content::Text(_));
        let heeds = again != "2";
        if heeds
            && self.get(lock, now).is_some_and(is_text)
            && let Some(left) = self.intent(lock, now)
        {
            return Reply::Array(vec![Reply::Int(left), Reply::Int(-1)]);
        }
        let reader = match self.find(lock, value, now) {
            Ok(reader) => reader,
            Err(refusal) => return refusal,
        };
        let now_ms = self.wall_ms(now);
        if heeds
            && (again == "0" || reader.its < now_ms)
            && let Some(left) = self.intent(lock, now)
        {
            return Reply::Array(vec![Reply::Int(left), Reply::Int(-1)]);
        }
        let Some(ends) = ends(now_ms, ttl) else {
            return error("attempt to perform arithmetic on a value that is no number");
        };
        if ends <= now_ms {
            return bad_end("pexpireat");
        }
        self.drop_those_before(lock, now_ms, now);
        match self.keep(lock, value, ends, &reader, now) {
            Ok(()) => Reply::Okay,
            Err(refusal) => refusal,
        }
    }

    fn reread(&mut self, lock: &str, value: &str, ttl: &str, now: Duration) -> Reply {
        let reader = match self.find(lock, value, now) {
            Ok(reader) => reader,
            Err(refusal) => return refusal,
        };
        let now_ms = self.wall_ms(now);
        if reader.its < now_ms {
            return why_not(-2);
        }
        let Some(ends) = ends(now_ms, ttl) else {
            return error("attempt to perform arithmetic on a value that is no number");
        };
        self.drop_those_before(lock, now_ms, now);
        match self.keep(lock, value, ends, &reader, now) {
            Ok(()) => Reply::Int(1),
            Err(refusal) => refusal,
        }
    }

    fn unread(&mut self, lock: &str, value: &str, now: Duration) -> Reply {
        let reader = match self.find(lock, value, now) {
            Ok(reader) => reader,
            Err(refusal) => return refusal,
        };
        let now_ms = self.wall_ms(now);
        if reader.its < now_ms {
            return why_not(-2);
        }
        let next = self.get(lock, now).and_then(Entry::sorted);
        let next = next.and_then(|readers| {
            readers.0.remove(value);
            readers.last().map(|(_, score)| score)
        });
        match next.filter(|next| *next >= now_ms) {
            // No key can be set to end in this ms: it would go at once.
            Some(next) if next < reader.last => {
                self.set_end(lock, next.max(now_ms.saturating_add(1)), now);
            }
            Some(_) => (),
            None => {
                self.keys.remove(lock);
            }
        }
        if next.is_some_and(|next| next >= now_ms) {
            return Reply::Int(1);
        }
        self.wake_alone(lock, now)
    }

    fn inspect_read(&mut self, lock: &str, value: &str, now: Duration) -> Reply {
        let reader = self.find(lock, value, now);
        let its = reader.map_or(i64::MIN, |reader| reader.its);
        let left = its.saturating_sub(self.wall_ms(now));
        if left < 0 {
            return why_not(-2);
        }
        let value = value.as_bytes();
        let length = count(value.len());
        Reply::Array(vec![Reply::Int(left), length, Reply::Bulk(value.to_vec())])
    }

    fn look_read(&mut self, lock: &str, announced: &str, when_free: &str, now: Duration) -> Reply {
        let is_read = self.last_end(lock, now).is_some();
        let left = match self.pttl(lock, now) {
            left if left >= 0 && !is_read => left,
            -1 => -1,
            _ => self.intent(lock, now).unwrap_or(-2),
        };
        let is_silent = announced == "0" || (left < 0 && when_free != "1");
        let is_announced = if is_silent {
            0
        } else {
            self.announce(lock, READER, announced, now)
        };
        Reply::Array(vec![Reply::Int(left), Reply::Int(is_announced)])
    }

    /// Gives a reader its end, and the key that of the last reader.
    fn keep(
        &mut self,
        lock: &str,
        value: &str,
        ends: i64,
        reader: &Reader,
        now: Duration,
    ) -> Result<(), Reply> {
        if ends >= TOO_LATE {
            return Err(bad_end("pexpireat"));
        }
        let ends = ends.max(reader.its);
        let nobody = Entry {
            content: Content::Sorted(Sorted(BTreeMap::new())),
            until: now,
        };
        let entry = self.keys.entry(lock.to_owned()).or_insert(nobody);
        if let Some(readers) = entry.sorted() {
            readers.0.insert(value.to_owned(), ends);
        }
        if ends > reader.last {
            self.set_end(lock, ends, now);
        }
        Ok(())
    }

    /// As `PEXPIREAT`. A key is there until its last ms is over.
    fn set_end(&mut self, lock: &str, end_ms: i64, now: Duration) {
        let until = self.process.after(end_ms);
        if end_ms <= self.wall_ms(now) {
            self.keys.remove(lock);
        } else if let Some(entry) = self.keys.get_mut(lock) {
            entry.until = until;
        }
    }

    fn drop_those_before(&mut self, lock: &str, now_ms: i64, now: Duration) {
        if let Some(readers) = self.get(lock, now).and_then(Entry::sorted) {
            readers.0.retain(|_, end| *end >= now_ms);
            if readers.0.is_empty() {
                self.keys.remove(lock);
            }
        }
    }
}

/// The end of a reader, as Lua adds it up.
fn ends(now_ms: i64, ttl: &str) -> Option<i64> {
    integer(ttl).map(|ttl| now_ms.saturating_add(ttl))
}
