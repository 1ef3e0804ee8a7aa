//! What nodes may say, and what that means when the words are taken literally.

use super::*;
use crate::verdict::exhaustive::report;

/// What a node may say, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Says {
    Key(char, u64),
    /// How many readers, for how long the first and the last of them.
    Readers(u64, u64, u64),
    NoKey,
    NoLock,
    /// A lock that lost its time to live. Its holder may have it by other nodes too.
    LostTtl,
    Nothing,
}

pub(super) use Says::{Key, LostTtl, NoKey, NoLock, Nothing, Readers};

/// The key with this token is of a lock that rests.
pub(super) const RESTING: char = 'r';

impl Says {
    pub(super) fn rests(self) -> bool {
        matches!(self, Key(RESTING, _))
    }

    /// As the code under test sees it; how a node is silent, or its key no lock, goes by its place.
    pub(super) fn vote(self, place: usize) -> Vote {
        match (self, place % 3) {
            (Key(token, seconds), _) => Vote::Held {
                token: Some(token.to_string()),
                remaining: Some(Duration::from_secs(seconds)),
                holder: None,
                resting: token == RESTING,
                resource: None,
            },
            (Readers(readers, first, last), _) => Vote::Read {
                readers,
                first: Some(Duration::from_secs(first)),
                last: Duration::from_secs(last),
                resource: None,
            },
            (NoKey, _) => Vote::Missing,
            (NoLock, 0) => Vote::Failed(NodeError::other_type()),
            (NoLock, _) => Vote::Failed(NodeError::never_expires(Some(b"a"), Some(1))),
            (LostTtl, _) => {
                let token = b"0123456789abcdef0123456789abcdef01234567";
                Vote::Failed(NodeError::never_expires(Some(token), Some(token.len())))
            }
            (Nothing, 0) => Vote::Failed(NodeError::TimedOut),
            (Nothing, 1) => Vote::Failed(NodeError::PoolExhausted),
            (Nothing, _) => Vote::Failed(NodeError::BreakerOpen {
                failure: "down".into(),
            }),
        }
    }
}

pub(super) fn status(round: &[Says], drift: impl Fn(Duration) -> Duration) -> LockStatus {
    let node = |(place, says): (usize, &Says)| report(place, says.vote(place));
    of_keys(round.iter().enumerate().map(node).collect(), drift)
}

/// Calls `check` with all ways in which `nodes` nodes may answer.
pub(super) fn each_round(nodes: usize, answers: &[Says], check: &mut impl FnMut(&[Says])) {
    fn go_on(round: &mut Vec<Says>, nodes: usize, all: &[Says], check: &mut impl FnMut(&[Says])) {
        if round.len() == nodes {
            return check(round);
        }
        for says in all {
            round.push(*says);
            go_on(round, nodes, all, check);
            round.pop();
        }
    }
    go_on(&mut Vec::new(), nodes, answers, check);
}

pub(super) fn is_majority(round: &[Says], kind: impl Fn(&Says) -> bool) -> bool {
    2 * round.iter().filter(|says| kind(says)).count() > round.len()
}

/// Whether more than half of the nodes have a key with this token that is there after so many seconds.
pub(super) fn holds(round: &[Says], token: char, after: u64) -> bool {
    is_majority(
        round,
        |says| matches!(says, Key(t, ends) if *t == token && *ends > after),
    )
}

/// The specification: what is true of every way, or of some way, in which the silent nodes might have answered.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Expected {
    /// By whom, and for how many seconds.
    Held(char, u64),
    /// How many readers more than half of the nodes have at least, for how many seconds more than half have all their
    /// readers, and for how many no majority is without any.
    Read(u64, u64, u64),
    /// For how many seconds no majority is without the key.
    Resting(u64),
    Free,
    Blocked,
    Unknown,
}

pub(super) fn expected(round: &[Says]) -> Expected {
    let of_some = |token| {
        let best_case = round.iter().map(|says| match says {
            Nothing | LostTtl => Key(token, u64::MAX),
            Key(..) | Readers(..) | NoKey | NoLock => *says,
        });
        holds(&best_case.collect::<Vec<_>>(), token, 0)
    };
    let has_readers = |says: &Says| matches!(says, Readers(..));
    let may_have_readers = |says: &Says| has_readers(says) || matches!(says, Nothing | LostTtl);
    let may_be_read = is_majority(round, may_have_readers);
    // Somebody of whom nothing was heard is `z`.
    let candidates = ['a', 'b', RESTING, 'z'];
    let rests_after = |second: &u64| {
        !is_majority(
            round,
            |says| !matches!(says, Key(RESTING, ends) if ends > second),
        )
    };
    if holds(round, RESTING, 0) {
        return Expected::Resting((0..=9).find(|second| !rests_after(second)).unwrap());
    }
    if let Some(holder) = candidates.into_iter().find(|token| holds(round, *token, 0)) {
        let ended = |second: &u64| !holds(round, holder, *second);
        return Expected::Held(holder, (0..=9).find(ended).unwrap());
    }
    if is_majority(round, has_readers) {
        return expected_readers(round);
    }
    if is_majority(round, |says| *says == NoKey) {
        return Expected::Free;
    }
    if may_be_read || candidates.into_iter().any(of_some) {
        Expected::Unknown
    } else {
        Expected::Blocked
    }
}

pub(super) fn expected_readers(round: &[Says]) -> Expected {
    let has = |count: u64| is_majority(round, |says| matches!(says, Readers(n, ..) if *n >= count));
    let keeps_all = |second: u64| {
        is_majority(
            round,
            |says| matches!(says, Readers(_, first, _) if *first > second),
        )
    };
    let is_free = |second: u64| {
        is_majority(
            round,
            |says| !matches!(says, Readers(_, _, last) if *last > second),
        )
    };
    Expected::Read(
        (0..=9).rev().find(|count| has(*count)).unwrap(),
        (0..=9).find(|second| !keeps_all(*second)).unwrap(),
        (0..=9).find(|second| is_free(*second)).unwrap(),
    )
}

pub(super) fn is_as_expected(status: &LockStatus, expected: &Expected) -> bool {
    match (status, expected) {
        (
            LockStatus::Held {
                token, remaining, ..
            },
            Expected::Held(holder, seconds),
        ) => *token == holder.to_string() && *remaining == Duration::from_secs(*seconds),
        (LockStatus::Resting { remaining, .. }, Expected::Resting(seconds)) => {
            *remaining == Duration::from_secs(*seconds)
        }
        (
            LockStatus::Read {
                readers,
                remaining,
                last,
                ..
            },
            Expected::Read(count, first_ends, last_ends),
        ) => {
            (*readers, *remaining, *last)
                == (
                    *count,
                    Duration::from_secs(*first_ends),
                    Duration::from_secs(*last_ends),
                )
        }
        (LockStatus::Free { .. }, Expected::Free)
        | (LockStatus::Blocked { .. }, Expected::Blocked)
        | (LockStatus::Unknown { .. }, Expected::Unknown) => true,
        _ => false,
    }
}
