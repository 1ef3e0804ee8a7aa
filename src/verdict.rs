//! Pure: the one judge of votes. The answers of the nodes about a requested lock, a held lock and the status of a lock
//! are judged here and nowhere else.
//!
//! The rules are those of the Redis documentation page "Distributed Locks with Redis"; see `docs/protocol.md`.

use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, LossCause, NodeError, NodeReport, Vote};
use crate::holder::Holder;
use crate::quorum;
use crate::status::LockStatus;

/// The verdict on a held lock, from the votes on its extension, renewal, release or adoption.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// A majority has the lock, or has released it.
    Confirmed,
    /// Nodes that certainly don't have our key make a majority impossible.
    Lost,
    /// Too few nodes answered to tell.
    Unknown,
}

/// Judges the votes on the lock of a guard. The nodes have compared its value with what is under the key, so a key that is no lock
/// is not ours.
pub(crate) fn of_held<'v>(votes: impl Iterator<Item = &'v Vote> + Clone) -> Verdict {
    judge(votes, |vote| vote.is_gone() || vote.is_no_lock())
}

fn judge<'v>(votes: impl Iterator<Item = &'v Vote> + Clone, is_gone: fn(&Vote) -> bool) -> Verdict {
    let count = |kind: fn(&Vote) -> bool| votes.clone().filter(|vote| kind(vote)).count();
    let (granted, gone) = (count(Vote::is_granted), count(is_gone));
    let nodes = votes.count();
    if quorum::is_reached(nodes, granted) {
        Verdict::Confirmed
    } else if quorum::is_ruled_out(nodes, gone) {
        Verdict::Lost
    } else {
        Verdict::Unknown
    }
}

/// Judges the votes on a lock without a guard, as a result for callers. A key that is no lock may be the one, without its time to
/// live.
pub(crate) fn confirm(
    resource: &Arc<str>,
    waited: Duration,
    nodes: Vec<NodeReport>,
) -> Result<(), Error> {
    let resource = Arc::clone(resource);
    Err(
        match judge(nodes.iter().map(|node| &node.vote), Vote::is_gone) {
            Verdict::Confirmed => return Ok(()),
            Verdict::Lost => {
                let cause = loss(nodes);
                Error::Lost { resource, cause }
            }
            Verdict::Unknown => Error::Unavailable {
                resource,
                waited,
                nodes,
            },
        },
    )
}

/// As [`confirm`], for a release. Where no loss is known, the work was done. `reports` makes the reports of these votes.
pub(crate) fn released<'v>(
    resource: &Arc<str>,
    waited: Duration,
    votes: impl Iterator<Item = &'v Vote> + Clone,
    reports: impl FnOnce() -> Vec<NodeReport>,
) -> Result<(), Error> {
    match judge(votes, Vote::is_gone) {
        Verdict::Confirmed => return Ok(()),
        Verdict::Lost => return confirm(resource, waited, reports()),
        Verdict::Unknown => {}
    }
    let (resource, nodes) = (Arc::clone(resource), reports());
    Err(if is_blocked(&nodes) {
        Error::NotALock {
            resource,
            waited,
            nodes,
        }
    } else {
        Error::Unconfirmed {
            resource,
            waited,
            nodes,
        }
    })
}

/// Whether keys that are no locks alone make a majority impossible.
fn is_blocked(nodes: &[NodeReport]) -> bool {
    let foreign = nodes.iter().filter(|node| node.vote.is_foreign()).count();
    quorum::is_ruled_out(nodes.len(), foreign)
}

/// The validity of a lock that is taken over: how long a majority will have its keys, less the drift of that time. `left` is how long
/// each node that has all keys will have them.
pub(crate) fn validity(
    nodes: usize,
    left: Vec<Duration>,
    drift: impl Fn(Duration) -> Duration,
) -> Duration {
    let left = quorum::of_a_majority(nodes, left).unwrap_or_default();
    left.saturating_sub(drift(left))
}

pub(crate) fn loss(nodes: Vec<NodeReport>) -> LossCause {
    let count = |kind: fn(&Vote) -> bool| nodes.iter().filter(|node| kind(&node.vote)).count();
    let held = count(|vote| vote.is_refusal() || vote.is_no_lock());
    let missing = count(|vote| matches!(vote, Vote::Missing));
    if held > missing {
        LossCause::Taken { nodes }
    } else {
        LossCause::Vanished { nodes }
    }
}

/// Why an attempt without a majority has failed. Failures count only if they alone rule out a majority. Otherwise other
/// holders prevented it.
pub(crate) fn attempt_error(resource: &Arc<str>, nodes: Vec<NodeReport>) -> Error {
    let failed = nodes.iter().filter(|node| node.vote.is_failure()).count();
    // The time is set when the call ends.
    let (resource, waited) = (Arc::clone(resource), Duration::ZERO);
    if is_blocked(&nodes) {
        Error::NotALock {
            resource,
            waited,
            nodes,
        }
    } else if quorum::is_ruled_out(nodes.len(), failed) {
        Error::Unavailable {
            resource,
            waited,
            nodes,
        }
    } else {
        let in_the_way = in_the_way(&nodes).cloned();
        Error::Held {
            holder: named(&nodes, in_the_way.as_ref()),
            resource: in_the_way.unwrap_or(resource),
            permits: None,
            waited,
            nodes,
        }
    }
}

/// Which of several resources most nodes name as the one in the way.
fn in_the_way(nodes: &[NodeReport]) -> Option<&Arc<str>> {
    most_named(&nodes.iter().filter_map(|node| node.vote.resource()))
}

/// The holder that most nodes name; of several resources, of this one. A node may have the key of a contender that gets no
/// majority.
fn named(nodes: &[NodeReport], resource: Option<&Arc<str>>) -> Option<Holder> {
    let votes = nodes.iter().map(|node| &node.vote);
    let votes = votes.filter(|vote| vote.resource() == resource);
    most_named(&votes.filter_map(Vote::holder)).cloned()
}

/// What is named most often, or the first of those.
fn most_named<'n, T: PartialEq>(
    all: &(impl DoubleEndedIterator<Item = &'n T> + Clone),
) -> Option<&'n T> {
    let times = |one: &T| all.clone().filter(|other| *other == one).count();
    // The last of several maxima is returned, so the first ones come last.
    all.clone().rev().max_by_key(|one| times(one))
}

/// The count of the votes of an attempt, during it or after it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tally {
    nodes: usize,
    pub(crate) granted: usize,
    /// Those that were asked and did not grant.
    against: usize,
    /// Those of them with another holder's key, or with a counter above the proposal.
    refused: usize,
    /// Those of them that abstain.
    pub(crate) abstaining: usize,
    /// Those of them that refuse a reader because a writer waits.
    for_a_writer: usize,
}

impl Tally {
    pub(crate) fn of<'v>(votes: impl Iterator<Item = &'v Vote>) -> Self {
        let mut tally = Self::default();
        for vote in votes {
            tally.nodes = tally.nodes.saturating_add(1);
            match vote {
                Vote::NotAsked | Vote::Failed(NodeError::BreakerOpen { .. }) => continue,
                Vote::Granted | Vote::Released => {
                    tally.granted = tally.granted.saturating_add(1);
                    continue;
                }
                Vote::Held { .. } | Vote::Read { .. } | Vote::Stale { .. } => {
                    tally.refused = tally.refused.saturating_add(1);
                }
                Vote::WriterWaits { .. } => {
                    tally.refused = tally.refused.saturating_add(1);
                    tally.for_a_writer = tally.for_a_writer.saturating_add(1);
                }
                Vote::Failed(NodeError::Quarantined { .. }) => {
                    tally.abstaining = tally.abstaining.saturating_add(1);
                }
                Vote::Failed(_) | Vote::Missing => {}
            }
            tally.against = tally.against.saturating_add(1);
        }
        tally
    }

    /// Whether a majority has granted it. A reader lets a writer that waits have it first, whatever the other nodes say.
    pub(crate) fn is_won(self) -> bool {
        quorum::is_reached(self.nodes, self.granted) && self.for_a_writer == 0
    }

    /// Whether no majority is possible any more, or wanted.
    pub(crate) fn is_lost(self) -> bool {
        quorum::is_ruled_out(self.nodes, self.against) || self.for_a_writer > 0
    }

    /// Whether another contender has the vote of the arbiter, the node that all contenders ask first. If that node
    /// fails, the next node is the arbiter.
    pub(crate) fn is_taken(self) -> bool {
        self.granted == 0 && self.refused > 0
    }
}

/// Judges what the nodes have under a key; `drift` gives the drift of a time to live.
pub(crate) fn of_keys(nodes: Vec<NodeReport>, drift: impl Fn(Duration) -> Duration) -> LockStatus {
    let (all, votes) = (nodes.len(), nodes.iter().map(|node| &node.vote));
    let is_majority = |count| quorum::is_reached(all, count);
    let keys: Vec<(Owner<'_>, Duration)> = votes.clone().filter_map(key).collect();
    let times = |owner| {
        let same = keys.iter().filter(|(other, _)| *other == owner);
        (owner, same.map(|(_, left)| *left).collect::<Vec<_>>())
    };
    let owners = keys.iter().map(|(owner, _)| times(*owner));
    let most = owners.max_by_key(|(_, times)| times.len());
    let alike = most.as_ref().map_or(0, |(_, times)| times.len());
    if let Some(((token, holder, rests), times)) = most.filter(|_| is_majority(alike)) {
        let (token, holder) = (token.to_owned(), holder.cloned());
        if rests {
            return LockStatus::Resting {
                token,
                remaining: quorum::time_until_no_obstacle(all, times),
                holder,
                nodes,
            };
        }
        let left = quorum::of_a_majority(all, times).unwrap_or_default();
        return LockStatus::Held {
            token,
            remaining: left.saturating_sub(drift(left)),
            holder,
            nodes,
        };
    }
    let read: Vec<(u64, [Duration; 2])> = votes.clone().filter_map(readers).collect();
    if is_majority(read.len()) {
        let counts = read.iter().map(|(count, _)| *count).collect();
        let first = read.iter().map(|(_, [first, _])| *first).collect();
        let first = quorum::of_a_majority(all, first).unwrap_or_default();
        let last = read.iter().map(|(_, [_, last])| *last).collect();
        return LockStatus::Read {
            readers: quorum::of_a_majority(all, counts).unwrap_or_default(),
            remaining: first.saturating_sub(drift(first)),
            last: quorum::time_until_no_obstacle(all, last),
            nodes,
        };
    }
    let count = |kind: fn(&Vote) -> bool| votes.clone().filter(|vote| kind(vote)).count();
    if is_majority(count(|vote| matches!(vote, Vote::Missing))) {
        return LockStatus::Free { nodes };
    }
    // In the best case, all silent nodes have the value that most other nodes have, or readers as most of them do; and so have
    // those where the key lost its time to live.
    let may_have_it = count(|vote| vote.is_silent() || vote.lost_its_ttl());
    if is_majority(may_have_it.saturating_add(alike.max(read.len()))) {
        LockStatus::Unknown { nodes }
    } else {
        LockStatus::Blocked { nodes }
    }
}

/// Whose a key is: its token, the holder, and whether it rests.
type Owner<'v> = (&'v str, Option<&'v Holder>, bool);

/// Whose key a node has, and for how long, if that is a lock.
fn key(vote: &Vote) -> Option<(Owner<'_>, Duration)> {
    let Vote::Held {
        token: Some(token),
        remaining: Some(left),
        holder,
        resting,
        ..
    } = vote
    else {
        return None;
    };
    Some(((token, holder.as_ref(), *resting), *left))
}

/// How many readers a node has, and for how long the first and the last of them.
fn readers(vote: &Vote) -> Option<(u64, [Duration; 2])> {
    let Vote::Read {
        readers,
        first: Some(first),
        last,
        ..
    } = vote
    else {
        return None;
    };
    Some((*readers, [*first, *last]))
}

#[cfg(test)]
#[path = "../tests/rooms/verdict/exhaustive.rs"]
mod exhaustive;
#[cfg(test)]
#[path = "../tests/rooms/verdict/keys.rs"]
mod keys;
