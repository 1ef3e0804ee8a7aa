//! One attempt to take a lock: a round over the nodes, and the verdict on it.
//!
//! After the Redis documentation page "Distributed Locks with Redis"; `docs/protocol.md` says why each step is as it is.

use std::sync::Arc;
use std::time::Duration;

use super::Won;
use crate::claim::{Claim, Resource};
use crate::clock::Timestamp;
use crate::cluster::{Cluster, places};
use crate::contend::spec::Spec;
use crate::contend::waiting::Reach;
use crate::error::{Error, NodeError, Vote};
use crate::fanout::Fanout;
use crate::holder::Label;
use crate::lease::state::LeaseState;
use crate::lease::votes::Votes;
use crate::node::asked::deny_second_vote;
use crate::node::key_report::{KeyReport, KeyReports, NOT_ASKED, votes};
use crate::node::verbs::{acquire, release_all};
use crate::node::{Attempt, Node, Purpose};
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
    let claim = new_claim(cluster, resource, spec.label.as_ref())?;
    let attempt = Attempt::new(claim, spec.term.ttl, Purpose::Lock);
    // The clock is read before the first send, so that the validity does not include the time of the round.
    let started = cluster.clock.now();
    let reports = round(cluster, &attempt, reach);
    conclude(cluster, &attempt, started, spec.term, reports)
}

/// What an attempt asks for: the lock on this resource, with a token that no other attempt has.
pub(super) fn new_claim(
    cluster: &Cluster,
    resource: &Arc<Resource>,
    label: Option<&Label>,
) -> Result<Claim, Error> {
    let token = Token::random(&cluster.clock).map_err(Error::no_randomness)?;
    let value = match label {
        Some(label) => Value::labelled(token, label, cluster.clock.wall_micros()),
        None => Value::from(token),
    };
    Ok(Claim {
        resource: Arc::clone(resource),
        value,
        fence: cluster.fence_of(resource),
    })
}

/// Judges a round that began at `started`. If it is lost, releases the keys that it set.
pub(super) fn conclude(
    cluster: &Cluster,
    attempt: &Attempt,
    started: Timestamp,
    term: Term,
    mut reports: KeyReports,
) -> Result<Won, Error> {
    name_own_refusals(cluster.nodes(), &mut reports);
    if Tally::of(votes(&reports)).is_won() {
        let valid = started..started.saturating_add(term.validity);
        let votes = Votes::new(&reports);
        let leftovers = reports.into_iter().map(|report| report.leftover);
        let claim = attempt.claim.clone();
        let lease = LeaseState::new(&cluster.owner, claim, leftovers, valid);
        return Ok(Won { lease, votes });
    }
    let released = call_off(cluster, attempt, term.ttl, &reports);
    let nodes = reports.into_iter().zip(released).map(settle);
    let nodes = cluster.in_full(nodes);
    Err(verdict::attempt_error(&attempt.claim.resource.name, nodes))
}

/// Releases the keys that a round has set.
pub(super) fn call_off(
    cluster: &Cluster,
    attempt: &Attempt,
    ttl: Duration,
    reports: &[KeyReport],
) -> KeyReports {
    learn(cluster, reports);
    let to_release = places(reports, KeyReport::may_have_key);
    release_all(cluster.asking(&to_release), &attempt.undo(), ttl)
}

/// Makes the next proposal one that these nodes can grant.
fn learn(cluster: &Cluster, reports: &[KeyReport]) {
    let proposals = &cluster.proposals;
    let is_skewed = |vote: &Vote| matches!(vote, Vote::Failed(NodeError::ClockSkew { .. }));
    if votes(reports).any(is_skewed) {
        // Whichever clock is ahead now, the last proposal may come from an earlier wrong time of this machine's clock.
        proposals.reset();
    }
    for vote in votes(reports) {
        if let Vote::Stale { counter } = vote {
            proposals.saw(*counter);
        }
    }
}

/// Asks the nodes in the canonical order, until no majority is possible.
///
/// Nodes that failed a moment ago come last, and only if a majority needs them.
fn round(cluster: &Cluster, attempt: &Arc<Attempt>, reach: Reach) -> KeyReports {
    let mut reports = unasked(cluster);
    let left_out = places(&reports, |report| report.vote.is_left_out());
    let others = places(&reports, |report| !report.vote.is_left_out());
    // A node begins its quarantine when it is first asked after its restart. If one node abstains, the others may have
    // been restarted with it: all are asked now, so that their quarantines run at the same time.
    let is_worth_it: fn(Tally) -> bool = |tally| !tally.is_lost() || tally.abstaining > 0;
    // Whether further votes can still win or lose it.
    let is_open: fn(Tally) -> bool = |tally| !tally.is_won() && !tally.is_lost();
    for (mut places, is_worth_it) in [(&others[..], is_worth_it), (&left_out[..], is_open)] {
        while !places.is_empty() {
            let tally = Tally::of(votes(&reports));
            if !is_worth_it(tally) || (reach == Reach::ArbiterFirst && tally.is_taken()) {
                break;
            }
            let together = match (cluster.options.fanout, reach) {
                (Fanout::Sequential, _) => 1,
                (Fanout::Overlapped, Reach::ArbiterFirst) if tally.granted == 0 => 1,
                (Fanout::Overlapped, _) => places.len(),
            };
            let (wave, later) = places.split_at(together.min(places.len()));
            acquire(cluster.asking(wave), attempt, &mut reports);
            places = later;
        }
    }
    reports
}

/// The reports before any node was asked. They say which nodes are left out because they failed a moment ago.
pub(super) fn unasked(cluster: &Cluster) -> KeyReports {
    let well = cluster.nodes().iter().filter(|node| node.is_well()).count();
    // Breakers are heeded only while the nodes that did not fail are a majority.
    let heed_breakers = quorum::is_reached(cluster.nodes().len(), well);
    let mut reports = KeyReports::new();
    for node in cluster.nodes() {
        let failure = node.recent_failure().filter(|_| heed_breakers);
        let left_out = |failure| Vote::Failed(NodeError::BreakerOpen { failure }).into();
        reports.push(KeyReport::of(failure.map_or(NOT_ASKED, left_out)));
    }
    reports
}

/// Says which refusals are no other holder's: a server that has granted the lock under one name refuses it under another.
fn name_own_refusals(nodes: &[Arc<Node>], reports: &mut [KeyReport]) {
    // `WriterWaits` is not about a key.
    let is_key = |vote: &Vote| matches!(vote, Vote::Held { .. } | Vote::Read { .. });
    for place in 0..reports.len() {
        deny_second_vote(nodes, reports, place, &[], is_key);
    }
}

/// Updates a node's vote of an attempt that failed: the answer to the release shows the other holder's key and its time
/// to live.
fn settle((mut report, released): (KeyReport, KeyReport)) -> KeyReport {
    // The refusal of several resources names the one in the way, and says as much as a release about it. The release of a reader
    // does not say that a writer waits.
    let vote = &*report.vote;
    let is_complete = vote.resource().is_some() || matches!(vote, Vote::WriterWaits { .. });
    if !vote.is_refusal() || is_complete {
        return report;
    }
    if released.vote.is_refusal() || released.vote.is_no_lock() {
        report.vote = released.vote;
    } else if let Vote::Missing = *released.vote {
        let mut vote = Vote::from(report.vote);
        if let Vote::Held { remaining, .. } = &mut vote {
            *remaining = Some(Duration::ZERO);
        } else if let Vote::Read { last, .. } = &mut vote {
            *last = Duration::ZERO;
        }
        report.vote = vote.into();
    }
    report
}

#[cfg(test)]
mod one_server;
