//! The rows of a reply: what a node says about each key, by the verb that asks.

use std::time::Duration;

use smallvec::{SmallVec, smallvec};

use crate::claim::{Claim, Names};
use crate::error::{NodeError, Vote};
use crate::node::request::Verb;
use crate::shown;
use crate::value::Content;
use crate::wire::pack::Packed;
use crate::wire::resp::Reply;
use crate::wire::transport::refusal;

/// What a node says about one key.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) vote: Vote,
    /// The value, if the node shows one.
    pub(crate) content: Option<Content>,
    /// Whether it is that of a reader who was looked for.
    pub(crate) is_reader: bool,
    /// Whether a client waits for the key; a release has woken it.
    pub(crate) has_waiter: bool,
}

/// For which resources of a lock a client waits at a node, by their places: a bit for each. A release has woken it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Woken(pub(super) u64);

/// What the rows of a reply come to.
pub(super) struct Voted {
    pub(super) vote: Vote,
    pub(super) woken: Woken,
    /// Whether the vote is about one key, and the row of another key is an error.
    pub(super) hides_silence: bool,
}

/// Reads the rows of a reply to this command.
#[derive(Clone, Copy)]
pub(super) struct Rows<'c> {
    pub(super) verb: &'c Verb,
    pub(super) command: &'c Packed,
}

impl Row {
    fn waited_for(vote: Vote) -> Self {
        Self {
            has_waiter: true,
            ..vote.into()
        }
    }
}

impl From<Vote> for Row {
    fn from(vote: Vote) -> Self {
        Self {
            vote,
            content: None,
            is_reader: false,
            has_waiter: false,
        }
    }
}

impl Rows<'_> {
    /// The vote of a node from its rows, and whom it has woken.
    pub(super) fn vote(&self, reply: &Reply) -> Option<Voted> {
        let rows = self.read(reply)?;
        let is_silent = rows.iter().any(|row| row.vote.is_silent());
        let waited_for = rows.iter().enumerate().filter(|(_, row)| row.has_waiter);
        let woken = waited_for.fold(Woken::default(), |woken, (place, _)| woken.and(place));
        let votes = rows.into_iter().map(|row| row.vote);
        let vote = one_vote(votes, self.command.names.as_ref())?;
        Some(Voted {
            hides_silence: is_silent && !vote.is_silent(),
            vote,
            woken,
        })
    }

    /// A row for each key.
    pub(super) fn read(&self, reply: &Reply) -> Option<SmallVec<[Row; 1]>> {
        let keys = self.command.keys;
        if let Reply::Error(error) = reply {
            return Some(smallvec![Vote::Failed(refusal(error)).into(); keys]);
        }
        if keys == 1 {
            return Some(smallvec![self.row(reply)?]);
        }
        let items = items(reply).filter(|items| items.len() == keys)?;
        items.iter().map(|item| self.row(item)).collect()
    }

    fn row(&self, reply: &Reply) -> Option<Row> {
        let items = match (reply, self.verb) {
            (Reply::Error(error), _) => return Some(Vote::Failed(refusal(error)).into()),
            (Reply::Int(1), Verb::Keep { .. }) => return Some(Vote::Granted.into()),
            (Reply::Int(1), Verb::Drop) => return Some(Vote::Released.into()),
            (Reply::Int(2), Verb::Keep { .. }) => return Some(Row::waited_for(Vote::Granted)),
            (Reply::Int(2), Verb::Drop) => return Some(Row::waited_for(Vote::Released)),
            (Reply::Int(0), Verb::Take(_)) => return Some(Vote::NotAsked.into()),
            (Reply::Array(items), _) => items.as_slice(),
            _ => return None,
        };
        let vote = match items {
            [Reply::Int(-2)] if self.attempt().is_none() => Vote::Missing,
            [Reply::Int(-3)] => Vote::Failed(NodeError::other_type()),
            // Of a set of readers, the value is that of the last one.
            [Reply::Int(-1), Reply::Bulk(value)] => {
                Vote::Failed(NodeError::never_expires(Some(value), None))
            }
            _ if matches!(self.verb, Verb::Show) => return shown_row(items),
            [Reply::Int(-1)] => Vote::Failed(NodeError::never_expires(None, None)),
            [Reply::Int(left @ 0..), rest @ ..] => self.taken_by_another(millis(*left), rest)?,
            _ => return None,
        };
        Some(vote.into())
    }

    /// Reads what follows the time for which another holder has the key.
    fn taken_by_another(&self, left: Duration, rest: &[Reply]) -> Option<Vote> {
        let is_reader = self.attempt().is_some_and(|claim| claim.resource.is_read());
        match rest {
            [] => Some(Vote::held(Some(left))),
            [Reply::Bulk(value)] => Some(Vote::Held {
                token: None,
                remaining: Some(left),
                holder: Content::read(value).holder(),
                resting: Content::rests(value),
                resource: None,
            }),
            // Other readers are no reason to refuse a reader.
            [Reply::Int(readers @ 0..)] if !is_reader => Some(Vote::Read {
                readers: readers.unsigned_abs(),
                first: None,
                last: left,
                resource: None,
            }),
            [Reply::Int(-1)] if is_reader => Some(Vote::WriterWaits { remaining: left }),
            _ => None,
        }
    }

    /// What is asked for, if anything is.
    fn attempt(&self) -> Option<&Claim> {
        self.verb.repair().map(|repair| &repair.claim)
    }
}

/// Reads what is shown of a key that is there. A last 1 tells that a client waits.
fn shown_row(items: &[Reply]) -> Option<Row> {
    let vote = match items {
        [row @ .., Reply::Int(1)] if row.len() == 3 => {
            let mut row = shown_row(row)?;
            row.has_waiter = true;
            return Some(row);
        }
        [
            Reply::Int(last @ 0..),
            Reply::Int(readers @ 1..),
            Reply::Int(first @ 0..),
        ] => Vote::Read {
            readers: readers.unsigned_abs(),
            first: Some(millis(*first)),
            last: millis(*last),
            resource: None,
        },
        [
            Reply::Int(left @ -1..),
            Reply::Int(length),
            Reply::Bulk(value),
        ] => return shown_value(*left, usize::try_from(*length).ok()?, value),
        [Reply::Bulk(kind), Reply::Bulk(value)] if kind == b"READER" => {
            return Some(Row {
                content: Some(Content::read(value)),
                is_reader: true,
                ..Vote::held(None).into()
            });
        }
        _ => return None,
    };
    Some(vote.into())
}

/// Reads a value of this length, or its beginning.
fn shown_value(left: i64, length: usize, value: &[u8]) -> Option<Row> {
    if value.len() > length {
        return None;
    }
    let content = Content::read(value);
    let vote = if left < 0 {
        Vote::Failed(NodeError::never_expires(Some(value), Some(length)))
    } else {
        Vote::Held {
            token: Some(content.token(|| shown::value(value, length))),
            remaining: Some(millis(left)),
            holder: content.holder(),
            resting: Content::rests(value),
            resource: None,
        }
    };
    Some(Row {
        content: Some(content),
        ..vote.into()
    })
}

/// The vote of a node from its votes on each key, with the names of the resources if they are several. A key of another holder decides
/// before all else. A missing key decides last: as long as another key may still be ours, nothing is known for sure.
pub(crate) fn one_vote(votes: impl Iterator<Item = Vote>, names: Option<&Names>) -> Option<Vote> {
    let (mut telling, mut most) = (None, 0);
    for (place, vote) in votes.enumerate() {
        let tells = match vote {
            Vote::NotAsked => 0,
            Vote::Granted | Vote::Released => 1,
            Vote::Missing => 2,
            Vote::Failed(NodeError::NotALock { .. }) => 4,
            Vote::Failed(_) => 3,
            Vote::Held { .. } | Vote::Read { .. } | Vote::WriterWaits { .. } => 5,
            Vote::Stale { .. } => return None,
        };
        if tells > most {
            most = tells;
            telling = match names.and_then(|names| names.get(place)) {
                Some(name) => Some(vote.about(name)),
                None => Some(vote),
            };
        }
    }
    telling
}

impl Woken {
    /// Also for the resource at this place.
    pub(super) fn and(self, place: usize) -> Self {
        Self(self.0 | bit(place))
    }

    pub(crate) fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) fn has(self, place: usize) -> bool {
        self.0 & bit(place) != 0
    }

    pub(crate) fn any(self) -> bool {
        self.0 != 0
    }
}

/// No lock is on more resources than there are bits.
fn bit(place: usize) -> u64 {
    let place = u32::try_from(place).unwrap_or(u32::MAX);
    1_u64.checked_shl(place).unwrap_or_default()
}

pub(super) fn millis(number: i64) -> Duration {
    Duration::from_millis(number.unsigned_abs())
}

pub(super) fn items(reply: &Reply) -> Option<&[Reply]> {
    if let Reply::Array(items) = reply {
        Some(items)
    } else {
        None
    }
}

pub(super) fn bytes(value: &Reply) -> Option<&[u8]> {
    if let Reply::Bulk(bytes) = value {
        Some(bytes)
    } else {
        None
    }
}
