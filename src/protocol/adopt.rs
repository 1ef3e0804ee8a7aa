//! Adopts a lock from another holder.

use std::sync::Arc;
use std::time::Duration;

use super::Won;
use crate::claim::{Claim, Fence};
use crate::clock::Timestamp;
use crate::cluster::Cluster;
use crate::error::{Error, LossCause, NodeReport, Vote};
use crate::lease::Lease;
use crate::lease::state::LeaseState;
use crate::lease::state::standing::Standing;
use crate::lease::votes::Votes;
use crate::node::reply::one_vote;
use crate::node::show::{Sight, show_all};
use crate::node::{Node, command};
use crate::value::{Content, Value};
use crate::verdict;

/// Asks the nodes whether they still have the lock of this lease, and for how long.
pub(crate) fn adopt(cluster: &Cluster, lease: &Lease) -> Result<Won, Error> {
    let name: Arc<str> = lease.resource().into();
    let resource = cluster.resource(Arc::clone(&name), lease.kind().clone())?;
    check_origin(cluster, lease)?;
    let rules = cluster.rules.as_ref().zip(lease.fencing_token());
    let claim = Claim {
        resource: Arc::new(resource),
        value: lease.value().clone(),
        fence: rules.map(|(rules, token)| Fence {
            rules: Arc::clone(rules),
            token,
        }),
    };
    if lease.has_expired(cluster.clock.wall_micros()) {
        let (resource, cause) = (name, LossCause::Expired { nodes: Vec::new() });
        return Err(Error::Lost { resource, cause });
    }

    let started = cluster.clock.now();
    let asked = cluster.each().zip(lease.may_have_key().iter().copied());
    let answers = asked
        .clone()
        .zip(show_all(asked, &command::show_own(&claim)));
    // A node that is not asked may have the key, but its release is under way, so it does not count.
    let unasked = |node: &Node| (node.unasked(Vote::NotAsked).report, Duration::ZERO);
    let votes = answers.map(|((node, _), answer)| {
        answer
            .and_then(|sights| vote(sights, &claim))
            .unwrap_or_else(|| unasked(node))
    });
    let votes = votes.collect();
    let waited = cluster.clock.now_for_records().saturating_since(started);
    let drift = |ttl| cluster.options.drift(ttl);
    let adopted = verdict::adopt(&name, waited, votes, drift);
    let (votes, validity) = match adopted {
        Err(error) if lease.has_expired(cluster.clock.wall_micros()) => return Err(expired(error)),
        adopted => adopted?,
    };
    let deadline = started.saturating_add(validity);
    let rests_until = rests_until(cluster, lease);
    // The clock is read last, so that no slow step above hides a lock that has expired.
    if deadline <= cluster.clock.now() {
        let (resource, cause) = (name, LossCause::Expired { nodes: votes });
        return Err(Error::Lost { resource, cause });
    }
    let standings = lease.may_have_key().iter().copied();
    let standings = standings.map(Standing::of_lease).collect();
    let times = (started, deadline);
    Ok(Won {
        lease: LeaseState::new(&cluster.owner, claim, standings, times),
        votes: Votes::new(votes.iter()),
        rests_until,
    })
}

/// The error of an adoption that has lasted beyond the end of the lease: that nodes have no key then says nothing of the time
/// before.
fn expired(error: Error) -> Error {
    let (resource, nodes) = if let Error::Lost { resource, cause } = error {
        (resource, cause.nodes().to_vec())
    } else if let Error::Unavailable {
        resource, nodes, ..
    } = error
    {
        (resource, nodes)
    } else {
        return error;
    };
    let cause = LossCause::Expired { nodes };
    Error::Lost { resource, cause }
}

/// Until when the lock has to rest, by the clock of this process. No lease makes that longer than a minimum can be.
fn rests_until(cluster: &Cluster, lease: &Lease) -> Option<Timestamp> {
    let left = lease.rest_left(cluster.clock.wall_micros())?;
    let left = left.min(cluster.options.max_ttl);
    Some(cluster.clock.now().saturating_add(left))
}

/// Refuses a lease that can't be of these nodes.
fn check_origin(cluster: &Cluster, lease: &Lease) -> Result<(), Error> {
    let (theirs, ours) = (lease.may_have_key().len(), cluster.nodes().len());
    let reason = match (lease.fencing_token(), &cluster.rules) {
        _ if theirs != ours => format!(
            "it is of a deployment of {theirs} nodes, and this manager has {ours}; give all clients the same nodes"
        ),
        (Some(_), None) => {
            "it was taken with Protocol::Fenced; adopt it by a manager with that".into()
        }
        // A reader has no token with either protocol.
        (None, Some(_)) if !lease.is_read() => {
            "it was taken with Protocol::Classic; adopt it by a manager with that".into()
        }
        (Some(_), Some(_)) | (None, _) => return Ok(()),
    };
    Err(Error::invalid("lease", reason))
}

/// The vote of a node from what is under each key of the lease, and for how long the node will have all of them.
fn vote(mut sights: Vec<Sight>, claim: &Claim) -> Option<(NodeReport, Duration)> {
    let mut left = Duration::MAX;
    for sight in &mut sights {
        left = left.min(judge_key(sight, &claim.value));
    }
    let vote = match claim.resource.kind.names() {
        Some(names) => one_vote(sights.iter().map(|sight| sight.report.vote.clone()), names)?,
        None => sights.first()?.report.vote.clone(),
    };
    let mut report = sights.pop()?.report;
    report.vote = vote;
    Some((report, left))
}

/// Makes the vote on one key that for the holder with this value, who is told no other's token. Returns for how long the node will
/// have its key.
fn judge_key(sight: &mut Sight, own: &Value) -> Duration {
    let vote = &mut sight.report.vote;
    let is_own = matches!(&sight.content, Some(Content::Held(value)) if value == own);
    if !is_own {
        vote.hide_token();
        return Duration::ZERO;
    }
    let Vote::Held {
        remaining: Some(left),
        ..
    } = vote
    else {
        return Duration::ZERO;
    };
    let left = *left;
    *vote = Vote::Granted;
    left
}

#[cfg(test)]
mod without_counter;
