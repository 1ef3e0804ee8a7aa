//! Passes a lock from thread to thread of one manager: releases it and asks for it again for the next thread, in one round
//! trip.
//!
//! To the nodes these are a release and an attempt like any other, with a token of its own; `docs/waiting.md` says why
//! they may go together.

use super::Won;
use super::acquire::{Asked, Bid, cast, unasked};
use crate::cluster::Cluster;
use crate::contend::handover::Allowance;
use crate::error::{Error, Vote};
use crate::lease::state::LeaseState;
use crate::lease::state::standing::Standing;
use crate::node::acquire::Attempt;
use crate::node::pass::{PassAnswers, pass_all};
use crate::node::release::{Released, release_all, release_later};
use crate::quorum::is_reached;
use crate::wire::pack::Packed;

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
    (lease, ended): (&LeaseState, &[Standing]),
    asked: Asked<'_>,
    handover: Option<Allowance>,
) -> Result<Pass, Error> {
    let bid = Bid::new(cluster, asked, handover)?;
    let attempt = Attempt::new(bid.command(), asked.term.ttl);
    let held = super::command(cluster, lease, asked.keys);
    let command = held.pass(&bid.command(), asked.term.ttl);
    let mut ballots = unasked(cluster);
    let standings = ended.iter().zip(&ballots);
    let are_asked: Vec<bool> = standings
        .map(|(standing, ballot)| standing.has_to_be_released() || !ballot.is_left_out())
        .collect();

    // The clock is read before the first send, so that the validity does not include the time of the round.
    let started = cluster.clock.now();
    let nodes = cluster.each().zip(are_asked);
    let PassAnswers {
        mut released,
        ballots: answers,
        is_silent,
    } = pass_all(nodes, &command, &attempt);

    if is_silent.contains(&true) {
        let had_key = ended.iter().map(|standing| standing.has_to_be_released());
        let to_release = is_silent.iter().zip(had_key);
        let to_release: Vec<bool> = to_release
            .map(|(silent, had_key)| *silent && had_key)
            .collect();
        let answers = answers.iter().zip(&is_silent);
        let answered = answers.filter(|(answer, silent)| answer.is_some() && !**silent);
        let answered = answered.count();
        release_the_silent(
            cluster,
            &held.release(),
            (&to_release, answered),
            &mut released,
        );
    }
    for (report, standing) in released.nodes.iter_mut().zip(ended) {
        if !standing.has_to_be_released() {
            // As in a release, which does not ask this node.
            report.vote = Vote::NotAsked;
        }
    }
    for (place, ballot) in answers.into_iter().enumerate() {
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

/// Releases the lock where the pass has no answer: at once if no majority has answered, and else in the background, because the next
/// thread waits for this one.
fn release_the_silent(
    cluster: &Cluster,
    release: &Packed,
    (silent, answered): (&[bool], usize),
    released: &mut Released,
) {
    let life = cluster.options.max_ttl;
    let nodes = cluster.each().zip(silent.iter().copied());
    if is_reached(silent.len(), answered) {
        return release_later(nodes, release, life);
    }
    let again = release_all(nodes, release, life);
    released.woken = released.woken.or(again.woken);
    for (report, again) in released.nodes.iter_mut().zip(again.nodes) {
        if matches!(again.vote, Vote::Released) {
            *report = again;
        }
    }
}
