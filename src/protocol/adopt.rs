//! Adopts a lock from another holder.

use std::sync::Arc;
use std::time::Duration;

use super::Won;
use crate::claim::Claim;
use crate::clock::Timestamp;
use crate::cluster::Cluster;
use crate::error::{Error, LossCause, Vote};
use crate::fencing::FencingToken;
use crate::lease::Lease;
use crate::lease::state::LeaseState;
use crate::lease::votes::Votes;
use crate::node::key_report::{KeyReport, KeyReports};
use crate::node::verbs::show_all;
use crate::node::{Leftover, Receipt, command, one_vote};
use crate::value::{Content, Value};
use crate::verdict;

/// Asks the nodes whether they still have the lock of this lease, and for how long.
pub(crate) fn adopt(cluster: &Cluster, lease: &Lease) -> Result<Won, Error> {
    let name: Arc<str> = lease.resource().into();
    let resource = cluster.resource(Arc::clone(&name), lease.kind.clone())?;
    check_origin(cluster, lease)?;
    let token = lease.fencing_token().map(FencingToken::new);
    let claim = Claim {
        resource: Arc::new(resource),
        value: lease.value.clone(),
        fence: token.and_then(|token| cluster.fence(token)),
    };
    let expired = |nodes| {
        let (resource, cause) = (Arc::clone(&name), LossCause::Expired { nodes });
        Err(Error::Lost { resource, cause })
    };
    let has_expired = || lease.has_expired(cluster.clock.wall_micros());
    if has_expired() {
        return expired(Vec::new());
    }

    let started = cluster.clock.now();
    let (reports, left) = ask(cluster, lease, &claim);
    let validity = verdict::validity(reports.len(), left, |ttl| cluster.options.drift(ttl));
    let in_full = || cluster.in_full(reports.iter().cloned());
    let waited = cluster.clock.now_for_records().saturating_since(started);
    match verdict::confirm(&name, waited, in_full()) {
        // That nodes have no key says nothing of the time before.
        Err(_) if has_expired() => return expired(in_full()),
        confirmed => confirmed?,
    }
    let valid = started..started.saturating_add(validity);
    // The clock is read last, so that no slow step above hides a lock that has expired.
    if valid.end <= cluster.clock.now() {
        return expired(in_full());
    }
    // The lease does not say whether a node without the key was sent an undo, so it may have been.
    let leftovers = (0..lease.nodes).map(|place| {
        if lease.may_have_key.contains(&place) {
            Leftover::Possible
        } else {
            Leftover::Undone(Receipt::of_another_guard())
        }
    });
    Ok(Won {
        lease: LeaseState::new(&cluster.owner, claim, leftovers, valid),
        votes: Votes::new(&reports),
    })
}

/// What each node says of the lock of a lease, and how long each node that has all its keys will have them. A node that is not asked may
/// have the key, but its release is under way, so it does not count.
fn ask(cluster: &Cluster, lease: &Lease, claim: &Claim) -> (KeyReports, Vec<Duration>) {
    let asked = cluster.asking(&lease.may_have_key);
    let shown = show_all(asked, &command::show_own(claim));
    let (mut reports, mut left) = (asked.unasked(), Vec::new());
    for ((_, report), keys) in asked.with(&mut reports).zip(shown) {
        let kept = kept(keys, claim);
        left.push(kept.as_ref().map_or(Duration::ZERO, |(_, left)| *left));
        if let Some((kept, _)) = kept {
            *report = kept;
        }
    }
    asked.one_vote_each(&mut reports);
    let nodes = asked.with(&mut reports).zip(left);
    let has_keys = nodes.filter(|((_, report), _)| report.vote.is_granted());
    let left = has_keys.map(|(_, left)| left).collect();
    (reports, left)
}

/// Until when the lock of this lease has to rest if it is given back before, by the clock of this process. No lease makes that longer
/// than a minimum can be.
pub(crate) fn rests_until(cluster: &Cluster, lease: &Lease) -> Option<Timestamp> {
    let left = lease.rest_left(cluster.clock.wall_micros())?;
    let left = left.min(cluster.options.max_ttl);
    Some(cluster.clock.now().saturating_add(left))
}

/// Refuses a lease that can't be of these nodes.
fn check_origin(cluster: &Cluster, lease: &Lease) -> Result<(), Error> {
    let (theirs, ours) = (lease.nodes, cluster.nodes().len());
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

/// The report of a node from what is under each key of the lease, and for how long the node will have all of them.
fn kept(mut keys: Vec<KeyReport>, claim: &Claim) -> Option<(KeyReport, Duration)> {
    let each = keys.iter_mut();
    let left = each.map(|key| judge_key(key, &claim.value)).min()?;
    let votes = keys.iter().map(|key| Vote::clone(&key.vote));
    let vote = one_vote(votes, claim.resource.kind.names())?;
    let mut report = keys.pop()?;
    report.vote = vote.into();
    Some((report, left))
}

/// Makes the vote on one key a vote for the holder with this value, and hides the token of another holder. Returns for how long the
/// node will have its key.
fn judge_key(key: &mut KeyReport, own: &Value) -> Duration {
    let is_own = matches!(key.value(), Some((Content::Held(value), _)) if value == own);
    if let Vote::Held {
        remaining: Some(left),
        ..
    } = *key.vote
        && is_own
    {
        key.vote = (&Vote::Granted).into();
        return left;
    }
    let mut vote = Vote::clone(&key.vote);
    vote.hide_token();
    key.vote = vote.into();
    Duration::ZERO
}
