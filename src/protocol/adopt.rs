//! Adopts a lock from another holder.

use std::sync::Arc;
use std::time::Duration;

use super::Won;
use crate::clock::Timestamp;
use crate::cluster::Cluster;
use crate::error::{Error, LossCause, NodeReport, Vote};
use crate::fencing::Rules;
use crate::lease::Lease;
use crate::lease::state::LeaseState;
use crate::lease::state::standing::Standing;
use crate::lease::votes::Votes;
use crate::node::command::{self, Keys};
use crate::node::inspect::{inspect_each, inspect_with_counters};
use crate::node::several::one_vote;
use crate::status::{NodeStatus, View};
use crate::value::Value;
use crate::verdict;
use crate::wire::pack::Packed;

/// Asks the nodes whether they still have the lock of this lease, and for how long.
pub(crate) fn adopt(cluster: &Cluster, lease: &Lease) -> Result<Won, Error> {
    let resource: Arc<str> = lease.resource().into();
    for name in lease.resources() {
        cluster.checked_key(name)?;
    }
    let keys = cluster.keys_of(&resource, lease.subject());
    check_origin(cluster, lease)?;
    if lease.has_expired(cluster.clock.wall_micros()) {
        let cause = LossCause::Expired { nodes: Vec::new() };
        return Err(Error::Lost { resource, cause });
    }

    let started = cluster.clock.now();
    let asked = cluster.each().zip(lease.may_have_key().iter().copied());
    let answers = asked.zip(look_at(cluster, &keys, lease));
    let votes = answers.map(|((node, _), answer)| match answer {
        Some(views) => vote(views, lease)
            .unwrap_or_else(|| (node.unasked(Vote::NotAsked).report, Duration::ZERO)),
        // This node may have the key, but its release is under way, so it does not count.
        None => (node.unasked(Vote::NotAsked).report, Duration::ZERO),
    });
    let votes = votes.collect();
    let waited = cluster.clock.now_for_records().saturating_since(started);
    let drift = |ttl| cluster.options.drift(ttl);
    let adopted = verdict::adopt(&resource, waited, votes, drift);
    let (votes, validity) = match adopted {
        Err(error) if lease.has_expired(cluster.clock.wall_micros()) => return Err(expired(error)),
        adopted => adopted?,
    };
    let deadline = started.saturating_add(validity);
    let rests_until = rests_until(cluster, lease);
    // The clock is read last, so that no slow step above hides a lock that has expired.
    if deadline <= cluster.clock.now() {
        let cause = LossCause::Expired { nodes: votes };
        return Err(Error::Lost { resource, cause });
    }
    let standings = lease.may_have_key().iter().copied();
    let standings = standings.map(Standing::of_lease).collect();
    let times = (started, deadline);
    Ok(Won {
        lease: LeaseState::new(&cluster.owner, &resource, lease.tokens(), standings, times)
            .on(lease.subject().clone()),
        votes: Votes::new(votes.iter()),
        rests_until,
        cohort: None,
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

/// The status of each key on the nodes that may have the keys of the lease.
fn look_at(cluster: &Cluster, keys: &Keys, lease: &Lease) -> Vec<Option<Vec<NodeStatus>>> {
    let asked = cluster.each().zip(lease.may_have_key().iter().copied());
    let commands = keys.each().iter().map(|key| match keys {
        Keys::Read(_) => command::inspect_read(key, lease.value().as_bytes()),
        Keys::Lock(_) | Keys::All(_) => command::inspect(key),
    });
    let Some(token) = lease.fencing_token() else {
        return inspect_each(asked, &together(commands));
    };
    let counters = keys
        .each()
        .iter()
        .map(|key| command::get(&Rules::fence(key)));
    let commands = commands.zip(counters);
    let command = together(commands.flat_map(|(lock, counter)| [lock, counter]));
    let known = |(mut status, counter): (NodeStatus, Option<u64>)| {
        // This node has not granted the token of the lease, and it could grant later holders a smaller one.
        let is_forged = counter.is_none_or(|counter| counter < u64::from(token));
        if is_forged && matches!(status.view, View::Held { .. }) {
            status.view = View::Free;
        }
        status
    };
    let answers = inspect_with_counters(asked, &command).into_iter();
    answers
        .map(|answer| answer.map(|views| views.into_iter().map(known).collect()))
        .collect()
}

/// Commands as one.
fn together(mut commands: impl Iterator<Item = Packed>) -> Packed {
    let first = commands.next();
    first.map_or_else(command::probe, |first| {
        first.followed_by(commands.collect())
    })
}

/// Refuses a lease that can't be of these nodes.
fn check_origin(cluster: &Cluster, lease: &Lease) -> Result<(), Error> {
    let invalid = |reason: String| Err(Error::InvalidLease { reason });
    let (theirs, ours) = (lease.may_have_key().len(), cluster.nodes().len());
    if theirs != ours {
        return invalid(format!(
            "it is of a deployment of {theirs} nodes, and this manager has {ours}; give all clients the same nodes"
        ));
    }
    match (lease.fencing_token(), &cluster.rules) {
        (Some(_), None) => invalid(
            "it was taken with Protocol::Fenced; adopt it by a manager with that".to_owned(),
        ),
        // A reader has no token with either protocol.
        (None, Some(_)) if !lease.is_read() => invalid(
            "it was taken with Protocol::Classic; adopt it by a manager with that".to_owned(),
        ),
        (Some(_), Some(_)) | (None, _) => Ok(()),
    }
}

/// The vote of a node from what is under each key of the lease, and for how long the node will have all of them.
fn vote(views: Vec<NodeStatus>, lease: &Lease) -> Option<(NodeReport, Duration)> {
    let of_each = views
        .into_iter()
        .map(|status| vote_on_key(status, lease.value()));
    let (mut reports, times): (Vec<_>, Vec<_>) = of_each.unzip();
    let left = times.into_iter().min()?;
    let vote = match lease.subject().names() {
        Some(names) => {
            let votes = reports.iter().map(|report| report.vote.clone());
            one_vote(votes.collect(), names)?
        }
        None => reports.first()?.vote.clone(),
    };
    let mut report = reports.pop()?;
    report.vote = vote;
    Some((report, left))
}

/// The vote on one key, and for how long the node will have it.
fn vote_on_key(status: NodeStatus, own: &Value) -> (NodeReport, Duration) {
    let left = match &status.view {
        View::Held {
            token,
            remaining,
            holder,
            ..
        } if token == own.token() && *holder == own.holder() => Some(*remaining),
        View::Held { .. } | View::Read { .. } | View::Free | View::Failed(_) => None,
    };
    let mut report = status.against();
    if left.is_some() {
        report.vote = Vote::Granted;
    }
    (report, left.unwrap_or_default())
}

#[cfg(test)]
mod without_counter;
