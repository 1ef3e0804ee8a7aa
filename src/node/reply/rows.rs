//! The rows of a reply: what a node says about each key, by the verb that asks.

use std::time::Duration;

use crate::claim::Names;
use crate::error::{NodeError, Vote};
use crate::health::answers::Question;
use crate::shown;
use crate::value::Content;
use crate::wire::resp::Reply;
use crate::wire::transport::refusal;

/// The verb of a command, as far as its reply depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Verb {
    Take(Taker),
    Keep,
    Drop,
    Pass(Taker),
    Show,
    /// At the slots of a semaphore with so many permits, if it is one.
    Look(Option<u32>),
    Open,
    Scan,
    Probe,
    Ask(Question),
    /// The reply is read by who asks.
    Other,
}

/// Who asks for a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Taker {
    pub(in super::super) is_fenced: bool,
    pub(in super::super) is_reader: bool,
}

/// What is under a key.
#[derive(Debug, Clone)]
pub(crate) struct Shown {
    /// As a vote for nobody.
    pub(crate) vote: Vote,
    /// The value, if the node shows one.
    pub(crate) content: Option<Content>,
    /// Whether it is that of a reader who was looked for.
    pub(crate) is_reader: bool,
}

/// For which resources of a lock a node has woken a client that waits, by their places: a bit for each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Woken(pub(super) u64);

/// A reader of rows.
#[derive(Clone, Copy)]
pub(super) struct Rows<'c> {
    pub(super) verb: Verb,
    pub(super) keys: usize,
    pub(super) names: Option<&'c Names>,
}

pub(super) struct Row {
    pub(super) shown: Shown,
    has_woken: bool,
}

impl From<Vote> for Row {
    fn from(vote: Vote) -> Self {
        let shown = Shown {
            vote,
            content: None,
            is_reader: false,
        };
        Self {
            shown,
            has_woken: false,
        }
    }
}

impl Rows<'_> {
    /// The vote of a node from its rows, and whom it has woken.
    pub(super) fn vote(&self, reply: &Reply) -> Option<(Vote, Woken)> {
        let Some(names) = self.names else {
            let row = self.row(reply)?;
            let is_skipped = matches!(row.shown.vote, Vote::NotAsked);
            return (!is_skipped).then_some((row.shown.vote, Woken::one(row.has_woken)));
        };
        if let Reply::Error(error) = reply {
            return Some((Vote::Failed(refusal(error)), Woken::default()));
        }
        let rows = self.read(reply)?;
        let mut woken = Woken::default();
        for (place, _) in rows.iter().enumerate().filter(|(_, row)| row.has_woken) {
            woken = woken.and(place);
        }
        let votes = rows.into_iter().map(|row| row.shown.vote);
        Some((one_vote(votes, names)?, woken))
    }

    /// A row for each key.
    pub(super) fn read(&self, reply: &Reply) -> Option<Vec<Row>> {
        if self.keys == 1 {
            return Some(vec![self.row(reply)?]);
        }
        if let (Reply::Error(error), Verb::Show) = (reply, self.verb) {
            let row = || Row::from(Vote::Failed(refusal(error)));
            return Some((0..self.keys).map(|_| row()).collect());
        }
        let items = items(reply).filter(|items| items.len() == self.keys)?;
        items.iter().map(|item| self.row(item)).collect()
    }

    fn row(&self, reply: &Reply) -> Option<Row> {
        let items = match (reply, self.verb) {
            (Reply::Error(error), _) => return Some(Vote::Failed(refusal(error)).into()),
            (Reply::Int(1), Verb::Keep) => return Some(Vote::Granted.into()),
            (Reply::Int(number @ 1..=2), Verb::Drop) => {
                let has_woken = *number == 2;
                return Some(Row {
                    has_woken,
                    ..Vote::Released.into()
                });
            }
            (Reply::Int(0), Verb::Take(_)) => return Some(Vote::NotAsked.into()),
            (Reply::Array(items), _) => items.as_slice(),
            _ => return None,
        };
        let is_shown = self.verb == Verb::Show;
        let vote = match items {
            [Reply::Int(-2)] if !matches!(self.verb, Verb::Take(_)) => Vote::Missing,
            [Reply::Int(-3)] => Vote::Failed(NodeError::other_type()),
            [Reply::Int(-1)] if !is_shown => Vote::Failed(NodeError::never_expires(None, None)),
            // Of a set of readers, the last one.
            [Reply::Int(-1), Reply::Bulk(value)] => {
                Vote::Failed(NodeError::never_expires(Some(value), None))
            }
            [Reply::Int(left @ 0..), rest @ ..] if !is_shown => {
                self.taken_by_another(millis(*left), rest)?
            }
            [
                Reply::Int(last @ 0..),
                Reply::Int(readers @ 1..),
                Reply::Int(first @ 0..),
            ] if is_shown => Vote::Read {
                readers: readers.unsigned_abs(),
                first: Some(millis(*first)),
                last: millis(*last),
                resource: None,
            },
            [
                Reply::Int(left @ -1..),
                Reply::Int(length),
                Reply::Bulk(value),
            ] if is_shown => {
                return shown_value(*left, *length, value);
            }
            [Reply::Bulk(kind), Reply::Bulk(value)] if is_shown && kind == b"READER" => {
                let content = Some(Content::read(value));
                let vote = Vote::held(None);
                let shown = Shown {
                    vote,
                    content,
                    is_reader: true,
                };
                return Some(Row {
                    shown,
                    has_woken: false,
                });
            }
            _ => return None,
        };
        Some(vote.into())
    }

    /// Reads what follows the time for which another holder has the key.
    fn taken_by_another(&self, left: Duration, rest: &[Reply]) -> Option<Vote> {
        let is_reader = matches!(
            self.verb,
            Verb::Take(Taker {
                is_reader: true,
                ..
            })
        );
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
}

/// Reads a value that was asked for.
fn shown_value(left: i64, length: i64, value: &[u8]) -> Option<Row> {
    let length = usize::try_from(length)
        .ok()
        .filter(|length| value.len() <= *length)?;
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
    let shown = Shown {
        vote,
        content: Some(content),
        is_reader: false,
    };
    Some(Row {
        shown,
        has_woken: false,
    })
}

/// The vote of a node from its votes on each key. Most telling is that another holder has one, and least that one is gone: where a
/// key may be ours still, nothing is known for sure.
pub(crate) fn one_vote(votes: impl Iterator<Item = Vote>, names: &Names) -> Option<Vote> {
    let (mut telling, mut most) = (None, 0);
    for (vote, name) in votes.zip(names.iter()) {
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
            (telling, most) = (Some(vote.about(name)), tells);
        }
    }
    telling
}

impl Woken {
    /// For the only resource of a lock.
    pub(super) fn one(has_woken: bool) -> Self {
        Self(u64::from(has_woken))
    }

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

impl Taker {
    pub(super) const PLAIN: Self = Self {
        is_fenced: false,
        is_reader: false,
    };
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
