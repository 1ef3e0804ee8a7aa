//! Examines the nodes: what they say of themselves, and whether they give a lock that is taken and given back for trial.

use std::sync::Arc;
use std::time::Duration;

use super::acquire::Bid;
use crate::claim::Resource;
use crate::cluster::{Cluster, places};
use crate::error::{Error, Vote};
use crate::fencing::MARKER;
use crate::health::{Facts, Health};
use crate::node::request::Attempt;
use crate::node::verbs::{Ballots, acquire_all, question_all};
use crate::quorum::Term;
use crate::token::Token;

/// For how long the lock that is tried stays where it can't be given back.
const TTL: Duration = Duration::from_secs(1);

/// Asks all nodes, and tries a lock at those that may vote.
pub(crate) fn examine(cluster: &Cluster) -> Result<Health, Error> {
    let mut nodes = question_all(cluster.each(), &cluster.key(MARKER));
    try_a_lock(cluster, &mut nodes)?;
    Ok(Health::of(nodes, cluster.rules.as_deref()))
}

/// Takes a lock on these nodes and gives it back, by the commands of any other lock. Its key is new each time, so that it
/// meets no other lock, nor that of another client that looks.
fn try_a_lock(cluster: &Cluster, nodes: &mut [Facts]) -> Result<(), Error> {
    let rules = cluster.rules.as_deref();
    let tried = places(nodes, |node| node.is_to_be_tried(rules));
    if tried.is_empty() {
        return Ok(());
    }
    let name = Token::random(&cluster.clock).map_err(Error::no_randomness)?;
    let resource = Arc::new(Resource::of_key(&cluster.key_of_trial(&name)));
    let (ttl, validity) = (TTL, TTL);
    let bid = Bid::new(cluster, &resource, Term { ttl, validity }, None)?;
    let attempt = Attempt::once(&bid.claim, TTL);
    let ballots = acquire_all(cluster.asking(&tried), &attempt);
    let ballots = cluster.each().zip(ballots);
    let ballots = ballots.map(|(node, it)| it.unwrap_or_else(|| node.unasked(Vote::NotAsked)));
    let ballots: Ballots = ballots.collect();
    let given_back = bid.call_off(&ballots, &attempt);
    for ((node, ballot), given_back) in nodes.iter_mut().zip(ballots).zip(given_back) {
        node.note_trial(ballot.report.vote, given_back.vote);
    }
    Ok(())
}
