//! What is under a key of a fake node, and the numbers and errors of Redis.

use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::wire::resp::{Reply, ServerError};

/// A key, and until when it lives on the node's own clock.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) content: Content,
    pub(crate) until: Duration,
}

#[derive(Clone)]
pub(crate) enum Content {
    Text(String),
    Members(Kind, Members),
    List(VecDeque<String>),
}

/// Each member with its score. Of readers: their values, and until when they read, in ms of the wall clock.
pub(crate) type Members = BTreeMap<String, i64>;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// All scores are 0.
    Set,
    /// The scores are whole numbers. The key ends as with `PEXPIREAT`, after a whole ms.
    Sorted,
}

impl Entry {
    /// The end of a key that has none.
    pub(super) const NEVER: Duration = Duration::MAX;

    pub(super) fn pttl(&self, now: Duration) -> i64 {
        if self.until == Self::NEVER {
            return -1;
        }
        let mut left = self.until.saturating_sub(now);
        if self.content.is_sorted() {
            // It ends after the ms that it was told, and the clock may be within one.
            left = left.saturating_sub(Duration::from_nanos(1));
        }
        whole_ms(left)
    }

    pub(super) fn text(&self) -> Result<&str, Reply> {
        match &self.content {
            Content::Text(text) => Ok(text),
            Content::Members(..) | Content::List(_) => Err(wrong_type()),
        }
    }
}

impl Content {
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Self::Text(_) => "string",
            Self::Members(Kind::Set, _) => "set",
            Self::Members(Kind::Sorted, _) => "zset",
            Self::List(_) => "list",
        }
    }

    pub(super) fn is_sorted(&self) -> bool {
        matches!(self, Self::Members(Kind::Sorted, _))
    }

    /// Whether nothing is left, so that Redis deletes the key.
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Text(_) => false,
            Self::Members(_, members) => members.is_empty(),
            Self::List(elements) => elements.is_empty(),
        }
    }
}

/// The members with such scores, in the order of Redis.
pub(super) fn within<'m>(
    members: &'m Members,
    scores: &RangeInclusive<i64>,
) -> Vec<(i64, &'m str)> {
    let found = members.iter().map(|(member, score)| (*score, &**member));
    let mut found: Vec<_> = found.filter(|(score, _)| scores.contains(score)).collect();
    found.sort_unstable();
    found
}

/// The ms of the wall clock in which this is.
pub(super) fn whole_ms(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

/// When this ms of the wall clock is over.
pub(super) fn end_of_ms(ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0).saturating_add(1))
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

pub(super) fn bulk(text: &str) -> Reply {
    Reply::Bulk(text.as_bytes().to_vec())
}

pub(super) fn count(number: usize) -> Reply {
    Reply::Int(i64::try_from(number).unwrap_or(i64::MAX))
}

/// A number as Redis reads it: without a plus, a space, or a zero that could be left out.
pub(super) fn integer(text: &str) -> Result<i64, Reply> {
    let number: Option<i64> = text.parse().ok();
    let number = number.filter(|number| number.to_string() == text);
    number.ok_or_else(|| error("value is not an integer or out of range"))
}
