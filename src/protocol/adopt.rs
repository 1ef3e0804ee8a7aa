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
use crate::node::command;
use crate::node::inspect::{inspect_all, inspect_with_counter};
use crate::status::{NodeStatus, View};
use crate::value::Value;
use crate::verdict;

/// Asks the nodes whether they still have the lock of this lease, and for how long.
pub(crate) fn adopt(cluster: &Cluster, lease: &Lease) -> Result<Won, Error> {
    let resource: Arc<str> = lease.resource().into();
    cluster.checked_key(&resource)?;
    let keys = cluster.keys_of(&resource, lease.subject());
    let key = keys.first();
    check_origin(cluster, lease)?;
    if lease.has_expired(cluster.clock.wall_micros()) {
        let cause = LossCause::Expired { nodes: Vec::new() };
        return Err(Error::Lost { resource, cause });
    }

    let started = cluster.clock.now();
    let asked = cluster.each().zip(lease.may_have_key().iter().copied());
    let answers = asked.zip(look_at(cluster, key, lease));
    let votes = answers.map(|((node, _), answer)| match answer {
        Some(status) => vote(status, lease.value()),
        // This node may have the key, but its release is under way, so it does not count.
        None => (node.unasked(Vote::NotAsked).report, Duration::ZERO),
    });
    let votes = votes.collect();
    let waited = cluster.clock.now_for_records().saturating_since(started);
    let drift = |ttl| cluster.options.drift(ttl);
    let (votes, validity) = verdict::adopt(&resource, waited, votes, drift)?;
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
        votes: Votes::new(votes),
        rests_until,
        cohort: None,
    })
}

/// Until when the lock has to rest, by the clock of this process. No lease makes that longer than a minimum can be.
fn rests_until(cluster: &Cluster, lease: &Lease) -> Option<Timestamp> {
    let left = lease.rest_left(cluster.clock.wall_micros())?;
    let left = left.min(cluster.options.max_ttl);
    Some(cluster.clock.now().saturating_add(left))
}

/// The status of the key on the nodes that may have the key of the lease.
fn look_at(cluster: &Cluster, key: &str, lease: &Lease) -> Vec<Option<NodeStatus>> {
    let asked = cluster.each().zip(lease.may_have_key().iter().copied());
    let command = command::inspect(key);
    let Some(token) = lease.fencing_token() else {
        return inspect_all(asked, &command);
    };
    let command = command.followed_by(vec![command::get(&Rules::fence(key))]);
    let answers = inspect_with_counter(asked, &command).into_iter();
    let known = |(mut status, counter): (NodeStatus, Option<u64>)| {
        // This node has not granted the token of the lease, and it could grant later holders a smaller one.
        let is_forged = counter.is_none_or(|counter| counter < u64::from(token));
        if is_forged && matches!(status.view, View::Held { .. }) {
            status.view = View::Free;
        }
        status
    };
    answers.map(|answer| answer.map(known)).collect()
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
        (None, Some(_)) => invalid(
            "it was taken with Protocol::Classic; adopt it by a manager with that".to_owned(),
        ),
        (Some(_), Some(_)) | (None, None) => Ok(()),
    }
}

/// The vote of a node for the lock with this value, and for how long it will have the key.
fn vote(status: NodeStatus, own: &Value) -> (NodeReport, Duration) {
    let mut left = Duration::ZERO;
    let vote = match status.view {
        View::Held {
            token,
            remaining,
            holder,
            ..
        } if token == own.token() && holder == own.holder() => {
            left = remaining;
            Vote::Granted
        }
        View::Held {
            remaining,
            holder,
            resting,
            ..
        } => Vote::Held {
            remaining: Some(remaining),
            holder,
            resting,
            resource: None,
            readers: None,
            writer_waits: false,
        },
        View::Free => Vote::Missing,
        View::Failed(error) => Vote::Failed(error),
    };
    let report = NodeReport {
        node: status.node,
        vote,
        elapsed: status.elapsed,
        server: status.server,
    };
    (report, left)
}
