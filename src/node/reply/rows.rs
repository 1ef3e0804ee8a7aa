//! The rows of a reply: what a node says about each key, by the verb that asks.

use std::time::Duration;

use smallvec::{SmallVec, smallvec};

use crate::claim::{Claim, Names};
use crate::error::{NodeError, Vote};
use crate::node::key_report::{KeyReport, Payload, Waiters};
use crate::node::request::Verb;
use crate::shown;
use crate::value::Content;
use crate::wire::pack::Packed;
use crate::wire::resp::Reply;
use crate::wire::transport::refusal;

/// Reads the rows of a reply to this command.
pub(super) struct Rows<'c> {
    pub(super) verb: &'c Verb,
    pub(super) command: &'c Packed,
}

impl Rows<'_> {
    /// The vote of a node from its rows, and for which of the keys clients wait.
    pub(super) fn vote(&self, reply: &Reply) -> Option<KeyReport> {
        if self.command.keys == 1 {
            let row = self.row(reply);
            return row.filter(|row| !matches!(*row.vote, Vote::NotAsked));
        }
        let rows = self.read(reply)?;
        let has_error = rows.iter().any(|row| row.vote.is_silent());
        let waited_for = rows.iter().enumerate().filter(|(_, row)| row.waiters.any());
        let waited_for = waited_for.map(|(index, _)| Waiters::at(index));
        let waiters = waited_for.fold(Waiters::default(), Waiters::or);
        let votes = rows.into_iter().map(|row| row.vote.into());
        let mut report = KeyReport::of(one_vote(votes, self.command.names.as_ref())?);
        report.waiters = waiters;
        if has_error && !report.vote.is_silent() {
            report.rare().payload = Payload::ErrorOfAnotherKey;
        }
        Some(report)
    }

    /// A row for each key.
    pub(super) fn read(&self, reply: &Reply) -> Option<SmallVec<[KeyReport; 1]>> {
        let keys = self.command.keys;
        if let Reply::Error(error) = reply {
            return Some(smallvec![failed(refusal(error)); keys]);
        }
        if keys == 1 {
            return Some(smallvec![self.row(reply)?]);
        }
        let items = items(reply).filter(|items| items.len() == keys)?;
        items.iter().map(|item| self.row(item)).collect()
    }

    fn row(&self, reply: &Reply) -> Option<KeyReport> {
        let report = |vote| Some(KeyReport::of(vote));
        let waited_for = |vote| Some(KeyReport::of(vote).with_waiter());
        let items = match (reply, self.verb) {
            (Reply::Error(error), _) => return Some(failed(refusal(error))),
            (Reply::Int(1), Verb::Keep { .. }) => return report(&Vote::Granted),
            (Reply::Int(1), Verb::Drop) => return report(&Vote::Released),
            (Reply::Int(2), Verb::Keep { .. }) => return waited_for(&Vote::Granted),
            (Reply::Int(2), Verb::Drop) => return waited_for(&Vote::Released),
            (Reply::Int(0), Verb::Take(_)) => return report(&Vote::NotAsked),
            (Reply::Array(items), _) => items.as_slice(),
            _ => return None,
        };
        Some(match items {
            [Reply::Int(-2)] if self.attempt().is_none() => KeyReport::of(&Vote::Missing),
            [Reply::Int(-3)] => failed(NodeError::other_type()),
            // The value is that of the last reader, if readers have the key.
            [Reply::Int(-1), Reply::Bulk(value)] => {
                failed(NodeError::never_expires(Some(value), None))
            }
            _ if matches!(self.verb, Verb::Show) => return shown_row(items),
            [Reply::Int(-1)] => failed(NodeError::never_expires(None, None)),
            [Reply::Int(left @ 0..), rest @ ..] => {
                KeyReport::of(self.taken_by_another(millis(*left), rest)?)
            }
            _ => return None,
        })
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
        self.verb.attempt().map(|attempt| &attempt.claim)
    }
}

/// Reads what is shown of a key that is there. A last 1 tells that a client waits.
fn shown_row(items: &[Reply]) -> Option<KeyReport> {
    let vote = match items {
        [row @ .., Reply::Int(1)] if row.len() == 3 => {
            return shown_row(row).map(KeyReport::with_waiter);
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
            let (content, is_reader) = (Content::read(value), true);
            let value = Payload::Value { content, is_reader };
            return Some(KeyReport::with_payload(Vote::held(None), value));
        }
        _ => return None,
    };
    Some(KeyReport::of(vote))
}

/// Reads a value of this length, or its beginning.
fn shown_value(left: i64, length: usize, value: &[u8]) -> Option<KeyReport> {
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
    let is_reader = false;
    Some(KeyReport::with_payload(
        vote,
        Payload::Value { content, is_reader },
    ))
}

fn failed(error: NodeError) -> KeyReport {
    KeyReport::of(Vote::Failed(error))
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

pub(super) fn millis(number: i64) -> Duration {
    Duration::from_millis(number.unsigned_abs())
}

pub(super) fn items(reply: &Reply) -> Option<&[Reply]> {
    let Reply::Array(items) = reply else {
        return None;
    };
    Some(items)
}

pub(super) fn bytes(value: &Reply) -> Option<&[u8]> {
    let Reply::Bulk(bytes) = value else {
        return None;
    };
    Some(bytes)
}
