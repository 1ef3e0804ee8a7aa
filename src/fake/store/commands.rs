//! The commands of Redis that the scripts and the library call, each as far as they use it.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use super::Store;
use super::entry::{Content, Entry, bad_end, bulk, count, error, integer, wrong_type};
use crate::wire::resp::Reply;

mod scan;
mod sorted;

impl Store {
    /// Executes one command. Replies with an error to what Redis does not accept, and to what nobody sends.
    pub(super) fn command(&mut self, words: &[&str], now: Duration) -> Reply {
        let reply = match words {
            ["GET", key] => self.text(key, now),
            ["MGET", keys @ ..] => {
                let texts = keys.iter().map(|key| self.text(key, now));
                let texts = texts.map(|text| text.unwrap_or(Reply::Nil));
                Ok(Reply::Array(texts.collect()))
            }
            ["SET", key, value, options @ ..] => self.set(key, value, options, now),
            ["STRLEN", key] => {
                let text = self.typed(key, Content::as_text, now);
                text.map(|text| count(text.map_or(0, |text| text.len())))
            }
            ["INCR", key] => self.increment(key, now),
            ["DEL", keys @ ..] => {
                let gone = keys.iter().filter(|key| self.delete(key, now));
                Ok(count(gone.count()))
            }
            ["EXISTS", keys @ ..] => {
                let there = keys.iter().filter(|key| self.get(key, now).is_some());
                Ok(count(there.count()))
            }
            ["TYPE", key] => {
                let kind = self.get(key, now).map(|entry| entry.content.kind());
                Ok(Reply::Text(kind.unwrap_or("none").to_owned()))
            }
            ["PTTL", key] => {
                let left = self.get(key, now).map(|entry| entry.pttl(now));
                Ok(Reply::Int(left.unwrap_or(-2)))
            }
            ["PEXPIRE", key, ttl] => self.expire(key, ttl, now),
            ["PEXPIREAT", key, end] => self.expire_at(key, end, now),
            ["SADD", key, member] => {
                let new = Content::Set(BTreeSet::new());
                let members = self.typed_or_new(key, new, Content::as_set, now);
                members.map(|members| Reply::Int(members.insert((*member).to_owned()).into()))
            }
            ["SREM", key, member] => self.remove_from(key, Content::as_set, now, |members| {
                members.remove(*member).into()
            }),
            ["SISMEMBER", key, member] => {
                let members = self.typed(key, Content::as_set, now);
                let has = |members: &mut BTreeSet<String>| members.contains(*member);
                members.map(|members| Reply::Int(members.is_some_and(has).into()))
            }
            ["RPUSH", key, elements @ ..] => self.push(key, elements, now),
            ["SCAN", cursor, "MATCH", pattern, "COUNT", count] => self.scan(cursor, pattern, count),
            ["TIME"] => Ok(self.process.time(now)),
            ["INFO", section] => Ok(self.process.info(section, now)),
            other => self.sorted_command(other, now),
        };
        reply.unwrap_or_else(|refusal| refusal)
    }

    /// What is under a key, if it is of a type.
    fn typed<T>(
        &mut self,
        key: &str,
        of_type: fn(&mut Content) -> Option<&mut T>,
        now: Duration,
    ) -> Result<Option<&mut T>, Reply> {
        let Some(entry) = self.get(key, now) else {
            return Ok(None);
        };
        of_type(&mut entry.content).map(Some).ok_or_else(wrong_type)
    }

    /// What is under a key. Where nothing is, `new`, which never expires.
    fn typed_or_new<T>(
        &mut self,
        key: &str,
        new: Content,
        of_type: fn(&mut Content) -> Option<&mut T>,
        now: Duration,
    ) -> Result<&mut T, Reply> {
        self.sweep(key, now);
        let entry = self.keys.entry(key.to_owned()).or_insert(Entry {
            content: new,
            until: Entry::NEVER,
        });
        of_type(&mut entry.content).ok_or_else(wrong_type)
    }

    /// Takes members away, and the key with the last of them. Returns how many they were.
    fn remove_from<T>(
        &mut self,
        key: &str,
        of_type: fn(&mut Content) -> Option<&mut T>,
        now: Duration,
        remove: impl FnOnce(&mut T) -> i64,
    ) -> Result<Reply, Reply> {
        let removed = self.typed(key, of_type, now)?.map_or(0, remove);
        if self
            .get(key, now)
            .is_some_and(|entry| entry.content.is_empty())
        {
            self.keys.remove(key);
        }
        Ok(Reply::Int(removed))
    }

    fn text(&mut self, key: &str, now: Duration) -> Result<Reply, Reply> {
        let text = self.typed(key, Content::as_text, now)?;
        Ok(text.map_or(Reply::Nil, |text| bulk(text)))
    }

    fn set(
        &mut self,
        key: &str,
        value: &str,
        options: &[&str],
        now: Duration,
    ) -> Result<Reply, Reply> {
        let mut until = Entry::NEVER;
        let mut may_set = true;
        let mut options = options.iter();
        while let Some(option) = options.next() {
            let is_there = self.get(key, now).is_some();
            match (*option, options.len()) {
                ("NX", _) => may_set = !is_there,
                ("XX", _) => may_set = is_there,
                ("PX", 1..) => {
                    let ttl = options.next().copied().unwrap_or_default();
                    until = end(integer(ttl)?, now, "set")?;
                    if until <= now {
                        return Err(bad_end("set"));
                    }
                }
                _ => return Err(error("syntax error")),
            }
        }
        if !may_set {
            return Ok(Reply::Nil);
        }
        self.put(key, value, until);
        Ok(Reply::Okay)
    }

    fn increment(&mut self, key: &str, now: Duration) -> Result<Reply, Reply> {
        let text = self.typed_or_new(key, Content::Text("0".into()), Content::as_text, now)?;
        let more = integer(text)?.checked_add(1);
        let more = more.ok_or_else(|| error("increment or decrement would overflow"))?;
        *text = more.to_string();
        Ok(Reply::Int(more))
    }

    fn delete(&mut self, key: &str, now: Duration) -> bool {
        self.sweep(key, now);
        self.keys.remove(key).is_some()
    }

    fn expire(&mut self, key: &str, ttl: &str, now: Duration) -> Result<Reply, Reply> {
        let ttl_ms = integer(ttl)?;
        end(ttl_ms, now, "pexpire")?;
        self.ends_in(key, ttl_ms, now)
    }

    fn expire_at(&mut self, key: &str, end: &str, now: Duration) -> Result<Reply, Reply> {
        let left_ms = integer(end)?.saturating_sub(self.wall_ms(now));
        self.ends_in(key, left_ms, now)
    }

    /// Has a key end so many ms later, or at once. A sorted set is there until its last ms is over.
    fn ends_in(&mut self, key: &str, left_ms: i64, now: Duration) -> Result<Reply, Reply> {
        let last_ms = self.wall_ms(now).saturating_add(left_ms);
        let last_ms_is_over = self.process.after(last_ms);
        let Some(entry) = self.get(key, now) else {
            return Ok(Reply::Int(0));
        };
        let is_sorted = entry.content.as_sorted().is_some();
        entry.until = if is_sorted && left_ms > 0 {
            last_ms_is_over
        } else {
            end(left_ms, now, "pexpireat")?
        };
        self.sweep(key, now);
        Ok(Reply::Int(1))
    }

    fn push(&mut self, key: &str, elements: &[&str], now: Duration) -> Result<Reply, Reply> {
        let new = Content::List(VecDeque::new());
        let list = self.typed_or_new(key, new, Content::as_list, now)?;
        list.extend(elements.iter().map(|element| (*element).to_owned()));
        let length = count(list.len());
        self.has_rung = true;
        Ok(length)
    }
}

/// When a key ends that has so many ms left: at once, if they are not above zero. In milliseconds it has to fit an `i64`, as in
/// Redis.
fn end(ttl_ms: i64, now: Duration, command: &str) -> Result<Duration, Reply> {
    let now_ms = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
    if now_ms.checked_add(ttl_ms).is_none() {
        return Err(bad_end(command));
    }
    let ttl = Duration::from_millis(u64::try_from(ttl_ms).unwrap_or(0));
    Ok(now.saturating_add(ttl))
}
