//! Passes a lock from thread to thread of one manager: releases it and asks for it again for the next thread, in one round
//! trip.
//!
//! To the nodes these are a release and an attempt like any other, with a token of its own; `docs/protocol.md` says why
//! they may go together.

use super::Won;
use super::acquire::{Asked, Bid, cast, unasked};
use crate::claim::Claim;
use crate::cluster::Cluster;
use crate::error::{Error, NodeReport, Vote};
use crate::lease::state::standing::Standing;
use crate::node::command;
use crate::node::release::{Released, pass_all, release_all, release_later};
use crate::quorum::is_reached;

/// The result of a pass.
pub(crate) struct Pass {
    pub(crate) released: Released,
    /// The attempt of the next thread; none if the release has woken another client, which comes first.
    pub(crate) next: Option<Result<Won, Error>>,
}

/// Releases the lock of a guard that has ended it, and asks for it for the next thread.
///
/// Asks the nodes which may have the key, and those that did not fail lately. Fails only before anything is sent.
pub(crate) fn pass(
    cluster: &Cluster,
    (held, ended): (&Claim, &[Standing]),
    asked: Asked<'_>,
) -> Result<Pass, Error> {
    let bid = Bid::new(cluster, asked)?;
    let attempt = bid.attempt();
    let command = command::pass(held, &bid.claim, asked.term.ttl);
    let mut ballots = unasked(cluster);
    let places = ended.iter().zip(&ballots);
    let asked: Vec<bool> = places
        .map(|(standing, ballot)| standing.has_to_be_released() || !ballot.is_left_out())
        .collect();

    // The clock is read before the first send, so that the validity does not include the time of the round.
    let started = cluster.clock.now();
    let nodes = cluster.each().zip(asked);
    let passed = pass_all(nodes, &command, &attempt);
    let mut released = passed.released;
    release_the_silent(cluster, held, (ended, &passed.silent), &mut released);
    for (report, standing) in released.nodes.iter_mut().zip(ended) {
        if !standing.has_to_be_released() {
            // As in a release, which does not ask this node.
            report.vote = Vote::NotAsked;
        }
    }
    for (place, ballot) in passed.ballots.into_iter().enumerate() {
        cast(&mut ballots, place, ballot);
    }
    let next = if released.woken.any() {
        bid.call_off(&ballots, &attempt);
        None
    } else {
        Some(bid.conclude(started, ballots, &attempt))
    };
    Ok(Pass { released, next })
}

/// Releases the lock where the answer to the pass does not tell what has become of the key, or there is none: at once if no majority
/// has told, and else in the background, because the next thread waits for this one.
fn release_the_silent(
    cluster: &Cluster,
    held: &Claim,
    (ended, silent): (&[Standing], &[bool]),
    released: &mut Released,
) {
    if !silent.contains(&true) {
        return;
    }
    let asked = released.nodes.iter().zip(silent);
    let tells = |(report, is_silent): &(&NodeReport, &bool)| {
        !**is_silent && !matches!(report.vote, Vote::NotAsked)
    };
    let answered = asked.filter(tells).count();
    let places = ended.iter().zip(silent);
    let silent: Vec<bool> = places
        .map(|(standing, is_silent)| *is_silent && standing.has_to_be_released())
        .collect();
    let (release, life) = (command::release(held), cluster.options.max_ttl);
    let nodes = cluster.each().zip(silent);
    if is_reached(ended.len(), answered) {
        return release_later(nodes, &release, life);
    }
    let again = release_all(nodes, &release, life);
    released.woken = released.woken.or(again.woken);
    for (report, again) in released.nodes.iter_mut().zip(again.nodes) {
        if matches!(again.vote, Vote::Released) {
            *report = again;
        }
    }
}
