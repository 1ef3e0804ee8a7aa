//! What is under a key of a fake node, and the numbers and errors of Redis.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::RangeInclusive;
use std::time::Duration;

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
    Set(BTreeSet<String>),
    List(VecDeque<String>),
}

/// The members of a sorted set with their scores. Of readers: their values, and until when they read, in ms of the wall
/// clock.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Sorted(pub(crate) BTreeMap<String, i64>);

impl Entry {
    /// The end of a key that has none.
    pub(super) const NEVER: Duration = Duration::MAX;

    pub(super) fn pttl(&self, now: Duration) -> i64 {
        if self.until == Self::NEVER {
            return -1;
        }
        let left = self.until.saturating_sub(now);
        let left = match self.content {
            Content::Text(_) | Content::Set(_) | Content::List(_) => left,
            // It ends after the ms that it was told, and the clock may be within one.
            Content::Sorted(_) => left.saturating_sub(Duration::from_nanos(1)),
        };
        i64::try_from(left.as_millis()).unwrap_or(i64::MAX)
    }

    pub(crate) fn text(&self) -> Option<&str> {
        if let Content::Text(text) = &self.content {
            Some(text)
        } else {
            None
        }
    }
}

impl Content {
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "string",
            Self::Sorted(_) => "zset",
            Self::Set(_) => "set",
            Self::List(_) => "list",
        }
    }

    /// As a server lists it.
    #[cfg(test)]
    pub(super) fn parts(&self) -> Vec<String> {
        match self {
            Self::Text(text) => vec![text.clone()],
            Self::Set(members) => members.iter().cloned().collect(),
            Self::List(elements) => elements.iter().cloned().collect(),
            Self::Sorted(sorted) => {
                let members = sorted.within(&(i64::MIN..=i64::MAX)).into_iter();
                members
                    .map(|(score, member)| format!("{score} {member}"))
                    .collect()
            }
        }
    }

    /// Whether nothing is left, so that Redis deletes the key.
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Text(_) => false,
            Self::Sorted(sorted) => sorted.0.is_empty(),
            Self::Set(members) => members.is_empty(),
            Self::List(elements) => elements.is_empty(),
        }
    }
}

/// The content, if it is of this kind.
macro_rules! as_kind {
    ($name:ident, $kind:ident, $inside:ty) => {
        impl Content {
            pub(super) fn $name(&mut self) -> Option<&mut $inside> {
                if let Self::$kind(inside) = self {
                    Some(inside)
                } else {
                    None
                }
            }
        }
    };
}

as_kind!(as_text, Text, String);
as_kind!(as_sorted, Sorted, Sorted);
as_kind!(as_set, Set, BTreeSet<String>);
as_kind!(as_list, List, VecDeque<String>);

impl Sorted {
    /// The members with such scores, in the order of Redis.
    pub(super) fn within(&self, scores: &RangeInclusive<i64>) -> Vec<(i64, &str)> {
        let members = self.0.iter();
        let found = members.filter(|(_, score)| scores.contains(score));
        let mut found: Vec<_> = found
            .map(|(member, score)| (*score, member.as_str()))
            .collect();
        found.sort_unstable();
        found
    }
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

/// A count or a length as a reply.
pub(super) fn count(number: usize) -> Reply {
    Reply::Int(i64::try_from(number).unwrap_or(i64::MAX))
}

/// A number as Redis reads it: without a plus, a space, or a zero that could be left out.
pub(super) fn integer(text: &str) -> Result<i64, Reply> {
    let number: Option<i64> = text.parse().ok();
    let number = number.filter(|number| number.to_string() == text);
    number.ok_or_else(|| error("value is not an integer or out of range"))
}

pub(super) fn bad_end(command: &str) -> Reply {
    error(&format!("invalid expire time in '{command}' command"))
}
