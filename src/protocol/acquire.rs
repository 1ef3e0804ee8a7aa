//! One attempt to take a lock: a round over the nodes, and the verdict on it.
//!
//! After the Redis documentation page "Distributed Locks with Redis"; `docs/protocol.md` says why each step is as it is.

use std::sync::Arc;
use std::time::Duration;

use super::{Won, answered};
use crate::claim::{Claim, Resource};
use crate::clock::Timestamp;
use crate::cluster::{Cluster, places};
use crate::contend::spec::Spec;
use crate::contend::waiting::Reach;
use crate::error::{Error, NodeError, NodeReport, NodeReports, Vote};
use crate::fanout::Fanout;
use crate::holder::Label;
use crate::lease::state::LeaseState;
use crate::lease::votes::Votes;
use crate::node::Node;
use crate::node::request::Attempt;
use crate::node::verbs::{Ballot, Ballots, acquire_all, release_all};
use crate::quorum::{self, Term};
use crate::token::Token;
use crate::value::Value;
use crate::verdict::{self, Tally};

/// Makes one attempt with a new token: one round over the nodes, and if it fails, a release of the keys that it set.
/// `resource` is what the call asks for; of a semaphore, it is one slot.
///
/// The lock may have expired already: the caller checks its validity last.
pub(crate) fn attempt(
    cluster: &Cluster,
    spec: &Spec,
    resource: &Arc<Resource>,
    reach: Reach,
) -> Result<Won, Error> {
    let bid = Bid::new(cluster, resource, spec.term, spec.label.as_ref())?;
    let attempt = bid.attempt();
    // The clock is read before the first send, so that the validity does not include the time of the round.
    let started = cluster.clock.now();
    let ballots = round(cluster, &attempt, reach);
    bid.conclude(started, ballots, &attempt)
}

/// What one attempt asks for, with the value that no other attempt has.
pub(super) struct Bid<'c> {
    cluster: &'c Cluster,
    term: Term,
    pub(super) claim: Claim,
}

impl<'c> Bid<'c> {
    pub(super) fn new(
        cluster: &'c Cluster,
        resource: &Arc<Resource>,
        term: Term,
        label: Option<&Label>,
    ) -> Result<Self, Error> {
        let token = Token::random(&cluster.clock).map_err(Error::no_randomness)?;
        let value = label.map_or_else(
            || Value::from(token),
            |label| Value::labelled(token, label, cluster.clock.wall_micros()),
        );
        let claim = Claim {
            resource: Arc::clone(resource),
            value,
            fence: cluster.fence_of(resource),
        };
        Ok(Self {
            cluster,
            term,
            claim,
        })
    }

    pub(super) fn attempt(&self) -> Attempt {
        Attempt::new(&self.claim, self.term.ttl)
    }

    /// Judges a round that began at `started`. If it is lost, releases the keys that it set.
    pub(super) fn conclude(
        &self,
        started: Timestamp,
        mut ballots: Ballots,
        attempt: &Attempt,
    ) -> Result<Won, Error> {
        let cluster = self.cluster;
        name_own_refusals(&mut ballots);
        if Tally::of(&votes(&ballots)).is_won() {
            let valid = started..started.saturating_add(self.term.validity);
            let votes = Votes::new(ballots.iter().map(|ballot| &ballot.report));
            let leftovers = ballots.into_iter().map(|ballot| ballot.leftover);
            let lease = LeaseState::new(&cluster.owner, self.claim.clone(), leftovers, valid);
            return Ok(Won { lease, votes });
        }
        let released = self.call_off(&ballots, attempt);
        let nodes: Vec<NodeReport> = ballots.into_iter().zip(released).map(settle).collect();
        Err(verdict::attempt_error(&self.claim.resource.name, nodes))
    }

    /// Releases the keys that the round has set.
    pub(super) fn call_off(&self, ballots: &[Ballot], attempt: &Attempt) -> NodeReports {
        learn(self.cluster, ballots);
        let owed = places(ballots, Ballot::may_have_key);
        let nodes = self.cluster.asking(&owed);
        release_all(nodes, &attempt.undo(), self.term.ttl).nodes
    }
}

/// Makes the next proposal one that these nodes can grant.
fn learn(cluster: &Cluster, ballots: &[Ballot]) {
    let proposals = &cluster.proposals;
    let is_skewed = |vote: &Vote| matches!(vote, Vote::Failed(NodeError::ClockSkew { .. }));
    if votes(ballots).any(is_skewed) {
        // Whichever clock is ahead now, the last proposal may come from an earlier wrong time of this machine's clock.
        proposals.reset();
    }
    for vote in votes(ballots) {
        if let Vote::Stale { counter } = vote {
            proposals.saw(*counter);
        }
    }
}

/// Asks the nodes in the canonical order, until no majority is possible.
///
/// Nodes that failed a moment ago come last, and only if a majority needs them.
fn round(cluster: &Cluster, attempt: &Attempt, reach: Reach) -> Ballots {
    let mut ballots = unasked(cluster);
    let left_out = places(&ballots, Ballot::is_left_out);
    let others = places(&ballots, |ballot| !ballot.is_left_out());
    // A node begins its quarantine when it is first asked after its restart. If one node abstains, the others may have
    // been restarted with it: all are asked now, so that their quarantines run at the same time.
    let is_worth_it: fn(Tally) -> bool = |tally| !tally.is_lost() || tally.abstaining > 0;
    // Whether further votes can still win or lose it.
    let is_open: fn(Tally) -> bool = |tally| !tally.is_won() && !tally.is_lost();
    for (mut places, is_worth_it) in [(&others[..], is_worth_it), (&left_out[..], is_open)] {
        while !places.is_empty() {
            let tally = Tally::of(&votes(&ballots));
            if !is_worth_it(tally) || (reach == Reach::ArbiterFirst && tally.is_taken()) {
                break;
            }
            let together = match (cluster.options.fanout, reach) {
                (Fanout::Sequential, _) => 1,
                (Fanout::Overlapped, Reach::ArbiterFirst) if tally.granted == 0 => 1,
                (Fanout::Overlapped, _) => places.len(),
            };
            let (wave, later) = places.split_at(together.min(places.len()));
            ask(cluster, attempt, wave, &mut ballots);
            places = later;
        }
    }
    ballots
}

/// Asks these nodes, all before any reply is read.
fn ask(cluster: &Cluster, attempt: &Attempt, wave: &[usize], ballots: &mut Ballots) {
    if let [place] = wave {
        if let Some(node) = cluster.nodes().get(*place) {
            cast(ballots, *place, node.acquire(attempt));
        }
        return;
    }
    for (place, ballot) in answered(acquire_all(cluster.asking(wave), attempt)) {
        cast(ballots, place, ballot);
    }
}

fn votes(ballots: &[Ballot]) -> impl Iterator<Item = &Vote> + Clone {
    ballots.iter().map(|ballot| &ballot.report.vote)
}

/// The ballots before any node was asked. They say which nodes are left out because they failed a moment ago.
pub(super) fn unasked(cluster: &Cluster) -> Ballots {
    let well = cluster.each().filter(|node| node.is_well()).count();
    // Breakers are heeded only while the nodes that did not fail are a majority.
    let heed_breakers = quorum::is_reached(cluster.nodes().len(), well);
    let ballot = |node: &Node| {
        let failure = node.recent_failure().filter(|_| heed_breakers);
        node.unasked(failure.map_or(Vote::NotAsked, |failure| {
            Vote::Failed(NodeError::BreakerOpen { failure })
        }))
    };
    cluster.each().map(ballot).collect()
}

/// Adds the ballot of a node that was asked.
pub(super) fn cast(ballots: &mut [Ballot], place: usize, mut ballot: Ballot) {
    let others = ballots.iter().map(|other| &other.report);
    ballot.report.fail_if_server_voted(others);
    if let Some(unasked) = ballots.get_mut(place) {
        *unasked = ballot;
    }
}

/// Says which refusals are no other holder's: a server that has granted the lock under one name refuses it under another.
fn name_own_refusals(ballots: &mut [Ballot]) {
    for place in 0..ballots.len() {
        let mut reports = ballots.iter().map(|ballot| &ballot.report);
        // That a writer waits is no key.
        let refused = reports
            .clone()
            .nth(place)
            .filter(|report| matches!(report.vote, Vote::Held { .. } | Vote::Read { .. }));
        let Some(server) = refused.and_then(|report| report.server.as_ref()) else {
            continue;
        };
        let granted =
            reports.find(|other| other.vote.is_granted() && other.server.as_ref() == Some(server));
        let other = granted.map(|granted| Arc::clone(&granted.node));
        if let (Some(other), Some(refused)) = (other, ballots.get_mut(place)) {
            refused.report.vote = Vote::Failed(NodeError::SameServer { other });
        }
    }
}

/// Updates a node's vote of an attempt that failed: the answer to the release shows the other holder's key and its time
/// to live.
fn settle((ballot, released): (Ballot, NodeReport)) -> NodeReport {
    let mut report = ballot.report;
    let vote = &mut report.vote;
    // The refusal of several resources says what was in the way, and of it as much as a release does. The release of a reader
    // does not tell that a writer waits.
    let is_told = vote.resource().is_some() || matches!(vote, Vote::WriterWaits { .. });
    if !vote.is_refusal() || is_told {
        return report;
    }
    if released.vote.is_refusal() || released.vote.is_no_lock() {
        *vote = released.vote;
    } else if let Vote::Missing = released.vote {
        if let Vote::Held { remaining, .. } = vote {
            *remaining = Some(Duration::ZERO);
        } else if let Vote::Read { last, .. } = vote {
            *last = Duration::ZERO;
        }
    }
    report
}

#[cfg(test)]
mod one_server;
