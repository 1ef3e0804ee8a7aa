//! Heals a lock: sets its key again on nodes that have none, as where a server came back empty, or where nothing of the
//! acquisition has arrived.
//!
//! `docs/protocol.md` says why that is safe, and why not on a node that was sent an undo.

use std::sync::Arc;
use std::time::Duration;

use super::extend::Extension;
use crate::cluster::{Cluster, Options};
use crate::error::one_vote_each;
use crate::log_lines;
use crate::node::acquire::{Attempt, acquire_all};
use crate::node::release::release_all;
use crate::node::{Node, command};
use crate::quorum::Term;

/// Whether there are nodes to heal.
pub(crate) fn is_wanted(cluster: &Cluster, extension: &Extension) -> bool {
    wanted(cluster, extension).is_some()
}

/// Sets the key on the nodes that have none, and adds their votes to those of the extension. An extension heals once.
///
/// A node that failed lately is not asked, so a node that hangs delays one heal at most.
pub(crate) fn heal(cluster: &Cluster, extension: &mut Extension) {
    let Some(asked) = wanted(cluster, extension) else {
        return;
    };
    let Some(healer) = extension.healer.take() else {
        return;
    };
    let Some(heal) = healer.begin(&asked) else {
        return;
    };
    let lease = Arc::clone(&extension.lease);
    let attempt = Attempt::healing(&lease.claim, ttl(cluster, extension));
    let nodes = cluster.each().zip(asked.iter().copied());
    let ballots = acquire_all(nodes, &attempt);
    let traces: Vec<_> = ballots
        .iter()
        .map(|ballot| ballot.as_ref().map(|ballot| ballot.trace))
        .collect();
    if let Some(left_behind) = heal.end(&traces) {
        // The guard has ended meanwhile, and has not passed these nodes on.
        release_all(
            cluster.each().zip(left_behind.iter().copied()),
            &command::release(&lease.claim),
            cluster.options.max_ttl,
        );
        return;
    }
    for (report, ballot) in extension.nodes.iter_mut().zip(ballots) {
        if let Some(ballot) = ballot {
            *report = ballot.report;
        }
    }
    one_vote_each(&mut extension.nodes);
    for (report, _) in extension
        .nodes
        .iter()
        .zip(&asked)
        .filter(|(report, asked)| **asked && report.vote.is_granted())
    {
        cluster.stats.healed.count();
        log_lines::healed(&lease.claim.resource, &report.node);
    }
}

/// The nodes to heal, if any: those that have no key, and did not fail lately.
fn wanted(cluster: &Cluster, extension: &Extension) -> Option<Box<[bool]>> {
    let wanted = extension.healer.as_ref()?.wanted(&extension.nodes)?;
    let closed = cluster.each().map(Node::is_closed);
    let asked: Box<[bool]> = wanted
        .iter()
        .zip(closed)
        .map(|(wanted, closed)| *wanted && closed)
        .collect();
    asked.contains(&true).then_some(asked)
}

/// The time to live of the key: that of the extension, or what is left of the lock if that is more.
fn ttl(cluster: &Cluster, extension: &Extension) -> Duration {
    let Extension { lease, term, .. } = extension;
    let deadline = lease.deadline();
    // Not since the extension began: that may be long ago, and the key is set after this reading.
    let left = deadline.saturating_since(cluster.clock.now());
    covering(&cluster.options, *term, left)
}

/// The time to live of a key that is there for this term, and for what is left of the lock. A key that ends before the lock would
/// leave it as it was.
pub(crate) fn covering(options: &Options, term: Term, left: Duration) -> Duration {
    if left <= term.validity {
        return term.ttl;
    }
    let left = left.saturating_add(MILLISECOND);
    options.ttl_for(left).max(term.ttl)
}

/// A time to live is cut to whole milliseconds.
const MILLISECOND: Duration = Duration::from_millis(1);
