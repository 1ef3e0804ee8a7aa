//! The scripts for several locks, as a fake node executes them.

use std::time::Duration;

use super::Store;
use super::bell::Release;
use super::entry::{count, error, integer, until, why_not};
use crate::wire::resp::Reply;
use crate::wire::scripts::{ACQUIRE_ALL, EXTEND_ALL, LOOK_ALL, RELEASE_ALL, REST_ALL};

/// The locks of a set by whether they have the value that asks for all.
#[derive(Default)]
pub(super) struct Asked<'k> {
    pub(super) free: Vec<(usize, &'k str)>,
    ours: Vec<&'k str>,
}

impl Store {
    /// Executes a script for several locks, if it is one.
    pub(super) fn execute_for_several(&mut self, words: &[&str], now: Duration) -> Option<Reply> {
        let ["EVAL", script, number, rest @ ..] = words else {
            return None;
        };
        let number = usize::try_from(integer(number)?).ok()?;
        let (locks, arguments) = rest.split_at_checked(number)?;
        let each = |one: &mut dyn FnMut(&str) -> Reply| {
            Reply::Array(locks.iter().map(|lock| one(lock)).collect())
        };
        Some(match arguments {
            _ if locks.is_empty() => return None,
            [value, ttl, again] if *script == ACQUIRE_ALL => {
                self.acquire_all(locks, [value, ttl, again], now)
            }
            [value, undo @ ..] if *script == RELEASE_ALL => {
                each(&mut |lock| self.release((lock, value), Release::of(undo), now))
            }
            [value, left] if *script == REST_ALL => {
                each(&mut |lock| self.rest(lock, value, left, now))
            }
            [value, ttl] if *script == EXTEND_ALL => {
                each(&mut |lock| self.extend(lock, value, ttl, now))
            }
            [announced, when_free] if *script == LOOK_ALL => {
                self.look_all(locks, (announced, when_free), now)
            }
            _ => return None,
        })
    }

    fn acquire_all(
        &mut self,
        locks: &[&str],
        [value, ttl, again]: [&str; 3],
        now: Duration,
    ) -> Reply {
        let asked = match self.missing(locks, value, again, now) {
            Ok(asked) => asked,
            Err(refusal) => return refusal,
        };
        let free = asked.free.iter().map(|(_, lock)| *lock);
        let set = self.set_all(free, value, ttl, now);
        if set != Reply::Okay {
            return set;
        }
        for lock in asked.ours {
            let entry = self.get(lock, now);
            if let Some(Err(refusal)) = entry.map(|entry| entry.extend(ttl, now)) {
                return refusal;
            }
        }
        Reply::Okay
    }

    /// Which of the locks are free, or the reply with the first that is in the way.
    pub(super) fn missing<'k>(
        &mut self,
        locks: &[&'k str],
        value: &str,
        again: &str,
        now: Duration,
    ) -> Result<Asked<'k>, Reply> {
        let mut asked = Asked::default();
        for (at, lock) in locks.iter().enumerate() {
            let entry = self.get(lock, now);
            if again == "1" && entry.is_some_and(|entry| entry.text() == Some(value)) {
                asked.ours.push(lock);
                continue;
            }
            let refusal = self.refusal(lock, now);
            if refusal != why_not(-2) {
                let place = count(at.saturating_add(1));
                return Err(Reply::Array(vec![place, refusal]));
            }
            asked.free.push((at, lock));
        }
        Ok(asked)
    }

    pub(super) fn set_all<'k>(
        &mut self,
        locks: impl Iterator<Item = &'k str>,
        value: &str,
        ttl: &str,
        now: Duration,
    ) -> Reply {
        for lock in locks {
            match until(ttl, now, "set") {
                Ok(until) => self.put(lock, value, until),
                Err(refusal) => return refusal,
            }
        }
        Reply::Okay
    }

    fn look_all(&mut self, locks: &[&str], how: (&str, &str), now: Duration) -> Reply {
        let is_held = |lock: &&str| self.get(lock, now).is_some();
        let at = locks.iter().position(is_held).unwrap_or_default();
        let Some(lock) = locks.get(at) else {
            return error("no lock to look at");
        };
        let mut parts = vec![count(at.saturating_add(1))];
        if let Reply::Array(look) = self.look(lock, how, now) {
            parts.extend(look);
        }
        Reply::Array(parts)
    }
}
