//! The scripts of the fenced protocol, as a fake node executes them.

use std::time::Duration;

use super::Store;
use super::bell::Release;
use super::entry::{Entry, error, integer, until, why_not, wrong_type};
use crate::wire::resp::Reply;
use crate::wire::scripts::fenced::{ACQUIRE, EXTEND, OPEN, PASS, READ, RELEASE, REST};

mod acquire;
mod several;

/// No number that the protocol writes is longer.
const LONGEST_NUMBER: usize = 16;
/// How much of a configuration is returned.
const LONGEST_CONFIG: usize = 200;

/// A node's marker: `run_id|config|open_at|why`, the time in microseconds of its wall clock.
struct Marker<'a> {
    run_id: &'a str,
    config: &'a str,
    open_at: i64,
    why: &'a str,
}

impl<'a> Marker<'a> {
    fn read(text: &'a str) -> Option<Self> {
        let mut parts = text.split('|');
        let (run_id, config) = (parts.next()?, parts.next()?);
        let (open_at, why) = (parts.next()?, parts.next()?);
        let is_word = !why.is_empty() && why.bytes().all(|byte| byte.is_ascii_lowercase());
        (parts.next().is_none() && !run_id.is_empty() && !config.is_empty() && is_word).then_some(
            Self {
                run_id,
                config,
                open_at: number(open_at)?,
                why,
            },
        )
    }
}

/// A number of digits only, as the scripts accept it.
fn number(text: &str) -> Option<i64> {
    let is_good = text.len() <= LONGEST_NUMBER && text.bytes().all(|byte| byte.is_ascii_digit());
    is_good.then(|| text.parse().ok()).flatten()
}

fn micros(millis: &str) -> Option<i64> {
    integer(millis)?.checked_mul(1000)
}

fn answer(word: &str, rest: impl IntoIterator<Item = Reply>) -> Reply {
    let word = Reply::Bulk(word.into());
    Reply::Array(std::iter::once(word).chain(rest).collect())
}

fn bulk(text: &str) -> Reply {
    Reply::Bulk(text.into())
}

/// What another client has configured; the scripts return no more of it.
fn another_config(marker: &Marker<'_>) -> Reply {
    let config = marker.config.as_bytes();
    let beginning = config.get(..LONGEST_CONFIG).unwrap_or(config);
    answer("CONFIG", [Reply::Bulk(beginning.to_vec())])
}

/// The error where a script would fail on its arguments. This crate never sends such arguments.
fn bad_arguments() -> Reply {
    error("arguments that a fake node does not know")
}

impl Store {
    /// Executes a script of the fenced protocol, if it is one.
    pub(super) fn execute_fenced(&mut self, arguments: &[&str], now: Duration) -> Option<Reply> {
        let reply = match arguments {
            ["EVAL", script, "3", lock, counter, marker, rest @ ..] if *script == ACQUIRE => {
                let keys = [*lock, *counter, *marker];
                self.fenced_acquire(keys, rest, now)
            }
            ["EVAL", script, "3", lock, counter, marker, rest @ ..] if *script == EXTEND => {
                let keys = [*lock, *counter, *marker];
                self.fenced_extend(keys, rest, now)
            }
            ["EVAL", script, "2", lock, counter, rest @ ..] if *script == RELEASE => {
                self.fenced_release([*lock, *counter], rest, None, now)
            }
            ["EVAL", script, "2", lock, counter, rest @ .., left] if *script == REST => {
                self.fenced_release([*lock, *counter], rest, Some(left), now)
            }
            ["EVAL", script, "3", lock, counter, marker, rest @ ..] if *script == PASS => {
                let (old, new) = rest.split_at_checked(4)?;
                let released = self.fenced_release([*lock, *counter], old, None, now);
                if released == Some(Reply::Int(2)) {
                    return released;
                }
                let asked = self.fenced_acquire([*lock, *counter, *marker], new, now);
                released.zip(asked).map(|(a, b)| Reply::Array(vec![a, b]))
            }
            ["EVAL", script, "3", lock, counter, marker, rest @ ..] if *script == READ => {
                self.fenced_read([*lock, *counter, *marker], rest, now)
            }
            ["EVAL", script, "1", marker, rest @ ..] if *script == OPEN => {
                self.open(marker, rest, now)
            }
            other => return self.execute_fenced_for_several(other, now),
        };
        Some(reply.unwrap_or_else(bad_arguments))
    }

    /// What the wall clock of the node shows, in microseconds since the Unix epoch.
    fn wall(&self, now: Duration) -> i64 {
        i64::try_from(self.process.wall_micros(now)).unwrap_or(i64::MAX)
    }

    /// Scripts that ask for one key get an error from it. Those that ask for more find nothing there.
    fn is_of_another_type(&mut self, key: &str, now: Duration) -> bool {
        self.get(key, now)
            .is_some_and(|entry| entry.text().is_none())
    }

    fn set_marker(&mut self, key: &str, (run_id, config): (&str, &str), open: i64, why: &str) {
        self.put(
            key,
            &format!("{run_id}|{config}|{open}|{why}"),
            Entry::NEVER,
        );
    }

    fn fenced_extend(
        &mut self,
        [lock, counter_key, marker_key]: [&str; 3],
        arguments: &[&str],
        now: Duration,
    ) -> Option<Reply> {
        let [value, ttl, token, idle] = arguments else {
            return None;
        };
        let number_of_token = number(token)?;
        let keep = match until(idle, now, "pexpire") {
            Ok(end) => end,
            Err(refusal) => return Some(refusal),
        };
        match self.own(lock, value, now) {
            Ok(entry) => {
                if let Err(refusal) = entry.extend(ttl, now) {
                    return Some(refusal);
                }
                if let Some(counter) = self.get(counter_key, now) {
                    counter.until = keep;
                }
                return Some(Reply::Int(1));
            }
            Err(other) if other != why_not(-2) => return Some(other),
            Err(_missing) => (),
        }
        if self.value(counter_key, now).as_deref() != Some(token) {
            return Some(why_not(-2));
        }
        if self.is_of_another_type(marker_key, now) {
            return Some(wrong_type());
        }
        let written = self.value(marker_key, now).unwrap_or_default();
        let run_id = self.process.run_id();
        let is_ours = Marker::read(&written)
            .is_some_and(|marker| marker.run_id == run_id && marker.open_at < number_of_token);
        if !is_ours {
            return Some(why_not(-2));
        }
        let end = match until(ttl, now, "set") {
            Ok(end) => end,
            Err(refusal) => return Some(refusal),
        };
        self.put(lock, value, end);
        self.put(counter_key, token, keep);
        Some(Reply::Int(1))
    }

    fn fenced_release(
        &mut self,
        [lock, counter_key]: [&str; 2],
        arguments: &[&str],
        rest: Option<&str>,
        now: Duration,
    ) -> Option<Reply> {
        let [value, tombstone, quarantine, idle, undo @ ..] = arguments else {
            return None;
        };
        let (mut tombstone, wall) = (number(tombstone)?, self.wall(now));
        let latest = wall.saturating_add(micros(quarantine)?);
        let floor = latest.saturating_sub(micros(idle)?);
        let keep = match until(idle, now, "set") {
            Ok(end) => end,
            Err(refusal) => return Some(refusal),
        };
        let counter = self.value(counter_key, now);
        if tombstone == 0 && self.value(lock, now).as_deref() == Some(*value) {
            let counter = counter.as_deref().and_then(number);
            tombstone = counter.map_or(0, |counter| counter.saturating_add(1));
        }
        // A token too far ahead was never granted, so its tombstone must not block others.
        let is_late = tombstone > latest.saturating_add(1);
        match counter {
            _ if tombstone == 0 => (),
            None if self.get(counter_key, now).is_some() => (),
            None => {
                let floor = if is_late { floor } else { floor.max(tombstone) };
                self.put(counter_key, &floor.to_string(), keep);
            }
            Some(text) => {
                let raises = |counter| {
                    let is_own = counter == tombstone.saturating_sub(1);
                    counter < tombstone && (is_own || !is_late)
                };
                if number(&text).is_some_and(raises) {
                    self.put(counter_key, &tombstone.to_string(), keep);
                }
            }
        }
        Some(match rest {
            Some(left) => self.rest(lock, value, left, now),
            None => self.release((lock, value), Release::of(undo), now),
        })
    }

    fn open(&mut self, key: &str, arguments: &[&str], now: Duration) -> Option<Reply> {
        let [action, quarantine, config] = arguments else {
            return None;
        };
        let run_id = self.process.run_id();
        let (wall, span) = (self.wall(now), micros(quarantine)?);
        if self.is_of_another_type(key, now) {
            return Some(wrong_type());
        }
        let written = self.value(key, now);
        let (is_fresh, is_opened) = match written.as_deref().map(Marker::read) {
            None => (true, false),
            Some(None) => return Some(answer("MARKER", [])),
            Some(Some(marker)) if marker.config != *config => {
                return Some(another_config(&marker));
            }
            Some(Some(marker)) => {
                let is_ours = marker.run_id == run_id;
                (
                    is_ours && marker.why == "new" && wall < marker.open_at,
                    is_ours && marker.why == "opened",
                )
            }
        };
        if *action == "close" && is_opened {
            self.set_marker(key, (&run_id, config), wall.saturating_add(span), "new");
        } else if !is_fresh {
            return Some(answer("SERVING", []));
        } else if *action == "open" {
            self.set_marker(key, (&run_id, config), wall, "opened");
        }
        Some(Reply::Okay)
    }
}
