//! The commands of Redis that the scripts and the library call, each as far as they use it.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::Store;
use super::entry::{
    Content, Entry, Kind, Members, bulk, count, end_of_ms, error, integer, whole_ms, within,
    wrong_type,
};
use super::process::Process;
use crate::wire::resp::Reply;

mod scan;

/// The reply to a command, or the error in its place.
type CommandResult = Result<Reply, Reply>;

impl Store {
    /// Executes one command. Replies with an error to what Redis does not accept, and to what nobody sends.
    pub(super) fn command(&mut self, words: &[&str], now: Duration) -> Reply {
        // A word that is no key does no harm.
        for word in words {
            self.sweep(word, now);
        }
        let reply = self.answer(words, now).unwrap_or_else(|refusal| refusal);
        if let [_, key, ..] = words
            && let Some(entry) = self.keys.get(*key)
            && entry.content.is_empty()
        {
            self.keys.remove(*key);
        }
        reply
    }

    fn answer(&mut self, words: &[&str], now: Duration) -> CommandResult {
        Ok(match words {
            ["GET", key] => self.text(key)?.map_or(Reply::Nil, bulk),
            ["MGET", keys @ ..] => {
                let text = |key: &&str| self.text(key).ok().flatten().map_or(Reply::Nil, bulk);
                Reply::Array(keys.iter().map(text).collect())
            }
            ["SET", key, value, options @ ..] => self.set(key, value, options, now)?,
            ["STRLEN", key] => count(self.text(key)?.map_or(0, str::len)),
            ["INCR", key] => self.increment(key)?,
            ["DEL", keys @ ..] => {
                count(keys.iter().filter_map(|key| self.keys.remove(*key)).count())
            }
            ["EXISTS", keys @ ..] => {
                let there = keys.iter().filter(|key| self.keys.contains_key(**key));
                count(there.count())
            }
            ["TYPE", key] => {
                let entry = self.keys.get(*key);
                let name = entry.map_or("none", |entry| entry.content.type_name());
                Reply::Text(name.to_owned())
            }
            ["PTTL", key] => Reply::Int(self.keys.get(*key).map_or(-2, |entry| entry.pttl(now))),
            ["PEXPIRE", key, ttl] => {
                let ttl_ms = integer(ttl)?;
                end(ttl_ms, now, "pexpire")?;
                self.ends_in(key, ttl_ms, now)?
            }
            ["PEXPIREAT", key, end] => {
                let left_ms = integer(end)?.saturating_sub(whole_ms(now));
                self.ends_in(key, left_ms, now)?
            }
            ["RPUSH", key, elements @ ..] => {
                let list = self.list(key)?;
                list.extend(elements.iter().map(|element| (*element).to_owned()));
                let length = count(list.len());
                self.has_rung = true;
                length
            }
            ["BLPOP", key, _] => match self.list(key)?.pop_front() {
                Some(element) => Reply::Array(vec![bulk(key), bulk(&element)]),
                None => Reply::Nil,
            },
            ["SCAN", cursor, "MATCH", pattern, "COUNT", count] => {
                self.scan(cursor, pattern, count)?
            }
            ["TIME"] => Process::time(now),
            ["INFO", section] => self.process.info(section, now),
            other => self.of_members(other)?,
        })
    }

    /// The commands for sets, and for sorted ones.
    fn of_members(&mut self, words: &[&str]) -> CommandResult {
        Ok(match words {
            ["SADD", key, member] => {
                let members = self.members(key, Kind::Set)?;
                Reply::Int(members.insert((*member).to_owned(), 0).is_none().into())
            }
            ["SREM", key, member] => self.remove(key, Kind::Set, |it, _| it == *member)?,
            ["SISMEMBER", key, member] => {
                let members = self.members(key, Kind::Set)?;
                Reply::Int(members.contains_key(*member).into())
            }
            ["ZADD", key, options @ .., score, member] => self.zadd(key, options, score, member)?,
            ["ZREM", key, member] => self.remove(key, Kind::Sorted, |it, _| it == *member)?,
            ["ZREMRANGEBYSCORE", key, min, max] => {
                let scores = scores(min, max)?;
                self.remove(key, Kind::Sorted, |_, score| scores.contains(&score))?
            }
            ["ZSCORE", key, member] => match self.members(key, Kind::Sorted)?.get(*member) {
                Some(score) => bulk(&score.to_string()),
                None => Reply::Nil,
            },
            ["ZCOUNT", key, min, max] => {
                let scores = scores(min, max)?;
                count(within(self.members(key, Kind::Sorted)?, &scores).len())
            }
            ["ZRANGE", key, "-1", "-1", "WITHSCORES"] => {
                let members = within(self.members(key, Kind::Sorted)?, &(i64::MIN..=i64::MAX));
                let last = members.last().copied().map(with_score);
                Reply::Array(last.into_iter().flatten().collect())
            }
            ["ZRANGEBYSCORE", key, range @ ..] => self.range(key, range)?,
            _ => return Err(error("a command that a fake node does not know")),
        })
    }

    fn increment(&mut self, key: &str) -> CommandResult {
        let more = integer(self.text(key)?.unwrap_or("0"))?.checked_add(1);
        let more = more.ok_or_else(|| error("increment or decrement would overflow"))?;
        let entry = self.keys.get(key);
        let until = entry.map_or(Entry::NEVER, |entry| entry.until);
        self.put(key, &more.to_string(), until);
        Ok(Reply::Int(more))
    }

    fn range(&mut self, key: &str, range: &[&str]) -> CommandResult {
        let [min, max, with_scores @ .., "LIMIT", from, limit] = range else {
            return Err(syntax_error());
        };
        let found = within(self.members(key, Kind::Sorted)?, &scores(min, max)?);
        let number = |text| Ok(usize::try_from(integer(text)?).unwrap_or(usize::MAX));
        let found = found.into_iter().skip(number(from)?).take(number(limit)?);
        Ok(Reply::Array(match with_scores {
            [] => found.map(|(_, member)| bulk(member)).collect(),
            ["WITHSCORES"] => found.flat_map(with_score).collect(),
            _ => return Err(syntax_error()),
        }))
    }

    fn zadd(&mut self, key: &str, options: &[&str], score: &str, member: &str) -> CommandResult {
        let score = integer(score).map_err(|_| error("value is not a valid float"))?;
        let members = self.members(key, Kind::Sorted)?;
        let old = members.get(member).copied();
        let score = match options {
            [] => score,
            ["NX"] => old.unwrap_or(score),
            _ => return Err(syntax_error()),
        };
        members.insert(member.to_owned(), score);
        Ok(Reply::Int(old.is_none().into()))
    }

    fn text(&self, key: &str) -> Result<Option<&str>, Reply> {
        self.keys.get(key).map(Entry::text).transpose()
    }

    /// What is under a key; where nothing is, this, which goes again if it stays empty.
    fn or_empty(&mut self, key: &str, content: Content) -> &mut Content {
        let until = Entry::NEVER;
        let entry = self.keys.entry(key.to_owned());
        &mut entry.or_insert(Entry { content, until }).content
    }

    fn list(&mut self, key: &str) -> Result<&mut VecDeque<String>, Reply> {
        match self.or_empty(key, Content::List(VecDeque::new())) {
            Content::List(list) => Ok(list),
            Content::Members(..) | Content::Text(_) => Err(wrong_type()),
        }
    }

    fn members(&mut self, key: &str, kind: Kind) -> Result<&mut Members, Reply> {
        match self.or_empty(key, Content::Members(kind, Members::new())) {
            Content::Members(its, members) if *its == kind => Ok(members),
            Content::Members(..) | Content::Text(_) | Content::List(_) => Err(wrong_type()),
        }
    }

    /// Takes such members away. Returns how many they were.
    fn remove(&mut self, key: &str, kind: Kind, goes: impl Fn(&str, i64) -> bool) -> CommandResult {
        let members = self.members(key, kind)?;
        let before = members.len();
        members.retain(|member, score| !goes(member, *score));
        Ok(count(before.saturating_sub(members.len())))
    }

    fn set(&mut self, key: &str, value: &str, options: &[&str], now: Duration) -> CommandResult {
        let is_there = self.keys.contains_key(key);
        let (mut may_set, mut until) = (true, Entry::NEVER);
        let mut options = options.iter();
        while let Some(option) = options.next() {
            match *option {
                "NX" => may_set = !is_there,
                "XX" => may_set = is_there,
                "PX" => {
                    let ttl = options.next().ok_or_else(syntax_error)?;
                    until = end(integer(ttl)?, now, "set")?;
                }
                _ => return Err(syntax_error()),
            }
        }
        if until <= now {
            return Err(bad_end("set"));
        }
        if !may_set {
            return Ok(Reply::Nil);
        }
        self.put(key, value, until);
        Ok(Reply::Okay)
    }

    /// Has a key end so many ms later, or at once. A sorted set is there until its last ms is over.
    fn ends_in(&mut self, key: &str, left_ms: i64, now: Duration) -> CommandResult {
        let last_ms = whole_ms(now).saturating_add(left_ms);
        let Some(entry) = self.keys.get_mut(key) else {
            return Ok(Reply::Int(0));
        };
        entry.until = if entry.content.is_sorted() && left_ms > 0 {
            end_of_ms(last_ms)
        } else {
            end(left_ms, now, "pexpireat")?
        };
        self.sweep(key, now);
        Ok(Reply::Int(1))
    }
}

fn syntax_error() -> Reply {
    error("syntax error")
}

fn bad_end(command: &str) -> Reply {
    error(&format!("invalid expire time in '{command}' command"))
}

/// When a key ends that has so many ms left: at once, if they are not above zero. In milliseconds it has to fit an `i64`, as in
/// Redis.
fn end(ttl_ms: i64, now: Duration, command: &str) -> Result<Duration, Reply> {
    if whole_ms(now).checked_add(ttl_ms).is_none() {
        return Err(bad_end(command));
    }
    let ttl = Duration::from_millis(u64::try_from(ttl_ms).unwrap_or(0));
    Ok(now.saturating_add(ttl))
}

fn with_score((score, member): (i64, &str)) -> [Reply; 2] {
    [bulk(member), bulk(&score.to_string())]
}

/// The whole numbers from one bound to another, as Redis writes them.
fn scores(min: &str, max: &str) -> Result<RangeInclusive<i64>, Reply> {
    let bound = |text: &str, towards: i64| match text.strip_prefix('(') {
        Some(text) => integer(text).ok()?.checked_add(towards),
        None if text == "-inf" => Some(i64::MIN),
        None if text == "+inf" => Some(i64::MAX),
        None => integer(text).ok(),
    };
    let range = bound(min, 1).zip(bound(max, -1));
    let range = range.map(|(min, max)| min..=max);
    range.ok_or_else(|| error("min or max is not a float"))
}
