//! Pure: the one judge of votes. The answers of the nodes about a requested lock, a held lock and the status of a lock
//! are judged here and nowhere else.
//!
//! The rules are those of the Redis documentation page "Distributed Locks with Redis"; see `docs/protocol.md`.

use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, LossCause, NodeError, NodeReport, NodeReports, Vote, one_vote_each};
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
pub(crate) fn of_held(nodes: &[NodeReport]) -> Verdict {
    judge(nodes, |vote| vote.is_gone() || vote.is_no_lock())
}

fn judge(nodes: &[NodeReport], is_gone: fn(&Vote) -> bool) -> Verdict {
    let count = |kind: fn(&Vote) -> bool| nodes.iter().filter(|node| kind(&node.vote)).count();
    if quorum::is_reached(nodes.len(), count(Vote::is_granted)) {
        Verdict::Confirmed
    } else if quorum::is_ruled_out(nodes.len(), count(is_gone)) {
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
) -> Result<Vec<NodeReport>, Error> {
    match judge(&nodes, Vote::is_gone) {
        Verdict::Confirmed => Ok(nodes),
        Verdict::Lost => Err(Error::Lost {
            resource: Arc::clone(resource),
            cause: loss(nodes),
        }),
        Verdict::Unknown => Err(Error::Unavailable {
            resource: Arc::clone(resource),
            waited,
            nodes,
        }),
    }
}

/// As [`confirm`], for a release.
pub(crate) fn released(
    resource: &Arc<str>,
    waited: Duration,
    nodes: NodeReports,
) -> Result<(), Error> {
    if let Verdict::Confirmed = judge(&nodes, Vote::is_gone) {
        return Ok(());
    }
    confirm(resource, waited, nodes.into_vec()).map(drop)
}

/// As [`confirm`], for an adoption: each node's vote comes with how long the node will have the key. Returns also the
/// validity: how long a majority will have the key, less the drift of that time.
pub(crate) fn adopt(
    resource: &Arc<str>,
    waited: Duration,
    nodes: Vec<(NodeReport, Duration)>,
    drift: impl Fn(Duration) -> Duration,
) -> Result<(Vec<NodeReport>, Duration), Error> {
    let (mut nodes, times): (Vec<_>, Vec<_>) = nodes.into_iter().unzip();
    one_vote_each(&mut nodes);
    let own = nodes.iter().zip(times);
    let own = own.filter(|(report, _)| report.vote.is_granted());
    let left = quorum::time_of_a_majority(nodes.len(), own.map(|(_, time)| time).collect());
    let left = left.unwrap_or_default();
    let validity = quorum::validity(left, Duration::ZERO, drift(left));
    Ok((confirm(resource, waited, nodes)?, validity))
}

/// The cause of a loss that the votes show.
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
pub(crate) fn attempt_error(
    resource: &Arc<str>,
    waited: Duration,
    nodes: Vec<NodeReport>,
) -> Error {
    let failed = nodes.iter().filter(|node| node.vote.is_failure()).count();
    if quorum::is_ruled_out(nodes.len(), failed) {
        Error::Unavailable {
            resource: Arc::clone(resource),
            waited,
            nodes,
        }
    } else {
        let in_the_way = in_the_way(&nodes).cloned();
        Error::Held {
            holder: named(&nodes, in_the_way.as_ref()),
            resource: in_the_way.unwrap_or_else(|| Arc::clone(resource)),
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
    granted: usize,
    /// Those that were asked and did not grant.
    against: usize,
    /// Those of them with another holder's key, or with a counter above the proposal.
    refused: usize,
    /// Those of them that abstain.
    abstaining: usize,
    /// Those of them that refuse a reader because a writer waits.
    for_a_writer: usize,
}

impl Tally {
    pub(crate) fn of<'v>(votes: impl Iterator<Item = &'v Vote>) -> Self {
        let mut tally = Self::default();
        for vote in votes {
            tally.nodes = tally.nodes.saturating_add(1);
            let counts = match vote {
                Vote::Granted | Vote::Released => &mut tally.granted,
                Vote::NotAsked => continue,
                Vote::Failed(error) if error.is_left_out() => continue,
                Vote::Held { .. }
                | Vote::Read { .. }
                | Vote::WriterWaits { .. }
                | Vote::Stale { .. }
                | Vote::Missing
                | Vote::Failed(_) => &mut tally.against,
            };
            *counts = counts.saturating_add(1);
            if vote.is_refusal() || matches!(vote, Vote::Stale { .. }) {
                tally.refused = tally.refused.saturating_add(1);
            }
            if matches!(vote, Vote::WriterWaits { .. }) {
                tally.for_a_writer = tally.for_a_writer.saturating_add(1);
            }
            if matches!(vote, Vote::Failed(NodeError::Quarantined { .. })) {
                tally.abstaining = tally.abstaining.saturating_add(1);
            }
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

    /// Whether further votes can still win or lose it.
    pub(crate) fn is_open(self) -> bool {
        !self.is_won() && !self.is_lost()
    }

    pub(crate) fn has_a_vote(self) -> bool {
        self.granted > 0
    }

    /// Whether another contender has the vote of the arbiter, the node that all contenders ask first. If that node
    /// fails, the next node is the arbiter.
    pub(crate) fn is_taken(self) -> bool {
        self.granted == 0 && self.refused > 0
    }

    /// Whether a node abstains.
    pub(crate) fn has_an_abstention(self) -> bool {
        self.abstaining > 0
    }
}

/// Judges what the nodes have under a key; `drift` gives the drift of a time to live.
pub(crate) fn of_keys(nodes: Vec<NodeReport>, drift: impl Fn(Duration) -> Duration) -> LockStatus {
    let count = |kind: fn(&Vote) -> bool| nodes.iter().filter(|node| kind(&node.vote)).count();
    if let Some((key, left)) = holder(&nodes) {
        if key.resting {
            let times = times(&nodes, key);
            return LockStatus::Resting {
                token: key.token.to_owned(),
                remaining: quorum::time_until_no_obstacle(nodes.len(), times),
                holder: key.holder.cloned(),
                nodes,
            };
        }
        return LockStatus::Held {
            token: key.token.to_owned(),
            remaining: left.saturating_sub(drift(left)),
            holder: key.holder.cloned(),
            nodes,
        };
    }
    let readers = readers(&nodes);
    if let Some((count, first)) = of_a_majority(nodes.len(), &readers) {
        let last = readers.iter().map(|of_node| of_node.2).collect();
        return LockStatus::Read {
            readers: count,
            remaining: first.saturating_sub(drift(first)),
            last: quorum::time_until_no_obstacle(nodes.len(), last),
            nodes,
        };
    }
    if quorum::is_reached(nodes.len(), count(|vote| matches!(vote, Vote::Missing))) {
        return LockStatus::Free { nodes };
    }
    // In the best case, all silent nodes have the value that most other nodes have, or readers as most of them do; and so have
    // those where the key lost its time to live.
    let most = keys(&nodes).map(|(key, _)| times(&nodes, key).len());
    let most = most.max().unwrap_or_default().max(readers.len());
    let best_case = count(may_have_it).saturating_add(most);
    if quorum::is_reached(nodes.len(), best_case) {
        LockStatus::Unknown { nodes }
    } else {
        LockStatus::Blocked { nodes }
    }
}

/// Whether the node may be one of a majority that some holder has, for all that it tells.
fn may_have_it(vote: &Vote) -> bool {
    let error = vote.failure();
    vote.is_silent() || error.is_some_and(NodeError::is_a_lock_without_ttl)
}

/// What identifies the value of a key.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Key<'v> {
    token: &'v str,
    holder: Option<&'v Holder>,
    resting: bool,
}

/// The value that a majority has, and for how long a majority will have it.
fn holder(nodes: &[NodeReport]) -> Option<(Key<'_>, Duration)> {
    let of = |key| quorum::time_of_a_majority(nodes.len(), times(nodes, key));
    keys(nodes).find_map(|(key, _)| Some((key, of(key)?)))
}

/// The values of the keys that are locks, with their times to live.
fn keys(nodes: &[NodeReport]) -> impl Iterator<Item = (Key<'_>, Duration)> {
    nodes.iter().filter_map(|node| {
        if let Vote::Held {
            token: Some(token),
            remaining: Some(remaining),
            holder,
            resting,
            ..
        } = &node.vote
        {
            let key = Key {
                token,
                holder: holder.as_ref(),
                resting: *resting,
            };
            Some((key, *remaining))
        } else {
            None
        }
    })
}

/// The times to live of the keys with this value.
fn times(nodes: &[NodeReport], key: Key<'_>) -> Vec<Duration> {
    let own = keys(nodes).filter(|(other, _)| *other == key);
    own.map(|(_, remaining)| remaining).collect()
}

/// Of each node that has readers: how many, for how long the first of them, and for how long the last.
fn readers(nodes: &[NodeReport]) -> Vec<(u64, Duration, Duration)> {
    let of_node = |node: &NodeReport| {
        if let Vote::Read {
            readers,
            first: Some(first),
            last,
            ..
        } = node.vote
        {
            Some((readers, first, last))
        } else {
            None
        }
    };
    nodes.iter().filter_map(of_node).collect()
}

/// How many readers a majority of so many nodes reaches, and for how long a majority has all that it has.
fn of_a_majority(nodes: usize, readers: &[(u64, Duration, Duration)]) -> Option<(u64, Duration)> {
    let mut counts: Vec<u64> = readers.iter().map(|(count, ..)| *count).collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let count = counts.get(quorum::quorum(nodes).checked_sub(1)?).copied()?;
    let first = readers.iter().map(|(_, first, _)| *first).collect();
    Some((count, quorum::time_of_a_majority(nodes, first)?))
}

#[cfg(test)]
mod exhaustive;
#[cfg(test)]
mod keys;
