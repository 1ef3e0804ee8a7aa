//! Passes a lock from thread to thread of one manager: releases it and asks for it again for the next thread, in one round
//! trip.
//!
//! To the nodes these are a release and an attempt like any other, with a token of its own; `docs/protocol.md` says why
//! they may go together.

use std::sync::Arc;

use super::acquire::{Bid, cast, unasked};
use super::{Won, answered};
use crate::claim::Claim;
use crate::cluster::{Cluster, Places, places};
use crate::contend::spec::Spec;
use crate::error::{Error, Vote};
use crate::lease::state::holding::Holding;
use crate::node::command;
use crate::node::verbs::{Ballot, Outcome, pass_all, release_all};
use crate::quorum::is_reached;

pub(crate) struct Pass {
    pub(crate) released: Outcome,
    /// The attempt of the next thread; none if the release has woken another client, which comes first.
    pub(crate) next: Option<Result<Won, Error>>,
}

/// Releases the lock of a guard that has ended it, and asks for it for the next thread.
///
/// Asks the nodes which may have the key, and those that did not fail lately. Where the answer does not tell what has become of the
/// key, the release goes once more. Fails only before anything is sent.
pub(crate) fn pass(
    cluster: &Cluster,
    held: &Claim,
    holdings: &[Holding],
    spec: &Spec,
) -> Result<Pass, Error> {
    let label = spec.label.as_ref();
    let bid = Bid::new(cluster, &held.resource, spec.term, label)?;
    let attempt = bid.attempt();
    let command = command::pass(held, &bid.claim, spec.term.ttl);
    let mut ballots = unasked(cluster);
    let owed = places(holdings, |node| node.has_to_be_released());
    let left_out = places(&ballots, Ballot::is_left_out);
    let is_asked = |place: &usize| owed.contains(place) || !left_out.contains(place);
    let asked: Places = (0..ballots.len()).filter(is_asked).collect();

    // The clock is read before the first send, so that the validity does not include the time of the round.
    let started = cluster.clock.now();
    let (mut released, passed) = pass_all(cluster.asking(&asked), &command, &attempt);
    let mut silent = places(&passed, |one| one.as_ref().is_some_and(|one| one.is_silent));
    let answered_by = asked.len().saturating_sub(silent.len());
    silent.retain(|place| owed.contains(place));
    if !silent.is_empty() {
        let (nodes, life) = (cluster.asking(&silent), cluster.options.max_ttl);
        let release = command::release(held);
        if is_reached(holdings.len(), answered_by) {
            // In the background, because the next thread waits for this one.
            let release = release.to_repeat();
            for (node, _) in nodes.filter(|(_, is_silent)| *is_silent) {
                node.owe(Arc::clone(&release), node.now(), life);
            }
        } else {
            released.repeated(release_all(nodes, &release, life));
        }
    }
    for (place, report) in released.nodes.iter_mut().enumerate() {
        if !owed.contains(&place) {
            // As in a release, which does not ask this node.
            report.vote = Vote::NotAsked;
        }
    }
    for (place, one) in answered(passed) {
        cast(&mut ballots, place, one.ballot);
    }
    let next = if released.waiting.any() {
        bid.call_off(&ballots, &attempt);
        None
    } else {
        Some(bid.conclude(started, ballots, &attempt))
    };
    Ok(Pass { released, next })
}

impl Outcome {
    /// Adds what the nodes say that were asked once more.
    fn repeated(&mut self, again: Self) {
        self.waiting = self.waiting.or(again.waiting);
        for (report, again) in self.nodes.iter_mut().zip(again.nodes) {
            if matches!(again.vote, Vote::Released) {
                *report = again;
            }
        }
    }
}
