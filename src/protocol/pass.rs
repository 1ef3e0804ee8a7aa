//! Passes a lock from thread to thread of one manager: releases it and asks for it again for the next thread, in one round
//! trip.
//!
//! To the nodes these are a release and an attempt like any other, with a token of its own; `docs/protocol.md` says why
//! they may go together.

use super::Won;
use super::acquire::{call_off, conclude, new_claim, unasked};
use crate::claim::Claim;
use crate::cluster::{Cluster, Places, places};
use crate::contend::spec::Spec;
use crate::error::{Error, Vote};
use crate::lease::state::holding::Holding;
use crate::node::key_report::{KeyReports, NOT_ASKED, waiters};
use crate::node::verbs::{pass_all, release_all};
use crate::node::{Attempt, Purpose, command};
use crate::quorum::is_reached;

pub(crate) struct Pass {
    pub(crate) released: KeyReports,
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
    let ttl = spec.term.ttl;
    let claim = new_claim(cluster, &held.resource, spec.label.as_ref())?;
    let attempt = Attempt::new(claim, ttl, Purpose::Lock);
    let command = command::pass(held, &attempt.claim, ttl);
    let mut reports = unasked(cluster);
    let owed = places(holdings, |node| node.has_to_be_released());
    let left_out = places(&reports, |report| report.vote.is_left_out());
    let is_asked = |place: &usize| owed.contains(place) || !left_out.contains(place);
    let asked: Places = (0..reports.len()).filter(is_asked).collect();

    // The clock is read before the first send, so that the validity does not include the time of the round.
    let started = cluster.clock.now();
    let asking = cluster.asking(&asked);
    let (mut released, mut silent) = pass_all(asking, &command, &attempt, &mut reports);
    let answered_by = asked.len().saturating_sub(silent.len());
    silent.retain(|place| owed.contains(place));
    if !silent.is_empty() {
        let (asked, life) = (cluster.asking(&silent), cluster.options.max_ttl);
        let release = command::release(held);
        if is_reached(holdings.len(), answered_by) {
            // In the background, because the next thread waits for this one.
            let release = release.to_repeat();
            for (_, node) in asked.each() {
                node.release_later(release.clone(), node.now(), life);
            }
        } else {
            let again = release_all(asked, &release, life);
            for (report, mut again) in released.iter_mut().zip(again) {
                again.waiters = again.waiters.or(report.waiters);
                report.waiters = again.waiters;
                if matches!(*again.vote, Vote::Released) {
                    *report = again;
                }
            }
        }
    }
    for (place, report) in released.iter_mut().enumerate() {
        if !owed.contains(&place) {
            // As in a release, which does not ask this node.
            report.vote = NOT_ASKED;
        }
    }
    let next = if waiters(&released).any() {
        call_off(cluster, &attempt, ttl, &reports);
        None
    } else {
        Some(conclude(cluster, &attempt, started, spec.term, reports))
    };
    Ok(Pass { released, next })
}
