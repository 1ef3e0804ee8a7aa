//! The keys of a fake node, and the few commands that this crate sends.

use std::collections::HashMap;
use std::time::Duration;

use redis::Value;

use crate::node::command::{EXTEND, RELEASE, RETAKE};

/// Keys with a time to live, on the node's own clock.
#[derive(Default)]
pub(crate) struct Store {
    keys: HashMap<String, Entry>,
}

pub(crate) struct Entry {
    pub(crate) value: String,
    pub(crate) until: Duration,
}

impl Store {
    /// Executes one packed command. What Redis would not accept, or this crate never sends, is answered with an error.
    pub(crate) fn execute(&mut self, command: &[u8], now: Duration) -> Value {
        let Some(arguments) = arguments(command) else {
            return error("Protocol error: expected an array of bulk strings");
        };
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        match arguments.as_slice() {
            ["PING"] => Value::SimpleString("PONG".into()),
            ["SET", key, token, "NX", "PX", ttl] => self.acquire(key, token, ttl, now),
            ["EVAL", script, "1", key, token, ttl] if *script == RETAKE => {
                if self
                    .get(key, now)
                    .is_some_and(|entry| entry.value == *token)
                {
                    Value::Okay
                } else {
                    self.acquire(key, token, ttl, now)
                }
            }
            ["EVAL", script, "1", key, token] if *script == RELEASE => {
                match self.own(key, token, now) {
                    Ok(_) => {
                        self.keys.remove(*key);
                        Value::Int(1)
                    }
                    Err(why_not) => why_not,
                }
            }
            ["EVAL", script, "1", key, token, ttl] if *script == EXTEND => {
                let Some(ttl) = millis(ttl) else {
                    return error("value is not an integer or out of range");
                };
                match self.own(key, token, now) {
                    Ok(entry) => {
                        entry.until = entry.until.max(now.saturating_add(ttl));
                        Value::Int(1)
                    }
                    Err(why_not) => why_not,
                }
            }
            _ => error("a command that a fake node does not know"),
        }
    }

    pub(crate) fn get(&mut self, key: &str, now: Duration) -> Option<&mut Entry> {
        if self.keys.get(key).is_some_and(|entry| entry.until <= now) {
            self.keys.remove(key);
        }
        self.keys.get_mut(key)
    }

    pub(crate) fn put(&mut self, key: &str, value: &str, until: Duration) {
        let value = value.to_owned();
        self.keys.insert(key.to_owned(), Entry { value, until });
    }

    fn acquire(&mut self, key: &str, token: &str, ttl: &str, now: Duration) -> Value {
        let Some(ttl) = millis(ttl).filter(|ttl| !ttl.is_zero()) else {
            return error("invalid expire time in 'set' command");
        };
        if self.get(key, now).is_some() {
            return Value::Nil;
        }
        self.put(key, token, now.saturating_add(ttl));
        Value::Okay
    }

    /// The entry with this token, or what the scripts answer where there is none.
    fn own(&mut self, key: &str, token: &str, now: Duration) -> Result<&mut Entry, Value> {
        match self.get(key, now) {
            Some(entry) if entry.value == token => Ok(entry),
            Some(entry) => {
                let left = entry.until.saturating_sub(now).as_millis();
                Err(why_not(i64::try_from(left).unwrap_or(i64::MAX)))
            }
            None => Err(why_not(-2)),
        }
    }
}

fn why_not(pttl: i64) -> Value {
    Value::Array(vec![Value::Int(pttl)])
}

fn error(message: &str) -> Value {
    let line = format!("-ERR {message}\r\n");
    redis::parse_redis_value(line.as_bytes()).unwrap_or(Value::Nil)
}

fn millis(text: &str) -> Option<Duration> {
    text.parse().ok().map(Duration::from_millis)
}

/// A packed command is what Redis also uses for replies, an array of bulk strings.
fn arguments(command: &[u8]) -> Option<Vec<String>> {
    let Ok(Value::Array(items)) = redis::parse_redis_value(command) else {
        return None;
    };
    let text = |item: Value| {
        let Value::BulkString(bytes) = item else {
            return None;
        };
        String::from_utf8(bytes).ok()
    };
    items.into_iter().map(text).collect()
}
