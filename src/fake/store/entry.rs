//! What is under a key of a fake node, and the numbers and errors of Redis.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use crate::token::Token;
use crate::wire::resp::{Reply, ServerError};

/// A key, and until when it lives on the node's own clock.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) content: Content,
    pub(crate) until: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Content {
    Text(String),
    /// A sorted set, with whole numbers. Its keys end as with `PEXPIREAT`, after a whole ms.
    Sorted(Sorted),
    /// Who waits for a lock.
    Set(BTreeSet<String>),
    /// A bell.
    List(VecDeque<String>),
    /// Of another type.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "nothing that a program sends makes one")
    )]
    Other,
}

/// The members of a sorted set with their scores. Of readers: their values, and until when they read, in ms of the wall
/// clock.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Sorted(pub(crate) BTreeMap<String, i64>);

/// The first score that is not one of readers: it has more digits.
pub(super) const TOO_LATE: i64 = 1_000_000_000_000_000;

impl Entry {
    /// The end of a key that has none.
    pub(super) const NEVER: Duration = Duration::MAX;

    pub(super) fn pttl(&self, now: Duration) -> i64 {
        if self.until == Self::NEVER {
            return -1;
        }
        let left = self.until.saturating_sub(now);
        let left = match self.content {
            Content::Text(_) | Content::Set(_) | Content::List(_) | Content::Other => left,
            // It ends after the ms that it was told, and the clock may be within one.
            Content::Sorted(_) => left.saturating_sub(Duration::from_nanos(1)),
        };
        i64::try_from(left.as_millis()).unwrap_or(i64::MAX)
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match &self.content {
            Content::Text(text) => Some(text),
            Content::Sorted(_) | Content::Set(_) | Content::List(_) | Content::Other => None,
        }
    }

    pub(super) fn set(&mut self) -> Option<&mut BTreeSet<String>> {
        match &mut self.content {
            Content::Set(members) => Some(members),
            Content::Text(_) | Content::Sorted(_) | Content::List(_) | Content::Other => None,
        }
    }

    pub(crate) fn sorted(&mut self) -> Option<&mut Sorted> {
        match &mut self.content {
            Content::Sorted(sorted) => Some(sorted),
            Content::Text(_) | Content::Set(_) | Content::List(_) | Content::Other => None,
        }
    }

    /// Never shortens, so a ttl of zero or less is accepted and has no effect, as in extend.lua. Unlike the script, this
    /// refuses numbers that Redis does not take for a time to live (`1e3`).
    pub(super) fn extend(&mut self, ttl: &str, now: Duration) -> Result<(), Reply> {
        let left_ms = self.until.saturating_sub(now).as_millis();
        let is_endless = self.until == Self::NEVER;
        let is_longer =
            |ttl_ms: i64| u128::try_from(ttl_ms).is_ok_and(|ttl_ms| is_endless || left_ms < ttl_ms);
        if is_endless && ttl == "0" {
            // The one time that is longer and over.
            self.until = now;
        } else if integer(ttl).is_none_or(is_longer) {
            self.until = until(ttl, now, "pexpire")?;
        }
        Ok(())
    }
}

impl Sorted {
    /// The member with the largest score.
    pub(super) fn last(&self) -> Option<(&str, i64)> {
        let members = self.0.iter().map(|(member, score)| (*score, member));
        members
            .max()
            .map(|(score, member)| (member.as_str(), score))
    }

    /// How many have no smaller score.
    pub(super) fn count_from(&self, least: i64) -> usize {
        self.0.values().filter(|score| **score >= least).count()
    }

    /// The largest score, if the last member is a reader.
    pub(super) fn last_end(&self) -> Option<i64> {
        let (member, score) = self.last()?;
        let hex = member.bytes().take_while(u8::is_ascii_hexdigit).count();
        let behind = member.as_bytes().get(hex);
        let is_value = hex == Token::HEX_LEN && matches!(behind, None | Some(b' '));
        (is_value && (1..TOO_LATE).contains(&score)).then_some(score)
    }
}

pub(super) fn why_not(pttl: i64) -> Reply {
    Reply::Array(vec![Reply::Int(pttl)])
}

pub(super) fn error(message: &str) -> Reply {
    refusal(&format!("ERR {message}"))
}

pub(super) fn refusal(text: &str) -> Reply {
    Reply::Error(ServerError::new(text))
}

pub(super) fn wrong_type() -> Reply {
    refusal("WRONGTYPE Operation against a key holding the wrong kind of value")
}

/// The end of a key with this time to live, or the error of Redis for the number. The end in milliseconds has to fit an
/// `i64`, as in Redis.
pub(super) fn until(ttl: &str, now: Duration, command: &str) -> Result<Duration, Reply> {
    let Some(ttl_ms) = integer(ttl) else {
        return Err(error("value is not an integer or out of range"));
    };
    let now_ms = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
    match u64::try_from(ttl_ms) {
        Ok(ttl @ 1..) if now_ms.checked_add(ttl_ms).is_some() => {
            Ok(now.saturating_add(Duration::from_millis(ttl)))
        }
        _ => Err(bad_end(command)),
    }
}

pub(super) fn bad_end(command: &str) -> Reply {
    error(&format!("invalid expire time in '{command}' command"))
}

/// A number as Redis reads it: without a plus, a space, or a zero that could be left out.
pub(super) fn integer(text: &str) -> Option<i64> {
    let number: i64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

/// A count or a length as a reply.
pub(super) fn count(number: usize) -> Reply {
    Reply::Int(i64::try_from(number).unwrap_or(i64::MAX))
}
