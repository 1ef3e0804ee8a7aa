//! Who waits for a lock at a fake node, and the bells that wake them, as the scripts keep them.
//!
//! A bell is a list. Those who wait block until it has an element, each takes one, and [`super::super::blocked`] knows them.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use super::Store;
use super::entry::{Content, Entry, integer, until, wrong_type};
use super::looks::{intent, waiting};
use crate::node::command::{bell, readers_bell};
use crate::wire::resp::Reply;

/// What stands in the name of a slot of a semaphore, whose slots ring one bell.
const SLOT: &str = ":redlatch:slot:";

/// The members of the set of those who wait: for one who wants the lock alone, and for readers.
const ALONE: &str = "1";
pub(super) const READER: &str = "r";

/// How many elements a bell has at most, how many a release adds, and for how long it rings.
struct Ring {
    most: usize,
    elements: usize,
    span: Duration,
}

const FOR_ONE: Ring = Ring {
    most: 8,
    elements: 1,
    span: Duration::from_millis(500),
};

const FOR_READERS: Ring = Ring {
    most: 16,
    elements: 16,
    span: Duration::from_millis(30),
};

/// What a release gives back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Release {
    OfALock,
    /// What an attempt has set where it does not count.
    Undo,
}

impl Release {
    /// As the last word of a script says, which a release does not have.
    pub(super) fn of(undo: &[&str]) -> Self {
        if undo.is_empty() {
            Self::OfALock
        } else {
            Self::Undo
        }
    }
}

impl Store {
    /// Announces that somebody waits, for so many ms. Returns whether it is announced, as a script does.
    pub(super) fn announce(&mut self, lock: &str, member: &str, span: &str, now: Duration) -> i64 {
        let key = waiting(lock);
        let Some(span_ms) = integer(span) else {
            return 0;
        };
        let set = || Entry {
            content: Content::Set(BTreeSet::new()),
            until: Entry::NEVER,
        };
        self.sweep(&key, now);
        let entry = self.keys.entry(key.clone()).or_insert_with(set);
        let Content::Set(members) = &mut entry.content else {
            return 0;
        };
        let is_new = members.insert(member.to_owned());
        let mut is_announced = entry.pttl(now) >= span_ms;
        if let Ok(end) = until(span, now, "pexpire")
            && !is_announced
        {
            entry.until = end;
            is_announced = true;
        }
        if is_new && member == READER {
            self.keys.remove(&readers_bell(lock));
        }
        if !is_announced {
            self.keys.remove(&key);
        }
        is_announced.into()
    }

    /// Deletes a lock, and wakes one who waits for it. Returns 2 if somebody was woken, else 1.
    pub(super) fn give_back(&mut self, lock: &str, how: Release, now: Duration) -> Reply {
        self.keys.remove(lock);
        let (name, is_slot) = match lock.split_once(SLOT) {
            Some((name, _)) => (name, true),
            None => (lock, false),
        };
        if !is_slot {
            if how == Release::Undo && self.intent(name, now).is_some() {
                return self.wake_alone(name, now);
            }
            self.keys.remove(&intent(name));
            if self.no_reader_waits_any_more(name, now)
                && self.ring(&readers_bell(name), &FOR_READERS, now) == 2
            {
                return Reply::Int(2);
            }
        }
        Reply::Int(if self.get(&waiting(name), now).is_none() {
            1
        } else if is_slot {
            self.ring(&bell(name), &FOR_ONE, now)
        } else {
            self.wake_one(name, now)
        })
    }

    /// Takes the readers from the set of those who wait. Returns whether they were there.
    fn no_reader_waits_any_more(&mut self, lock: &str, now: Duration) -> bool {
        let key = waiting(lock);
        let members = self.get(&key, now).and_then(Entry::set);
        let Some(members) = members else {
            return false;
        };
        let was_there = members.remove(READER);
        if members.is_empty() {
            self.keys.remove(&key);
        }
        was_there
    }

    /// The bell of a lock has one element at most.
    fn wake_one(&mut self, lock: &str, now: Duration) -> i64 {
        let bell = bell(lock);
        if self.get(&bell, now).is_some() {
            return 2;
        }
        self.ring(&bell, &FOR_ONE, now)
    }

    /// Wakes one who wants the lock alone, if one waits.
    pub(super) fn wake_alone(&mut self, lock: &str, now: Duration) -> Reply {
        let members = self.get(&waiting(lock), now).and_then(Entry::set);
        let waits = members.is_some_and(|members| members.contains(ALONE));
        Reply::Int(if waits { self.wake_one(lock, now) } else { 1 })
    }

    fn ring(&mut self, bell: &str, ring: &Ring, now: Duration) -> i64 {
        self.sweep(bell, now);
        let until = now.saturating_add(ring.span);
        let list = || Entry {
            content: Content::List(VecDeque::new()),
            until,
        };
        let entry = self.keys.entry(bell.to_owned()).or_insert_with(list);
        let Content::List(elements) = &mut entry.content else {
            return 1;
        };
        elements.extend(std::iter::repeat_n("1".to_owned(), ring.elements));
        entry.until = until;
        if elements.len() > ring.most {
            self.keys.remove(bell);
        }
        self.has_rung = true;
        2
    }

    /// The reply to a `BLPOP` that need not block.
    pub(crate) fn takes_from(&mut self, bell: &str, now: Duration) -> Option<Reply> {
        let Content::List(elements) = &mut self.get(bell, now)?.content else {
            return Some(wrong_type());
        };
        let element = elements.pop_front();
        if elements.is_empty() {
            self.keys.remove(bell);
        }
        let words = [bell.to_owned(), element?];
        let words = words.map(|word| Reply::Bulk(word.into_bytes()));
        Some(Reply::Array(words.into()))
    }

    /// Whether a bell has rung since this was asked last.
    pub(crate) fn has_rung(&mut self) -> bool {
        std::mem::take(&mut self.has_rung)
    }

    pub(super) fn sweep(&mut self, key: &str, now: Duration) {
        if self.keys.get(key).is_some_and(|entry| entry.until <= now) {
            self.keys.remove(key);
        }
    }
}
