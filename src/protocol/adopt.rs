//! Adopts a lock from another holder.

use std::sync::Arc;
use std::time::Duration;

use super::Won;
use crate::claim::{Claim, Fence};
use crate::clock::Timestamp;
use crate::cluster::Cluster;
use crate::error::{Error, LossCause, NodeReport, Vote, one_vote_each};
use crate::fencing::FencingToken;
use crate::lease::Lease;
use crate::lease::state::LeaseState;
use crate::lease::votes::Votes;
use crate::node::reply::one_vote;
use crate::node::verbs::{Sight, show_all};
use crate::node::{Leftover, Receipt, command};
use crate::value::{Content, Value};
use crate::verdict::{self, Kept};

/// Asks the nodes whether they still have the lock of this lease, and for how long.
pub(crate) fn adopt(cluster: &Cluster, lease: &Lease) -> Result<Won, Error> {
    let name: Arc<str> = lease.resource().into();
    let resource = cluster.resource(Arc::clone(&name), lease.kind.clone())?;
    check_origin(cluster, lease)?;
    let rules = cluster.rules.as_ref().zip(lease.fencing_token());
    let claim = Claim {
        resource: Arc::new(resource),
        value: lease.value.clone(),
        fence: rules.map(|(rules, token)| Fence {
            rules: Arc::clone(rules),
            token: FencingToken::new(token),
        }),
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
    let nodes = ask(cluster, lease, &claim);
    let validity = verdict::validity(&nodes, |ttl| cluster.options.drift(ttl));
    let votes: Vec<NodeReport> = nodes.into_iter().map(|node| node.report).collect();
    let waited = cluster.clock.now_for_records().saturating_since(started);
    match verdict::confirm(&name, waited, votes.clone()) {
        // That nodes have no key says nothing of the time before.
        Err(_) if has_expired() => return expired(votes),
        confirmed => confirmed?,
    }
    let valid = started..started.saturating_add(validity);
    // The clock is read last, so that no slow step above hides a lock that has expired.
    if valid.end <= cluster.clock.now() {
        return expired(votes);
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
        votes: Votes::new(votes.iter()),
    })
}

/// What each node says of the lock of a lease. A node that is not asked may have the key, but its release is under way, so it does
/// not count.
fn ask(cluster: &Cluster, lease: &Lease, claim: &Claim) -> Vec<Kept> {
    let asked = cluster.asking(&lease.may_have_key);
    let answers = show_all(asked, &command::show_own(claim));
    let answers = answers.into_iter().zip(cluster.each());
    let nodes = answers.map(|(sights, node)| {
        let kept = sights.and_then(|sights| kept(sights, claim));
        kept.unwrap_or_else(|| Kept {
            report: node.unasked(Vote::NotAsked).report,
            left: Duration::ZERO,
        })
    });
    let mut nodes: Vec<Kept> = nodes.collect();
    one_vote_each(nodes.iter_mut().map(|kept| &mut kept.report));
    nodes
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

/// The vote of a node from what is under each key of the lease, and for how long the node will have all of them.
fn kept(mut sights: Vec<Sight>, claim: &Claim) -> Option<Kept> {
    let each = sights.iter_mut();
    let left = each.map(|sight| judge_key(sight, &claim.value)).min()?;
    let votes = sights.iter().map(|sight| sight.report.vote.clone());
    let vote = one_vote(votes, claim.resource.kind.names())?;
    let mut report = sights.pop()?.report;
    report.vote = vote;
    Some(Kept { report, left })
}

/// Makes the vote on one key that for the holder with this value, who is told no other's token. Returns for how long the node will
/// have its key.
fn judge_key(sight: &mut Sight, own: &Value) -> Duration {
    let vote = &mut sight.report.vote;
    if let Some(Content::Held(value)) = &sight.content
        && value == own
        && let Vote::Held {
            remaining: Some(left),
            ..
        } = vote
    {
        let left = *left;
        *vote = Vote::Granted;
        return left;
    }
    vote.hide_token();
    Duration::ZERO
}
